//! The end of a cluster, asked for by any thread.

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
    /// Of the node with this place and this health.
    #[must_use]
    pub fn new(membership: &Arc<Membership>, health: &Arc<Health>) -> Self {
        Self { membership: Arc::clone(membership), health: Arc::clone(health) }
    }

    /// Ends the whole cluster: every call of every worker fails from now on, blocked ones at once.
    pub fn abort(&self, reason: &str) {
        self.membership.abort(reason);
    }

    /// Why the cluster ended, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.health.check().err()
    }
}
