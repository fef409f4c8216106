//! Counts what a node sends.

use intendant_engine::NetworkStats;
use std::sync::atomic::{AtomicU64, Ordering};

/// Messages that the channels of a node have sent.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    messages: AtomicU64,
    bytes: AtomicU64,
    unpacked_bytes: AtomicU64,
    saved_by_runs: AtomicU64,
    saved_by_key_lists: AtomicU64,
    saved_by_compression: AtomicU64,
    unix_bytes: AtomicU64,
}

impl Traffic {
    pub(crate) fn add(&self, sent: NetworkStats) {
        for (sum, more) in self.sums().into_iter().zip(Self::counts(&sent)) {
            // Relaxed: statistics.
            sum.fetch_add(more, Ordering::Relaxed);
        }
    }

    pub(crate) fn stats(&self) -> NetworkStats {
        // Relaxed: statistics.
        let [
            messages,
            bytes,
            unpacked_bytes,
            saved_by_runs,
            saved_by_key_lists,
            saved_by_compression,
            unix_bytes,
        ] = self.sums().map(|sum| sum.load(Ordering::Relaxed));
        NetworkStats {
            messages,
            bytes,
            unpacked_bytes,
            saved_by_runs,
            saved_by_key_lists,
            saved_by_compression,
            unix_bytes,
        }
    }

    fn sums(&self) -> [&AtomicU64; 7] {
        [
            &self.messages,
            &self.bytes,
            &self.unpacked_bytes,
            &self.saved_by_runs,
            &self.saved_by_key_lists,
            &self.saved_by_compression,
            &self.unix_bytes,
        ]
    }

    fn counts(sent: &NetworkStats) -> [u64; 7] {
        [
            sent.messages,
            sent.bytes,
            sent.unpacked_bytes,
            sent.saved_by_runs,
            sent.saved_by_key_lists,
            sent.saved_by_compression,
            sent.unix_bytes,
        ]
    }
}
