//! Runs that crash: training that makes checkpoints, loses a node at a random moment, and starts again from
//! the newest checkpoint, on other nodes, with other workers and another technique.
//!
//! Engines, the programs of workers for cuts, files, and the programs that divide what is left are those of
//! real runs. Disks refuse to write, at random. The values of the `task` tell what was trained, so that these
//! checks need no knowledge of them:
//!
//! | check | what holds |
//! | --- | --- |
//! | `cover`, `cut` | a cut has every key once, with the value that its owner has when nothing is in flight |
//! | `complement` | the values of a cut are those of the batches that it does not name as left |
//! | `readable` | a cut is read only when all of its parts are written, and the newest committed one is |
//! | `loaded` | what a run that starts again loads is what the cut was |
//! | `end` | at the end every example was trained once in every epoch, with the rate of an undisturbed run |
//! | | the last cut is the trained model, or the run says that it could not be written |
//! | `bits` | with one worker, all values are equal to the bit to those of an undisturbed run |

pub(crate) mod scenario;
pub(crate) mod task;

use crate::checker::{resume_task, run_task};
use intendant_checkpoint::Folder;
use intendant_core::{Element, NodeId};
use intendant_sim::reach::{Marker, Reach};
use intendant_sim::{Cut, Finding, Moment, Observer, Origin, TaskConfig, TaskFailure, TaskOutcome, Trained};
use intendant_task::{Reduction, Schedule};
use scenario::{Attempt, Scenario, When};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use task::{HOT, HOT_LEN, Marks, NOISE, Shape};

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// The undisturbed run, with which the others are compared, failed.
    #[error("the undisturbed run: {0}")]
    Reference(TaskFailure),
    /// A training run failed, other than by a crash.
    #[error("attempt {attempt}: {source}")]
    Task {
        /// Which start of the run, from 0.
        attempt: usize,
        /// Why.
        source: TaskFailure,
    },
    /// A check of this module failed.
    #[error("attempt {attempt}: {check}: {what}")]
    Check {
        /// Which start of the run, from 0.
        attempt: usize,
        /// The check.
        check: &'static str,
        /// What was found.
        what: String,
    },
    /// The folder for the checkpoints cannot be made.
    #[error("the folder for checkpoints: {0}")]
    Folder(String),
}

impl Failure {
    /// Name of the check that found the failure.
    #[must_use]
    pub const fn check(&self) -> &'static str {
        match self {
            Self::Task { source: TaskFailure::Violation(violation), .. }
            | Self::Reference(TaskFailure::Violation(violation)) => violation.check,
            Self::Task { source: TaskFailure::Checkpoint(_), .. } => "loaded",
            Self::Task { .. } | Self::Reference(_) => "training",
            Self::Check { check, .. } => check,
            Self::Folder(_) => "folder",
        }
    }
}

/// Result of one seed.
#[derive(Clone, Debug)]
pub struct Run {
    /// The failure, if there was one.
    pub result: Result<(), Failure>,
    /// Hash of the events and messages of all attempts.
    pub hash: u64,
    /// Events of all attempts that came to an end.
    pub events: u64,
    /// Reach markers.
    pub reach: Reach,
}

/// Markers that a set of so many runs must reach.
#[must_use]
pub fn expected() -> Vec<(Marker, u64)> {
    vec![
        (Marker::CutCommitted, 10),
        (Marker::Crashed, 10),
        (Marker::CrashedInCut, 40),
        (Marker::CrashedBeforeManifest, 40),
        (Marker::ResumedWithin, 40),
        (Marker::ResumedElsewhere, 40),
        (Marker::ResumedAtStart, 40),
    ]
}

