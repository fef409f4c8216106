//! The chain, on the threads of this node.

use crate::link::{Link, Results};
use crate::plan::usage;
use intendant::Aborter;
use intendant_bpmf::{Block, BpmfError, Config, Model, Posterior, Scratch, Side, Step, Sums, Task};
use intendant_formats::{Matrix, WriteError, write_text};
use intendant_ratings::{Dataset, Ids};
use intendant_task::Reduction;
use intendant_train::{AppError, Costs, ModelSize, Plan, Program, Technique, TrainError};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// A block of a chain, whose tasks are divided among threads. There is one on each node.
pub(crate) struct Chain {
    data: Dataset,
    model: Arc<Model>,
    block: Block,
    /// Buffers of each thread.
    scratches: Vec<Scratch>,
    /// The other nodes, if there are any.
    link: Option<Link>,
    /// What is exported, once all nodes have sent it.
    results: Option<Results>,
}

/// The name of the task in reports.
pub(crate) const NAME: &str = "bpmf";

/// The model of some data.
pub(crate) fn model(data: &Dataset, config: Config) -> Result<Model, TrainError> {
    let rows = [data.rows().len(), data.columns().len()];
    // Both are numbered with 32 bits.
    let [rows, columns] = rows.map(|rows| u32::try_from(rows).unwrap_or(u32::MAX));
    let train = data.train().iter().map(|entry| (entry.row, entry.column, entry.value));
    let test = data.test().iter().map(|entry| (entry.row, entry.column, entry.value));
    Model::new(config, (rows, columns), train, test, data.mean()).map_err(usage)
}

/// The size of a model.
pub(crate) fn size(model: &Model) -> ModelSize {
    let rows: u64 = Side::BOTH.iter().map(|side| u64::from(model.rows(*side))).sum();
    let values = rows * model.config().rank as u64;
    ModelSize { keys: rows, values, bytes: 8 * values, replicated: None }
}

/// The sums of an epoch.
pub(crate) fn trained(sums: &Sums) -> Reduction {
    let mut reduction = Reduction::default();
    reduction.add("examples", sums.examples);
    reduction.add("loss", sums.loss);
    reduction
}

/// The sums of an evaluation.
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
    pub(crate) fn new(data: Dataset, config: Config, plan: &Plan) -> Result<Self, TrainError> {
        let model = Arc::new(model(&data, config)?);
        let nodes = u32::try_from(plan.nodes).unwrap_or(u32::MAX);
        let block = Block::new(Arc::clone(&model), plan.rank().into(), nodes).map_err(nodes_of)?;
        let link = match plan.technique {
            Technique::Exchange(exchange) if nodes > 1 => plan
                .lobby(NAME, data.digest())?
                .map(|lobby| Link::start(lobby, plan.way(), exchange, &model, &block))
                .transpose()?,
            Technique::Exchange(_) | Technique::Single | Technique::Server(_) => None,
        };
        let scratches = (0..plan.workers).map(|_| Scratch::new()).collect();
        Ok(Self { data, model, block, scratches, link, results: None })
    }

    /// The sum of the sums of all nodes, at node 0.
    fn total(&self, sums: Vec<(u32, Sums)>) -> Sums {
        self.model.total(sums).unwrap_or_default()
    }

    fn ids(folder: &Path, name: &str, ids: &Ids) -> Result<(), WriteError> {
        write_text(&folder.join(name), |file| {
            (0..ids.len()).filter_map(|index| ids.get(index)).try_for_each(|id| writeln!(file, "{id}"))
        })
    }

    /// Writes `name_mean.npy` and `name_variance.npy`.
    fn posterior(&self, folder: &Path, name: &str, side: Side, of: &Results) -> Result<(), WriteError> {
        let Posterior { means, variances, .. } = &of.posteriors[side as usize];
        let rank = self.model.config().rank;
        for (what, values) in [("mean", means), ("variance", variances)] {
            let rows = self.model.rows(side).into();
            let mut matrix = Matrix::create::<f64>(folder, &format!("{name}_{what}"), rows, rank)?;
            for (row, values) in (0..).zip(values.chunks_exact(rank)) {
                matrix.row(row, values)?;
            }
            matrix.finish()?;
        }
        Ok(())
    }
}

