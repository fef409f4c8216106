//! What a policy decides: which of the mechanisms work, who starts them, and in which order operations take
//! effect.

use super::location::Location;
use intendant_core::{ElementType, Layout, Movement, Precision, Tick, UnknownName, by_name};
use std::fmt;
use std::str::FromStr;

/// In which order a worker's own operations on one key reach the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Nodes route every operation at once. Operations arrive in order as long as the route to the key does
    /// not change. This is the routing of the papers.
    Fifo,
    /// An operation waits for the worker's outstanding one on the same key.
    Chain,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fifo => "fifo",
            Self::Chain => "chain",
        })
    }
}

impl FromStr for Order {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        by_name("an order of operations", name, [Self::Fifo, Self::Chain])
    }
}

/// What a technique decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Name, as on the command line.
    pub name: &'static str,
    /// Order of a worker's operations on a key, unless the user asks for another.
    pub order: Order,
    /// The node that starts relocations; `None` if keys do not move.
    pub relocation: Option<Initiator>,
    /// How nodes find the keys that they do not have.
    pub location: Location,
    /// When nodes get replicas through the owner; `None` if never.
    pub replicas: Option<Replicas>,
    /// Which keys have static replicas; `None` if none has, and the user cannot assign any.
    pub static_replicas: Option<StaticReplicas>,
    /// What intents of workers lead to; `None` if they are ignored.
    pub intents: Option<IntentPolicy>,
}

/// A technique: what it decides, and what help and pages say about it.
///
/// ```
/// use intendant_techniques::policy::{Declaration, Policy, Replicas, ssp};
///
/// // As ssp, but replicas are kept: what essp is.
/// const TECHNIQUE: Declaration = Declaration {
///     policy: Policy {
///         name: "kept-ssp",
///         replicas: Some(Replicas::Eager),
///         ..ssp::TECHNIQUE.policy
///     },
///     meaning: "replicated on first read; kept and refreshed",
///     source: "ESSP",
/// };
/// assert_eq!(TECHNIQUE.policy.check(), Ok(()));
/// assert!(TECHNIQUE.policy.guarantee().contains("the staleness bound holds"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// What it decides. Which flags the technique takes and what it guarantees follow from this.
    pub policy: Policy,
    /// How a parameter is managed, as the rest of a sentence about the parameter.
    pub meaning: &'static str,
    /// The systems or papers that have the technique; empty if it is common knowledge.
    pub source: &'static str,
}

/// The policy combines mechanisms that do not work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// Relocation on request and replicas through the owner.
    #[error(
        "technique {0} has replicas through the owner and relocation on request: such a hand-over takes no registrations \
         along, so updates of holders would be lost; let owners start relocations"
    )]
    Requested(&'static str),
    /// Relocation and bounded staleness.
    #[error(
        "technique {0} bounds staleness and moves keys: clocks and registrations belong to one owner; let keys stay at \
         their homes"
    )]
    Clocked(&'static str),
    /// Replicas through the owner and static replicas.
    #[error(
        "technique {0} has replicas through the owner and static replicas: rounds of static replicas would lose their pace, \
         or their copies exceed the staleness bound; use one of them"
    )]
    Both(&'static str),
    /// Replicas through the owner, and operations that are not chained.
    #[error(
        "technique {0} has replicas through the owner, and does not chain operations: an operation on the replica could \
         overtake an earlier one that is on its way to the owner; use order chain"
    )]
    Unchained(&'static str),
    /// Intents, and no mechanism that acts on them.
    #[error(
        "technique {0} is to act on intents and lacks a mechanism for it: nodes tell owners of intents by registering for \
         replicas, and owners that hand keys over start relocations"
    )]
    Powerless(&'static str),
    /// Homes that decide by another rule than that of adaptive.
    #[error(
        "technique {0} lets homes decide by another rule than that of adaptive, which is the only one that they know"
    )]
    Misplaced(&'static str),
    /// Another location than homes, and keys that stay or that owners move.
    #[error(
        "technique {0} does not relocate keys on request: its nodes find keys by their homes; use location home or home-cached"
    )]
    Located(&'static str),
    /// A rule that applies pushes at clocks, and no clocks.
    #[error(
        "technique {0} has no clocks, at which a rule of the model applies pushes; use technique ssp or essp, or a rule that \
         applies each push"
    )]
    Unclocked(&'static str),
    /// Rounded copies, and none that the technique directs.
    #[error(
        "technique {0} has no replicas that follow intents, and only the elements of these may be bf16: clocks promise all \
         updates, and all-reduces add exact ones; let elements be exact, or use a technique that acts on intents, for \
         example adaptive"
    )]
    Rounds(&'static str),
    /// Rounded copies of elements that are not of single precision.
    #[error("elements are {0}, and bf16 has the range of f32: let elements of replicas be exact, or use f32")]
    RoundsType(ElementType),
    /// Rounded copies of rows with rules.
    #[error(
        "technique {0} is to send bf16, and the model has a rule, whose operands and state must travel exactly; let elements \
         of replicas be exact, or use an optimiser that adds its steps"
    )]
    RoundsRule(&'static str),
}

