//! Embedding a graph as a training task: the keys of a batch, and the updates of their values.
//!
//! Keys: the entities from 0, then the relations, then their reciprocals if there are any. A value is an
//! embedding and its AdaGrad accumulator.

use crate::batch::{Batch, Scored};
use crate::cluster::Clusters;
use crate::config::{Cluster, Config, Loss};
use crate::data::{Dataset, Known, Names, Triple};
use crate::evaluate::{self, Ranking};
use crate::frequency::frequencies;
use crate::model::{ADAGRAD_COST, AdaGrad, Penalties, initialise};
use crate::scratch::Scratch;
use crate::share::{Share, within_node};
use crate::triple::{AHEAD, QUERIES_MAX, prefetch};
use crate::{logistic, softmax};
use intendant_core::random::stream;
use intendant_core::{Combine, Element, Key, lock};
use intendant_sampling::{Conformity, Distribution, DistributionId, Sampler};
use intendant_task::kernel::Losses;
use intendant_task::{
    Baseline, BatchAt, Better, Cost, Criterion, Evaluation, Frequency, Model, ModelRange, Partition,
    Prepared, Pulled, Rows, SampleRequest, Split, StepReport, Subepoch, Task, Update,
};
use intendant_train::SettingError;
use pulp::{Simd, WithSimd};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, OnceLock};

/// Knowledge graph embeddings.
pub struct Kge<E> {
    data: Arc<Dataset>,
    known: OnceLock<Arc<Known>>,
    config: Config,
    model: Model<E>,
    negatives: DistributionId,
    /// First key of the relations, first key of their reciprocals.
    relations: (u64, Option<u64>),
    /// The clusters, by number of nodes.
    clusters: Mutex<BTreeMap<u32, Arc<Clusters>>>,
}

impl<E: Element> Kge<E> {
    /// The task of embedding `data`.
    ///
    /// # Errors
    /// If a hyperparameter is out of its limits.
    pub fn new(data: Arc<Dataset>, config: Config) -> Result<Self, SettingError> {
        config.check()?;
        let (entities, relations) = (data.entities.len() as u64, data.relations.len() as u64);
        let uniform = Distribution::uniform(0..entities)
            .map_err(|_| SettingError::new("data", "a graph without entities", "a graph with triples"))?;
        if config.cluster == Cluster::Relations && u32::try_from(data.train.len()).is_err() {
            let (value, allowed) = (data.train.len(), "below 2^32 to be clustered");
            return Err(SettingError::new("number of training triples", value, allowed));
        }
        let mut sampler = Sampler::builder();
        let negatives = sampler.register(uniform, Conformity::Overall);
        config.check_size(if config.reciprocal { 2 * relations } else { relations })?;
        let len = 2 * config.scorer().relation_len();
        let mut ranges = vec![
            ModelRange::new("entity", entities, 2 * config.dim),
            ModelRange::new("relation", relations, len),
        ];
        if config.reciprocal {
            ranges.push(ModelRange::new("reciprocal", relations, len));
        }
        let (seed, scale) = (stream(config.seed, &[INITIAL]), config.init_scale);
        let model = Model {
            ranges,
            init: Arc::new(move |key, value: &mut [E]| initialise(seed, key, scale, value)),
            sampler: sampler.build(),
        };
        let relations = (entities, config.reciprocal.then_some(entities + relations));
        let clusters = Mutex::default();
        Ok(Self { data, known: OnceLock::new(), config, model, negatives, relations, clusters })
    }

    /// The graph.
    pub fn data(&self) -> &Dataset {
        &self.data
    }

    /// The hyperparameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The triples of each of `nodes` nodes, if nodes have triples of their own.
    pub fn clusters(&self, nodes: u32) -> Option<Arc<Clusters>> {
        match self.config.cluster {
            Cluster::None => None,
            Cluster::Relations => {
                let mut clusters = lock(&self.clusters);
                let of_nodes = clusters.entry(nodes).or_insert_with(|| {
                    Arc::new(Clusters::by_relation(&self.data.train, self.data.relations.len(), nodes))
                });
                Some(Arc::clone(of_nodes))
            }
        }
    }

