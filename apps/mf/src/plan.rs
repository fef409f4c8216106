//! The application's part of the plan: its flags, checked and complete.

use crate::args::Flags;
use clap::ValueEnum;
use intendant_task::Split;
use intendant_train::{DataSource, Plan, TestSource, TrainError};
use mf::data::{Dataset, Generator};
use mf::{Algorithm, Config, Optimizer, Penalties};
use std::path::PathBuf;

/// The application's flags, resolved.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resolved {
    /// Hyperparameters.
    pub(crate) config: Config,
    source: Source,
    /// The validation data, if it is not the test data.
    valid: Option<TestSource>,
}

/// Where the data comes from.
#[derive(Clone, Debug, PartialEq)]
enum Source {
    Generated(Generator),
    File(PathBuf),
}

/// The data set that is trained on by default.
const BUILTIN: &str = "zipf";

/// Fills in the defaults that depend on other flags; records them, so that the effective configuration is
/// complete.
pub(crate) fn resolve(flags: &Flags, plan: &mut Plan) -> Result<Resolved, TrainError> {
    let sgd = flags.optimizer == Optimizer::Sgd;
    let batch = plan.resumed("batch").and_then(|batch| usize::try_from(batch.as_u64()?).ok());
    let algorithm =
        plan.resumed("algorithm").and_then(|name| Algorithm::from_str(name.as_str()?, false).ok());
    let default = if plan.signals_intents() { Algorithm::Tiles } else { Algorithm::Columns };
    let algorithm = flags.algorithm.or(algorithm).unwrap_or(default);
    // Such batches delay nothing that other workers wait for.
    let is_large = plan.nodes == 1 || algorithm == Algorithm::Tiles;
    let config = Config {
        rank: flags.rank,
        bias: flags.bias,
        algorithm,
        optimizer: flags.optimizer,
        batch: flags.batch.or(batch).unwrap_or(if is_large { 128 } else { 64 }),
        learning_rate: flags.lr.unwrap_or(if sgd { 0.01 } else { 0.05 }),
        bold_driver: flags.bold_driver,
        l2: flags.l2.or_else(|| plan.resumed("l2")?.as_f64()),
        l2_bias: flags.l2_bias.or_else(|| plan.resumed("l2-bias")?.as_f64()),
        l2_scope: flags.l2_scope,
        init_scale: flags.init_scale,
        seed: plan.seed,
    };
    config.check()?;
    plan.config.set("lr", config.learning_rate);
    for (name, weight) in [("l2", config.l2), ("l2-bias", config.l2_bias)] {
        weight.into_iter().for_each(|weight| plan.config.set(name, weight));
    }
    plan.config.set("batch", config.batch as i64);
    if let Some(name) = config.algorithm.to_possible_value() {
        plan.config.set("algorithm", name.get_name());
    }
    let source = match plan.data_or(BUILTIN) {
        DataSource::Builtin(name) => Source::Generated(Generator::named(&name).map_err(TrainError::usage)?),
        DataSource::Path(path) => Source::File(path),
    };
    Ok(Resolved { config, source, valid: flags.valid.clone() })
}

/// Logs the penalties of a task, which may follow from the data.
pub(crate) fn tell(penalties: &Penalties, plan: &Plan) {
    if plan.rank() == 0 {
        let Penalties { rows, columns } = penalties;
        let shown = |number: f64| format!("{number:.3}");
        tracing::info!(
            l2 = shown(rows.factors),
            l2_row_bias = shown(rows.bias),
            l2_column_bias = shown(columns.bias),
            "penalties"
        );
    }
}

/// Reads or generates the data that the common flags name.
pub(crate) fn open(resolved: &Resolved, plan: &Plan) -> Result<Dataset, TrainError> {
    let data = match &resolved.source {
        Source::File(path) => Dataset::read(path).map_err(TrainError::usage),
        Source::Generated(generator) => generator.generate().map_err(TrainError::usage),
    };
    let mut data = data?;
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
    if plan.rank() == 0 {
        let (rows, columns) = (data.rows().len(), data.columns().len());
        let (train, valid, test) = (data.train().len(), data.valid().len(), data.test().len());
        tracing::info!(rows, columns, train, valid, test, mean = data.mean(), "data");
        if data.unseen() > 0 {
            let unseen = format!(
                "{} of {test} test entries have a row or column without training entries; its factors are zero",
                data.unseen()
            );
            // This is expected if entries are held out at random. In a file, names may be misspelled.
            if matches!(plan.test, Some(TestSource::File(_))) {
                tracing::warn!("{unseen}");
            } else {
                tracing::info!("{unseen}");
            }
        }
    }
    Ok(data)
}
