//! Where a run begins: at the initial model, at a checkpoint of its own, or at the parameters of another run.
//!
//! The manifest of a checkpoint carries a [`RunState`]: what was trained, with which settings. Settings of
//! the cluster may differ from it; what decides which examples are trained, and how, may not.

mod agree;

use crate::error::TrainError;
use crate::report::{EpochSum, Made, Totals};
use crate::settings::Plan;
use intendant_checkpoint::{Best, Checkpoint, CheckpointError, Claim, Folder, Latest, Range};
use intendant_core::{Element, ElementType, Initialiser, Key, KeyRange};
use intendant_task::{Reduction, Rest, Start, Task};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How often, and how long apart, a run tries to claim its folder of checkpoints: for longer than one takes
/// to end that has lost a node, or got a signal and has the usual grace.
const CLAIM_ATTEMPTS: u32 = 160;
const CLAIM_PAUSE: Duration = Duration::from_millis(250);

/// What else a checkpoint must have, and what is wrong if it has not.
type Check<'a> = dyn Fn(&Rest) -> Result<(), String> + Sync + 'a;

/// What is trained: what a checkpoint must fit to.
pub(crate) struct Subject<'a> {
    name: &'a str,
    digest: u64,
    element: ElementType,
    ranges: &'a [KeyRange],
    /// The first so many ranges are what `--from` takes.
    parameters: usize,
    /// Says what is wrong with the rest of an epoch.
    check: Box<Check<'a>>,
}

impl<'a> Subject<'a> {
    /// A task, whose model has these ranges.
    pub(crate) fn of<T: Task>(task: &'a T, ranges: &'a [KeyRange]) -> Self {
        Self {
            name: task.name(),
            digest: task.digest(),
            element: T::Element::TYPE,
            ranges,
            parameters: ranges.len(),
            check: Box::new(|rest| rest.check(task).map_err(|error| error.to_string())),
        }
    }

    /// A program of this name and with data of this digest, whose state has these ranges of f64. The first
    /// `parameters` of them are what another run can begin with.
    pub(crate) fn of_program(
        (name, digest): (&'a str, u64),
        ranges: &'a [KeyRange],
        parameters: usize,
    ) -> Self {
        let check = |_: &Rest| Err("a program is cut between epochs only".to_owned());
        Self { name, digest, element: ElementType::F64, ranges, parameters, check: Box::new(check) }
    }
}

/// What a run needs besides its parameters, to go on where a checkpoint was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunState {
    pub(crate) program: String,
    pub(crate) version: String,
    pub(crate) task: String,
    /// [`Task::digest`].
    pub(crate) data: String,
    /// The effective configuration.
    pub(crate) config: serde_json::Value,
    /// The epochs that were trained.
    pub(crate) epochs: Vec<EpochSum>,
    /// What was trained of the next one, and what is left of it; absent between epochs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) under_way: Option<(EpochSum, Rest)>,
    /// The checkpoints that were made, with this one; set when it is committed.
    pub(crate) made: Made,
    /// Newer checkpoints of the run, which could not be used when it was resumed. A node that takes the place
    /// of node 0 knows them by this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) damaged: Vec<u64>,
    /// The epoch, from 1, of the best model so far ([`intendant_checkpoint::Manifest::best`]); set when this
    /// checkpoint is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) best_epoch: Option<usize>,
}

impl RunState {
    pub(crate) fn new(
        subject: &Subject<'_>,
        plan: &Plan,
        epochs: &[EpochSum],
        under_way: Option<(EpochSum, Rest)>,
    ) -> Self {
        Self {
            program: plan.program.clone(),
            version: plan.version.clone(),
            task: subject.name.to_owned(),
            data: format!("{:016x}", subject.digest),
            config: plan.config.to_json(),
            epochs: epochs.to_vec(),
            under_way,
            made: Made::default(),
            damaged: Vec::new(),
            best_epoch: None,
        }
    }

    /// The first thing that decides what is trained in which the checkpoint differs from this run.
    fn differs(&self, subject: &Subject<'_>, plan: &Plan) -> Option<String> {
        let here = Self::new(subject, plan, &[], None);
        let differs = |what: &str, there: &str, here: &str| {
            (here != there).then(|| format!("{what} is {here} here and {there} there"))
        };
        // Other flags can be the reason why the data are others.
        differs("the task", &self.task, &here.task)
            .or_else(|| self.differs_in_flags(&here, plan))
            .or_else(|| differs("the digest of the data", &self.data, &here.data))
    }

