//! Sampling: its flags, and their effect on the distributions that a task registered.
//!
//! A task registers a distribution at the conformity level that it is designed for. The user may ask for
//! another level, and may name a scheme.

use super::headings::SAMPLING;
use super::layers::Config;
use super::technique::Technique;
use crate::error::TrainError;
use intendant_core::Movement;
use intendant_sampling::{Conformity, Pooling, Sampler, Scheme};
use std::num::NonZeroU32;

/// A frame cannot request more keys than this, so that a larger pool is a mistake.
const POOL_KEYS_MAX: i64 = 1 << 16;

// The flags, as the user typed them. (Not a documentation comment: it would become the description of the
// program.)
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct SamplingArgs {
    /// How closely samples must follow their distribution: conform (independent draws), bounded (dependent on
    /// some earlier draws), long-term (correct frequencies in the long run), overall (correct frequencies in
    /// the long run over all nodes together) or non-conform (no guarantee). Weaker levels can be faster
    /// [default: the level that the task is designed for]
    #[arg(long, value_name = "LEVEL", help_heading = SAMPLING)]
    pub(crate) sampling: Option<Conformity>,

    /// How samples are drawn: independent, reuse (pools of keys that are used several times), postponing (as
    /// reuse, but samples that are not at this node yet come later), local (only keys at this node) or
    /// repurposing (keys that were pulled recently) [default: the system chooses a scheme of the level]
    #[arg(long, value_name = "SCHEME", help_heading = SAMPLING)]
    pub(crate) sampling_scheme: Option<Scheme>,

    /// Keys of a pool (reuse, postponing) [default: 250]
    #[arg(
        long, value_name = "G",
        value_parser = clap::value_parser!(u32).range(1..=POOL_KEYS_MAX), help_heading = SAMPLING,
    )]
    pub(crate) pool_keys: Option<u32>,

    /// How often each key of a pool is used (reuse, postponing) [default: 16]
    #[arg(
        long, value_name = "U",
        value_parser = clap::value_parser!(u32).range(1..), help_heading = SAMPLING,
    )]
    pub(crate) pool_uses: Option<u32>,
}

/// The sampling that the flags ask for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SamplingPlan {
    level: Option<Conformity>,
    scheme: Option<Scheme>,
    pooling: Pooling,
    /// Whether the user chose the pools.
    pools_chosen: bool,
    /// How keys come to the nodes that use them.
    pub(crate) movement: Movement,
}

impl SamplingPlan {
    /// Checks the flags as far as that is possible without a task.
    pub(crate) fn new(
        args: &SamplingArgs,
        technique: Technique,
        movement: Movement,
    ) -> Result<Self, TrainError> {
        let or_default = |given: Option<u32>, default| given.and_then(NonZeroU32::new).unwrap_or(default);
        let pooling = Pooling {
            keys: or_default(args.pool_keys, Pooling::DEFAULT.keys),
            uses: or_default(args.pool_uses, Pooling::DEFAULT.uses),
        };
        if let (Some(scheme @ Scheme::Postponing(_)), Movement::Never) = (args.sampling_scheme, movement) {
            return Err(TrainError::usage(format!(
                "--sampling-scheme {scheme} postpones samples until their keys have come, but technique {} moves no keys on \
                 request: use reuse",
                technique.name()
            )));
        }
        let plan = Self {
            level: args.sampling,
            scheme: args.sampling_scheme,
            pooling,
            pools_chosen: args.pool_keys.is_some() || args.pool_uses.is_some(),
            movement,
        };
        // The error is the same for every distribution.
        plan.apply(&Sampler::default())?;
        Ok(plan)
    }

    fn apply(&self, registered: &Sampler) -> Result<Sampler, TrainError> {
        let level = self.level.or(self.scheme.map(Scheme::offers));
        let Some(level) = level else { return Ok(registered.clone()) };
        let changed = registered.with(level, self.scheme);
        changed.map_err(|error| {
            TrainError::usage(format!("--sampling {level} --sampling-scheme {}: {error}", error.scheme))
        })
    }

