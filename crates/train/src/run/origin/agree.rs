//! How the nodes of a cluster agree on where a run begins, once they have joined.
//!
//! Node 0 alone looks for it, after it has claimed the folder of checkpoints: until then, an earlier run that
//! is ending may make another checkpoint. Node 0 tells what it has found, and the others read that. Then each
//! node tells whether it can begin. If one cannot, all of them end alike.

use super::{Choice, Origin, Subject};
use crate::error::TrainError;
use crate::settings::Plan;
use intendant_checkpoint::{Checkpoint, Folder};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How often, and how long apart, a node looks for the checkpoint that node 0 has chosen: in a shared folder,
/// what another machine has written may be seen later.
const LOOKS: u32 = 20;
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// Where a node begins, or why it cannot.
type Word = Result<Begin, Refusal>;

#[derive(Serialize, Deserialize)]
struct Begin {
    choice: Option<Choice>,
    /// [`Origin::damaged`].
    damaged: Vec<u64>,
    /// [`Origin::name`].
    name: String,
}

#[derive(Serialize, Deserialize)]
struct Refusal {
    exit_code: u8,
    message: String,
}

fn word(origin: &Result<Origin, TrainError>) -> Vec<u8> {
    let word: Word = match origin {
        Ok(origin) => {
            Ok(Begin { choice: origin.choice, damaged: origin.damaged.clone(), name: origin.name() })
        }
        Err(error) => Err(Refusal { exit_code: error.exit_code(), message: error.to_string() }),
    };
    serde_json::to_vec(&word).expect("a word is valid JSON")
}

/// What a node has told.
fn heard(node: usize, told: &[Vec<u8>]) -> Result<Begin, TrainError> {
    let word = told.get(node).map_or(&[][..], Vec::as_slice);
    let word: Word = serde_json::from_slice(word)
        .map_err(|error| TrainError::Stopped(format!("node {node} says what has no meaning: {error}")))?;
    word.map_err(|Refusal { exit_code, message }| TrainError::Elsewhere { node, message, exit_code })
}

impl Origin {
    /// Finds where the run begins, together with the other nodes. `gather` exchanges a word with them, by a
    /// name. If it is an error of a node, it is one of all.
    pub(crate) fn agree(
        subject: &Subject<'_>,
        plan: &Plan,
        mut gather: impl FnMut(&str, Vec<u8>) -> Result<Vec<Vec<u8>>, TrainError>,
    ) -> Result<Self, TrainError> {
        let origin = if plan.rank() == 0 {
            let found = Self::find(subject, plan);
            gather("origin", word(&found))?;
            found
        } else {
            let told = gather("origin", Vec::new())?;
            heard(0, &told).and_then(|begin| Self::follow(&begin, subject, plan))
        };
        let told = gather("begins", word(&origin))?;
        let origin = origin?;
        let first = heard(0, &told)?.name;
        for node in 1..told.len() {
            let there = heard(node, &told)?.name;
            if there != first {
                let message = format!("it begins at {there}, and node 0 at {first}");
                return Err(TrainError::Elsewhere { node, message, exit_code: crate::error::exit::USAGE });
            }
        }
        Ok(origin)
    }

    /// Begins where node 0 does.
    fn follow(begin: &Begin, subject: &Subject<'_>, plan: &Plan) -> Result<Self, TrainError> {
        let checkpoints = &plan.checkpoints;
        match (begin.choice, &checkpoints.folder, &checkpoints.from) {
            (Some(Choice::Resume(cut)), Some(folder), _) => {
                let checkpoint = open("--resume", folder, cut)?;
                let origin = Self::resume_from(subject, plan, folder, checkpoint)?;
                Ok(Self { damaged: begin.damaged.clone(), ..origin })
            }
            (Some(choice @ Choice::From(cut)), _, Some(folder)) => {
                let checkpoint = open("--from", folder, cut)?;
                Self::at(checkpoint, subject, folder, Some(choice))
            }
            (None, _, Some(folder)) => Self::from(subject, folder),
            // Names differ then.
            (None | Some(_), _, _) => Ok(Self::default()),
        }
    }
}

/// Opens the checkpoint that node 0 has chosen.
fn open(flag: &str, folder: &Folder, cut: u64) -> Result<Checkpoint, TrainError> {
    let place = folder.place(cut);
    let (_keep, pause) = crossbeam_channel::bounded::<()>(0);
    for _ in 0..LOOKS {
        if Checkpoint::is_in(&place)? {
            return Ok(folder.open(cut)?);
        }
        let _ = pause.recv_timeout(LOOK_PAUSE);
    }
    Err(TrainError::usage(format!(
        "{flag}: node 0 begins at {}, which is not here; all nodes need the same folder",
        place.display()
    )))
}
