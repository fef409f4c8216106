//! The application's part of the plan: its flags, checked and complete.

use crate::args::{Flags, UnseenPolicy};
use intendant_core::Element;
use intendant_train::{DataSource, Plan, TestSource, TrainError};
use kge::data::{Dataset, Unseen};
use kge::{Config, Kge, Loss, Penalties};

/// The application's flags, resolved.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resolved {
    /// Hyperparameters.
    pub(crate) config: Config,
    /// Whether triples with unseen entities or relations are left out of the evaluation.
    pub(crate) skip_unseen: bool,
}

/// The data set that is trained on by default.
pub(crate) const BUILTIN: &str = "codex-s";

/// Fills in the defaults, which depend on model and loss; records them, so that the effective configuration
/// is complete.
pub(crate) fn resolve(flags: &Flags, plan: &mut Plan) -> Result<Resolved, TrainError> {
    let defaults = flags.loss.defaults(flags.model);
    let config = Config {
        model: flags.model,
        dim: flags.dim.unwrap_or(defaults.dim),
        batch: flags.batch.unwrap_or(defaults.batch),
        loss: flags.loss,
        negatives: flags.negatives.unwrap_or(defaults.negatives),
        reciprocal: flags.reciprocal.unwrap_or(flags.loss == Loss::Softmax),
        penalties: Penalties {
            n3: flags.n3.unwrap_or(defaults.penalties.n3),
            l2: flags.l2.unwrap_or(defaults.penalties.l2),
        },
        learning_rate: flags.lr,
        init_scale: flags.init_scale,
        cluster: flags.cluster,
        separate: flags.separate,
        seed: plan.seed,
    };
    config.check()?;
    plan.config.set("dim", config.dim as i64);
    plan.config.set("batch", config.batch as i64);
    plan.config.set("negatives", config.negatives as i64);
    plan.config.set("reciprocal", config.reciprocal);
    plan.config.set("n3", config.penalties.n3);
    plan.config.set("l2", config.penalties.l2);
    Ok(Resolved { config, skip_unseen: flags.unseen == UnseenPolicy::Skip })
}

/// Reads a graph, with the test triples of `test` if there is one.
pub(crate) fn graph(
    source: &DataSource,
    test: Option<&TestSource>,
    seed: u64,
) -> Result<Dataset, TrainError> {
    let data = match source {
        DataSource::Builtin(name) => Dataset::builtin(name),
        DataSource::Path(path) => Dataset::read(path),
    };
    let mut data = data.map_err(TrainError::usage)?;
    match test {
        None => {}
        Some(TestSource::File(file)) => data.test_from(file).map_err(TrainError::usage)?,
        Some(TestSource::Fraction(fraction)) => {
            data.hold_out(*fraction, seed).map_err(TrainError::usage)?;
        }
    }
    Ok(data)
}

/// Reads the data that the common flags name.
pub(crate) fn open(resolved: &Resolved, plan: &Plan) -> Result<Dataset, TrainError> {
    let mut data = graph(&plan.data_or(BUILTIN), plan.test.as_ref(), plan.seed)?;
    if data.test.is_empty() {
        plan.warn_without_test_data();
    }
    let Unseen { valid, test } = data.unseen();
    if resolved.skip_unseen {
        data.skip_unseen();
    }
    if plan.rank() == 0 {
        tracing::info!(
            entities = data.entities.len(),
            relations = data.relations.len(),
            train = data.train.len(),
            valid = data.valid.len(),
            test = data.test.len(),
            "data"
        );
        if valid + test > 0 {
            let what = if resolved.skip_unseen {
                "are left out of the evaluation"
            } else {
                "are evaluated with initial embeddings; --unseen skip leaves them out"
            };
            tracing::warn!(
                "{valid} validation and {test} test triples with an entity or relation that does not occur in training \
                 {what}"
            );
        }
    }
    Ok(data)
}

/// Logs how well the relations balance, if every node trains its own.
pub(crate) fn tell_clusters<E: Element>(task: &Kge<E>, plan: &Plan) {
    let Ok(nodes) = u32::try_from(plan.nodes) else { return };
    let Some(clusters) = task.clusters(nodes).filter(|_| plan.rank() == 0) else { return };
    let triples = (0..nodes).map(|node| clusters.triples(node).len());
    tracing::info!(
        nodes,
        least_triples = triples.clone().min(),
        most_triples = triples.max(),
        slowest_over_average = format!("{:.3}", clusters.imbalance()),
        split_relations = clusters.split_relations(),
        "clusters"
    );
}
