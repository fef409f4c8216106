//! What is drawn from the seed of a run that crashes.

use super::task::Shape;
use crate::workload::draw_delays;
use intendant_checkpoint::Folder;
use intendant_core::{Key, NodeId, Tick, random};
use intendant_engine::{ClusterSettings, ReplicationConfig, Storage};
use intendant_sim::{CutConfig, Dice, Episode, Fault, Faults, Moment, Spread, TaskConfig};
use intendant_task::Schedule;
use intendant_techniques::{
    Assignment, Initiator, KeyTechnique, StaticReplicaPace, StaticReplicas, Technique,
};
use std::num::NonZeroU32;

/// Crashes of a run at most.
const CRASHES_MAX: u64 = 4;

/// A run ends after so many events at the latest; the longest needs a tenth of them.
const EVENTS_MAX: u64 = 20_000_000;

/// A kind of [`Moment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Voted,
    /// A pending cut was settled: its manifest is being written.
    Settled,
    /// A cut begins.
    Begins,
    Resting,
    Copied,
    Written,
    Committed,
}

impl Kind {
    pub(crate) const fn is(self, moment: Moment) -> bool {
        match moment {
            Moment::Voted { is_settled, begins } => match self {
                Self::Voted => true,
                Self::Settled => is_settled,
                Self::Begins => begins,
                Self::Resting | Self::Copied | Self::Written | Self::Committed => false,
            },
            Moment::Resting => matches!(self, Self::Resting),
            Moment::Copied => matches!(self, Self::Copied),
            Moment::Written(_) => matches!(self, Self::Written),
            Moment::Committed(_) => matches!(self, Self::Committed),
        }
    }
}

/// When a node dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// At a time, ns.
    At(u64),
    /// At the n-th moment of a kind, from 1.
    Nth(Kind, u64),
}

/// A start of the run: it trains until it crashes, or to the end.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) config: TaskConfig,
    pub(crate) crash: Option<(When, NodeId)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) shape: Shape,
    pub(crate) double: bool,
    /// All attempts have one node and one worker.
    pub(crate) alone: bool,
    /// The last one does not crash.
    pub(crate) attempts: Vec<Attempt>,
}

impl Scenario {
    pub(crate) fn draw(seed: u64, folder: &Folder) -> Self {
        let dice = &mut Dice::new(random::stream(seed, &[0]));
        let shape = Shape {
            seed,
            examples: dice.between(20, 300),
            batch: dice.between(1, 3),
            epochs: dice.between(1, 4) as u32,
            blocked: dice.once_in(4),
            in_place: dice.once_in(3),
        };
        let (double, alone) = (dice.once_in(4), dice.once_in(4));
        let crashes = dice.between(1, CRASHES_MAX);
        let attempts =
            (0..=crashes).map(|at| draw_attempt(dice, &shape, alone, at < crashes, folder)).collect();
        Self { shape, double, alone, attempts }
    }
}

fn draw_attempt(dice: &mut Dice, shape: &Shape, alone: bool, crashes: bool, folder: &Folder) -> Attempt {
    let (nodes, workers) =
        if alone { (1, 1) } else { (dice.between(1, 4) as usize, dice.between(1, 3) as usize) };
    let technique = dice.pick(&Technique::ALL);
    let crash = |dice: &mut Dice| crashes.then(|| (draw_when(dice), NodeId(dice.below(nodes as u64) as u16)));
    draw_start(dice, (shape, technique), (nodes, workers), crash, folder)
}

/// A start of a run with so many nodes and workers per node.
pub(crate) fn draw_start(
    dice: &mut Dice,
    (shape, technique): (&Shape, Technique),
    (nodes, workers): (usize, usize),
    crash: impl FnOnce(&mut Dice) -> Option<(When, NodeId)>,
    folder: &Folder,
) -> Attempt {
    let policy = technique.policy();
    let asked = policy.static_replicas == Some(StaticReplicas::All) && dice.once_in(2);
    let pace = if asked {
        StaticReplicaPace::Asked
    } else {
        StaticReplicaPace::Every(Tick(dice.pick(&[2, 50, 2_000])))
    };
    let mut assignment = Assignment::none();
    (0..shape.examples + super::task::HOT).step_by(3).for_each(|key| {
        assignment.set_technique(Key(key), KeyTechnique::Replicate);
    });
    let on_request = policy.relocation == Some(Initiator::Requester);
    let schedule = Schedule {
        test: dice.once_in(2),
        meets: true,
        clock_every: NonZeroU32::new(dice.pick(&[0, 1, 3])),
        intents: policy.intents.is_some(),
        localize_ahead: if on_request { dice.pick(&[0, 2]) } else { 0 },
        synchronize: asked.then(|| NonZeroU32::new(dice.pick(&[1, 3]))).flatten(),
        ..Schedule::epochs(shape.epochs)
    };
    let crash = crash(dice);
    let faults = match crash {
        Some((When::At(from_ns), node)) => {
            Faults::new(vec![Episode { from_ns, until_ns: u64::MAX, fault: Fault::Crash { node } }])
        }
        Some((When::Nth(..), _)) | None if dice.once_in(4) => {
            Ok(Faults::random(dice.word(), nodes, dice.pick(&[100_000, 1_000_000])))
        }
        Some((When::Nth(..), _)) | None => Ok(Faults::none()),
    };
    let spread = |dice: &mut Dice| Spread::even(1, dice.pick(&[100, 10_000, 100_000, 1_000_000]));
    let cuts = CutConfig {
        folder: Some(folder.clone()),
        seconds: dice.pick(&[0.0, 1e-5, 1e-4, 1e-3]),
        kept: dice.between(1, 3) as usize,
        copy_bytes_max: dice.pick(&[1, 300, 1 << 20]),
        write: spread(dice),
        commit: spread(dice),
        linger: spread(dice),
        refuses: dice.pick(&[0, 0, 2, 5, 20]),
        copies: false,
        regroup: None,
    };
    let config = TaskConfig {
        channels: dice.between(1, 2) as usize,
        shards: dice.pick(&[4, 8]),
        cluster: ClusterSettings {
            storage: dice.pick(&[Storage::Dense, Storage::Sparse]),
            replication: ReplicationConfig { assignment, pace, ..ReplicationConfig::default() },
            ..ClusterSettings::new(technique)
        },
        outstanding_bytes_max: dice.pick(&[1, 400, 64 << 20]),
        delays: draw_delays(dice),
        faults: faults.expect("crashes may last"),
        cuts: Some(cuts),
        layout_seed: dice.word(),
        seed: dice.word(),
        events_max: EVENTS_MAX,
        ..TaskConfig::new(nodes, workers, schedule)
    };
    Attempt { config, crash }
}

pub(crate) fn draw_when(dice: &mut Dice) -> When {
    let (kind, nth_max) = dice.pick(&[
        (Kind::Voted, 8),
        (Kind::Settled, 3),
        (Kind::Begins, 3),
        (Kind::Resting, 3),
        (Kind::Copied, 3),
        (Kind::Written, 8),
        (Kind::Written, 8),
        (Kind::Committed, 3),
    ]);
    let within = 1 << dice.between(10, 24);
    if dice.once_in(3) { When::At(dice.below(within)) } else { When::Nth(kind, dice.between(1, nth_max)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_moments_are_told_apart() {
        let voted = Moment::Voted { is_settled: true, begins: false };
        assert!(Kind::Voted.is(voted) && Kind::Settled.is(voted) && !Kind::Begins.is(voted));
        let written = Moment::Written(NodeId(1));
        assert!(Kind::Written.is(written) && !Kind::Committed.is(written));
    }
}
