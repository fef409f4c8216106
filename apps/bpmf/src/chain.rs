//! The chain, run by the threads of this node.

use crate::exchange::Exchange;
use crate::items::{Items, What};
use crate::link::{Link, failed};
use crate::plan::{Resolved, usage};
use crate::results::{self, Others, malformed};
use bpmf::{Block, BpmfError, Config, Held, Model, Quantity, Scratch, Side, Step, Sums, Task};
use intendant_core::Key;
use intendant_lapser_process::{Lobby, Way};
use intendant_ratings::Dataset;
use intendant_task::{Reduction, Split};
use intendant_train::{About, AppError, Computed, Costs, ModelSize, Plan, Program, Saved, State, TrainError};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The block of this node, whose tasks are divided among threads. Each node has one.
pub(crate) struct Chain {
    data: Dataset,
    model: Arc<Model>,
    block: Block,
    /// Buffers, one for each thread.
    scratches: Vec<Scratch>,
    /// The connection of the nodes until the chain begins.
    lobby: Option<Lobby>,
    /// The way in which nodes reach each other's memory.
    way: Way,
    /// The other nodes, if there are any; set when the chain has begun.
    link: Option<Link>,
    exchange: Exchange,
    nodes: usize,
    /// Whether results are exported.
    exports: bool,
}

/// Number of keys that are copied at once.
const KEYS_AT_ONCE: usize = 1 << 10;

/// The name of the task in reports.
pub(crate) const NAME: &str = "bpmf";

/// The model of some data.
pub(crate) fn model(data: &Dataset, config: Config) -> Result<Model, TrainError> {
    let rows = [data.rows().len(), data.columns().len()];
    // Rows and columns are numbered with 32 bits.
    let [rows, columns] = rows.map(|rows| u32::try_from(rows).unwrap_or(u32::MAX));
    let train = data.train().iter().map(|entry| (entry.row, entry.column, entry.value));
    let test = data.test().iter().map(|entry| (entry.row, entry.column, entry.value));
    let valid = data.valid().iter().map(|entry| (entry.row, entry.column, entry.value));
    let model = Model::new(config, (rows, columns), train, test, data.mean()).map_err(usage)?;
    model.with_validation(valid).map_err(usage)
}

/// The size of a model.
pub(crate) fn size(model: &Model) -> ModelSize {
    let rows: u64 = Side::BOTH.iter().map(|side| u64::from(model.rows(*side))).sum();
    let values = rows * model.config().rank as u64;
    ModelSize { keys: rows, values, bytes: 8 * values, replicated: None }
}

/// The entries on which a split is measured. Without validation entries, users watch the chain on the test
/// entries.
pub(crate) fn held(split: Split, model: &Model) -> Held {
    match split {
        Split::Valid if model.held(Held::Validation) > 0 => Held::Validation,
        Split::Valid | Split::Test => Held::Test,
    }
}

/// The sums of an epoch, for the report.
pub(crate) fn trained(sums: &Sums) -> Reduction {
    let mut reduction = Reduction::default();
    reduction.add("examples", sums.examples);
    reduction.add("loss", sums.loss);
    reduction
}

/// The sums of an evaluation, for the report.
pub(crate) fn tested(sums: &Sums) -> Reduction {
    let mut reduction = Reduction::default();
    reduction.add("quality.rmse^2", sums.squares);
    reduction.add("quality.mae", sums.sizes);
    reduction.add("quality.interval_coverage", sums.covered);
    reduction.add("quality.interval_width", sums.widths);
    reduction.add("quality.count", sums.tested);
    reduction
}

