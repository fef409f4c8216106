//! Policies: which mechanisms the parameter server uses, and when. A technique is a policy and what pages say
//! about it: a file, and a line of the table below.

pub mod ablations;
pub mod adaptive;
pub mod bips;
pub mod classic;
pub mod essp;
pub mod full_replication;
mod kinds;
pub mod lapse;
mod location;
pub mod nups;
pub mod ssp;

pub use kinds::{
    Act, Choice, Decider, Declaration, Initiator, IntentPolicy, Order, Policy, PolicyError, Replicas,
    StaticReplicaPace, StaticReplicas,
};
pub use location::Location;

use intendant_core::{UnknownName, by_name};
use std::fmt;
use std::str::FromStr;

/// Declares the techniques, in the order in which help and pages name them.
macro_rules! techniques {
    ($($technique:ident = $file:ident::$declaration:ident,)+) => {
        /// The parameter management techniques.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Technique {
            $(
                #[doc = concat!("See [`", stringify!($file), "::", stringify!($declaration), "`].")]
                $technique,
            )+
        }

        impl Technique {
            /// All techniques.
            pub const ALL: [Self; [$(stringify!($technique)),+].len()] = [$(Self::$technique),+];

            /// What the technique decides, and what pages say about it.
            #[must_use]
            pub const fn declaration(self) -> Declaration {
                match self { $(Self::$technique => $file::$declaration,)+ }
            }
        }
    };
}

techniques! {
    Classic = classic::TECHNIQUE,
    FullReplication = full_replication::TECHNIQUE,
    Lapse = lapse::TECHNIQUE,
    Ssp = ssp::TECHNIQUE,
    Essp = essp::TECHNIQUE,
    Nups = nups::TECHNIQUE,
    Bips = bips::TECHNIQUE,
    Adaptive = adaptive::TECHNIQUE,
    ReplicateOnIntent = ablations::REPLICATE_ON_INTENT,
    RelocateOnIntent = ablations::RELOCATE_ON_INTENT,
    ImmediateAction = ablations::IMMEDIATE_ACTION,
    ReplicateEverywhere = ablations::REPLICATE_EVERYWHERE,
    HomeDecides = ablations::HOME_DECIDES,
    NaiveIntents = ablations::NAIVE_INTENTS,
}

impl Technique {
    /// What the technique decides.
    #[must_use]
    pub const fn policy(self) -> Policy {
        self.declaration().policy
    }

    /// The names of the techniques with these policies, in the order of [`Technique::ALL`].
    pub fn names(has: impl Fn(&Policy) -> bool) -> Vec<&'static str> {
        Self::ALL.iter().map(|technique| technique.policy()).filter(has).map(|policy| policy.name).collect()
    }
}

impl Default for Technique {
    /// The technique without copies and moves.
    fn default() -> Self {
        Self::Classic
    }
}

impl fmt::Display for Technique {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.policy().name)
    }
}

impl FromStr for Technique {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        by_name("a technique", name, Self::ALL)
    }
}

#[cfg(test)]
mod tests;
