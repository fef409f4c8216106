//! Techniques: which mechanisms a parameter server uses, and when.

pub mod classic;

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
}

/// The parameter management techniques.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Technique {
    /// Static allocation, one owner per key: [`classic`].
    #[default]
    Classic,
}

impl Technique {
    /// All techniques.
    pub const ALL: [Self; 1] = [Self::Classic];

    /// What the technique decides.
    #[must_use]
    pub const fn policy(self) -> Policy {
        match self {
            Self::Classic => classic::POLICY,
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
