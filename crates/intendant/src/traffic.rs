//! Counts what a node sends.

use intendant_core::lock;
use intendant_engine::NetworkStats;
use std::sync::Mutex;

/// Messages that the channels of a node have sent.
#[derive(Debug, Default)]
pub(crate) struct Traffic(Mutex<NetworkStats>);

impl Traffic {
    /// Adds what a channel has sent in a pass.
    pub(crate) fn add(&self, sent: &NetworkStats) {
        // Most passes of an idle channel send nothing.
        if sent.messages > 0 {
            lock(&self.0).merge(sent);
        }
    }

    pub(crate) fn stats(&self) -> NetworkStats {
        *lock(&self.0)
    }
}