impl Chain {
    /// Meets the other nodes, if there are any.
    pub(crate) fn new(data: Dataset, resolved: Resolved, plan: &Plan) -> Result<Self, TrainError> {
        let model = Arc::new(model(&data, resolved.config)?);
        let nodes = u32::try_from(plan.nodes).unwrap_or(u32::MAX);
        let block = Block::new(Arc::clone(&model), plan.rank().into(), nodes).map_err(usage)?;
        // A single node exchanges nothing.
        let lobby = if nodes > 1 { lobby(plan, data.digest())? } else { None };
        let (exchange, way) = (resolved.exchange, resolved.memory);
        let scratches = (0..plan.workers).map(|_| Scratch::new()).collect();
        let (nodes, exports) = (plan.nodes, plan.export.is_some());
        Ok(Self { data, model, block, scratches, lobby, way, link: None, exchange, nodes, exports })
    }

    /// What the program is about, before the chain begins.
    pub(crate) fn about(&self) -> About {
        let range = |quantity: Quantity| {
            let (count, len) = self.model.extent(quantity);
            (quantity.name(), count, len)
        };
        About {
            task: NAME,
            digest: self.data.digest(),
            size: size(&self.model),
            state: State { ranges: Quantity::ALL.map(range).into(), parameters: Quantity::SAMPLE },
            aborter: self.lobby.as_ref().map(Lobby::aborter),
        }
    }

    fn computed(&self, sums: Reduction) -> Computed {
        Computed { sums, costs: self.link.as_ref().map_or_else(Costs::default, Link::costs) }
    }

    /// At node 0, the sum of the sums of all nodes.
    fn total(&self, sums: Vec<(u32, Sums)>) -> Sums {
        self.model.total(sums).unwrap_or_default()
    }

    /// The key of the first value of a quantity in checkpoints.
    fn first_key(&self, quantity: Quantity) -> u64 {
        let before = Quantity::ALL.into_iter().take_while(|of| *of != quantity);
        before.map(|of| self.model.extent(of).0).sum()
    }
}

/// Meets the other nodes, if a launcher started this process as one of several. Nodes with different settings
/// or data refuse each other.
fn lobby(plan: &Plan, digest: u64) -> Result<Option<Lobby>, TrainError> {
    let Some(rendezvous) = plan.rendezvous() else { return Ok(None) };
    let terms = intendant_train::terms(plan, NAME, digest);
    Lobby::enter(rendezvous.clone(), terms).map(Some).map_err(failed)
}

/// A single node, without others.
struct Alone;

impl Others for Alone {
    fn take(&mut self, node: usize, _: &mut dyn FnMut(&[u64])) -> Result<(), TrainError> {
        Err(malformed(node))
    }
}

