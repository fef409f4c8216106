//! What is checked of a peer's message before anything is done for it. A peer that fails a check ends the run: it is broken, or
//! no peer.

use crate::channel::Channel;
use intendant_core::{Element, Key, limits};
use intendant_techniques::Initiator;
use intendant_wire::{AccessKind, Origin, Request};

impl<E: Element> Channel<E> {
    pub(crate) fn check_request(&self, request: &Request) -> Result<(), String> {
        let shared = &self.shared;
        let Origin { node, .. } = request.origin;
        // A request may come back to where it was made: the key may be there by now.
        if node.index() >= shared.layout().nodes() || (node == shared.node() && request.hops == 0) {
            return Err(format!("a request of node {node} came to node {}", shared.node()));
        }
        self.check_keys(&request.keys)?;
        let bytes: usize = request.keys.iter().map(|key| self.value_bytes(*key)).sum();
        // Senders start a new frame at a far smaller target; one value may exceed it by its own size.
        if bytes > limits::FRAME_PAYLOAD_BYTES_TARGET + limits::VALUE_BYTES_MAX {
            return Err(format!("it asks for {bytes} bytes of values in one frame"));
        }
        let expected = if request.kind == AccessKind::Pull { 0 } else { bytes };
        if request.values.len() != expected {
            let found = request.values.len();
            return Err(format!(
                "its {:?} carries {found} bytes of values instead of {expected}",
                request.kind
            ));
        }
        Ok(())
    }

    /// All keys must exist and belong to this channel.
    pub(crate) fn check_keys(&self, keys: &[Key]) -> Result<(), String> {
        let layout = self.shared.layout();
        for key in keys {
            if !layout.contains(*key) {
                return Err(format!("it names {key:?}, which does not exist"));
            }
            if layout.channel(*key) != self.id {
                return Err(format!("it names {key:?} of {:?} on {:?}", layout.channel(*key), self.id));
            }
        }
        Ok(())
    }

    /// Keys must move, and by this initiator.
    pub(crate) fn check_mover(&self, initiator: Initiator, what: &str) -> Result<(), String> {
        let policy = self.shared.policy();
        if policy.relocation == Some(initiator) {
            return Ok(());
        }
        Err(format!("it {what}, which nobody does with technique {}", policy.name))
    }
}
