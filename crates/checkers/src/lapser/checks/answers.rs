//! A call has one answer, and a get fails only if the producer of its item is gone, or has finished and has
//! set no value that would do.

use intendant_lapser::GetError;
use intendant_sim::Finding;
use std::collections::BTreeMap;

/// A call that has no answer yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Set { key: u64, clock: u64 },
    Get { key: u64, clock: u64, slack: u64 },
    Finish,
}

/// The calls of all nodes that have no answer yet, with their workers.
#[derive(Default)]
pub(crate) struct Answers(BTreeMap<(usize, u64), (usize, Call)>);

impl Answers {
    pub(crate) fn call(&mut self, node: usize, op: u64, worker: usize, call: Call) {
        self.0.insert((node, op), (worker, call));
    }

    /// Takes the call that is answered, and its worker.
    pub(crate) fn answer(&mut self, node: usize, op: u64) -> Result<(usize, Call), Finding> {
        let known = self.0.remove(&(node, op));
        known.ok_or_else(|| ("answers", format!("n{node} answers call {op}, which waits for no answer")))
    }

    /// A call that waits for its answer.
    pub(crate) fn of(&self, node: usize, op: u64) -> Option<Call> {
        self.0.get(&(node, op)).map(|(_, call)| *call)
    }

    /// The lowest clocks that the gets of a key at a node need which wait.
    pub(crate) fn wanted(&self, node: usize, key: u64) -> impl Iterator<Item = u64> {
        let calls = self.0.range((node, 0)..(node + 1, 0)).map(|(_, (_, call))| *call);
        calls.filter_map(move |call| match call {
            Call::Get { key: of, clock, slack } if of == key => Some(clock.saturating_sub(slack)),
            Call::Get { .. } | Call::Set { .. } | Call::Finish => None,
        })
    }

    /// Calls of a node that wait, for the description of a finding.
    pub(crate) fn waiting(&self, node: usize) -> Vec<Call> {
        self.0.range((node, 0)..(node + 1, 0)).map(|(_, (_, call))| *call).collect()
    }

    /// Checks the error of a get. Returns the node that is gone according to it. `producer` is the producer
    /// of the key, and `gone` tells whether a node is gone.
    pub(crate) fn not_got(
        node: usize,
        key: u64,
        error: &GetError,
        producer: Option<usize>,
        gone: impl Fn(usize) -> bool,
    ) -> Result<usize, Finding> {
        if let GetError::PeerLost { node: lost, .. } = error
            && gone(*lost)
            && producer == Some(*lost)
        {
            return Ok(*lost);
        }
        Err(("answers", format!("n{node} does not get key {key}: {error}")))
    }
}
