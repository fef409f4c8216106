//! Replicas at rest: all copies of a key are bitwise equal, the owner knows all holders, no node has unsent
//! updates, the parts of all nodes add up to one key, and samplers know them.

use super::Merged;
use intendant_core::{Element, Key, NodeId, copy_to_bytes};
use intendant_sim::Finding;
use intendant_sim::cluster::Nodes;
use intendant_techniques::replication::Hub;
use intendant_techniques::{Replicas, Role};

/// A key with replicas, and the state of all nodes about it.
pub(crate) struct ReplicasAtRest<'a, E> {
    pub(crate) key: Key,
    pub(crate) nodes: Nodes<'a, E>,
    /// The owner; for static replicas, the home.
    pub(crate) owner: NodeId,
    /// Whether the key has static replicas.
    pub(crate) has_static: bool,
    pub(crate) replicas: Option<Replicas>,
    /// Each node's list of registered holders.
    pub(crate) hubs: &'a [Option<&'a Hub>],
    /// The account of replica messages.
    pub(crate) merged: &'a Merged,
}

fn wrong<T>(key: Key, what: String) -> Result<T, Finding> {
    Err(("replicas", format!("the cluster rests; {key:?}: {what}")))
}

impl<E: Element> ReplicasAtRest<'_, E> {
    /// Checks the key.
    pub(crate) fn check(&self) -> Result<(), Finding> {
        let key = self.key;
        let mut main = None;
        for node in self.nodes.iter() {
            let state = node.slot(key);
            let has_replica =
                if self.has_static { state.role == Role::Static } else { state.role == Role::Replica };
            if self.has_static && !has_replica {
                return wrong(key, format!("{:?} has no static replica: {state:?}", node.node()));
            }
            if (state.is_dirty() && state.role != Role::Owner) || state.is_closed() {
                return wrong(key, format!("{:?} has unfinished work: {state:?}", node.node()));
            }
            if !has_replica {
                continue;
            }
            if self.replicas == Some(Replicas::Lazy) {
                return wrong(key, format!("{:?} still has a replica", node.node()));
            }
            let main = main.get_or_insert_with(|| bytes(self.nodes.at(self.owner.index()).value(key)));
            let copy = bytes(node.copy(key));
            if copy.is_none() || copy != *main {
                let (here, there) = (node.copy(key), self.nodes.at(self.owner.index()).value(key));
                return wrong(key, format!("{:?} has {here:?}; {:?} has {there:?}", node.node(), self.owner));
            }
        }
        self.check_parts()?;
        self.check_hub()
    }

    /// The nodes' parts of the key, in proportion to which they draw it as a local sample, add up to one.
    /// Owners do not know the holders of replicas by clocks.
    fn check_parts(&self) -> Result<(), Finding> {
        if self.replicas.is_some_and(Replicas::is_clocked) {
            return Ok(());
        }
        let parts: Vec<u32> = self.nodes.iter().map(|node| node.part(self.key)).collect();
        for (node, part) in self.nodes.iter().zip(&parts) {
            let near = node.near().into_iter().flat_map(|near| near.parts(self.key));
            if let Some(other) = near.into_iter().find(|near| near != part) {
                let what = format!("{:?} has {part} parts, and draws it as if it had {other}", node.node());
                return wrong(self.key, what);
            }
        }
        if parts.iter().sum::<u32>() as usize == self.nodes.count() {
            return Ok(());
        }
        wrong(self.key, format!("the nodes have {parts:?} of {} parts", self.nodes.count()))
    }

    /// The owner has registered exactly the nodes that hold replicas; other nodes have registered none.
    fn check_hub(&self) -> Result<(), Finding> {
        let (key, owner) = (self.key, self.owner);
        if let Some(other) = (0..self.hubs.len()).find(|at| self.hubs[*at].is_some() && *at != owner.index())
        {
            return wrong(key, format!("n{other} has registered holders, but {owner:?} is the owner"));
        }
        let role = self.nodes.at(owner.index()).slot(key).role;
        let holders = self.nodes.iter().filter(|node| node.slot(key).role == Role::Replica);
        let holders: Vec<NodeId> = holders.map(|node| node.node()).collect();
        let hub = self.hubs[owner.index()];
        let registered: Vec<NodeId> = hub.iter().flat_map(|hub| hub.holders()).map(|h| h.node).collect();
        if registered != holders
            || hub.is_some() == holders.is_empty()
            || hub.is_some() != (role == Role::Hub)
        {
            return wrong(
                key,
                format!("{holders:?} have replicas; {owner:?} with role {role:?} has registered {hub:?}"),
            );
        }
        let Some(hub) = hub else { return Ok(()) };
        if let Some(behind) = hub.behind().next() {
            return wrong(key, format!("{behind:?} has not been sent the last version: {hub:?}"));
        }
        hub.holders().iter().try_for_each(|h| self.merged.settled(key, h.node, h.generation, h.seq))
    }
}

fn bytes<E: Element>(value: Option<Vec<E>>) -> Option<Vec<u8>> {
    let value = value?;
    let mut bytes = Vec::with_capacity(size_of_val(&value[..]));
    copy_to_bytes(&value, &mut bytes);
    Some(bytes)
}