    /// The distributions of a task as the flags ask for them; records level and scheme in `config`.
    pub(crate) fn resolve(
        &self,
        registered: &Sampler,
        task: &str,
        config: &mut Config,
    ) -> Result<Sampler, TrainError> {
        let flag = self.level.map(|_| "--sampling").or(self.scheme.map(|_| "--sampling-scheme"));
        let flag = flag.or(self.pools_chosen.then_some("--pool-keys and --pool-uses"));
        if registered.is_empty() {
            return match flag {
                Some(flag) => {
                    Err(TrainError::usage(format!("{flag}: task {task} draws no samples; leave it out")))
                }
                None => Ok(registered.clone()),
            };
        }
        let sampler = self.apply(registered)?.settled(self.movement).pooling(self.pooling);
        let pooled = sampler.schemes().any(|(_, scheme)| scheme.pooling().is_some());
        if self.pools_chosen && !pooled {
            let schemes: Vec<_> = sampler.schemes().map(|(_, scheme)| scheme.to_string()).collect();
            return Err(TrainError::usage(format!(
                "--pool-keys and --pool-uses are about pools, and {} sampling has none; add --sampling bounded",
                schemes.join(" and ")
            )));
        }
        if let Some((level, scheme)) = sampler.schemes().next() {
            config.set("sampling", level.to_string());
            config.set("sampling-scheme", scheme.to_string());
        }
        if pooled {
            config.set("pool-keys", i64::from(self.pooling.keys.get()));
            config.set("pool-uses", i64::from(self.pooling.uses.get()));
        }
        Ok(sampler)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::App;
    use crate::settings::Plan;
    use intendant_sampling::Distribution;

    #[derive(clap::Args)]
    struct NoFlags {}

    fn plan(flags: &str) -> Result<Plan, String> {
        let app = App::new(clap::Command::new("task"));
        let parsed = app.parse::<NoFlags>(flags.split(' ').filter(|flag| !flag.is_empty()));
        parsed.map(|(_, plan)| plan).map_err(|error| error.to_string())
    }

    /// The flags' effect on a distribution that a task registered as independent.
    fn resolved(flags: &str) -> Result<(String, Config), String> {
        let mut builder = Sampler::builder();
        builder.register(Distribution::uniform(0..10).expect("keys"), Conformity::Conform);
        let plan = plan(flags)?;
        let mut config = plan.config.clone();
        let sampler = plan.sampling.resolve(&builder.build(), "task", &mut config);
        let sampler = sampler.map_err(|error| error.to_string())?;
        let (level, scheme) = sampler.schemes().next().expect("it is registered");
        Ok((format!("{level} {scheme}"), config))
    }

    #[test]
    fn the_user_asks_for_a_level_or_names_a_scheme() {
        for (flags, expected) in [
            ("", "conform independent"),
            ("--sampling bounded", "bounded reuse"),
            ("--technique lapse --nodes 2 --sampling long-term", "long-term postponing"),
            ("--technique classic --nodes 2 --sampling long-term", "long-term reuse"),
            ("--technique classic --nodes 1 --sampling long-term", "long-term postponing"),
            ("--technique nups --nodes 2 --sampling non-conform", "non-conform local"),
            ("--technique essp --nodes 2 --sampling non-conform", "non-conform reuse"),
            ("--technique adaptive --nodes 2 --sampling overall", "overall local"),
            ("--technique nups --nodes 2 --sampling overall", "overall independent"),
            ("--technique nups --nodes 2 --localize-ahead 0 --sampling non-conform", "non-conform reuse"),
            ("--technique essp --nodes 2 --sampling overall", "overall independent"),
            ("--technique classic --nodes 2 --sampling-scheme local", "overall local"),
            ("--sampling-scheme repurposing", "non-conform repurposing"),
            ("--sampling long-term --sampling-scheme independent", "long-term independent"),
        ] {
            let (found, config) = resolved(flags).expect(flags);
            assert_eq!(found, expected, "{flags}");
            let (level, scheme) = expected.split_once(' ').expect("two words");
            assert_eq!(config.get("sampling").and_then(|v| v.as_str()), Some(level), "{flags}");
            assert_eq!(config.get("sampling-scheme").and_then(|v| v.as_str()), Some(scheme), "{flags}");
            let pools = config.get("pool-keys").is_some() && config.get("pool-uses").is_some();
            assert_eq!(pools, ["reuse", "postponing"].contains(&scheme), "{flags}");
        }
        let (_, config) = resolved("--sampling bounded --pool-keys 7 --pool-uses 3").expect("fine");
        assert_eq!(config.get("pool-keys").and_then(toml::Value::as_integer), Some(7));
        assert_eq!(config.get("pool-uses").and_then(toml::Value::as_integer), Some(3));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_reason() {
        for (flags, what) in [
            ("--sampling conform --sampling-scheme local", "local sampling is overall, not conform"),
            (
                "--technique classic --nodes 2 --sampling-scheme postponing",
                "moves no keys on request: use reuse",
            ),
            ("--pool-keys 10", "about pools, and independent sampling has none"),
            ("--sampling non-conform --technique lapse --pool-uses 2", "and local sampling has none"),
            ("--sampling best", "'best' is not a conformity level"),
            ("--sampling-scheme best", "'best' is not a sampling scheme"),
            ("--sampling bounded --pool-keys 0", "--pool-keys"),
        ] {
            let error = resolved(flags).expect_err(flags);
            assert!(error.contains(what), "{flags}: {error}");
        }
        let plan = plan("--sampling bounded").expect("fine");
        let nothing = plan.sampling.resolve(&Sampler::default(), "mf", &mut Config::default());
        let error = nothing.expect_err("refused").to_string();
        assert!(error.contains("--sampling: task mf draws no samples"), "{error}");
    }
}
