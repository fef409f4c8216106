//! The registered distributions: what the application requires of samples, before anything is drawn.

use crate::{Conformity, Distribution, Pooling, Scheme};
use intendant_core::Movement;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Names a registered distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DistributionId(u32);

impl DistributionId {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Why sampling failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// More samples were drawn than prepared.
    #[error("{wanted} samples drawn from a handle with {left} left; prepare as many as you draw")]
    HandleExhausted {
        /// Samples asked for.
        wanted: usize,
        /// Samples left.
        left: usize,
    },
    /// The distribution belongs to another sampler.
    #[error("distribution {index} is not registered; {registered} are")]
    UnknownDistribution {
        /// Index of the id.
        index: usize,
        /// Number of registered distributions.
        registered: usize,
    },
}

/// A named scheme does not offer the requested level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{scheme} sampling is {offered}, not {asked}: ask for {offered}, or leave the scheme to the system")]
pub struct SchemeError {
    /// The scheme.
    pub scheme: Scheme,
    /// What it offers.
    pub offered: Conformity,
    /// What was asked for.
    pub asked: Conformity,
}

/// A registered distribution.
#[derive(Clone, Debug)]
pub(crate) struct Registered {
    pub(crate) distribution: Distribution,
    pub(crate) level: Conformity,
    pub(crate) scheme: Scheme,
    /// Whether the system picked the scheme.
    picked: bool,
}

/// Collects the distributions of a [`Sampler`].
#[derive(Clone, Debug, Default)]
pub struct SamplerBuilder {
    registered: Vec<Registered>,
}

impl SamplerBuilder {
    /// Registers a distribution whose samples conform at least to `level`; the system picks the scheme.
    pub fn register(&mut self, distribution: Distribution, level: Conformity) -> DistributionId {
        self.add(distribution, level, level.scheme(), true)
    }

    /// Registers a distribution whose samples conform at least to `level`, and names the scheme.
    ///
    /// # Errors
    /// If the scheme does not offer the level.
    pub fn register_with(
        &mut self,
        distribution: Distribution,
        level: Conformity,
        scheme: Scheme,
    ) -> Result<DistributionId, SchemeError> {
        check(level, scheme)?;
        Ok(self.add(distribution, level, scheme, false))
    }

    fn add(
        &mut self,
        distribution: Distribution,
        level: Conformity,
        scheme: Scheme,
        picked: bool,
    ) -> DistributionId {
        self.registered.push(Registered { distribution, level, scheme, picked });
        DistributionId((self.registered.len() - 1) as u32)
    }

    /// Finishes the registration.
    #[must_use]
    pub fn build(self) -> Sampler {
        Sampler { registered: self.registered.into() }
    }
}

fn check(asked: Conformity, scheme: Scheme) -> Result<(), SchemeError> {
    let offered = scheme.offers();
    if offered > asked { Err(SchemeError { scheme, offered, asked }) } else { Ok(()) }
}

/// The registered distributions, the same on all nodes. Clones share them.
#[derive(Clone, Debug)]
pub struct Sampler {
    registered: Arc<[Registered]>,
}

impl Default for Sampler {
    fn default() -> Self {
        Self::builder().build()
    }
}

impl Sampler {
    /// Starts a sampler without distributions.
    #[must_use]
    pub fn builder() -> SamplerBuilder {
        SamplerBuilder::default()
    }

    /// Number of registered distributions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.registered.len()
    }

    /// Whether no distribution is registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.registered.is_empty()
    }

    /// The same distributions at another level and, if one is named, with another scheme.
    ///
    /// # Errors
    /// If the scheme does not offer the level.
    pub fn with(&self, level: Conformity, scheme: Option<Scheme>) -> Result<Self, SchemeError> {
        let picked = scheme.is_none();
        let scheme = scheme.unwrap_or(level.scheme());
        check(level, scheme)?;
        Ok(self.change(|entry| Registered { level, scheme, picked, ..entry.clone() }))
    }

    fn change(&self, change: impl Fn(&Registered) -> Registered) -> Self {
        Self { registered: self.registered.iter().map(change).collect() }
    }

    /// The schemes that the system picks once it knows how keys come to this node. Schemes that the
    /// application named are not changed.
    ///
    /// - If keys stay, postponing has no benefit, and local sampling would always draw from the same part of
    ///   the keys, so that the examples of a node never meet the others. Both become reuse.
    /// - [`Conformity::Overall`] is independent draws, unless the system moves and copies keys by intents. If
    ///   keys move to the node that requested them last, contended keys are at a node only while it trains
    ///   examples that contain them. Local samples are then the keys of these examples: word vectors with
    ///   NuPS on four nodes learn 11 % less.
    #[must_use]
    pub fn settled(&self, movement: Movement) -> Self {
        self.change(|entry| {
            let overall = entry.level == Conformity::Overall;
            let scheme = match (entry.scheme, movement) {
                (scheme, _) if !entry.picked => scheme,
                (Scheme::Local, Movement::Never | Movement::Requested) if overall => Scheme::Independent,
                (Scheme::Local, Movement::Never) => Scheme::Reuse(Pooling::DEFAULT),
                (Scheme::Postponing(pooling), Movement::Never) => Scheme::Reuse(pooling),
                (scheme, _) => scheme,
            };
            Registered { scheme, ..entry.clone() }
        })
    }

    /// The same distributions with other pools, for the schemes that have pools.
    #[must_use]
    pub fn pooling(&self, pooling: Pooling) -> Self {
        self.change(|entry| Registered { scheme: entry.scheme.with_pooling(pooling), ..entry.clone() })
    }

    pub(crate) fn entries(&self) -> &[Registered] {
        &self.registered
    }

    pub(crate) fn entry(&self, id: DistributionId) -> Result<&Registered, SampleError> {
        let unknown =
            SampleError::UnknownDistribution { index: id.index(), registered: self.registered.len() };
        self.registered.get(id.index()).ok_or(unknown)
    }

    /// The level and scheme of a distribution.
    ///
    /// # Errors
    /// If the distribution is not registered here.
    pub fn scheme(&self, id: DistributionId) -> Result<(Conformity, Scheme), SampleError> {
        self.entry(id).map(|entry| (entry.level, entry.scheme))
    }

    /// The levels and schemes of all distributions, in the order of their registration.
    pub fn schemes(&self) -> impl Iterator<Item = (Conformity, Scheme)> {
        self.registered.iter().map(|entry| (entry.level, entry.scheme))
    }

    /// The number of portions into which handles should be divided: the largest number that a scheme asks for
    /// ([`Scheme::portions`]).
    #[must_use]
    pub fn portions(&self) -> NonZeroU32 {
        self.schemes().map(|(_, scheme)| scheme.portions()).max().unwrap_or(NonZeroU32::MIN)
    }
}