/// Runs one seed.
#[must_use]
pub fn run(seed: u64) -> Run {
    let mut run = Run { result: Ok(()), hash: 0, events: 0, reach: Reach::default() };
    // In memory, where the system has such a place: what is tested is not the disk.
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let folder = made.map_err(|error| error.to_string()).and_then(|place| {
        let folder = Folder::at(place.path()).map_err(|error| error.to_string())?;
        Ok((place, folder))
    });
    run.result = match folder {
        Err(error) => Err(Failure::Folder(error)),
        Ok((_place, folder)) => {
            let scenario = Scenario::draw(seed, &folder);
            if scenario.double {
                drive::<f64>(&scenario, &folder, &mut run)
            } else {
                drive::<f32>(&scenario, &folder, &mut run)
            }
        }
    };
    run
}

/// Sees what happens, and lets a node die.
struct Watcher {
    crash: Option<(When, NodeId)>,
    seen: u64,
    cuts: Vec<Cut>,
    /// Parts that were written of the cut that is not committed, and whether it is being made.
    parts: u64,
    in_cut: bool,
    committed: Option<u64>,
    reach: Reach,
}

impl Observer for Watcher {
    fn moment(&mut self, moment: Moment) -> Option<NodeId> {
        match moment {
            Moment::Voted { begins, .. } => self.in_cut = begins,
            Moment::Resting => {}
            Moment::Copied => (self.in_cut, self.parts) = (false, 0),
            Moment::Written(_) => self.parts += 1,
            Moment::Committed(cut) => {
                (self.committed, self.parts) = (Some(cut), 0);
                self.reach.mark(Marker::CutCommitted);
            }
        }
        let (When::Nth(kind, nth), node) = self.crash? else { return None };
        self.seen += u64::from(kind.is(moment));
        (kind.is(moment) && self.seen == nth).then_some(node)
    }

    fn cut(&mut self, cut: &Cut) {
        self.cuts.push(cut.clone());
    }
}

fn drive<E: Element>(scenario: &Scenario, folder: &Folder, run: &mut Run) -> Result<(), Failure> {
    let shape = scenario.shape;
    let task = Arc::new(Marks::<E>::new(shape));
    let schedule = Schedule { test: false, ..Schedule::epochs(shape.epochs) };
    let reference = run_task(&task, &TaskConfig::new(1, 1, schedule), &mut ());
    let reference = reference.map_err(Failure::Reference)?;
    let mut cuts: BTreeMap<u64, Cut> = BTreeMap::new();
    let mut earlier: Option<(usize, usize)> = None;
    for (attempt, Attempt { config, crash }) in scenario.attempts.iter().enumerate() {
        let failed = |source| Failure::Task { attempt, source };
        let found = |(check, what): Finding| Failure::Check { attempt, check, what };
        let origin = Origin::find(&*task, folder).map_err(failed)?;
        let newest = origin.as_ref().map(|origin| &origin.cut);
        if let Some(cut) = newest
            && cuts.get(&cut.number) != Some(cut)
        {
            return Err(found((
                "loaded",
                format!("cut {} is loaded otherwise than it was made", cut.number),
            )));
        }
        mark_origin(&mut run.reach, newest, earlier, config);
        let mut watcher = Watcher {
            crash: *crash,
            seen: 0,
            cuts: Vec::new(),
            parts: 0,
            in_cut: false,
            committed: newest.map(|cut| cut.number),
            reach: Reach::default(),
        };
        let outcome = resume_task(&task, config, origin.as_ref(), &mut watcher);
        run.reach.merge(&watcher.reach);
        let has_cut = !watcher.cuts.is_empty();
        for cut in watcher.cuts {
            check_cut(&shape, &cut).map_err(found)?;
            // A file does not say who owned a key.
            cuts.insert(cut.number, Cut { owners: Vec::new(), ..cut });
        }
        match outcome {
            Err(TaskFailure::Crashed { .. }) => {
                run.reach.mark(Marker::Crashed);
                if watcher.in_cut {
                    run.reach.mark(Marker::CrashedInCut);
                }
                if watcher.parts > 0 {
                    run.reach.mark(Marker::CrashedBeforeManifest);
                }
                earlier = Some((config.nodes, config.workers));
            }
            Err(source) => return Err(failed(source)),
            Ok(outcome) => {
                run.hash = run.hash.wrapping_add(outcome.hash);
                run.events += outcome.events;
                run.reach.merge(&outcome.reach);
                let refuses = config.cuts.as_ref().is_some_and(|cuts| cuts.refuses > 0);
                let last = last_cut(&outcome, (refuses, has_cut), watcher.committed, &cuts).map_err(found)?;
                check_outcome((&shape, scenario.alone), &outcome, &reference).map_err(found)?;
                let committed = watcher.committed.and_then(|cut| cuts.get(&cut));
                let is_saved = committed.is_some_and(|cut| check_model(&shape, cut, &outcome).is_ok());
                return match last {
                    Some(last) => check_model(&shape, last, &outcome).map_err(found),
                    None if is_saved => {
                        Err(found(("end", "the run says that its model is not saved".to_owned())))
                    }
                    None => Ok(()),
                };
            }
        }
    }
    Err(Failure::Folder("the last attempt crashed as well".to_owned()))
}

