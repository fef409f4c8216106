//! Matrix factorisation as a training task: the keys of a batch, and the updates of their values.
//!
//! Keys: the rows from 0, then the columns. A batch is trained entry by entry, in place: rows are lent one by
//! one. Successive entries of a column are trained on one copy of the column; at the end, the difference is
//! added to the column, accumulators included. With tiles of rows (see `division`), a batch has the entries
//! of several columns, one column after the other, and names a row once per entry. With batches of one entry,
//! each entry is a pull and a push of two keys, as in the parameter server papers.

use crate::batch::{Batch, Builder, Example};
use crate::config::Config;
use crate::data::{Biases, Dataset};
use crate::division::{Division, tiles};
use crate::evaluate::Errors;
use crate::frequency::frequencies;
use crate::model::{Decay, Optimizer, Scope, Trainer, initialise};
use crate::penalties::{Derived, Penalties, Weights};
use intendant_core::random::{mix, stream};
use intendant_core::{Combine, Element, Key, lock};
use intendant_sampling::Sampler;
use intendant_task::kernel::elementwise;
use intendant_task::{
    Baseline, BatchAt, Better, Cost, Criterion, Evaluation, Frequency, Model, ModelRange, Partition,
    Prepared, Reduction, Rows, Split, StepReport, Subepoch, Task,
};
use intendant_train::SettingError;
use pulp::{Arch, Simd, WithSimd};
use std::sync::{Arc, Mutex};

/// Low-rank matrix factorisation.
pub struct Mf<E> {
    data: Arc<Dataset>,
    config: Config,
    penalties: Penalties,
    /// Those of the data, from which the model's biases begin.
    biases: Option<Arc<Biases>>,
    model: Model<E>,
    /// Divisions, by number of workers and of nodes. A run has at most two: its own, and that of a single
    /// worker, by which nodes compare their data.
    divisions: Mutex<Vec<(u32, u32, Arc<Division>)>>,
}

/// A worker's learning rate (all workers have the same one) and its buffers.
#[derive(Clone, Debug)]
pub struct Scratch<E> {
    arch: Arch,
    rate: f64,
    /// Loss of the previous epoch.
    loss: Option<f64>,
    /// The column that is being trained, and its value before.
    column: Vec<E>,
    before: Vec<E>,
}

/// Names of the uses of the seed.
const INITIAL: u64 = 1;
const DIVISION: u64 = 2;

/// The factors by which the bold driver changes the learning rate: after an epoch in which the loss fell, and
/// after every other epoch.
const BOLDER: f64 = 1.05;
const SHIER: f64 = 0.5;

impl<E: Element> Mf<E> {
    /// A task that trains on `data`.
    ///
    /// # Errors
    /// See [`Config::check`].
    ///
    /// # Panics
    /// If there are no training entries.
    pub fn new(data: Arc<Dataset>, config: Config) -> Result<Self, SettingError> {
        config.check()?;
        assert!(!data.train().is_empty(), "nothing to train on");
        let shape = config.shape();
        let range = |name, keys: usize| ModelRange::new(name, keys as u64, shape.len());
        let ranges = vec![range("row", data.rows().len()), range("column", data.columns().len())];
        let biases = config.bias.then(|| Arc::new(Biases::of(&data)));
        let Derived { penalties, noise } = Derived::of(&data, biases.as_deref(), &config);
        let (seed, scale, used) = (stream(config.seed, &[INITIAL]), config.init_scale, Arc::clone(&data));
        let start = biases.clone();
        let init = move |key: Key, value: &mut [E]| {
            let rows = used.row_uses();
            let column = key.index().checked_sub(rows.len());
            let uses = column.map_or_else(|| rows[key.index()], |column| used.column_uses()[column]);
            // A row or column that is never trained stays zero, so that it does not predict by chance.
            if uses > 0 {
                initialise(seed, key, shape.rank, scale, value);
                if let Some(biases) = &start {
                    let of_row = || biases.row(key.0 as u32);
                    let bias = column.map_or_else(of_row, |column| biases.column(column as u32));
                    // What factors explain, they would have to take back from biases.
                    value[shape.rank] = E::from_f64(noise * bias);
                }
            }
        };
        let model = Model { ranges, init: Arc::new(init), sampler: Sampler::default() };
        Ok(Self { data, config, penalties, biases, model, divisions: Mutex::new(Vec::new()) })
    }

    /// The matrix.
    pub fn data(&self) -> &Dataset {
        &self.data
    }

    /// The penalties, those that follow from the data included.
    pub fn penalties(&self) -> &Penalties {
        &self.penalties
    }

