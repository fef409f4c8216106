//! A node's place among the others, whether or not it has a process of its own.

use crate::error::Error;
use crossbeam_channel::{Receiver, bounded};
use intendant_control::Failure;
use intendant_core::NodeId;
use intendant_membership::{Health, Membership};
use std::sync::Arc;
use std::time::Duration;

/// How long the coordinator may take to say which node was lost. It decides within two seconds
/// ([`intendant_control::Control::report_lost`]).
const VERDICT: Duration = Duration::from_secs(5);

/// The most bytes of a payload in one gather of the control plane: half of what it carries.
const PIECE_BYTES: usize = 8 << 20;

/// The most bytes of a payload: more than any machine sends. A node that announces more is not of this
/// version.
const PAYLOAD_BYTES_MAX: u64 = 1 << 40;

/// One node's view of all nodes. A node that ends without [`Members::leave`] is lost to the others.
pub(crate) struct Members {
    pub(crate) rank: NodeId,
    pub(crate) nodes: usize,
    pub(crate) membership: Arc<Membership>,
    pub(crate) health: Arc<Health>,
    failed: Receiver<Failure>,
    left: bool,
}

impl Members {
    pub(crate) fn new(rank: NodeId, nodes: usize, membership: Membership) -> Self {
        let health = Arc::new(Health::default());
        let (fail, failed) = bounded(1);
        health.on_failure(move |failure| {
            // The channel has room for the only failure.
            let _ = fail.try_send(failure.clone());
        });
        membership.watch(&health);
        Self { rank, nodes, membership: Arc::new(membership), health, failed, left: false }
    }

    /// Whether the cluster still runs.
    pub(crate) fn check(&self) -> Result<(), Error> {
        Ok(self.health.check()?)
    }

    /// Gathers the payloads of all nodes, by rank. They may be longer than the control plane carries at once.
    pub(crate) fn gather(&self, name: &str, payload: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let gather = |name: &str, piece: &[u8]| self.membership.gather(name, name, piece.to_vec());
        let wrong = |node: usize, what: String| Error::Gathered { node, name: name.to_owned(), what };
        let lengths = gather(name, &(payload.len() as u64).to_le_bytes())?;
        let lengths = lengths
            .iter()
            .enumerate()
            .map(|(node, bytes)| announced(bytes).map_err(|what| wrong(node, what)));
        let lengths = lengths.collect::<Result<Vec<u64>, _>>()?;
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let mut all = vec![Vec::new(); self.nodes];
        let mut pieces = payload.chunks(PIECE_BYTES);
        for _ in 0..longest.div_ceil(PIECE_BYTES as u64) {
            let gathered = gather(&format!("{name} (parts)"), pieces.next().unwrap_or_default())?;
            all.iter_mut().zip(gathered).for_each(|(all, piece)| all.extend_from_slice(&piece));
        }
        for (node, (all, length)) in all.iter().zip(lengths).enumerate() {
            if all.len() as u64 != length {
                return Err(wrong(node, format!("{} bytes after it announced {length}", all.len())));
            }
        }
        Ok(all)
    }

    /// Handles the window's report that a node has ended. Waits for the verdict of the coordinator: the node
    /// may have ended because of another node.
    pub(crate) fn lost(&self, node: usize, reason: &str) -> Error {
        let node = NodeId(node as u16);
        self.membership.lost(node, reason);
        let failure = self.failed.recv_timeout(VERDICT).unwrap_or_else(|_| Failure::lost(node, reason));
        self.health.check().err().unwrap_or(failure).into()
    }

    /// Ends the cluster because of an error of this node. A failure of the cluster itself is already known.
    pub(crate) fn give_up(&self, error: &Error) {
        if self.health.check().is_ok() {
            self.membership.abort(&error.to_string());
        }
    }

    /// Leaves in order, together with all others.
    pub(crate) fn leave(mut self) -> Result<(), Error> {
        self.health.check()?;
        self.membership.leave()?;
        self.left = true;
        Ok(())
    }
}

/// The number of bytes that a node announces.
fn announced(bytes: &[u8]) -> Result<u64, String> {
    let number = bytes.try_into().map(u64::from_le_bytes);
    let length = number.map_err(|_| format!("its length in {} bytes instead of 8", bytes.len()))?;
    if length > PAYLOAD_BYTES_MAX {
        return Err(format!("that {length} bytes follow, which are more than {PAYLOAD_BYTES_MAX}"));
    }
    Ok(length)
}

impl Drop for Members {
    fn drop(&mut self) {
        if !self.left && self.health.check().is_ok() {
            self.membership.abort("the node was dropped before it had finished");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_membership::Group;

    /// The result of node 0's gather if node 1, which is not of this version, sends these parts.
    fn gathered(parts: &[&[u8]]) -> Result<Vec<Vec<u8>>, Error> {
        let group = Group::new(2);
        let membership = |rank| Membership::Group { rank: NodeId(rank), group: Arc::clone(&group) };
        let members = Members::new(NodeId(0), 2, membership(0));
        std::thread::scope(|scope| {
            let other = membership(1);
            scope.spawn(move || {
                for (at, part) in parts.iter().enumerate() {
                    let name = if at == 0 { "name" } else { "name (parts)" };
                    other.gather(name, name, part.to_vec()).expect("node 0 comes");
                }
            });
            members.gather("name", &[1, 2])
        })
    }

    #[test]
    fn lengths_that_are_none_are_refused_with_the_node() {
        let five = 5u64.to_le_bytes();
        assert_eq!(gathered(&[&five, &[7; 5]]).expect("as announced"), [vec![1, 2], vec![7; 5]]);
        let refused = |parts: &[&[u8]], part: &str| {
            let text = gathered(parts).expect_err(part).to_string();
            assert!(text.starts_with("node 1 has sent to 'name' ") && text.contains(part), "{text}");
            assert!(text.contains("the same version"), "{text}");
        };
        refused(&[&[1, 2, 3]], "its length in 3 bytes instead of 8");
        refused(&[&u64::MAX.to_le_bytes()], "that 18446744073709551615 bytes follow");
        refused(&[&five, &[7; 4]], "4 bytes after it announced 5");
        refused(&[&five, &[7; 6]], "6 bytes after it announced 5");
    }
}