    /// The first flag that decides what is trained and is another one.
    fn differs_in_flags(&self, here: &Self, plan: &Plan) -> Option<String> {
        let (there, here) = (self.config.as_object()?, here.config.as_object()?.clone());
        let names = here.keys().chain(there.keys()).filter(|name| plan.config.decides(name));
        names.into_iter().find_map(|name| {
            let of = |config: &serde_json::Map<String, serde_json::Value>| {
                let value = config.get(name);
                let text = value.and_then(|value| Some(value.as_str()?.to_owned()));
                text.or(value.map(ToString::to_string)).unwrap_or_else(|| "absent".to_owned())
            };
            let (here, there) = (of(&here), of(there));
            (here != there).then(|| format!("--{name} is {here} here and {there} there"))
        })
    }
}

/// A checkpoint that was the newest one when a node looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Choice {
    /// Of the run itself.
    Resume(u64),
    /// Of the folder of `--from`.
    From(u64),
}

/// Where a run begins.
#[derive(Debug, Default)]
pub(crate) struct Origin {
    /// What was trained before.
    pub(crate) epochs: Vec<EpochSum>,
    /// What was trained of the epoch that goes on.
    pub(crate) under_way: Option<EpochSum>,
    rest: Option<Arc<Rest>>,
    pub(crate) made: Made,
    /// The best model of the run so far that is kept.
    pub(crate) best: Option<Best>,
    /// Newer checkpoints of the run, which cannot be used.
    pub(crate) damaged: Vec<u64>,
    /// How the checkpoint was chosen, if it was the newest one of a folder.
    choice: Option<Choice>,
    /// The parameters, if they are not the initial ones, and the folder they come from.
    checkpoint: Option<(Arc<Checkpoint>, String)>,
    /// The first value that could not be read.
    failure: Arc<OnceLock<std::io::Error>>,
    /// The claim to the folder of checkpoints, at node 0.
    _claim: Option<Claim>,
}

impl Origin {
    /// Finds it, and claims the folder of checkpoints before: at node 0, and in a run of one process.
    pub(crate) fn find(subject: &Subject<'_>, plan: &Plan) -> Result<Self, TrainError> {
        let claim = plan.checkpoints.folder.as_ref().map(claim).transpose()?;
        Ok(Self { _claim: claim, ..Self::of(subject, plan)? })
    }

    fn of(subject: &Subject<'_>, plan: &Plan) -> Result<Self, TrainError> {
        let checkpoints = &plan.checkpoints;
        if let Some(folder) = &checkpoints.folder {
            if checkpoints.resume {
                if let Some(origin) = Self::resume(subject, plan, folder)? {
                    return Ok(origin);
                }
            } else if !folder.cuts()?.is_empty() {
                return Err(TrainError::usage(format!(
                    "--checkpoint {}: there are checkpoints of an earlier run; add --resume to continue it, or name another folder",
                    folder.path().display()
                )));
            }
        }
        match &checkpoints.from {
            None => Ok(Self::default()),
            Some(folder) => Self::from(subject, folder),
        }
    }

    /// The newest checkpoint of the run, if there is one.
    fn resume(subject: &Subject<'_>, plan: &Plan, folder: &Folder) -> Result<Option<Self>, TrainError> {
        let Some(Latest { checkpoint, damaged: newer, .. }) = newest(folder)? else {
            let unfinished = folder.unfinished()?;
            if let Some(cut) = unfinished.last() {
                tracing::warn!(
                    "--resume: no checkpoint is finished, {} has no manifest.json; a new run begins",
                    folder.place(*cut).display()
                );
            } else if plan.rank() == 0 && plan.progress {
                let folder = folder.path().display();
                crate::logging::say(&format!("--resume: {folder} has no checkpoint yet; a new run begins"));
            }
            return Ok(None);
        };
        Self::resume_from(subject, plan, folder, checkpoint)
            .map(|origin| Some(Self { damaged: newer, ..origin }))
    }

    /// A checkpoint of the run.
    fn resume_from(
        subject: &Subject<'_>,
        plan: &Plan,
        folder: &Folder,
        checkpoint: Checkpoint,
    ) -> Result<Self, TrainError> {
        let cut = checkpoint.manifest().cut;
        let place = folder.place(cut);
        let refused = |what: String| {
            // A model that this run cannot have is of no use for it.
            let other = match check_model(&checkpoint, subject, subject.parameters) {
                Ok(()) => "--from begins a new run with its parameters",
                Err(_) => "name another folder",
            };
            TrainError::usage(format!("--resume: {} is not of this run: {what}; {other}", place.display()))
        };
        let damaged = |reason: String| {
            TrainError::Checkpoint(CheckpointError::Damaged {
                path: place.join("manifest.json"),
                offset: None,
                reason,
            })
        };
        let state: RunState = serde_json::from_value(checkpoint.manifest().run.clone())
            .map_err(|error| damaged(error.to_string()))?;
        if let Some(what) = state.differs(subject, plan) {
            return Err(refused(what));
        }
        check_model(&checkpoint, subject, subject.ranges.len()).map_err(refused)?;
        if let Some((_, rest)) = &state.under_way {
            let next = state.epochs.len() as u32;
            if rest.subepoch.epoch != next {
                return Err(damaged(format!(
                    "epoch {} is under way after {next} epochs",
                    rest.subepoch.epoch
                )));
            }
            (subject.check)(rest).map_err(damaged)?;
        }
        let (under_way, rest) = state.under_way.unzip();
        let said = place.display().to_string();
        Ok(Self {
            epochs: state.epochs,
            under_way,
            rest: rest.map(Arc::new),
            made: state.made,
            best: Best::of(checkpoint.manifest().best, state.best_epoch),
            choice: Some(Choice::Resume(cut)),
            checkpoint: Some((Arc::new(checkpoint), said)),
            ..Self::default()
        })
    }