    /// The hyperparameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    fn division(&self, partition: Partition) -> Arc<Division> {
        let (workers, nodes) = (partition.workers, partition.nodes);
        // The list is consistent even if the code below panics.
        let mut divisions = lock(&self.divisions);
        if let Some((.., division)) = divisions.iter().find(|(w, n, _)| (*w, *n) == (workers, nodes)) {
            return Arc::clone(division);
        }
        let seed = stream(self.config.seed, &[DIVISION]);
        let tiles = tiles::count(&self.data, self.config.shape().len() * size_of::<E>(), nodes);
        let shared = (workers, nodes);
        let division = Arc::new(Division::new(self.config.algorithm, &self.data, seed, shared, tiles));
        divisions.push((workers, nodes, Arc::clone(&division)));
        division
    }

    fn column_key(&self, column: u32) -> Key {
        Key(self.data.rows().len() as u64 + u64::from(column))
    }
}

impl<E: Element> Task for Mf<E> {
    type Element = E;
    type Batch = Batch;
    type Scratch = Scratch<E>;

    fn name(&self) -> &'static str {
        "mf"
    }

    fn model(&self) -> &Model<E> {
        &self.model
    }

    fn combine(&self) -> Combine {
        match self.config.optimizer {
            Optimizer::Sgd | Optimizer::RowAdaGrad => Combine::Sum,
            Optimizer::AdaGrad => Combine::AdaGrad,
        }
    }

    fn digest(&self) -> u64 {
        self.data.digest()
    }

    fn subepochs(&self, _epoch: u32, partition: Partition) -> u32 {
        self.division(partition).subepochs()
    }

    fn batches(&self, subepoch: Subepoch, partition: Partition) -> u64 {
        self.division(partition).batches(subepoch, partition.worker, self.config.batch)
    }

    fn prepare(&self, at: BatchAt) -> Prepared<Batch> {
        let seed = mix(at.subepoch.epoch.into());
        let hash = |row: u32, column: u32, value: f64| {
            let cell = u64::from(row) << 32 | u64::from(column);
            mix(mix(cell ^ seed) ^ value.to_bits())
        };
        let mut digest = 0u64;
        let mut builder = Builder::new(&self.data, self.config.batch.min(self.data.train().len()));
        let division = self.division(at.partition);
        let chosen = division.choose(&self.data, at, self.config.batch, |row, column, value| {
            digest = digest.wrapping_add(hash(row, column, value));
            builder.push(row, column, value);
        });
        let (batch, keys) = if chosen.by_run { builder.by_run() } else { builder.distinct() };
        // The rows are at this node. So is the column, except at the first batch of its visit; with parameter
        // blocking, it is here at the first batch, too. With tiles, another node may have taken a column
        // since its last visit.
        let near = match &*division {
            Division::Tiles(_) if at.partition.nodes > 1 => keys[batch.rows..].to_vec(),
            Division::Blocks(_) | Division::Columns(_) | Division::Tiles(_) => {
                chosen.opens.map(|column| self.column_key(column)).into_iter().collect()
            }
        };
        Prepared { batch, keys, near, samples: Vec::new(), handles: Vec::new(), digest }
    }

    fn keys_named(&self, name: &str) -> Vec<Key> {
        let row = self.data.rows().find(name).map(|row| Key(row.into()));
        row.into_iter().chain(self.data.columns().find(name).map(|column| self.column_key(column))).collect()
    }

    fn residents(&self, partition: Partition) -> Vec<Key> {
        let rows = self.division(partition).rows(&self.data, partition);
        rows.into_iter().map(|row| Key(row.into())).collect()
    }

    fn residents_of(&self, batch: &Batch) -> usize {
        batch.rows
    }

    fn block(&self, subepoch: Subepoch, partition: Partition) -> Vec<Key> {
        let columns = self.division(partition).block(&self.data, subepoch, partition.worker);
        columns.into_iter().map(|column| self.column_key(column)).collect()
    }

    fn frequencies(&self, partition: Partition) -> Option<Vec<Frequency>> {
        Some(frequencies(&self.data, &self.division(partition), self.config.batch, partition))
    }

    fn scratch(&self) -> Scratch<E> {
        let column = vec![E::ZERO; self.config.shape().len()];
        let (rate, before) = (self.config.learning_rate, column.clone());
        Scratch { arch: Arch::new(), rate, loss: None, column, before }
    }

    fn trains_in_place(&self) -> bool {
        true
    }

    fn train(
        &self,
        scratch: &mut Scratch<E>,
        batch: &Batch,
        _keys: &[Key],
        rows: &mut dyn Rows<E>,
    ) -> StepReport {
        let shape = self.config.shape();
        let trainer = Trainer::new(shape, self.data.mean(), scratch.rate);
        let Scratch { column, before, .. } = scratch;
        let (scope, penalties) = (self.config.l2_scope, &self.penalties);
        let step = Step { scope, penalties, trainer, batch, rows, column, before };
        let loss = scratch.arch.dispatch(step);
        let examples = batch.examples.len() as u64;
        StepReport { loss, examples, cost: Cost(examples * shape.cost()) }
    }

    fn epoch_ended(&self, scratch: &mut Scratch<E>, combined: &Reduction) {
        let loss = combined.get("loss");
        if self.config.bold_driver
            && let Some(before) = scratch.loss
        {
            scratch.rate *= if loss < before { BOLDER } else { SHIER };
        }
        scratch.loss = Some(loss);
    }

    fn criterion(&self) -> Option<Criterion> {
        // Without validation entries, users watch epochs on the test entries, which must not select a model.
        (!self.data.valid().is_empty()).then_some(Criterion { metric: "rmse^2", better: Better::Lower })
    }

    fn baseline(&self) -> Option<Baseline> {
        let test = Some(self.data.test()).filter(|test| !test.is_empty())?;
        let value = match &self.biases {
            Some(biases) => biases.rmse(test)?,
            None => Biases::of(&self.data).rmse(test)?,
        };
        Some(Baseline { name: "biases", metric: "rmse", better: Better::Lower, value })
    }

    fn evaluation(&self, split: Split, partition: Partition) -> Option<Box<dyn Evaluation<E>>> {
        let entries = match split {
            Split::Valid if self.data.valid().is_empty() => self.data.test(),
            Split::Valid => self.data.valid(),
            Split::Test => self.data.test(),
        };
        if entries.is_empty() {
            return None;
        }
        // Neighbouring entries share rows.
        let start =
            |worker: u32| (entries.len() as u64 * u64::from(worker) / u64::from(partition.workers)) as usize;
        let share = &entries[start(partition.worker)..start(partition.worker + 1)];
        let first_column = self.data.rows().len() as u64;
        Some(Box::new(Errors::new(self.config.shape(), self.data.mean(), first_column, share)))
    }
}

