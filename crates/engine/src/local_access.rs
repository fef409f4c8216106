//! How workers access the values that their node holds.

/// How the workers of a node access keys whose values are here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LocalAccess {
    /// In shared memory: the worker's thread takes the latch of the key and accesses the value itself, as in
    /// Lapse [thesis §3.2.3].
    #[default]
    Shared,
    /// Through a queue: the worker's thread hands every key of a pull, push, set and localize to the key's
    /// channel and waits for its answer, as the workers of Petuum do [thesis §3.2.3, §4.4.4]. It touches no
    /// slot and no value, so rows are not lent in place, and [`Shared::pull_if_local`](crate::Shared) finds
    /// no key. Samplers still ask where keys are.
    Queue,
}