    /// Where a view of a run with copies begins that follows another one: what was trained until a cut. The
    /// values are not here.
    pub(crate) fn of_copies(subject: &Subject<'_>, plan: &Plan, state: RunState) -> Result<Self, TrainError> {
        let of_run = |what: String| TrainError::Stopped(format!("the copies are not of this run: {what}"));
        if let Some(what) = state.differs(subject, plan) {
            return Err(of_run(what));
        }
        if let Some((_, rest)) = &state.under_way {
            (subject.check)(rest).map_err(of_run)?;
        }
        let folder = plan.checkpoints.folder.as_ref().filter(|_| plan.rank() == 0);
        let (under_way, rest) = state.under_way.unzip();
        Ok(Self {
            epochs: state.epochs,
            under_way,
            rest: rest.map(Arc::new),
            made: state.made,
            damaged: state.damaged,
            _claim: folder.and_then(reclaim),
            ..Self::default()
        })
    }

    /// The parameters of a checkpoint: the newest one of a folder of checkpoints, or the one that is named.
    fn from(subject: &Subject<'_>, folder: &Folder) -> Result<Self, TrainError> {
        let path = folder.path();
        let (checkpoint, choice) = if Checkpoint::is_in(path)? {
            (Checkpoint::open(path)?, None)
        } else {
            let newest = newest(folder)?;
            let newest = newest.ok_or_else(|| not_from(folder, "there is no checkpoint"))?.checkpoint;
            let choice = Choice::From(newest.manifest().cut);
            (newest, Some(choice))
        };
        Self::at(checkpoint, subject, folder, choice)
    }

    /// The parameters of a checkpoint that comes from this folder.
    fn at(
        checkpoint: Checkpoint,
        subject: &Subject<'_>,
        folder: &Folder,
        choice: Option<Choice>,
    ) -> Result<Self, TrainError> {
        check_model(&checkpoint, subject, subject.parameters).map_err(|what| not_from(folder, &what))?;
        let checkpoint = Some((Arc::new(checkpoint), folder.path().display().to_string()));
        Ok(Self { choice, checkpoint, ..Self::default() })
    }

    /// Names the origin, so that all nodes can compare it.
    pub(crate) fn name(&self) -> String {
        let named = self.checkpoint.as_ref().map(|(checkpoint, _)| {
            let manifest = checkpoint.manifest();
            let sums = manifest.parts.iter().flat_map(|part| part.blocks.iter().map(String::as_str));
            let digest =
                intendant_core::random::stream(manifest.cut, &sums.map(digest_of).collect::<Vec<_>>());
            format!("checkpoint {} ({digest:016x})", manifest.cut)
        });
        named.unwrap_or_else(|| "the initial model".to_owned())
    }

    /// Says where the run begins, unless at the start.
    pub(crate) fn say(&self, plan: &Plan) {
        let Some((checkpoint, place)) = &self.checkpoint else { return };
        if plan.rank() != 0 || !plan.progress {
            return;
        }
        let bytes = indicatif::HumanBytes(checkpoint.manifest().bytes());
        let line = match (&self.rest, self.epochs.len()) {
            (Some(_), epochs) => format!("resuming from {place} ({bytes}), in epoch {}", epochs + 1),
            (None, 0) => format!("beginning with the parameters of {place} ({bytes})"),
            (None, epochs) => format!("resuming from {place} ({bytes}), after epoch {epochs}"),
        };
        crate::logging::say(&line);
    }

    /// Where training begins.
    pub(crate) fn start(&self) -> Start {
        let epochs = self.epochs.iter().map(|epoch| epoch.tally.reduction.clone()).collect();
        Start { epochs, rest: self.rest.clone() }
    }

    /// The sums with which a worker begins.
    pub(crate) fn sums(&self, worker: u32) -> Reduction {
        match &self.under_way {
            Some(epoch) if worker == 0 => epoch.tally.reduction.clone(),
            Some(_) | None => Reduction::default(),
        }
    }