/// Runs all tasks, each on the next free thread. The assignment does not change results. Once `stop` is true,
/// tasks that have not begun do not run.
fn run(tasks: Vec<Task<'_>>, scratches: &mut [Scratch], stop: &AtomicBool) -> Result<(), TrainError> {
    let count = tasks.len();
    let tasks = &Mutex::new(tasks.into_iter());
    let work = |scratch: &mut Scratch| -> Result<(), BpmfError> {
        while !stop.load(Ordering::Relaxed) {
            let next = tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(task) = next else { break };
            task.run(scratch)?;
        }
        Ok(())
    };
    let diverged = |error: BpmfError| TrainError::ProgramDiverged(error.into());
    let threads = scratches.len().min(count);
    let Some((first, others)) = scratches[..threads].split_first_mut() else { return Ok(()) };
    thread::scope(|scope| {
        let mut started = Vec::new();
        for (number, scratch) in (1..).zip(others) {
            let thread = thread::Builder::new().name(format!("worker-{number}"));
            let spawned = thread.spawn_scoped(scope, || work(scratch));
            started.push(spawned.map_err(|source| TrainError::System { what: "start a thread", source })?);
        }
        let mut done = work(first);
        for thread in started {
            match thread.join() {
                Ok(result) => done = done.and(result),
                // The panic is reported as one of the thread that runs the chain.
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done.map_err(diverged)
    })
}

impl Program for Chain {
    fn epoch(&mut self, stop: &AtomicBool) -> Result<Computed, TrainError> {
        let iteration = self.block.iteration();
        while self.block.step().is_some() && self.block.iteration() == iteration {
            if let Some(link) = &mut self.link {
                link.receive(&mut self.block)?;
            }
            let step = self.block.step();
            let tasks = self.block.work().map_err(|error| TrainError::Stopped(error.to_string()))?;
            run(tasks, &mut self.scratches, stop)?;
            if stop.load(Ordering::Relaxed) {
                return Ok(Computed::default());
            }
            let produced = self.block.finish();
            if let Some(link) = &mut self.link {
                // Only one node draws hyperparameters.
                link.send(&self.block, &produced, step != Some(Step::Hyperparameters))?;
            }
        }
        let sums = match &mut self.link {
            None => self.block.sums(None),
            Some(link) => link.epoch_sums(&self.block)?,
        };
        Ok(self.computed(trained(&self.total(sums))))
    }

    fn evaluate(&mut self, split: Split) -> Result<Computed, TrainError> {
        let held = held(split, &self.model);
        let what = match split {
            Split::Valid => What::Validation,
            Split::Test => What::Test,
        };
        let sums = match &mut self.link {
            None => self.block.sums(Some(held)),
            Some(link) => link.held_sums(&self.block, what, held)?,
        };
        Ok(self.computed(tested(&self.total(sums))))
    }

    fn save(&self, part: &mut dyn FnMut(&[Key], &[f64])) {
        for quantity in Quantity::ALL {
            let (first, values) = self.block.state(quantity);
            let (first, len) = (self.first_key(quantity) + first, self.model.extent(quantity).1);
            let mut keys = Vec::with_capacity(KEYS_AT_ONCE);
            for (from, values) in (first..).step_by(KEYS_AT_ONCE).zip(values.chunks(KEYS_AT_ONCE * len)) {
                keys.clear();
                keys.extend((from..).map(Key).take(values.len() / len));
                part(&keys, values);
            }
        }
    }

    fn gather(&mut self, name: &str, payload: Vec<u8>) -> Result<Vec<Vec<u8>>, TrainError> {
        match (&self.lobby, &self.link) {
            (Some(lobby), _) => lobby.gather(name, &payload).map_err(failed),
            (None, Some(link)) => link.gather(name, &payload),
            (None, None) => Ok(vec![payload]),
        }
    }

    fn begin(&mut self, saved: Option<Saved<'_>>) -> Result<(), TrainError> {
        if let Some(mut saved) = saved {
            let firsts = Quantity::ALL.map(|quantity| self.first_key(quantity));
            let epochs = saved.epochs();
            let read = |quantity: Quantity, first: u64, values: &mut [f64]| {
                let at = Quantity::ALL.iter().position(|of| *of == quantity).unwrap_or(0);
                saved.read(firsts[at] + first, values)
            };
            match epochs {
                Some(epochs) => self.block.restore(epochs, read)?,
                None => self.block.begin_with(read)?,
            }
        }
        if let Some(lobby) = self.lobby.take() {
            let link = Link::start(lobby, self.way, self.exchange, &self.model, &self.block, self.exports)?;
            self.link = Some(link);
        }
        Ok(())
    }

    fn leave(&mut self) -> Result<(), TrainError> {
        if let Some(lobby) = self.lobby.take() {
            return lobby.leave().map_err(failed);
        }
        self.link.take().map_or(Ok(()), Link::finish)
    }

    fn export(&mut self, folder: Option<&Path>) -> Result<Result<(), AppError>, TrainError> {
        if self.block.index() != 0 {
            let link = self.link.as_mut();
            return link.map_or(Ok(()), |link| link.send_results(&self.block)).map(Ok);
        }
        let items = Items::new(&self.model, self.nodes, self.exchange);
        let others: &mut dyn Others = match &mut self.link {
            Some(link) => link,
            None => &mut Alone,
        };
        results::write(folder, (items, &self.block, &self.data), others)
    }
}
