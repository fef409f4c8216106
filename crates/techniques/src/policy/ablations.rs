//! [`super::adaptive`] without one of its parts [thesis §5.3.3, §5.3.4, §5.4.4, §5.4.5].

use super::{Act, Choice, Decider, IntentPolicy, Policy, adaptive};

/// Replicas only: keys stay at their homes. A node that uses a key alone receives its value and sends its
/// updates.
pub const REPLICATE_ON_INTENT: Policy = Policy {
    name: "replicate-on-intent",
    relocation: None,
    intents: Some(IntentPolicy { choice: Choice::Replicate, action: Act::InTime, decider: Decider::Owner }),
    ..adaptive::POLICY
};

/// Relocation only: a key that several nodes use at once moves to the node that asked last, and the others
/// access it remotely.
pub const RELOCATE_ON_INTENT: Policy = Policy {
    name: "relocate-on-intent",
    intents: Some(IntentPolicy { choice: Choice::Relocate, action: Act::InTime, decider: Decider::Owner }),
    ..adaptive::POLICY
};

/// No action timing: the earlier workers signal intents, the longer replicas live, and the more of them there
/// are.
pub const IMMEDIATE_ACTION: Policy = Policy {
    name: "immediate-action",
    intents: Some(IntentPolicy { choice: Choice::Adaptive, action: Act::AtOnce, decider: Decider::Owner }),
    ..adaptive::POLICY
};

/// Full replication by intent: every node has a replica of every key, which the owner keeps in step.
pub const REPLICATE_EVERYWHERE: Policy = Policy {
    name: "replicate-everywhere",
    relocation: None,
    intents: Some(IntentPolicy { choice: Choice::Everywhere, action: Act::InTime, decider: Decider::Owner }),
    ..adaptive::POLICY
};

/// Decisions at the static home [thesis Fig. 5.8 a]: nodes, the owner included, report to the home when
/// active intent begins and ends. Requests for replicas pass the home, and the home orders the owner to hand
/// the key over.
pub const HOME_DECIDES: Policy = Policy {
    name: "home-decides",
    intents: Some(IntentPolicy { choice: Choice::Adaptive, action: Act::InTime, decider: Decider::Home }),
    ..adaptive::POLICY
};

/// [`HOME_DECIDES`] without aggregation, the naive approach of [thesis §5.3.4]: nodes report to homes every
/// intent of every worker, not only the first that becomes active and the last that ends. A node reports each
/// intent twice, when it becomes active and when it ends. In the source, a node sends each intent once,
/// together with its clocks, and from time to time the clocks of all workers.
pub const NAIVE_INTENTS: Policy = Policy {
    name: "naive-intents",
    intents: Some(IntentPolicy {
        choice: Choice::Adaptive,
        action: Act::InTime,
        decider: Decider::HomeOfEach,
    }),
    ..adaptive::POLICY
};
