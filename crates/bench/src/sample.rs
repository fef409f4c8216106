//! Samples: the cost of drawing keys by each scheme and of reading their values, where all values are local.

use crate::args::{Dist, Op};
use crate::error::BenchError;
use crate::keys::{Drawn, ZIPF_EXPONENT, spread};
use crate::limit::Plain;
use crate::node;
use crate::row::Row;
use crate::settings::Settings;
use crate::turns::{self, Work};
use intendant::{Distribution, DistributionId, Element, Key, Node, Sampler, Scheme, Worker};
use rand::{RngExt, SeedableRng};
use rand_distr::Distribution as _;
use rand_distr::weighted::WeightedAliasIndex;
use rand_pcg::Pcg64Mcg;

/// Calls that read keys directly at the start of a turn, for the scheme that uses such keys again.
const DIRECT_CALLS: usize = 8;

pub(crate) fn rows<E: Element>(settings: &Settings) -> Result<Vec<Row>, BenchError> {
    Scheme::ALL.into_iter().map(|scheme| row::<E>(settings, scheme)).collect()
}

fn row<E: Element>(settings: &Settings, scheme: Scheme) -> Result<Row, BenchError> {
    let weights = weights(settings);
    let (distribution, limit) = match &weights {
        None => (
            Distribution::uniform(0..settings.keys)?,
            "a uniform draw and a plain gather from one flat array",
        ),
        Some(weights) => (
            Distribution::weighted(Key(0), weights)?,
            "a draw from an alias table and a plain gather from one flat array",
        ),
    };
    let mut sampler = Sampler::builder();
    let id = sampler
        .register_with(distribution, scheme.offers(), scheme)
        .map_err(|error| BenchError::Other(error.to_string()))?;
    let mut config = node::config::<E>(settings)?;
    config.sampler = sampler.build();
    let mut node = Node::start_alone(config)?;
    let mut row = Row::new(settings, scheme.to_string(), limit);
    turns::measure(
        settings,
        &mut node,
        |worker| Samples::new(settings, &weights, scheme, id, worker),
        &mut row,
    )?;
    row.more.insert("portions", f64::from(scheme.portions().get()));
    node.shutdown()?;
    Ok(row)
}

/// The weights of all keys; `None` if the keys are equally likely.
fn weights(settings: &Settings) -> Option<Vec<f64>> {
    match settings.dist {
        Dist::Uniform => None,
        Dist::Zipf => {
            let spread = spread(settings.keys);
            let mut weights = vec![0.0; settings.keys as usize];
            for rank in 0..settings.keys {
                weights[spread.apply(rank) as usize] = (rank as f64 + 1.0).powf(-ZIPF_EXPONENT);
            }
            Some(weights)
        }
    }
}

/// The samples of a thread.
struct Samples<E> {
    id: DistributionId,
    batch: usize,
    /// The sizes of the portions in which the samples of a handle are pulled.
    portions: Vec<usize>,
    direct: Drawn,
    keys: Vec<Key>,
    values: Vec<E>,
    plain: Plain<E>,
    plain_values: Vec<E>,
    alias: Option<WeightedAliasIndex<f64>>,
    keys_max: u64,
    rng: Pcg64Mcg,
}

impl<E: Element> Samples<E> {
    fn new(
        settings: &Settings,
        weights: &Option<Vec<f64>>,
        scheme: Scheme,
        id: DistributionId,
        worker: &Worker<E>,
    ) -> Self {
        let Settings { dist, keys, len, batch, .. } = *settings;
        let seed = 31 + u64::from(worker.id().0);
        let portion = batch.div_ceil(scheme.portions().get() as usize);
        let portions = (0..batch).step_by(portion).map(|drawn| portion.min(batch - drawn)).collect();
        Self {
            id,
            batch,
            portions,
            direct: Drawn::new(dist, keys, batch, seed),
            keys: Vec::with_capacity(batch),
            values: Vec::new(),
            plain: Plain::new(keys, len),
            plain_values: vec![E::ZERO; batch * len],
            alias: weights.as_ref().map(|weights| {
                WeightedAliasIndex::new(weights.clone()).expect("the distribution took the same weights")
            }),
            keys_max: keys,
            rng: Pcg64Mcg::seed_from_u64(seed),
        }
    }
}

impl<E: Element> Work<E> for Samples<E> {
    fn limit(&mut self, _call: usize) {
        let Self { alias, rng, keys, batch, keys_max, .. } = self;
        keys.clear();
        match alias {
            Some(alias) => keys.extend((0..*batch).map(|_| Key(alias.sample(rng) as u64))),
            None => keys.extend((0..*batch).map(|_| Key(rng.random_range(0..*keys_max)))),
        }
        self.plain.call(Op::Pull, &self.keys, &mut self.plain_values);
    }

    fn ours(&mut self, worker: &mut Worker<E>, call: usize) -> Result<(), BenchError> {
        if call == 0 {
            for call in 0..DIRECT_CALLS {
                worker.pull(self.direct.call(call), &mut self.plain_values)?;
            }
        }
        let mut handle = worker.prepare_sample(self.id, self.batch)?;
        for samples in &self.portions {
            worker.pull_sample(&mut handle, *samples, &mut self.keys, &mut self.values)?;
        }
        Ok(())
    }
}