    fn share(&self, epoch: u32, partition: Partition) -> Share {
        let order = (stream(self.config.seed, &[ORDER]), epoch);
        let clusters = self.clusters(partition.nodes);
        Share::new(order, (self.data.train.len(), self.config.batch), clusters, partition)
    }

    /// The samples of the `index`-th batch of a share. `triples` are the triples of the batch.
    fn samples(&self, epoch: u32, (share, index): (&Share, u64), triples: &[u64]) -> Vec<SampleRequest> {
        let request = |samples, name: &[u64]| SampleRequest {
            distribution: self.negatives,
            samples,
            stream: stream(self.config.seed, name),
        };
        let (epoch, negatives) = (u64::from(epoch), self.config.negatives);
        match self.config.loss {
            Loss::Softmax => {
                let name = [&[NEGATIVES, epoch], &share.name(index)[..]].concat();
                vec![request(negatives, &name)]
            }
            // The first half is for the object's query, the second half for the subject's.
            Loss::Logistic => {
                triples.iter().map(|t| request(2 * negatives, &[NEGATIVES, epoch, *t])).collect()
            }
        }
    }

    /// A step that trains one score of a triple. The samples of all steps come from one handle, one by one.
    fn prepare_score(&self, epoch: u32, triple: u64, step: u64) -> Prepared<Batch> {
        let of_triple = self.data.train[triple as usize];
        let scored = Scored::nth(step, self.config.negatives as u64);
        let (batch, keys) = Batch::of_score(&of_triple, self.relations.0, scored);
        let is_first = scored == Scored::Triple;
        let request = SampleRequest {
            distribution: self.negatives,
            samples: usize::from(!is_first),
            stream: stream(self.config.seed, &[NEGATIVES, epoch.into(), triple]),
        };
        let near = if is_first { keys.clone() } else { Vec::new() };
        let Triple { subject, relation, object } = of_triple;
        let name = [epoch.into(), subject.into(), relation.into(), object.into()];
        let digest = if is_first { stream(self.config.seed, &name) } else { stream(request.stream, &[step]) };
        Prepared { batch, keys, near, samples: vec![request], handles: Vec::new(), digest }
    }
}

/// Names of the uses of the seed.
const INITIAL: u64 = 1;
const ORDER: u64 = 2;
const NEGATIVES: u64 = 3;

impl<E: Element> Task for Kge<E> {
    type Element = E;
    type Batch = Batch;
    type Scratch = Scratch<E>;

