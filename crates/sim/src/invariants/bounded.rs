//! Bounds: workers respect their limit of outstanding bytes.

use super::finding::Finding;

/// The limit per worker.
pub(crate) struct Bounded {
    outstanding_bytes_max: usize,
}

impl Bounded {
    pub(crate) fn new(outstanding_bytes_max: usize) -> Self {
        Self { outstanding_bytes_max }
    }

    /// Whether a call of `call` bytes may start. A call above the limit may start only alone.
    pub(crate) fn admits(&self, outstanding: usize, call: usize) -> bool {
        outstanding == 0 || outstanding + call <= self.outstanding_bytes_max
    }

    /// Checks a call that has started: `after` bytes are outstanding, of which at most `call` are its own.
    pub(crate) fn called(&self, after: usize, call: usize) -> Result<(), Finding> {
        if after <= self.outstanding_bytes_max.max(call) {
            return Ok(());
        }
        Err((
            "bounded",
            format!("{after} bytes are outstanding; the limit is {}", self.outstanding_bytes_max),
        ))
    }
}
