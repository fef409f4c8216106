//! The application's part of the plan: its flags, checked and complete.

use crate::args::Flags;
use crate::exchange::Exchange;
use bpmf::{BpmfError, Config};
use intendant_lapser_process::Way;
use intendant_ratings::{Biases, Dataset, Generator, Noise};
use intendant_task::Split;
use intendant_train::{DataSource, Plan, Technique, TestSource, TrainError};
use std::collections::BTreeMap;

/// The application's flags, resolved.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resolved {
    /// Settings of the chain, with any precision unless `alpha` has one.
    pub(crate) config: Config,
    /// The precision of entries, unless it follows from the data.
    alpha: Option<f64>,
    /// How nodes exchange rows.
    pub(crate) exchange: Exchange,
    /// How nodes reach each other's memory.
    pub(crate) memory: Way,
    /// The data to generate, unless a file is read.
    generator: Option<Generator>,
    /// The validation data, if it is not the test data.
    valid: Option<TestSource>,
}

/// Maximum number of nodes: each has a block.
const NODES_MAX: usize = bpmf::LEAVES_MAX as usize;

/// The data set that is factorised by default.
const BUILTIN: &str = "zipf";

/// Fills in the defaults that depend on other flags; records them, so that the effective configuration is
/// complete.
pub(crate) fn resolve(flags: &Flags, plan: &mut Plan) -> Result<Resolved, TrainError> {
    (plan.technique, plan.workers) = (Technique::Own(flags.exchange.name()), flags.threads);
    if flags.memory == Way::Verbs && !cfg!(feature = "verbs") {
        return Err(TrainError::usage(
            "--memory is verbs, but this program was built without the feature verbs: build it with --features verbs \
             (docs/rdma.md), or leave it out",
        ));
    }
    // A chain that is continued for longer keeps its burn-in.
    let resumed = plan.resumed("burn-in").and_then(|burn_in| u32::try_from(burn_in.as_u64()?).ok());
    let alpha = flags.alpha.or_else(|| plan.resumed("alpha")?.as_f64());
    let config = Config {
        rank: flags.rank,
        alpha: alpha.unwrap_or(Config::default().alpha),
        beta: flags.beta,
        nu: flags.nu,
        iterations: plan.epochs,
        burn_in: flags.burn_in.or(resumed).unwrap_or(plan.epochs / 3),
        slack: flags.slack,
        hyper_slack: flags.hyper_slack,
        interval: flags.interval,
        seed: plan.seed,
    };
    config.check().map_err(usage)?;
    if plan.nodes > NODES_MAX {
        return Err(TrainError::usage(format!(
            "--nodes is {}; a matrix can be divided among at most {NODES_MAX} nodes",
            plan.nodes
        )));
    }
    let exchange = flags.exchange;
    if config.slack > 0 && !exchange.has_slack() {
        return Err(TrainError::usage(format!(
            "--slack is {}, but with --exchange {exchange} all nodes meet after each step; it must be 0",
            config.slack
        )));
    }
    if plan.simulation.is_some() {
        refuse_what_is_not_simulated(plan)?;
    }
    alpha.into_iter().for_each(|alpha| plan.config.set("alpha", alpha));
    plan.config.set("burn-in", i64::from(config.burn_in));
    plan.config.set("nu", config.nu.unwrap_or(config.rank as f64));
    let generator = match &plan.data {
        None => Some(BUILTIN),
        Some(DataSource::Builtin(name)) => Some(name.as_str()),
        Some(DataSource::Path(_)) => None,
    };
    let generator = generator.map(Generator::named).transpose().map_err(TrainError::usage)?;
    Ok(Resolved { config, alpha, exchange, memory: flags.memory, generator, valid: flags.valid.clone() })
}

/// Refuses settings that a simulated chain would ignore.
fn refuse_what_is_not_simulated(plan: &Plan) -> Result<(), TrainError> {
    if plan.workers > 1 {
        return Err(TrainError::usage(format!(
            "--threads is {}, but each simulated node of bpmf has one thread: use more --nodes",
            plan.workers
        )));
    }
    if plan.export.is_some() {
        return Err(TrainError::usage("--export has no effect with --simulate: leave it out"));
    }
    Ok(())
}

/// Converts the error to one of the command line: settings are flags.
pub(crate) fn usage(error: BpmfError) -> TrainError {
    if matches!(error, BpmfError::Setting { .. }) {
        return TrainError::usage(format!("--{error}"));
    }
    TrainError::usage(error)
}

/// The flags with a precision of entries that follows from the data, unless they name one.
pub(crate) fn with_precision(mut resolved: Resolved, data: &Dataset, plan: &Plan) -> Resolved {
    if resolved.alpha.is_none() {
        let noise = Noise::of(data, Some(&Biases::of(data)), plan.seed).variance();
        let alpha = (1.0 / noise).clamp(ALPHA_MIN, ALPHA_MAX);
        if plan.rank() == 0 {
            tracing::info!(alpha = format!("{alpha:.4}"), "precision of entries");
        }
        resolved.config.alpha = alpha;
    }
    resolved
}

/// Bounds of a precision that follows from the data: those of [`Config::check`].
const ALPHA_MIN: f64 = 1e-9;
const ALPHA_MAX: f64 = 1e9;

/// How far the share of covered entries may be from the probability of intervals without a warning.
const COVERAGE_TOLERANCE: f64 = 0.03;

/// Warns if intervals cover more or fewer test entries than they should.
pub(crate) fn check_coverage(test: &BTreeMap<String, f64>, interval: f64, plan: &Plan) {
    let Some(covered) = test.get("interval_coverage").filter(|_| plan.rank() == 0) else { return };
    if (covered - interval).abs() > COVERAGE_TOLERANCE {
        let (covered, interval) = (100.0 * covered, 100.0 * interval);
        let why = if covered < interval {
            "a lower --alpha or more --epochs would widen them"
        } else {
            "a higher --alpha would narrow them"
        };
        tracing::warn!("{covered:.1} % of the test entries lie in intervals of {interval:.1} %; {why}");
    }
}

/// Reads or generates the data that the common flags name.
pub(crate) fn open(resolved: &Resolved, plan: &Plan) -> Result<Dataset, TrainError> {
    let mut data = match (&resolved.generator, &plan.data) {
        (None, Some(DataSource::Path(path))) => Dataset::read(path).map_err(TrainError::usage)?,
        (Some(generator), _) => generator.generate().map_err(TrainError::usage)?,
        (None, _) => return Err(TrainError::usage("no data is named")),
    };
    for (flag, split, source) in
        [("--test", Split::Test, &plan.test), ("--valid", Split::Valid, &resolved.valid)]
    {
        let done = match source {
            None => continue,
            Some(TestSource::File(file)) => data.held_out_from(split, file),
            Some(TestSource::Fraction(fraction)) => data.hold_out(split, *fraction, plan.seed),
        };
        done.map_err(|error| TrainError::usage(format!("{flag}: {error}")))?;
    }
    if data.test().is_empty() {
        plan.warn_without_test_data();
    }
    let (rows, columns) = (data.rows().len(), data.columns().len());
    let (train, valid, test) = (data.train().len(), data.valid().len(), data.test().len());
    tracing::info!(rows, columns, train, valid, test, mean = data.mean(), "data");
    if plan.rank() == 0 && data.unseen() > 0 && matches!(plan.test, Some(TestSource::File(_))) {
        // Names may be spelled differently in the two files.
        tracing::warn!(
            "{} of {test} test entries have a row or column without training entries; its factors are those of a typical one",
            data.unseen()
        );
    }
    Ok(data)
}