    fn name(&self) -> &'static str {
        "kge"
    }

    fn model(&self) -> &Model<E> {
        &self.model
    }

    fn combine(&self) -> Combine {
        Combine::AdaGrad
    }

    fn digest(&self) -> u64 {
        self.data.digest()
    }

    fn batches(&self, subepoch: Subepoch, partition: Partition) -> u64 {
        self.share(subepoch.epoch, partition).batches() * self.config.steps()
    }

    fn keys_named(&self, name: &str) -> Vec<Key> {
        let number = |names: &Names| names.iter().position(|found| found == name).map(|number| number as u64);
        let mut keys: Vec<Key> = number(&self.data.entities).map(Key).into_iter().collect();
        if let Some(relation) = number(&self.data.relations) {
            let (relations, reciprocals) = self.relations;
            keys.push(Key(relations + relation));
            keys.extend(reciprocals.map(|first| Key(first + relation)));
        }
        keys
    }

    fn portions(&self) -> NonZeroU32 {
        // The steps of a triple are one group if its scores are trained one by one.
        u32::try_from(self.config.steps()).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN)
    }

    fn prepare(&self, at: BatchAt) -> Prepared<Batch> {
        let epoch = at.subepoch.epoch;
        let share = self.share(epoch, at.partition);
        if self.config.separate {
            let steps = self.config.steps();
            let triple = share.triples(at.index / steps).next().expect("a batch has a triple");
            return self.prepare_score(epoch, triple, at.index % steps);
        }
        let numbers: Vec<u64> = share.triples(at.index).collect();
        let triples: Vec<Triple> = numbers.iter().map(|number| self.data.train[*number as usize]).collect();
        let (batch, keys) = Batch::new(&triples, self.relations);
        let samples = self.samples(epoch, (&share, at.index), &numbers);
        // Relations that reside at a node stay there.
        let travelling = if share.is_clustered() { batch.entities } else { keys.len() };
        let near = keys[..travelling].to_vec();
        let seed = self.config.seed;
        let of_triple =
            |t: &Triple| stream(seed, &[epoch.into(), t.subject.into(), t.relation.into(), t.object.into()]);
        let mut digest = triples.iter().map(of_triple).fold(0u64, u64::wrapping_add);
        // With clusters, the number of nodes determines which triples share samples, so the digest leaves
        // samples out.
        if self.config.loss == Loss::Logistic || !share.is_clustered() {
            let of_samples = |s: &SampleRequest| stream(s.stream, &[s.samples as u64]);
            digest = samples.iter().map(of_samples).fold(digest, u64::wrapping_add);
        }
        Prepared { batch, keys, near, samples, handles: Vec::new(), digest }
    }

    /// The relations of the worker's node, and their reciprocals. They are divided among the workers of the
    /// node, because all workers meet before any of them trains.
    fn residents(&self, partition: Partition) -> Vec<Key> {
        let Some(clusters) = self.clusters(partition.nodes) else {
            return Vec::new();
        };
        let dealt = within_node(partition);
        let relations = clusters.relations(partition.node()).iter();
        let own = relations.skip(dealt.worker as usize).step_by(dealt.workers as usize);
        let (forward, reciprocal) = self.relations;
        own.flat_map(|relation| {
            let key = move |first: u64| Key(first + u64::from(*relation));
            [Some(key(forward)), reciprocal.map(key)].into_iter().flatten()
        })
        .collect()
    }

    fn frequencies(&self, partition: Partition) -> Option<Vec<Frequency>> {
        let clusters = self.clusters(partition.nodes);
        Some(frequencies(&self.data, &self.config, (clusters.as_deref(), partition.nodes), self.relations))
    }

    fn scratch(&self) -> Scratch<E> {
        Scratch::new(self.config.scorer())
    }

    fn trains_in_place(&self) -> bool {
        self.config.trains_in_place()
    }

    fn train(
        &self,
        scratch: &mut Scratch<E>,
        batch: &Batch,
        keys: &[Key],
        rows: &mut dyn Rows<E>,
    ) -> StepReport {
        let entities = self.data.entities.len() as u64;
        let arch = scratch.arch;
        let (loss, cost) =
            arch.dispatch(StepInPlace { config: &self.config, entities, scratch, batch, keys, rows });
        StepReport { loss, examples: batch.examples, cost }
    }

    fn compute(
        &self,
        scratch: &mut Scratch<E>,
        batch: &Batch,
        pulled: Pulled<'_, E>,
        update: &mut Update<'_, E>,
    ) -> StepReport {
        let entities = self.data.entities.len() as u64;
        let arch = scratch.arch;
        let (loss, scores) =
            arch.dispatch(Step { config: &self.config, entities, scratch, batch, pulled, update });
        // The embedding is half of a value.
        let (direct, sampled) = (pulled.values.len() / 2, pulled.sample_values.len() / 2);
        let cost = Cost(scores.0 + updates_cost(&self.config, batch, direct, sampled));
        StepReport { loss, examples: batch.examples, cost }
    }

    fn criterion(&self) -> Option<Criterion> {
        let has_some = !self.data.valid.is_empty();
        has_some.then_some(Criterion { metric: "mrr_filtered", better: Better::Higher })
    }

    fn baseline(&self) -> Option<Baseline> {
        let known = self.known.get_or_init(|| Arc::new(Known::new(&self.data)));
        let value = crate::baseline::mrr(&self.data, known)?;
        Some(Baseline { name: "frequencies", metric: "mrr_filtered", better: Better::Higher, value })
    }

    fn evaluation(&self, split: Split, partition: Partition) -> Option<Box<dyn Evaluation<E>>> {
        let triples = match split {
            Split::Valid => &self.data.valid,
            Split::Test => &self.data.test,
        };
        if triples.is_empty() {
            return None;
        }
        let known = self.known.get_or_init(|| Arc::new(Known::new(&self.data)));
        let share = evaluate::share(triples, partition);
        let entities = self.data.entities.len() as u64;
        let threads = partition.threads;
        Some(Box::new(Ranking::new(
            known.clone(),
            &share,
            entities,
            self.relations,
            self.config.scorer(),
            threads,
        )))
    }
}

