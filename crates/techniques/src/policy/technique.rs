//! The techniques, and the policy of each.

use super::{Policy, ablations, adaptive, bips, classic, essp, full_replication, lapse, nups, ssp};
use intendant_core::{UnknownName, by_name};
use std::fmt;
use std::str::FromStr;

/// The parameter management techniques.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Technique {
    /// Static allocation, one owner per key: [`classic`].
    #[default]
    Classic,
    /// Static replicas of all keys: [`full_replication`].
    FullReplication,
    /// Relocation on request: [`lapse`].
    Lapse,
    /// Replicas on first read, dropped when stale: [`ssp`].
    Ssp,
    /// Replicas on first read, kept and refreshed: [`essp`].
    Essp,
    /// Static replicas of some keys, relocation of the others: [`nups`].
    Nups,
    /// Static replicas of some keys, static allocation of the others: [`bips`].
    Bips,
    /// Relocation and replicas by intent: [`adaptive`].
    Adaptive,
    /// As adaptive, without relocation: [`ablations`].
    ReplicateOnIntent,
    /// As adaptive, without replicas: [`ablations`].
    RelocateOnIntent,
    /// As adaptive, acting on intents as soon as workers signal them: [`ablations`].
    ImmediateAction,
    /// Replicas of all keys on all nodes, through the owner: [`ablations`].
    ReplicateEverywhere,
    /// As adaptive, but the home of each key decides: [`ablations`].
    HomeDecides,
    /// The same, and nodes report every intent: [`ablations`].
    NaiveIntents,
}

impl Technique {
    /// All techniques.
    pub const ALL: [Self; 14] = [
        Self::Classic,
        Self::FullReplication,
        Self::Lapse,
        Self::Ssp,
        Self::Essp,
        Self::Nups,
        Self::Bips,
        Self::Adaptive,
        Self::ReplicateOnIntent,
        Self::RelocateOnIntent,
        Self::ImmediateAction,
        Self::ReplicateEverywhere,
        Self::HomeDecides,
        Self::NaiveIntents,
    ];

    /// What the technique decides.
    #[must_use]
    pub const fn policy(self) -> Policy {
        match self {
            Self::Classic => classic::POLICY,
            Self::FullReplication => full_replication::POLICY,
            Self::Lapse => lapse::POLICY,
            Self::Ssp => ssp::POLICY,
            Self::Essp => essp::POLICY,
            Self::Nups => nups::POLICY,
            Self::Bips => bips::POLICY,
            Self::Adaptive => adaptive::POLICY,
            Self::ReplicateOnIntent => ablations::REPLICATE_ON_INTENT,
            Self::RelocateOnIntent => ablations::RELOCATE_ON_INTENT,
            Self::ImmediateAction => ablations::IMMEDIATE_ACTION,
            Self::ReplicateEverywhere => ablations::REPLICATE_EVERYWHERE,
            Self::HomeDecides => ablations::HOME_DECIDES,
            Self::NaiveIntents => ablations::NAIVE_INTENTS,
        }
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