fn mark_origin(reach: &mut Reach, cut: Option<&Cut>, earlier: Option<(usize, usize)>, config: &TaskConfig) {
    let Some(earlier) = earlier else { return };
    match cut {
        None => reach.mark(Marker::ResumedAtStart),
        Some(Cut { trained: Trained { under_way: Some(_), .. }, .. }) => {
            reach.mark(Marker::ResumedWithin);
            if earlier != (config.nodes, config.workers) {
                reach.mark(Marker::ResumedElsewhere);
            }
        }
        Some(_) => {}
    }
}

/// How often each example was trained in each epoch, and the batches of each epoch that were trained.
fn trained_batches(shape: &Shape, trained: &Trained) -> Result<Vec<Vec<u64>>, Finding> {
    let mut batches = vec![Vec::new(); shape.epochs as usize];
    let ended = trained.epochs.len();
    let all = 0..shape.batches();
    batches.iter_mut().take(ended).for_each(|batches| batches.extend(all.clone()));
    if let Some((sums, rest)) = &trained.under_way {
        let left = shape.left(rest);
        if left.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(("complement", format!("a batch is left twice: {rest:?}")));
        }
        let epoch = rest.subepoch.epoch;
        batches[ended] = all.filter(|batch| left.binary_search(batch).is_err()).collect();
        let examples = batches[ended].iter().flat_map(|batch| shape.examples_of(epoch, *batch));
        if epoch as usize != ended || sums.digest != shape.digest(epoch, examples) {
            return Err((
                "complement",
                format!("the sums of epoch {epoch} are not those of what is not left"),
            ));
        }
    }
    Ok(batches)
}

/// The values of a cut are those of the batches that were trained until then.
pub(crate) fn check_cut(shape: &Shape, cut: &Cut) -> Result<(), Finding> {
    let batches = trained_batches(shape, &cut.trained)?;
    check_values(shape, &cut.values, &batches, "complement")
        .map_err(|(check, what)| (check, format!("cut {}: {what}", cut.number)))
}

