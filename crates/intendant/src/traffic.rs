//! Counts what a node sends.

use intendant_engine::NetworkStats;
use std::sync::atomic::{AtomicU64, Ordering};

/// Messages that the channels of a node have sent.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    messages: AtomicU64,
    bytes: AtomicU64,
    unix_bytes: AtomicU64,
}

impl Traffic {
    pub(crate) fn add(&self, sent: NetworkStats) {
        // Relaxed: statistics.
        self.messages.fetch_add(sent.messages, Ordering::Relaxed);
        self.bytes.fetch_add(sent.bytes, Ordering::Relaxed);
        self.unix_bytes.fetch_add(sent.unix_bytes, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self) -> NetworkStats {
        // Relaxed: statistics.
        NetworkStats {
            messages: self.messages.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            unix_bytes: self.unix_bytes.load(Ordering::Relaxed),
        }
    }
}
