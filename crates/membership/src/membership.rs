//! How the nodes of a cluster meet and fail together: as a single node, within one process, or through the
//! control plane.

use crate::health::Health;
use crate::meeting::Meetings;
use intendant_control::{Control, Failure};
use intendant_core::NodeId;
use std::sync::Arc;

/// The state that the nodes of one process share.
pub struct Group {
    health: Arc<Health>,
    meetings: Meetings,
    /// Separate from `meetings`, because a node that leaves does not enter other meetings any more.
    leaving: Meetings,
}

impl Group {
    /// A group of `nodes` nodes, each a thread of this process.
    #[must_use]
    pub fn new(nodes: usize) -> Arc<Self> {
        let health = Arc::new(Health::default());
        let missed = |rank: usize, name: &str| {
            Failure::disagreement(NodeId(rank as u16), format!("left and will not come to '{name}'"))
        };
        let meetings = Meetings::new(nodes, missed, Arc::clone(&health));
        let leaving = Meetings::new(nodes, missed, Arc::clone(&health));
        Arc::new(Self { health, meetings, leaving })
    }
}

/// A node's place among the others: meetings, failures and leaving.
pub enum Membership {
    /// All nodes are in this process.
    Group {
        /// This node.
        rank: NodeId,
        /// The group of all nodes.
        group: Arc<Group>,
    },
    /// One node per process.
    Control(Control),
}

impl Membership {
    /// Makes every failure of the cluster a failure of this node.
    pub fn watch(&self, health: &Arc<Health>) {
        let health = Arc::clone(health);
        match self {
            Self::Group { group, .. } => group.health.on_failure(move |failure| health.fail(failure.clone())),
            Self::Control(control) => control.on_failure(move |failure| health.fail(failure.clone())),
        }
    }

    /// Meets all other nodes at the meeting `name` (`label` in messages). Returns the payloads in rank order.
    ///
    /// # Errors
    /// If the cluster has failed, or fails meanwhile, or if a node of this process has departed.
    pub fn gather(&self, name: &str, label: &str, payload: Vec<u8>) -> Result<Vec<Vec<u8>>, Failure> {
        match self {
            Self::Group { rank, group } => {
                group.meetings.meet(name, label, rank.index(), payload, Ok).map(|all| all.as_ref().clone())
            }
            Self::Control(control) => control.gather(name, payload),
        }
    }

    /// Reports that the data plane has lost a peer.
    pub fn lost(&self, peer: NodeId, reason: &str) {
        match self {
            Self::Group { group, .. } => group.health.fail(Failure::lost(peer, reason)),
            Self::Control(control) => control.report_lost(peer, reason),
        }
    }

    /// Ends the cluster deliberately.
    pub fn abort(&self, reason: &str) {
        match self {
            Self::Group { rank, group } => group.health.fail(Failure::aborted(*rank, reason)),
            Self::Control(control) => control.abort(reason),
        }
    }

    /// Ends the cluster for this node; the others lose it. Nodes of one process end together.
    pub fn drop_out(&self, reason: &str) {
        match self {
            Self::Group { rank, group } => group.health.fail(Failure::aborted(*rank, reason)),
            Self::Control(control) => control.drop_out(reason),
        }
    }

    /// Leaves in order and waits until all others have left too. From now on the others do not miss this
    /// node, unless they wait for it in a gather: then the cluster fails.
    ///
    /// # Errors
    /// If the cluster has failed, or fails meanwhile.
    pub fn leave(&self) -> Result<(), Failure> {
        match self {
            Self::Group { rank, group } => {
                if let Some(name) = group.meetings.depart(rank.index()) {
                    let reason = format!("left while others wait for it in '{name}'");
                    group.health.fail(Failure::disagreement(*rank, reason));
                }
                group.leaving.meet("leave", "leave", rank.index(), Vec::new(), Ok).map(drop)
            }
            Self::Control(control) => control.leave(),
        }
    }
}
