//! A handle with which any thread can end the cluster.

use crate::health::Health;
use crate::membership::Membership;
use intendant_control::Failure;
use std::sync::Arc;

/// Ends a cluster from any thread.
#[derive(Clone)]
pub struct Aborter {
    membership: Arc<Membership>,
    health: Arc<Health>,
}

impl Aborter {
    /// The aborter of the node with this membership and this health.
    #[must_use]
    pub fn new(membership: &Arc<Membership>, health: &Arc<Health>) -> Self {
        Self { membership: Arc::clone(membership), health: Arc::clone(health) }
    }

    /// Ends the whole cluster: from now on, every call of every worker fails; blocked calls fail at once.
    pub fn abort(&self, reason: &str) {
        self.membership.abort(reason);
    }

    /// Why the cluster ended, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.health.check().err()
    }
}
