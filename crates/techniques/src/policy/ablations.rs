//! [`super::adaptive`] without one of its parts [thesis §5.3.3, §5.3.4, §5.4.4, §5.4.5].

use super::{Act, Choice, Decider, Declaration, IntentPolicy, Policy, adaptive};

/// Adaptive with another choice, time or decider. Keys move if the choice may be to move them.
const fn ablation(
    name: &'static str,
    (choice, action, decider): (Choice, Act, Decider),
    meaning: &'static str,
) -> Declaration {
    let adaptive = adaptive::TECHNIQUE.policy;
    let relocation = match choice {
        Choice::Adaptive | Choice::Relocate => adaptive.relocation,
        Choice::Replicate | Choice::Everywhere => None,
    };
    let intents = Some(IntentPolicy { choice, action, decider });
    let policy = Policy { name, relocation, intents, ..adaptive };
    Declaration { policy, meaning, source: "AdaPS, ablation" }
}

/// Replicas only: keys stay at their homes. A node that uses a key alone receives its value and sends its
/// updates.
pub const REPLICATE_ON_INTENT: Declaration = ablation(
    "replicate-on-intent",
    (Choice::Replicate, Act::InTime, Decider::Owner),
    "as `adaptive`, but keys never move",
);

/// Relocation only: a key that several nodes use at once moves to the node that asked last, and the others
/// access it remotely.
pub const RELOCATE_ON_INTENT: Declaration = ablation(
    "relocate-on-intent",
    (Choice::Relocate, Act::InTime, Decider::Owner),
    "as `adaptive`, but keys are never replicated",
);

/// No action timing: the earlier workers signal intents, the longer replicas live, and the more of them there
/// are.
pub const IMMEDIATE_ACTION: Declaration = ablation(
    "immediate-action",
    (Choice::Adaptive, Act::AtOnce, Decider::Owner),
    "as `adaptive`, but nodes act as soon as a worker signals an intent",
);

/// Full replication by intent: every node has a replica of every key, which the owner keeps in step.
pub const REPLICATE_EVERYWHERE: Declaration = ablation(
    "replicate-everywhere",
    (Choice::Everywhere, Act::InTime, Decider::Owner),
    "as `adaptive`, but all keys are replicated on all nodes",
);

/// Decisions at the static home [thesis Fig. 5.8 a]: nodes, the owner included, report to the home when
/// active intent begins and ends. Requests for replicas pass the home, and the home orders the owner to hand
/// the key over.
pub const HOME_DECIDES: Declaration = ablation(
    "home-decides",
    (Choice::Adaptive, Act::InTime, Decider::Home),
    "as `adaptive`, but the home of the parameter decides",
);

/// [`HOME_DECIDES`] without aggregation, the naive approach of [thesis §5.3.4]: nodes report to homes every
/// intent of every worker, not only the first that becomes active and the last that ends. A node reports each
/// intent twice, when it becomes active and when it ends. In the source, a node sends each intent once,
/// together with its clocks, and from time to time the clocks of all workers.
pub const NAIVE_INTENTS: Declaration = ablation(
    "naive-intents",
    (Choice::Adaptive, Act::InTime, Decider::HomeOfEach),
    "as `home-decides`; nodes report every intent, not only the first and the last",
);
