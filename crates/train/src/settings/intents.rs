//! Intents: whether loaders signal them, and the flags about when the system acts on them. None of these
//! flags is needed.

use super::flag;
use super::headings::INTENTS;
use super::layers::Config;
use super::technique::Technique;
use crate::error::TrainError;
use intendant::{ReplicationConfig, Tick, TimingConfig};

/// Far more than the timers of operating systems resolve.
const ROUNDS_PER_SECOND_MAX: f64 = 1e6;
/// Lower rates would never fire during training.
const ROUNDS_PER_SECOND_MIN: f64 = 0.01;

// The flags, as the user typed them. (Not a documentation comment: it would become the description of the
// program.)
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct IntentArgs {
    /// Maximum number of rounds per second in which a node processes intents and clocks [default: 1000]
    #[arg(long, group = flag::INTENTS, value_name = "R", help_heading = INTENTS)]
    pub(crate) rounds_per_second: Option<f64>,

    /// Probability that the system acts on an intent in time, if clocks advance at random [default: 0.9999]
    #[arg(long, group = flag::INTENTS, value_name = "P", help_heading = INTENTS)]
    pub(crate) intent_quantile: Option<f64>,

    /// Weight of the latest round in the estimate of how fast clocks advance [default: 0.1]
    #[arg(long, group = flag::INTENTS, value_name = "ALPHA", help_heading = INTENTS)]
    pub(crate) intent_smoothing: Option<f64>,

    /// Initial estimate of the clocks that a worker advances in a round [default: 10]
    #[arg(long, group = flag::INTENTS, value_name = "CLOCKS", help_heading = INTENTS)]
    pub(crate) intent_initial: Option<f64>,
}

/// Whether loaders signal intents, and when the system acts on them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct IntentPlan {
    pub(crate) are_signalled: bool,
    timing: TimingConfig,
    round_min: Tick,
}

impl IntentPlan {
    /// Checks the flags.
    pub(crate) fn new(
        args: &IntentArgs,
        technique: Technique,
        nodes: usize,
        config: &mut Config,
    ) -> Result<Self, TrainError> {
        let acts = technique.policy().is_some_and(|policy| policy.intents.is_some());
        let defaults = TimingConfig::default();
        let timing = TimingConfig {
            smoothing: args.intent_smoothing.unwrap_or(defaults.smoothing),
            quantile: args.intent_quantile.unwrap_or(defaults.quantile),
            initial: args.intent_initial.unwrap_or(defaults.initial),
        };
        timing.check().map_err(TrainError::usage)?;
        let round_min = match args.rounds_per_second {
            None => ReplicationConfig::default().round_min,
            Some(rounds) if (ROUNDS_PER_SECOND_MIN..=ROUNDS_PER_SECOND_MAX).contains(&rounds) => {
                Tick((1e6 / rounds) as u64)
            }
            Some(rounds) => {
                return Err(TrainError::usage(format!(
                    "--rounds-per-second is {rounds}; it must be between {ROUNDS_PER_SECOND_MIN} and {ROUNDS_PER_SECOND_MAX}"
                )));
            }
        };
        if acts {
            config.set("rounds-per-second", 1e6 / round_min.0 as f64);
            config.set("intent-quantile", timing.quantile);
            config.set("intent-smoothing", timing.smoothing);
            config.set("intent-initial", timing.initial);
        }
        // A single node holds all keys.
        Ok(Self { are_signalled: acts && nodes > 1, timing, round_min })
    }

    /// Adds the settings of intents.
    pub(crate) fn replication(&self, base: ReplicationConfig) -> ReplicationConfig {
        ReplicationConfig { timing: self.timing, round_min: self.round_min, ..base }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_must_make_sense() {
        let new = |args: &IntentArgs, technique| IntentPlan::new(args, technique, 2, &mut Config::default());
        let adaptive = Technique::Server(intendant::Technique::Adaptive);
        let alone = IntentPlan::new(&IntentArgs::default(), adaptive, 1, &mut Config::default());
        assert!(!alone.expect("defaults make sense").are_signalled, "a single node holds all keys");
        let plan = new(&IntentArgs::default(), adaptive).expect("defaults make sense");
        assert!(plan.are_signalled);
        assert_eq!(plan.replication(ReplicationConfig::default()), ReplicationConfig::default());
        let lapse = Technique::Server(intendant::Technique::Lapse);
        assert!(!new(&IntentArgs::default(), lapse).expect("no flags").are_signalled);
        let refused = |args: IntentArgs, technique| new(&args, technique).expect_err("refused").to_string();
        let quantile = |p| IntentArgs { intent_quantile: Some(p), ..IntentArgs::default() };
        assert!(refused(quantile(1.0), adaptive).contains("must lie between 0 and 1"));
        let rounds = |r| IntentArgs { rounds_per_second: Some(r), ..IntentArgs::default() };
        assert!(refused(rounds(0.0), adaptive).contains("--rounds-per-second is 0"));
        let plan = new(&rounds(100.0), adaptive).expect("makes sense");
        assert_eq!(plan.replication(ReplicationConfig::default()).round_min, Tick(10_000));
    }
}
