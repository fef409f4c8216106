//! Warnings of sampling that has no advantage with the technique.

use crate::settings::Plan;
use intendant_core::Movement;
use intendant_sampling::{Sampler, Scheme};

/// Warns before the training of sampling that has no advantage with the technique.
pub(crate) fn tell(sampler: &Sampler, plan: &Plan) {
    if plan.rank() != 0 || plan.sampling.movement != Movement::Never {
        return;
    }
    let pooled = sampler.schemes().any(|(_, scheme)| scheme.pooling().is_some());
    if pooled {
        tracing::warn!(
            "pools of samples with technique {}: keys do not move, so that drawing a key again saves nothing; --sampling conform \
             costs the same",
            plan.technique.name()
        );
    }
    let local = sampler.schemes().any(|(_, scheme)| scheme == Scheme::Local);
    if local {
        tracing::warn!(
            "local sampling with technique {}: keys do not move, so that each node draws from its own part of them only",
            plan.technique.name()
        );
    }
}