/// The error as one of the command line: blocks are nodes.
fn nodes_of(error: BpmfError) -> TrainError {
    let BpmfError::NoSuchBlock { blocks, blocks_max, .. } = error else { return usage(error) };
    TrainError::usage(format!(
        "--nodes is {blocks}; a matrix can be divided among at most {blocks_max} nodes"
    ))
}

/// Runs all tasks, each on the next thread that is free. Results do not depend on which. Once `stop` is true,
/// the tasks that have not begun do not run.
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
                // The panic is told as that of the thread that runs the chain.
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done.map_err(diverged)
    })
}

impl Program for Chain {
    fn name(&self) -> &'static str {
        NAME
    }

    fn digest(&self) -> u64 {
        self.data.digest()
    }

    fn size(&self) -> ModelSize {
        size(&self.model)
    }

    fn epoch(&mut self, stop: &AtomicBool) -> Result<Reduction, TrainError> {
        let iteration = self.block.iteration();
        while self.block.step().is_some() && self.block.iteration() == iteration {
            if let Some(link) = &mut self.link {
                link.receive(&mut self.block)?;
            }
            let step = self.block.step();
            let tasks = self.block.work().map_err(|error| TrainError::Stopped(error.to_string()))?;
            run(tasks, &mut self.scratches, stop)?;
            if stop.load(Ordering::Relaxed) {
                return Ok(Reduction::default());
            }
            let produced = self.block.finish();
            if let Some(link) = &mut self.link {
                // Only one node draws hyperparameters.
                link.send(&self.block, &produced, step != Some(Step::Hyperparameters))?;
            }
        }
        let sums = match &mut self.link {
            None => self.block.sums(false),
            Some(link) => link.epoch_sums(&self.block)?,
        };
        Ok(trained(&self.total(sums)))
    }

    fn evaluate(&mut self) -> Result<Reduction, TrainError> {
        let sums = match &mut self.link {
            None => self.block.sums(true),
            Some(link) => link.test_sums(&self.block)?,
        };
        Ok(tested(&self.total(sums)))
    }

    fn costs(&self) -> Costs {
        self.link.as_ref().map_or_else(Costs::default, Link::costs)
    }

    fn aborter(&self) -> Option<Aborter> {
        self.link.as_ref().map(Link::aborter)
    }

    fn collect(&mut self) -> Result<(), TrainError> {
        if let Some(link) = &self.link {
            self.results = Some(link.collect(&self.block)?);
        }
        Ok(())
    }

    fn leave(&mut self) -> Result<(), TrainError> {
        self.link.take().map_or(Ok(()), Link::finish)
    }

    fn export(&mut self, folder: &Path) -> Result<(), AppError> {
        let results = self.results.take().unwrap_or_else(|| Results::of(&self.block));
        self.posterior(folder, "row", Side::Rows, &results)?;
        self.posterior(folder, "column", Side::Columns, &results)?;
        Self::ids(folder, "row_ids.txt", self.data.rows())?;
        Self::ids(folder, "column_ids.txt", self.data.columns())?;
        write_text(&folder.join("mean.txt"), |file| writeln!(file, "{}", self.data.mean()))?;
        write_text(&folder.join("predictions.tsv"), |file| {
            writeln!(file, "row\tcolumn\tvalue\tmean\tdeviation\tlow\thigh")?;
            results.forecasts.iter().try_for_each(|of| {
                let id = |ids: &Ids, number: u32| ids.get(number as usize).unwrap_or_default().into_owned();
                let (row, column) = (id(self.data.rows(), of.row), id(self.data.columns(), of.column));
                let numbers = [of.value, of.mean, of.deviation, of.low, of.high].map(|x| x.to_string());
                writeln!(file, "{row}\t{column}\t{}", numbers.join("\t"))
            })
        })?;
        Ok(())
    }
}
