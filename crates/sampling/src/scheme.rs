//! Conformity levels, the schemes that serve them, and which scheme offers which level [thesis §4.3.1,
//! §4.3.2, Tab. 4.1].

use intendant_core::{UnknownName, by_name};
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// How closely samples must follow the registered distribution π [thesis §4.3.1]. The first is the strictest;
/// a level implies all later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Conformity {
    /// L1: every sample is drawn from π, independently of all others.
    Conform,
    /// L2: every sample has π's probabilities; it depends on a bounded number of earlier samples of its node,
    /// and on no others.
    Bounded,
    /// L3: the relative frequencies at each node approach π in the long run.
    LongTerm,
    /// L3 for all nodes together: the relative frequencies of the samples of the whole cluster approach π in
    /// the long run. Each node draws the keys that it has, so the frequencies at a node depend on these keys.
    /// The source does not have this level.
    Overall,
    /// L4: no promise.
    NonConform,
}

impl Conformity {
    /// All levels, the strictest first.
    pub const ALL: [Self; 5] =
        [Self::Conform, Self::Bounded, Self::LongTerm, Self::Overall, Self::NonConform];

    /// The fastest scheme that offers this level.
    #[must_use]
    pub const fn scheme(self) -> Scheme {
        match self {
            Self::Conform => Scheme::Independent,
            Self::Bounded => Scheme::Reuse(Pooling::DEFAULT),
            Self::LongTerm => Scheme::Postponing(Pooling::DEFAULT),
            Self::Overall | Self::NonConform => Scheme::Local,
        }
    }
}

impl fmt::Display for Conformity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Conform => "conform",
            Self::Bounded => "bounded",
            Self::LongTerm => "long-term",
            Self::Overall => "overall",
            Self::NonConform => "non-conform",
        })
    }
}

impl FromStr for Conformity {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        by_name("a conformity level", name, Self::ALL)
    }
}

/// The size of pools and how often their keys are used: G and U of [thesis §4.3.4].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pooling {
    /// G: keys of a pool. The larger G, the further apart the uses of a key.
    pub keys: NonZeroU32,
    /// U: how often each key of a pool is used. The larger U, the fewer keys are moved, and the more samples
    /// are equal.
    pub uses: NonZeroU32,
}

impl Pooling {
    /// The pools that the source uses if nothing is known of a task: pools of 250 keys that are used 16 times
    /// [thesis §4.4.1].
    pub const DEFAULT: Self =
        Self { keys: NonZeroU32::new(250).unwrap(), uses: NonZeroU32::new(16).unwrap() };

    /// Samples that a pool yields; no two samples of a node that are this far apart depend on each other.
    #[must_use]
    pub const fn samples(self) -> u64 {
        self.keys.get() as u64 * self.uses.get() as u64
    }
}

impl Default for Pooling {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// How samples are produced [thesis §4.3.2, §4.3.4].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Independent draws, fixed when they are prepared, and replayed by the same stream.
    Independent,
    /// Independent draws into pools that a node's workers share; each pool is traversed U times, each time in
    /// a new random order. Pools are moved to the node before they are needed.
    Reuse(Pooling),
    /// As [`Scheme::Reuse`], but a sample that is not here when its turn comes is moved to the end of its
    /// handle, once.
    Postponing(Pooling),
    /// Only keys that are already here, if a few attempts find any.
    Local,
    /// Keys that this node pulled recently for other reasons.
    Repurposing,
}

impl Scheme {
    /// One of each, with default pools.
    pub const ALL: [Self; 5] = [
        Self::Independent,
        Self::Reuse(Pooling::DEFAULT),
        Self::Postponing(Pooling::DEFAULT),
        Self::Local,
        Self::Repurposing,
    ];

    /// The strictest level that it offers, and with it all later ones: [thesis Tab. 4.1], with a line for
    /// postponing. The local sampling of the source is [`Conformity::NonConform`], because it draws keys with
    /// copies on many nodes too often.
    #[must_use]
    pub const fn offers(self) -> Conformity {
        match self {
            Self::Independent => Conformity::Conform,
            Self::Reuse(_) => Conformity::Bounded,
            Self::Postponing(_) => Conformity::LongTerm,
            Self::Local => Conformity::Overall,
            Self::Repurposing => Conformity::NonConform,
        }
    }

    /// The number of portions into which the samples of a handle should be divided. Postponing helps only
    /// between two portions.
    #[must_use]
    pub const fn portions(self) -> NonZeroU32 {
        match self {
            Self::Postponing(_) => const { NonZeroU32::new(8).unwrap() },
            Self::Independent | Self::Reuse(_) | Self::Local | Self::Repurposing => NonZeroU32::MIN,
        }
    }

    /// Its pools, if it has any.
    #[must_use]
    pub const fn pooling(self) -> Option<Pooling> {
        match self {
            Self::Reuse(pooling) | Self::Postponing(pooling) => Some(pooling),
            Self::Independent | Self::Local | Self::Repurposing => None,
        }
    }

    /// The same scheme with other pools; unchanged if it has none.
    #[must_use]
    pub const fn with_pooling(self, pooling: Pooling) -> Self {
        match self {
            Self::Reuse(_) => Self::Reuse(pooling),
            Self::Postponing(_) => Self::Postponing(pooling),
            Self::Independent | Self::Local | Self::Repurposing => self,
        }
    }
}

/// Writes the name, without the pools.
impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Independent => "independent",
            Self::Reuse(_) => "reuse",
            Self::Postponing(_) => "postponing",
            Self::Local => "local",
            Self::Repurposing => "repurposing",
        })
    }
}

/// Reads a scheme from its name, with default pools.
impl FromStr for Scheme {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        by_name("a sampling scheme", name, Self::ALL)
    }
}
