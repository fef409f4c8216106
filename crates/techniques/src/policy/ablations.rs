//! What [`super::adaptive`] would be without one of its parts (000, §5.3.3, §5.3.4, §5.4.4 and §5.4.5).

use super::{Act, Choice, Decider, Intents, Policy, adaptive};

/// Replicas only: keys stay at their homes. Where one node uses a key after the other, both sides' values travel.
pub const REPLICATE_ON_INTENT: Policy = Policy {
    name: "replicate-on-intent",
    relocation: None,
    intents: Some(Intents { choice: Choice::Replicate, action: Act::InTime, decider: Decider::Owner }),
    ..adaptive::POLICY
};

/// Relocation only: keys that several nodes use at once move to whoever asked last, and the others access them remotely.
pub const RELOCATE_ON_INTENT: Policy = Policy {
    name: "relocate-on-intent",
    intents: Some(Intents { choice: Choice::Relocate, action: Act::InTime, decider: Decider::Owner }),
    ..adaptive::POLICY
};

/// No action timing: the earlier intents are signalled, the longer replicas live, and the more there are.
pub const IMMEDIATE_ACTION: Policy = Policy {
    name: "immediate-action",
    intents: Some(Intents { choice: Choice::Adaptive, action: Act::AtOnce, decider: Decider::Owner }),
    ..adaptive::POLICY
};

/// Full replication by intent: every node has a replica of every key, through the owner.
pub const REPLICATE_EVERYWHERE: Policy = Policy {
    name: "replicate-everywhere",
    relocation: None,
    intents: Some(Intents { choice: Choice::Everywhere, action: Act::InTime, decider: Decider::Owner }),
    ..adaptive::POLICY
};

/// Responsibility at the static home (000, Fig 5.8 a): every beginning and end of active intent is told to the home, also by the owner
/// itself; requests for replicas take the way over it, and it orders the owner to hand the key over.
pub const HOME_DECIDES: Policy = Policy {
    name: "home-decides",
    intents: Some(Intents { choice: Choice::Adaptive, action: Act::InTime, decider: Decider::Home }),
    ..adaptive::POLICY
};

/// The same without aggregation (000, §5.3.4, the naive approach): homes are told of every intent of every worker, not only of the first
/// that is active and the last. It is told twice, when it becomes active and when it is over; the source's sends it once, with its
/// clocks, and all workers' clocks now and then.
pub const NAIVE_INTENTS: Policy = Policy {
    name: "naive-intents",
    intents: Some(Intents { choice: Choice::Adaptive, action: Act::InTime, decider: Decider::HomeOfEach }),
    ..adaptive::POLICY
};