    /// The sums of the epochs that were trained.
    pub(crate) fn totals(&self) -> Totals {
        Totals { epochs: self.epochs.clone(), test: None, exchanged: None }
    }

    /// The values with which the run begins, instead of `initial` ones.
    pub(crate) fn init<E: Element>(&self, initial: &Initialiser<E>) -> Initialiser<E> {
        let Some((checkpoint, _)) = &self.checkpoint else { return Arc::clone(initial) };
        let (checkpoint, failure) = (Arc::clone(checkpoint), Arc::clone(&self.failure));
        Arc::new(move |key: Key, value: &mut [E]| {
            if let Err(error) = checkpoint.read(key, value) {
                // The first one counts; [`Origin::check`] reports it before anything is trained.
                let _ = failure.set(error);
            }
        })
    }

    /// The checkpoint that a program goes on with, once: it is not needed any more when the program has read
    /// it.
    pub(crate) fn take_checkpoint(&mut self) -> Option<(Arc<Checkpoint>, String)> {
        self.checkpoint.take()
    }

    /// Whether all values that were asked for could be read.
    pub(crate) fn check(&self) -> Result<(), TrainError> {
        match (self.failure.get(), &self.checkpoint) {
            (Some(error), Some((_, place))) => Err(TrainError::Checkpoint(CheckpointError::Io {
                what: "read",
                path: place.into(),
                source: std::io::Error::new(error.kind(), error.to_string()),
            })),
            (Some(_) | None, _) => Ok(()),
        }
    }
}

/// A folder has no parameters for this run.
fn not_from(folder: &Folder, what: &str) -> TrainError {
    TrainError::usage(format!("--from {}: {what}", folder.path().display()))
}

/// The newest checkpoint that is whole. Says which newer ones are not.
fn newest(folder: &Folder) -> Result<Option<Latest>, TrainError> {
    match folder.latest() {
        Ok(latest) => {
            for skipped in latest.iter().flat_map(|latest| &latest.skipped) {
                tracing::warn!("a newer checkpoint is passed over: {skipped}");
            }
            Ok(latest)
        }
        Err(error) => {
            if let (CheckpointError::Damaged { .. }, Ok(cuts)) = (&error, folder.cuts()) {
                tracing::error!(
                    "all checkpoints of {} are damaged ({}); `intendant checkpoint verify` names all damage",
                    folder.path().display(),
                    cuts.len()
                );
            }
            Err(error.into())
        }
    }
}

/// Claims a folder of checkpoints. A run that has lost its launcher or another node needs some time to end.
fn claim(folder: &Folder) -> Result<Claim, TrainError> {
    let refused = |error: CheckpointError| TrainError::usage(format!("--checkpoint: {error}"));
    let (_keep, pause) = crossbeam_channel::bounded::<()>(0);
    for attempt in 0..CLAIM_ATTEMPTS {
        match folder.claim() {
            Err(CheckpointError::InUse { .. }) => {}
            claimed => return claimed.map_err(refused),
        }
        if attempt == 2 {
            tracing::warn!("another run uses {}; waiting for its end", folder.path().display());
        }
        let _ = pause.recv_timeout(CLAIM_PAUSE);
    }
    folder.claim().map_err(refused)
}

/// Claims a folder of checkpoints for a run that has lost its node 0. That may be stopped, or its machine
/// gone, and its claim still there; but it cannot be a node of this run any more.
fn reclaim(folder: &Folder) -> Option<Claim> {
    match folder.claim() {
        Ok(claim) => Some(claim),
        Err(error) => {
            tracing::warn!(
                "checkpoints are written without a claim, as that of the lost node 0 is there: {error}"
            );
            None
        }
    }
}

fn digest_of(sum: &str) -> u64 {
    u64::from_str_radix(sum, 16).unwrap_or(0)
}

/// Compares the first `count` ranges of a checkpoint with those of the run; what differs.
fn check_model(checkpoint: &Checkpoint, subject: &Subject<'_>, count: usize) -> Result<(), String> {
    let (there, here) = (checkpoint.element(), subject.element);
    if there != here {
        return Err(format!("--float is {here} here and {there} there"));
    }
    let describe = |ranges: &[Range]| {
        let described =
            ranges.iter().map(|range| format!("{} {} of length {}", range.keys, range.name, range.len));
        described.collect::<Vec<_>>().join(", ")
    };
    let here: Vec<Range> = subject.ranges.iter().take(count).map(Range::from).collect();
    let there = &checkpoint.manifest().ranges;
    // What only a resumption needs may differ.
    let there = if count < subject.ranges.len() { &there[..count.min(there.len())] } else { there };
    if here == there {
        return Ok(());
    }
    Err(format!("the model has {} here and {} there", describe(&here), describe(there)))
}

#[cfg(test)]
#[path = "origin_tests.rs"]
mod tests;
