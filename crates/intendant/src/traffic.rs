//! Counts what a node sends.

use intendant_engine::NetworkStats;
use std::sync::atomic::{AtomicU64, Ordering};

/// Messages that the channels of a node have sent.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl Traffic {
    pub(crate) fn add(&self, messages: u64, bytes: u64) {
        // Relaxed: statistics.
        self.messages.fetch_add(messages, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self) -> NetworkStats {
        // Relaxed: statistics.
        NetworkStats {
            messages: self.messages.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}
