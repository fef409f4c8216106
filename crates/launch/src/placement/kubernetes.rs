//! Pods of an indexed job of Kubernetes.

use super::environment::Environment;
use super::launcher::Launcher;
use super::step::Step;
use crate::error::RendezvousError;
use crate::variable;
use intendant_core::limits;

/// The pod's index within its job. Kubernetes sets nothing else.
const INDEX: &str = Launcher::Kubernetes.rank_variable();

/// Every pod has an address of its own, so that all jobs can use one port.
const PORT: u16 = 29_500;

/// This pod's place. The pod template has to name the number of pods (WORLD_SIZE) and the first pod's address
/// (MASTER_ADDR).
pub(super) fn find(env: &Environment<'_>) -> Result<Option<Step>, RendezvousError> {
    if !env.has(INDEX) {
        return Ok(None);
    }
    env.need(variable::NODES, INDEX)?;
    Ok(Some(Step {
        launcher: Launcher::Kubernetes,
        rank: env.number(INDEX, 0, limits::NODES_MAX as u64 - 1)?,
        nodes: env.number(variable::NODES, 1, limits::NODES_MAX as u64)?,
        local_rank: 0,
        local_nodes: 1,
        host: None,
        port: Some(PORT),
    }))
}
