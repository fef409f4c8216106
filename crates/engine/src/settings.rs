//! The settings of the nodes of a cluster, for processes and for simulated nodes alike.

use crate::local_access::LocalAccess;
use crate::node::ReplicationConfig;
use crate::storage::Storage;
use intendant_techniques::{Location, Order, Policy, Technique};
use intendant_wire::Packing;

/// How the nodes of a cluster manage parameters.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// The technique that manages parameters.
    pub technique: Technique,
    /// Order of a worker's operations on a key; `None` for the technique's own. With a technique that sets up
    /// and drops replicas during the run, it is always [`Order::Chain`].
    pub order: Option<Order>,
    /// Whether nodes cache the locations of keys that they accessed, which saves a message if the key is
    /// still there and costs one if not; `None` for the technique's own. With caches, the default order is
    /// [`Order::Chain`].
    pub caches: Option<bool>,
    /// How nodes find keys that move on request; `None` for their homes. With other locations than homes, the
    /// default order is [`Order::Chain`], and `caches` has no effect.
    pub location: Option<Location>,
    /// How copies are kept, for techniques that have copies: which keys have static replicas
    /// ([`StaticReplicas::Assigned`]), when static replicas are synchronised, and how stale a read may be
    /// ([`Replicas::is_clocked`]). Techniques that act on intents use those of directed replicas.
    ///
    /// [`StaticReplicas::Assigned`]: intendant_techniques::StaticReplicas::Assigned
    /// [`Replicas::is_clocked`]: intendant_techniques::Replicas::is_clocked
    pub replication: ReplicationConfig,
    /// Dense or sparse stores.
    pub storage: Storage,
    /// How workers access values of their node. Nodes may differ in it.
    pub access: LocalAccess,
    /// How a node shortens the messages that it sends. Nodes may differ in it.
    pub packing: Packing,
}

impl ClusterSettings {
    /// A technique with its own choices, dense stores in shared memory.
    #[must_use]
    pub fn new(technique: Technique) -> Self {
        Self {
            technique,
            order: None,
            caches: None,
            location: None,
            replication: ReplicationConfig::default(),
            storage: Storage::default(),
            access: LocalAccess::default(),
            packing: Packing::default(),
        }
    }

    /// The technique's policy, with the user's choices.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.technique.policy().located(self.location).with(self.order, self.caches)
    }
}
