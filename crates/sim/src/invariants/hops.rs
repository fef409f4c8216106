//! A request is forwarded a bounded number of times.

use super::Finding;
use intendant_wire::Request;

/// The bound that holds under static allocation: a stale hint leads astray once, and the home knows.
const STATIC_HOPS_MAX: u8 = 1;

/// The bound in force.
pub(crate) struct Hops {
    max: u8,
}

impl Hops {
    pub(crate) fn new(hints: bool) -> Self {
        Self { max: if hints { STATIC_HOPS_MAX } else { 0 } }
    }

    /// A request leaves a node.
    pub(crate) fn sent(&self, request: &Request) -> Result<(), Finding> {
        let Request { hops, keys, origin, .. } = request;
        if *hops <= self.max {
            return Ok(());
        }
        Err((
            "hops",
            format!(
                "a request of {:?} for {keys:?} is forwarded {hops} times; the bound is {}",
                origin.node, self.max
            ),
        ))
    }
}