/// Checks all values but those that depend on the order of the batches.
fn check_values(
    shape: &Shape,
    values: &[f64],
    batches: &[Vec<u64>],
    check: &'static str,
) -> Result<(), Finding> {
    let (examples, epochs) = (shape.examples as usize, shape.epochs as usize);
    let (marks, rest) = values.split_at(examples * epochs);
    let (hot, rest) = rest.split_at(HOT as usize * HOT_LEN);
    let mut expected_marks = vec![0.0; marks.len()];
    let mut expected_hot = vec![0.0; hot.len()];
    for ((epoch, trained), rate) in (0..).zip(batches).zip(shape.rates()) {
        for batch in trained {
            for example in shape.examples_of(epoch, *batch) {
                expected_marks[example as usize * epochs + epoch as usize] += 1.0;
            }
            let place = (batch % HOT) as usize * HOT_LEN;
            expected_hot[place] += 1.0;
            expected_hot[place + 1] += rate as f64;
        }
    }
    if let Some(at) = (0..marks.len()).find(|at| marks[*at] != expected_marks[*at]) {
        let (example, epoch) = (at / epochs, at % epochs);
        let what = format!(
            "example {example} was trained {} times in epoch {epoch}, and should have been {} times",
            marks[at], expected_marks[at]
        );
        return Err((check, what));
    }
    if hot != expected_hot {
        return Err((check, format!("batches and rates are {hot:?}, and should be {expected_hot:?}")));
    }
    let drawn: f64 = rest[..NOISE as usize].iter().sum();
    let expected = task::samples(batches.iter().map(|batches| batches.len() as u64).sum());
    if drawn != expected as f64 {
        return Err((check, format!("{drawn} samples were drawn, and should be {expected}")));
    }
    Ok(())
}

/// The last cut, as the run says and as was seen; `None` if the disk has refused it, and the run says so.
fn last_cut<'a, E: Element>(
    outcome: &TaskOutcome<E>,
    (refuses, has_cut): (bool, bool),
    committed: Option<u64>,
    cuts: &'a BTreeMap<u64, Cut>,
) -> Result<Option<&'a Cut>, Finding> {
    let told = match &outcome.last_cut {
        Err(_) if refuses => return Ok(None),
        // It began where the training was over.
        Ok(None) => committed.filter(|_| !has_cut),
        Ok(Some(cut)) => Some(*cut).filter(|cut| committed == Some(*cut)),
        Err(_) => None,
    };
    let last = told.and_then(|cut| cuts.get(&cut)).map(Some);
    last.ok_or_else(|| {
        let told = &outcome.last_cut;
        ("end", format!("the run says of its last cut {told:?}, and {committed:?} was committed last"))
    })
}

/// Every example was trained once in every epoch, as in the undisturbed run.
pub(crate) fn check_outcome<E: Element>(
    (shape, alone): (&Shape, bool),
    outcome: &TaskOutcome<E>,
    reference: &TaskOutcome<E>,
) -> Result<(), Finding> {
    let (values, expected) = (numbers(outcome), numbers(reference));
    let all: Vec<Vec<u64>> = vec![(0..shape.batches()).collect(); shape.epochs as usize];
    check_values(shape, &values, &all, "end")?;
    // Samples are the same, whichever worker draws them.
    let noise = values.len() - (NOISE + task::STATE) as usize..values.len() - task::STATE as usize;
    if values[noise.clone()] != expected[noise] {
        return Err(("end", "other samples were drawn than without crashes".to_owned()));
    }
    let digests = |outcome: &TaskOutcome<E>| -> Vec<u64> {
        outcome.combined.iter().map(|Reduction { digest, .. }| *digest).collect()
    };
    if digests(outcome) != digests(reference) {
        return Err(("end", "the sums of the epochs are not those of an undisturbed run".to_owned()));
    }
    if alone && values != expected {
        return Err(("bits", "values differ from those of an undisturbed run".to_owned()));
    }
    Ok(())
}

/// The last cut is the model.
pub(crate) fn check_model<E: Element>(
    shape: &Shape,
    last: &Cut,
    outcome: &TaskOutcome<E>,
) -> Result<(), Finding> {
    let is_model = last.values == numbers(outcome) && last.trained.epochs.len() == shape.epochs as usize;
    if is_model {
        Ok(())
    } else {
        Err(("end", format!("the last cut, {}, is not the trained model", last.number)))
    }
}

fn numbers<E: Element>(outcome: &TaskOutcome<E>) -> Vec<f64> {
    outcome.values.iter().map(|value| value.to_f64()).collect()
}
