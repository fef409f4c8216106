//! What [`super::adaptive`] would be without one of its parts (000, §5.4.4 and §5.4.5).

use super::{Act, Choice, Intents, Policy, adaptive};

/// Replicas only: keys stay at their homes. Where one node uses a key after the other, both sides' values travel.
pub const REPLICATE_ON_INTENT: Policy = Policy {
    name: "replicate-on-intent",
    relocation: None,
    intents: Some(Intents { choice: Choice::Replicate, action: Act::InTime }),
    ..adaptive::POLICY
};

/// Relocation only: keys that several nodes use at once move to whoever asked last, and the others access them remotely.
pub const RELOCATE_ON_INTENT: Policy = Policy {
    name: "relocate-on-intent",
    intents: Some(Intents { choice: Choice::Relocate, action: Act::InTime }),
    ..adaptive::POLICY
};

/// No action timing: the earlier intents are signalled, the longer replicas live, and the more there are.
pub const IMMEDIATE_ACTION: Policy = Policy {
    name: "immediate-action",
    intents: Some(Intents { choice: Choice::Adaptive, action: Act::AtOnce }),
    ..adaptive::POLICY
};

/// Full replication by intent: every node has a replica of every key, through the owner.
pub const REPLICATE_EVERYWHERE: Policy = Policy {
    name: "replicate-everywhere",
    relocation: None,
    intents: Some(Intents { choice: Choice::Everywhere, action: Act::InTime }),
    ..adaptive::POLICY
};
