//! Replication: its flags, and their meaning for the technique.
//!
//! Each flag is for some techniques. With another technique it is refused, not ignored: a user who gives a
//! flag expects an effect.

use super::flag;
use super::headings::REPLICATION;
use super::layers::Config;
use super::technique::Technique;
use crate::error::{PathDisplay, TrainError};
use intendant::assignment::FACTOR;
use intendant::{Assignment, Replicas, ReplicationConfig, StaticReplicaPace, StaticReplicas, Tick};
use intendant_core::{ElementType, Precision};
use std::num::NonZeroU32;
use std::path::PathBuf;

/// An hour: a longer period means no synchronisation in the background.
const SYNC_EVERY_MS_MAX: f64 = 3_600_000.0;

// The flags, as the user typed them. (Not a documentation comment: it would become the description of the
// program.)
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct ReplicationArgs {
    /// Staleness bound: a read sees all updates of all workers, except those of the latest CLOCKS clocks and
    /// of the current one. A clock is a batch unless --clock-every says otherwise [default: 1]
    #[arg(long, group = flag::CLOCKS, value_name = "CLOCKS", help_heading = REPLICATION)]
    pub(crate) staleness: Option<u32>,

    /// Batches per clock. A clock also ends with the last batch of a subepoch; 0: a clock is a subepoch
    /// [default: 1]
    #[arg(long, group = flag::CLOCKS, value_name = "BATCHES", help_heading = REPLICATION)]
    pub(crate) clock_every: Option<u32>,

    /// Milliseconds between synchronisations of replicated parameters. This is a goal: no access waits for
    /// it, and the report says what was reached [default: 40]
    #[arg(long, group = flag::BACKGROUND, value_name = "MS", help_heading = REPLICATION)]
    pub(crate) sync_every_ms: Option<f64>,

    /// Send the updates of a replica in a synchronisation only if they change it by this fraction of its
    /// norm; smaller ones stay behind until others join them, or the epoch ends
    #[arg(long, group = flag::INTENTS, value_name = "FRACTION", help_heading = REPLICATION)]
    pub(crate) significant: Option<f64>,

    /// Type of the elements of deltas and values that keep replicas in step: exact, or bf16 for half the
    /// bytes. The main copy of a parameter stays exact, what rounding leaves out of a delta goes with the
    /// next one, and at the end of an epoch nothing is left out [default: exact]
    #[arg(
        long, group = flag::INTENTS, value_name = "exact|f32|bf16",
        value_parser = delta_type, help_heading = REPLICATION,
    )]
    pub(crate) delta_type: Option<DeltaType>,

    /// Synchronise whenever all workers have trained B batches, instead of in the background. With 1 and one
    /// worker per node, training is synchronous SGD (several workers of a node share its replica and see each
    /// other's updates sooner)
    #[arg(
        long, group = flag::ALL, value_name = "B",
        value_parser = clap::value_parser!(u32).range(1..), help_heading = REPLICATION,
    )]
    pub(crate) sync_batches: Option<u32>,

    /// Scale down each update of a replicated parameter whose norm exceeds FACTOR times the average norm, to
    /// that norm
    #[arg(long, group = flag::STATIC, value_name = "FACTOR", help_heading = REPLICATION)]
    pub(crate) clip_updates: Option<f64>,

    /// Replicate parameters that training examples use more than FACTOR times as often as the average of all
    /// parameters that several nodes use [default: 100]
    #[arg(long, group = flag::ASSIGNED, value_name = "FACTOR", help_heading = REPLICATION)]
    pub(crate) replicate_above: Option<f64>,

    /// Replicate X times as many parameters as --replicate-above chooses: the most frequent ones [default: 1]
    #[arg(long, group = flag::ASSIGNED, value_name = "X", help_heading = REPLICATION)]
    pub(crate) replicate_scale: Option<f64>,

    /// Replicate the N most frequent parameters
    #[arg(long, group = flag::ASSIGNED, value_name = "N", help_heading = REPLICATION)]
    pub(crate) replicate_top: Option<u64>,

    /// Replicate the keys in this file: each line is a key, a range first..end without its end, first.. or *;
    /// # begins a comment
    #[arg(
        long, groups = [flag::ASSIGNED, flag::OWN], value_name = "FILE",
        help_heading = REPLICATION,
    )]
    pub(crate) replicate_file: Option<PathBuf>,
}

/// A type of elements that the user named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeltaType {
    Precision(Precision),
    /// As they are, if this is what they are.
    Element(ElementType),
}

fn delta_type(name: &str) -> Result<DeltaType, String> {
    let precision = || name.parse().map(DeltaType::Precision);
    let known = name.parse().map(DeltaType::Element).or_else(|_| precision());
    known.map_err(|_| "must be exact, the type of --float, or bf16".to_owned())
}

impl DeltaType {
    /// How elements travel that are `float`.
    fn of(self, float: ElementType) -> Result<Precision, TrainError> {
        match self {
            Self::Precision(Precision::Bf16) if float != ElementType::F32 => Err(TrainError::usage(format!(
                "--delta-type bf16 has the range of f32, and --float is {float}: leave --delta-type out, or train with \
                     --float f32"
            ))),
            Self::Precision(precision) => Ok(precision),
            Self::Element(element) if element == float => Ok(Precision::Exact),
            Self::Element(element) => Err(TrainError::usage(format!(
                "--delta-type is {element}, and --float is {float}: elements can travel as they are (exact or {float}), \
                 or, of f32, as bf16"
            ))),
        }
    }
}

