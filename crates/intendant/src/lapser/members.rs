//! A node's place among the others, with or without a process of its own.

use crate::error::Error;
use crate::health::Health;
use crate::membership::Membership;
use crossbeam_channel::{Receiver, bounded};
use intendant_control::Failure;
use intendant_core::NodeId;
use std::sync::Arc;
use std::time::Duration;

/// How long the coordinator may take to say which node was lost. It decides within two seconds
/// ([`intendant_control::Control::report_lost`]).
const VERDICT: Duration = Duration::from_secs(5);

/// Bytes of a payload that is gathered at once: a half of what the control plane carries.
const PIECE_BYTES: usize = 8 << 20;

/// The nodes, as one of them sees them. A node that ends without [`Members::leave`] is lost to the others.
pub(super) struct Members {
    pub(super) rank: NodeId,
    pub(super) nodes: usize,
    pub(super) membership: Arc<Membership>,
    pub(super) health: Arc<Health>,
    failed: Receiver<Failure>,
    left: bool,
}

impl Members {
    pub(super) fn new(rank: NodeId, nodes: usize, membership: Membership) -> Self {
        let health = Arc::new(Health::default());
        let (fail, failed) = bounded(1);
        health.on_failure(move |failure| {
            // There is room for the only failure.
            let _ = fail.try_send(failure.clone());
        });
        membership.watch(&health);
        Self { rank, nodes, membership: Arc::new(membership), health, failed, left: false }
    }

    /// Whether the cluster still runs.
    pub(super) fn check(&self) -> Result<(), Error> {
        Ok(self.health.check()?)
    }

    /// Payloads of all nodes, by rank. They may be longer than the control plane carries at once.
    pub(super) fn gather(&self, name: &str, payload: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let gather = |name: &str, piece: &[u8]| self.membership.gather(name, name, piece.to_vec());
        let lengths = gather(name, &(payload.len() as u64).to_le_bytes())?;
        let length = |bytes: &Vec<u8>| bytes.as_slice().try_into().map_or(0, u64::from_le_bytes);
        let longest = lengths.iter().map(length).max().unwrap_or(0);
        let mut all = vec![Vec::new(); self.nodes];
        let mut pieces = payload.chunks(PIECE_BYTES);
        for _ in 0..longest.div_ceil(PIECE_BYTES as u64) {
            let gathered = gather(&format!("{name} (parts)"), pieces.next().unwrap_or_default())?;
            all.iter_mut().zip(gathered).for_each(|(all, piece)| all.extend_from_slice(&piece));
        }
        Ok(all)
    }

    /// The window says that a node has ended. Waits for what the coordinator says: it may have ended because
    /// of another one.
    pub(super) fn lost(&self, node: usize, reason: &str) -> Error {
        let node = NodeId(node as u16);
        self.membership.lost(node, reason);
        let failure = self.failed.recv_timeout(VERDICT).unwrap_or_else(|_| Failure::lost(node, reason));
        self.health.check().err().unwrap_or(failure).into()
    }

    /// Ends the cluster because of an error of this node; its own failures are known.
    pub(super) fn give_up(&self, error: &Error) {
        if self.health.check().is_ok() {
            self.membership.abort(&error.to_string());
        }
    }

    /// Leaves in order, together with all others.
    pub(super) fn leave(mut self) -> Result<(), Error> {
        self.health.check()?;
        self.membership.leave()?;
        self.left = true;
        Ok(())
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        if !self.left && self.health.check().is_ok() {
            self.membership.abort("the node was dropped before it had finished");
        }
    }
}