impl Policy {
    /// This policy with the user's choice of order and caches; only homes know caches. If the operations of a
    /// worker on a key may take different routes, which they do with caches and with all other locations than
    /// homes, operations are chained unless the user chooses otherwise, because they would not be in order
    /// [thesis theorem 3]. With replicas through the owner they are always chained.
    #[must_use]
    pub fn with(self, order: Option<Order>, caches: Option<bool>) -> Self {
        let location = match (self.location, caches) {
            (Location::Home { .. }, Some(caches)) => Location::Home { caches },
            (location, _) => location,
        };
        let chained = !location.keeps_order() || self.replicas.is_some();
        let order = order.unwrap_or(if chained { Order::Chain } else { self.order });
        let order = if self.replicas.is_some() { Order::Chain } else { order };
        Self { order, location, ..self }
    }

    /// This policy with the user's choice of how nodes find keys; call [`Policy::with`] afterwards.
    #[must_use]
    pub fn located(self, location: Option<Location>) -> Self {
        Self { location: location.unwrap_or(self.location), ..self }
    }

    /// Whether nodes cache the locations of the keys that they accessed.
    #[inline]
    #[must_use]
    pub const fn caches(&self) -> bool {
        matches!(self.location, Location::Home { caches: true })
    }

    /// How keys reach the nodes that use them, in a cluster of `nodes` nodes. Unless keys stay at their
    /// homes, samples of local keys contain all keys in the long run.
    #[must_use]
    pub const fn movement(&self, nodes: usize) -> Movement {
        match (self.relocation, self.intents) {
            _ if nodes == 1 => Movement::Intended,
            (None, _) => Movement::Never,
            (Some(_), None) => Movement::Requested,
            (Some(_), Some(_)) => Movement::Intended,
        }
    }

    /// Whether homes decide about keys, by the intents that nodes report to them.
    #[must_use]
    pub const fn homes_decide(&self) -> bool {
        matches!(self.intents, Some(intents) if intents.decider.is_home())
    }

    /// Which consistency a key has, as the pages say it. Without copies, it is that of chained operations, or
    /// of operations that keep their route.
    #[must_use]
    pub const fn guarantee(&self) -> &'static str {
        match (self.replicas, self.static_replicas) {
            (None, None) => "sequentially consistent per key",
            (None, Some(StaticReplicas::Assigned)) => {
                "keys with one copy: sequentially consistent; replicated keys: read your writes, monotonic reads"
            }
            (Some(Replicas::Lazy | Replicas::Eager), _) => {
                "per worker and key: read your writes, monotonic reads; the staleness bound holds"
            }
            (Some(Replicas::Directed { .. }), _) | (None, Some(StaticReplicas::All)) => {
                "per worker and key: read your writes, monotonic reads"
            }
        }
    }

    /// Checks that the mechanisms that the policy combines work together. The valid combinations are
    /// relocation by either initiator, static replicas with or without relocation, replicas by clocks, and
    /// directed replicas of keys that stay or that their owners move. Locations other than homes need
    /// relocation by requesters.
    ///
    /// # Errors
    /// The first combination that does not work.
    pub const fn check(&self) -> Result<(), PolicyError> {
        let requested = matches!(self.relocation, Some(Initiator::Requester));
        if !requested && !matches!(self.location, Location::Home { .. }) {
            return Err(PolicyError::Located(self.name));
        }
        if let Some(intents) = self.intents {
            let directed = matches!(self.replicas, Some(Replicas::Directed { .. }));
            let moves = matches!(self.relocation, Some(Initiator::Owner));
            let must_move = !matches!(intents.choice, Choice::Replicate | Choice::Everywhere);
            if !directed || moves != must_move {
                return Err(PolicyError::Powerless(self.name));
            }
            if self.homes_decide() && !matches!(intents.choice, Choice::Adaptive) {
                return Err(PolicyError::Misplaced(self.name));
            }
        }
        let Some(replicas) = self.replicas else { return Ok(()) };
        match (self.relocation, self.order) {
            (Some(_), _) if replicas.is_clocked() => Err(PolicyError::Clocked(self.name)),
            (Some(Initiator::Requester), _) => Err(PolicyError::Requested(self.name)),
            _ if self.static_replicas.is_some() => Err(PolicyError::Both(self.name)),
            (_, Order::Fifo) => Err(PolicyError::Unchained(self.name)),
            (None | Some(Initiator::Owner), Order::Chain) => Ok(()),
        }
    }

    /// Checks that the policy can carry the rules of `layout`.
    ///
    /// # Errors
    /// If a rule needs clocks, and there are none.
    pub fn check_rules(&self, layout: &Layout) -> Result<(), PolicyError> {
        if layout.has_clock_rules() && !self.replicas.is_some_and(Replicas::is_clocked) {
            return Err(PolicyError::Unclocked(self.name));
        }
        Ok(())
    }

    /// Whether the elements of replicas may travel with `precision`, in a cluster with these elements.
    ///
    /// # Errors
    /// If not.
    pub fn check_precision(
        &self,
        precision: Precision,
        elements: ElementType,
        layout: &Layout,
    ) -> Result<(), PolicyError> {
        if precision == Precision::Exact {
            return Ok(());
        }
        if !matches!(self.replicas, Some(Replicas::Directed { .. })) {
            return Err(PolicyError::Rounds(self.name));
        }
        if elements != ElementType::F32 {
            return Err(PolicyError::RoundsType(elements));
        }
        if layout.ranges().iter().any(|range| range.rule.is_some()) {
            return Err(PolicyError::RoundsRule(self.name));
        }
        Ok(())
    }
}