/// How many entries ahead rows are prefetched: their arithmetic takes as long as a memory access.
const AHEAD: usize = 4;

/// How many runs ahead columns are prefetched. With tiles, a run may have only a few entries.
const RUNS_AHEAD: usize = 2;

/// The arithmetic of a step, compiled for several generations of processors. Returns the sum of the squared
/// errors.
struct Step<'a, E> {
    scope: Scope,
    penalties: &'a Penalties,
    trainer: Trainer<E>,
    batch: &'a Batch,
    rows: &'a mut dyn Rows<E>,
    column: &'a mut [E],
    before: &'a mut [E],
}

impl<E: Element> Step<'_, E> {
    /// The penalties of a row or column with these weights and `uses` entries.
    #[inline(always)]
    fn decay(&self, weights: Weights, uses: u32) -> Decay<E> {
        let times = match self.scope {
            Scope::Key => 1.0 / f64::from(uses),
            Scope::Use => 1.0,
        };
        let weight = |l2: f64| E::from_f64(l2 * times);
        Decay { factors: weight(weights.factors), bias: weight(weights.bias) }
    }
}

impl<E: Element> WithSimd for Step<'_, E> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let examples = &self.batch.examples;
        let (mut loss, mut at) = (0.0f64, 0);
        examples.iter().take(AHEAD).for_each(|example| self.rows.prefetch(example.row as usize));
        let runs = &self.batch.runs;
        runs.iter().take(RUNS_AHEAD).for_each(|run| self.rows.prefetch(run.column as usize));
        for (index, run) in runs.iter().enumerate() {
            if let Some(next) = runs.get(index + RUNS_AHEAD) {
                self.rows.prefetch(next.column as usize);
            }
            self.column.copy_from_slice(&self.rows.row(run.column as usize));
            self.before.copy_from_slice(self.column);
            let column_decay = self.decay(self.penalties.columns, run.column_uses);
            while at < run.end && loss.is_finite() {
                let Example { row, row_uses, value } = examples[at];
                if let Some(ahead) = examples.get(at + AHEAD) {
                    self.rows.prefetch(ahead.row as usize);
                }
                let row_decay = self.decay(self.penalties.rows, row_uses);
                let mut row = self.rows.row(row as usize);
                let error = self.trainer.step(simd, &mut row, self.column, value, row_decay, column_decay);
                loss += error.to_f64() * error.to_f64();
                at += 1;
            }
            // Other workers may have changed the column meanwhile.
            let mut column = self.rows.row(run.column as usize);
            elementwise([&mut *column], [self.column, self.before], |[now], [after, before]| {
                [now + (after - before)]
            });
        }
        loss
    }
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "frequency_tests.rs"]
mod frequency_tests;