/// How parameters are replicated, as far as the flags say it without a task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReplicationPlan {
    pub(crate) staleness: u32,
    /// Batches per clock; `None`: one clock per subepoch.
    pub(crate) clock_every: Option<NonZeroU32>,
    /// How often replicas that intents lead to are synchronised, if the user said it.
    pub(crate) every: Option<Tick>,
    pub(crate) pace: StaticReplicaPace,
    /// Batches between synchronisations, if workers ask for them.
    pub(crate) sync_batches: Option<NonZeroU32>,
    pub(crate) clip: Option<f64>,
    pub(crate) significant: Option<f64>,
    /// How the elements of deltas and values travel, between replicas that the technique directs.
    pub(crate) precision: Precision,
    pub(crate) choice: Choice,
}

/// Which keys are replicated, if the technique leaves that open.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Choice {
    /// `scale` times as many keys as are used more than `factor` times as often as the mean of all keys that
    /// several nodes use.
    Above { factor: f64, scale: f64 },
    /// The most frequent keys, so many of them.
    Top(u64),
    /// The keys of a file.
    Given(Assignment),
}

fn number(flag: &str, given: Option<f64>, default: f64, max: f64) -> Result<f64, TrainError> {
    match given {
        Some(number) if !(number > 0.0 && number <= max) => {
            let limit = if max < f64::MAX { format!(" and at most {max}") } else { String::new() };
            Err(TrainError::usage(format!("{flag} is {number}; it must be above 0{limit}")))
        }
        given => Ok(given.unwrap_or(default)),
    }
}

impl ReplicationPlan {
    /// Checks the flags; records in `config` what is used in place of those that were not given.
    pub(crate) fn new(
        args: &ReplicationArgs,
        technique: Technique,
        float: ElementType,
        config: &mut Config,
    ) -> Result<Self, TrainError> {
        let policy = technique.policy();
        let clocked = policy.and_then(|p| p.replicas).is_some_and(Replicas::is_clocked);
        let static_replicas = policy.and_then(|p| p.static_replicas);
        let assigned = static_replicas == Some(StaticReplicas::Assigned);
        let intents = policy.is_some_and(|p| p.intents.is_some());
        let either = |one: &str, other: &str| {
            TrainError::usage(format!("{one} and {other} contradict each other; give one of them"))
        };
        if args.sync_every_ms.is_some() && args.sync_batches.is_some() {
            return Err(either("--sync-every-ms", "--sync-batches"));
        }
        let sync_every_ms = number("--sync-every-ms", args.sync_every_ms, 40.0, SYNC_EVERY_MS_MAX)?;
        let pace = match args.sync_batches {
            Some(_) => StaticReplicaPace::Asked,
            None => StaticReplicaPace::Every(Tick(((sync_every_ms * 1e3) as u64).max(1))),
        };
        let clip = match args.clip_updates {
            Some(factor) => Some(number("--clip-updates", Some(factor), factor, f64::MAX)?),
            None => None,
        };
        let significant = match args.significant {
            Some(fraction) => Some(number("--significant", Some(fraction), fraction, 1.0)?),
            None => None,
        };
        let precision = args.delta_type.map_or(Ok(Precision::Exact), |given| given.of(float))?;
        let every = match pace {
            StaticReplicaPace::Every(every) => Some(every).filter(|_| args.sync_every_ms.is_some()),
            StaticReplicaPace::Asked => None,
        };
        let staleness = args.staleness.unwrap_or(ReplicationConfig::default().staleness);
        let factor = number("--replicate-above", args.replicate_above, FACTOR, f64::MAX)?;
        let scale = number("--replicate-scale", args.replicate_scale, 1.0, 1e9)?;
        let heuristic = args.replicate_above.map(|_| "--replicate-above");
        let heuristic = heuristic.or(args.replicate_scale.map(|_| "--replicate-scale"));
        let choice = match (heuristic, args.replicate_top, &args.replicate_file) {
            (_, None, None) => Choice::Above { factor, scale },
            (None, Some(count), None) => Choice::Top(count),
            (None, None, Some(file)) => Choice::Given(read(file)?),
            (Some(flag), Some(_), _) => return Err(either(flag, "--replicate-top")),
            (Some(flag), None, Some(_)) => return Err(either(flag, "--replicate-file")),
            (None, Some(_), Some(_)) => return Err(either("--replicate-top", "--replicate-file")),
        };
        if clocked {
            config.set("staleness", i64::from(staleness));
            config.set("clock-every", i64::from(args.clock_every.unwrap_or(1)));
        }
        if (static_replicas.is_some() || intents) && pace != StaticReplicaPace::Asked {
            config.set("sync-every-ms", sync_every_ms);
        }
        if intents {
            config.set("delta-type", precision.to_string());
        }
        if let (true, Choice::Above { factor, scale }) = (assigned, &choice) {
            config.set("replicate-above", *factor);
            config.set("replicate-scale", *scale);
        }
        let sync_batches = args.sync_batches.and_then(NonZeroU32::new);
        let clock_every = NonZeroU32::new(args.clock_every.unwrap_or(1));
        Ok(Self { staleness, clock_every, every, pace, sync_batches, clip, significant, precision, choice })
    }

    /// The goal for synchronisations per second, if `technique` synchronises in the background.
    pub(crate) fn goal(&self, technique: Technique) -> Option<f64> {
        match self.pace {
            StaticReplicaPace::Every(every) if technique.policy()?.static_replicas.is_some() => {
                Some(1e6 / every.0 as f64)
            }
            StaticReplicaPace::Every(_) | StaticReplicaPace::Asked => None,
        }
    }
}

fn read(file: &PathBuf) -> Result<Assignment, TrainError> {
    let error = |reason: String| {
        TrainError::usage(format!("--replicate-file {}: {reason}", PathDisplay(file.clone())))
    };
    let text = std::fs::read_to_string(file).map_err(|e| error(format!("cannot be read: {e}")))?;
    Assignment::parse(&text).map_err(|e| error(e.to_string()))
}