/// When nodes get replicas through the owner, and how owners keep them in step; see [`crate::replication`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Replicas {
    /// When an intent, or the caller of the engine, directs it. Deltas and replica updates travel in rounds.
    Directed {
        /// The shortest time from the start of a round to the start of the next.
        every: Tick,
    },
    /// When a worker reads the key; until they are too stale for all workers (SSP). Deltas travel at clocks,
    /// but a node sends its delta at once if a worker overwrites the key.
    Lazy,
    /// When a worker reads the key; for the whole run (ESSP). Deltas (with the same exception) and replica
    /// updates travel at clocks.
    Eager,
}

impl Replicas {
    /// Whether clocks bound the staleness, and reads make replicas.
    #[must_use]
    pub const fn is_clocked(self) -> bool {
        matches!(self, Self::Lazy | Self::Eager)
    }
}

/// What intents of workers lead to [thesis ch. 5].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IntentPolicy {
    /// The rule by which the decider chooses what happens to a key.
    pub choice: Choice,
    /// When a node treats an intent as active.
    pub action: Act,
    /// The node that decides.
    pub decider: Decider,
}

/// The rule by which the decider of a key, which knows the nodes with active intent for it, chooses what
/// happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// If exactly one node has active intent, and is not the owner, the key moves there. Otherwise all nodes
    /// with active intent hold replicas.
    Adaptive,
    /// All nodes with active intent hold replicas; the key stays at its home.
    Replicate,
    /// The key moves to the node whose intent became active last.
    Relocate,
    /// All nodes hold replicas all the time, as if every node had intent for every key.
    Everywhere,
}

/// The node that decides about a key, and what other nodes report to it [thesis §5.3.3, §5.3.4].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decider {
    /// The current owner. Nodes report when their active intent begins, and when it ends.
    Owner,
    /// The key's home. Nodes, the owner included, report the same to it, and ask for replicas through it.
    Home,
    /// The key's home. Nodes report every intent to it when the intent becomes active, and when it ends.
    HomeOfEach,
}

impl Decider {
    /// Whether the home decides.
    #[must_use]
    pub const fn is_home(self) -> bool {
        matches!(self, Self::Home | Self::HomeOfEach)
    }
}

/// When a node treats an intent as active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// As late as is safe [thesis Alg. 5.2; AdaPS Alg. 1].
    InTime,
    /// As soon as a worker signals it.
    AtOnce,
}

/// Which keys have static replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StaticReplicas {
    /// The keys that the user assigns ([`crate::Assignment`]).
    Assigned,
    /// All keys.
    All,
}

/// When nodes synchronise static replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StaticReplicaPace {
    /// In the background, with at least this time from the start of a round to the start of the next. It is a
    /// goal: no operation ever waits for it [thesis §4.4.6].
    Every(Tick),
    /// When all workers of all nodes ask for it, and at meetings (synchronous SGD).
    Asked,
}

impl StaticReplicaPace {
    /// 25 times per second [thesis §4.4.1].
    pub const DEFAULT: Self = Self::Every(Tick(40_000));
}

/// The node that starts a relocation; see [`crate::relocation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Initiator {
    /// The node that localizes the key, by a request to its home or, with other locations, to other nodes.
    Requester,
    /// The owner of the key, when it knows which node should have it.
    Owner,
}
