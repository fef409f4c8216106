//! What is checked of a peer's message before anything is done for it. A peer that fails a check ends the run: it is broken, or
//! no peer.

use crate::channel::Channel;
use intendant_core::{Element, Key, NodeId, limits};
use intendant_techniques::{Initiator, Replicas};
use intendant_wire::{
    AccessKind, HandOver, Origin, ReplicaRequest, ReplicaRequestKind, ReplicaUpdate, ReplicaUpdateKind,
    Request,
};

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

    /// There must be replicas, and whoever holds or asks for them must be another node.
    pub(crate) fn check_sync(&self, from: NodeId, sync: &ReplicaRequest) -> Result<(), String> {
        let shared = &self.shared;
        let Some(replicas) = shared.policy().replicas else {
            return Err(format!(
                "it syncs replicas, which nobody has with technique {}",
                shared.policy().name
            ));
        };
        let ReplicaRequest { kind, holder, hops, keys, values, .. } = sync;
        let direct = *hops == 0;
        if holder.index() >= shared.layout().nodes() || (direct && *holder != from) {
            return Err(format!("it sends a {kind:?} in the name of node {holder}"));
        }
        if replicas.is_clocked() && !direct {
            return Err(format!("it forwards a {kind:?}, but keys stay where they are"));
        }
        self.check_keys(keys)?;
        // It was for the holder to know: what goes on from here would be blamed on this node.
        if replicas.is_clocked()
            && let Some(key) = keys.iter().find(|key| !shared.directory().is_home(**key))
        {
            return Err(format!("it sends a {kind:?} for {key:?} to a node that is not its home"));
        }
        let bytes: usize = keys.iter().map(|key| self.value_bytes(*key)).sum();
        // What is asked for is sent back, all of it before the next message is looked at. A key counts as often as it is named:
        // readers at different clocks may need several answers.
        if bytes > limits::FRAME_PAYLOAD_BYTES_TARGET + limits::VALUE_BYTES_MAX
            && *kind != ReplicaRequestKind::Drop
        {
            return Err(format!("its {kind:?} is of {bytes} bytes of values in one frame"));
        }
        let expected = if *kind == ReplicaRequestKind::Delta { bytes } else { 0 };
        if values.len() != expected {
            let found = values.len();
            return Err(format!("its {kind:?} carries {found} bytes of values instead of {expected}"));
        }
        Ok(())
    }

    /// There must be replicas, and values for them.
    pub(crate) fn check_news(&self, news: &ReplicaUpdate) -> Result<(), String> {
        let ReplicaUpdate { kind, keys, counters, values, .. } = news;
        let policy = self.shared.policy();
        if policy.replicas.is_none() {
            return Err(format!("it tells news, which nobody wants with technique {}", policy.name));
        }
        self.check_keys(keys)?;
        let expected = match kind {
            ReplicaUpdateKind::SetUp | ReplicaUpdateKind::Refresh => {
                keys.iter().map(|key| self.value_bytes(*key)).sum()
            }
            ReplicaUpdateKind::Acknowledged | ReplicaUpdateKind::Dropped => 0,
        };
        if values.len() != expected {
            let found = values.len();
            return Err(format!("its {kind:?} carries {found} bytes of values instead of {expected}"));
        }
        let counted = if policy.caches { keys.len() } else { 0 };
        if counters.len() != counted {
            return Err(format!("its {kind:?} carries {} counters instead of {counted}", counters.len()));
        }
        Ok(())
    }

    /// Holders of keys that are handed over must exist, and be known once.
    pub(crate) fn check_holders(&self, from: NodeId, hand_over: &HandOver) -> Result<(), String> {
        let (keys, holders) = (&hand_over.keys, &hand_over.holders);
        let directed = matches!(self.shared.policy().replicas, Some(Replicas::Directed { .. }));
        if !holders.is_empty() && !directed {
            return Err("it hands over holders of replicas, which nobody has".into());
        }
        let mut before = None;
        for row in holders {
            let place = Some((row.at, row.node));
            let nodes = self.shared.layout().nodes();
            if row.at as usize >= keys.len()
                || row.node.index() >= nodes
                || row.node == from
                || place <= before
            {
                return Err(format!("it hands over a nonsensical holder: {row:?}"));
            }
            before = place;
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
