//! Techniques: which mechanisms a parameter server uses, and when.

pub mod classic;
pub mod lapse;

use std::fmt;
use std::str::FromStr;

/// In which order a worker's own operations on one key reach the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Every operation is routed at once. They arrive in order as long as the way to the key does not change meanwhile: the
    /// routing of the papers.
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
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "fifo" => Ok(Self::Fifo),
            "chain" => Ok(Self::Chain),
            other => Err(format!("order '{other}' is not known; use fifo or chain")),
        }
    }
}

/// What a technique decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Name, as on the command line.
    pub name: &'static str,
    /// Order of a worker's operations on a key, unless the user asks for another.
    pub order: Order,
    /// Who starts relocations; `None` if keys stay where they are.
    pub relocation: Option<Initiator>,
    /// Whether nodes remember where keys were that they accessed.
    pub caches: bool,
}

impl Policy {
    /// The same with what the user asks for. With caches, operations are chained unless somebody wants otherwise: they would not
    /// be in order (000, theorem 3).
    #[must_use]
    pub fn with(self, order: Option<Order>, caches: Option<bool>) -> Self {
        let caches = caches.unwrap_or(self.caches);
        let order = order.unwrap_or(if caches { Order::Chain } else { self.order });
        Self { order, caches, ..self }
    }
}

/// Who starts a relocation; see [`crate::relocation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Initiator {
    /// The node that wants the key, by a request to the key's home.
    Requester,
    /// The owner of the key, when it knows who should have it.
    Owner,
}

/// The parameter management techniques.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Technique {
    /// Static allocation, one owner per key: [`classic`].
    #[default]
    Classic,
    /// Relocation on request: [`lapse`].
    Lapse,
}

impl Technique {
    /// All techniques.
    pub const ALL: [Self; 2] = [Self::Classic, Self::Lapse];

    /// What the technique decides.
    #[must_use]
    pub const fn policy(self) -> Policy {
        match self {
            Self::Classic => classic::POLICY,
            Self::Lapse => lapse::POLICY,
        }
    }
}

impl fmt::Display for Technique {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.policy().name)
    }
}

impl FromStr for Technique {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|t| t.policy().name == text).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|t| t.policy().name).collect();
            format!("technique '{text}' is not known; use one of: {}", known.join(", "))
        })
    }
}