/// Multiply-adds of a batch besides scores and their gradients: queries, penalties, and the steps of `direct`
/// parameters of direct rows and `sampled` parameters of sampled rows.
fn updates_cost(config: &Config, batch: &Batch, direct: usize, sampled: usize) -> u64 {
    let queries = batch.queries.len() * config.scorer().query_cost();
    let penalties = if config.penalties == Penalties::default() { 0 } else { direct };
    (queries + penalties + (direct + sampled) * ADAGRAD_COST) as u64
}

/// The arithmetic of a step with a softmax, compiled for several generations of processors. Returns the loss,
/// and the cost of scores and their gradients.
struct Step<'a, 'b, E> {
    config: &'a Config,
    /// Number of entities in the graph.
    entities: u64,
    scratch: &'a mut Scratch<E>,
    batch: &'a Batch,
    pulled: Pulled<'a, E>,
    update: &'a mut Update<'b, E>,
}

impl<E: Element> WithSimd for Step<'_, '_, E> {
    type Output = (f64, Cost);

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> Self::Output {
        let Self { config, entities, scratch, batch, pulled, update } = self;
        scratch.compose(batch, pulled.values);
        let result = softmax::gradients(batch, scratch, entities, pulled, update);
        scratch.compose_backward(batch, pulled.values, update.values);
        scratch.penalise(config.penalties, batch, pulled.values, update.values);
        scratch.merge(batch, pulled, update);
        scratch.adagrad(AdaGrad::new(config.learning_rate), batch, pulled, update);
        result
    }
}

/// The arithmetic of a step in place, triple by triple, compiled for several generations of processors.
/// Returns the loss and the cost.
struct StepInPlace<'a, E> {
    config: &'a Config,
    /// Number of entities in the graph.
    entities: u64,
    scratch: &'a mut Scratch<E>,
    batch: &'a Batch,
    keys: &'a [Key],
    rows: &'a mut dyn Rows<E>,
}

impl<E: Element> WithSimd for StepInPlace<'_, E> {
    type Output = (f64, Cost);

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let Self { config, entities, scratch, batch, keys, rows } = self;
        let (adagrad, dim) = (AdaGrad::new(config.learning_rate), config.dim);
        let direct = batch.uses.len();
        let (queries, sampled) = (batch.queries.len(), keys.len() - direct);
        prefetch(batch, 0, rows);
        (direct..direct + AHEAD).for_each(|at| rows.prefetch(at));
        let (mut losses, mut loss, mut parameters) = (Losses::new(), 0.0, 0);
        let mut first = 0;
        while first < queries {
            let range = first..(first + QUERIES_MAX).min(queries);
            scratch.triple.begin(batch, range.clone(), rows);
            prefetch(batch, range.end, rows);
            match config.loss {
                Loss::Softmax => loss += softmax::train(simd, batch, scratch, entities, keys, adagrad, rows),
                Loss::Logistic => {
                    let (of_triple, triple) = ((batch, range.clone()), &mut scratch.triple);
                    if !logistic::train(simd, of_triple, keys, triple, &mut losses, adagrad, rows) {
                        loss = f64::NAN;
                    }
                }
            }
            if !loss.is_finite() {
                break;
            }
            let of_triple = &batch.queries[range.clone()];
            parameters += scratch.triple.end(of_triple, config.penalties, adagrad, rows);
            first = range.end;
        }
        let scores = match config.loss {
            Loss::Softmax => softmax::cost(queries, batch.entities + sampled, dim),
            Loss::Logistic => logistic::cost(queries, sampled, dim),
        };
        (loss + losses.total(), Cost(scores + updates_cost(config, batch, parameters, sampled * dim)))
    }
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "clustering_tests.rs"]
mod clustering_tests;

#[cfg(test)]
#[path = "frequency_tests.rs"]
mod frequency_tests;
