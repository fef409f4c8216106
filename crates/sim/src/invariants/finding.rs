//! What a check has found.

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{check}: {what} (at {at_ns} ns, event {event})")]
pub struct Violation {
    /// The check that found it: the name of its file, or `protocol` if an engine rejected a message of a
    /// peer.
    pub check: &'static str,
    /// Virtual time, ns.
    pub at_ns: u64,
    /// Number of the event.
    pub event: u64,
    /// Description.
    pub what: String,
}

/// A check's name and a description; [`Cluster::violation`](crate::cluster::Cluster::violation) adds time and
/// event.
pub type Finding = (&'static str, String);
