//! The registered distributions and the schemes that serve them.

use crate::Distribution;
use intendant_core::Key;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

/// How closely samples must follow the registered distribution (000, §4.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Conformity {
    /// Level 1: every sample is drawn independently from the distribution.
    Conform,
    /// Level 2: right first-order probabilities; dependencies between samples reach over a bounded distance.
    Bounded,
    /// Level 3: right frequencies in the long run.
    LongTerm,
    /// Level 4: no promise about probabilities.
    NonConform,
}

/// How samples are produced. A scheme serves every level from its own downwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Independent draws, fixed when they are prepared (000, §4.3.2). Level [`Conformity::Conform`].
    Independent,
}

/// Names a registered distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DistributionId(u32);

/// What goes wrong when sampling.
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

/// Prepared samples. It is consumed by [`Sampler::draw`]; dropping it early is allowed.
#[derive(Debug)]
pub struct Handle {
    distribution: DistributionId,
    keys: VecDeque<Key>,
}

impl Handle {
    /// Samples that can still be drawn.
    pub fn left(&self) -> usize {
        self.keys.len()
    }

    /// The distribution that the samples come from.
    pub fn distribution(&self) -> DistributionId {
        self.distribution
    }

    /// The keys that this handle will probably yield, for a system that wants to bring them near.
    pub fn ahead(&self) -> impl Iterator<Item = Key> {
        self.keys.iter().copied()
    }
}

/// Collects the distributions of a [`Sampler`].
#[derive(Clone, Debug, Default)]
pub struct SamplerBuilder {
    registered: Vec<(Distribution, Conformity, Scheme)>,
}

impl SamplerBuilder {
    /// Registers a distribution whose samples conform at least to `level`; the system picks the scheme.
    pub fn register(&mut self, distribution: Distribution, level: Conformity) -> DistributionId {
        let scheme = match level {
            Conformity::Conform | Conformity::Bounded | Conformity::LongTerm | Conformity::NonConform => {
                Scheme::Independent
            }
        };
        self.registered.push((distribution, level, scheme));
        DistributionId((self.registered.len() - 1) as u32)
    }

    /// Finishes the registration.
    #[must_use]
    pub fn build(self) -> Sampler {
        Sampler { registered: self.registered }
    }
}

/// The sampling manager of a node.
#[derive(Clone, Debug, Default)]
pub struct Sampler {
    registered: Vec<(Distribution, Conformity, Scheme)>,
}

impl Sampler {
    /// Starts a sampler without distributions.
    #[must_use]
    pub fn builder() -> SamplerBuilder {
        SamplerBuilder::default()
    }

    fn entry(&self, id: DistributionId) -> Result<&(Distribution, Conformity, Scheme), SampleError> {
        self.registered.get(id.0 as usize).ok_or(SampleError::UnknownDistribution {
            index: id.0 as usize,
            registered: self.registered.len(),
        })
    }

    /// The level and scheme of a distribution.
    ///
    /// # Errors
    /// If the distribution is not registered here.
    pub fn scheme(&self, id: DistributionId) -> Result<(Conformity, Scheme), SampleError> {
        self.entry(id).map(|e| (e.1, e.2))
    }

    /// Prepares `samples` samples. `stream` names the randomness, e.g. [`intendant_core::random::stream`] of seed, epoch and
    /// example; with [`Scheme::Independent`] equal streams give equal samples, whatever else happens.
    ///
    /// # Errors
    /// If the distribution is not registered here.
    pub fn prepare(&self, id: DistributionId, samples: usize, stream: u64) -> Result<Handle, SampleError> {
        let (distribution, _, scheme) = self.entry(id)?;
        let keys = match scheme {
            Scheme::Independent => {
                let mut rng = Pcg64Mcg::seed_from_u64(stream);
                (0..samples).map(|_| distribution.draw(&mut rng)).collect()
            }
        };
        Ok(Handle { distribution: id, keys })
    }

    /// Appends the next `samples` keys of `handle` to `keys`.
    ///
    /// # Errors
    /// If fewer are left; then nothing is drawn.
    pub fn draw(&self, handle: &mut Handle, samples: usize, keys: &mut Vec<Key>) -> Result<(), SampleError> {
        if samples > handle.keys.len() {
            return Err(SampleError::HandleExhausted { wanted: samples, left: handle.keys.len() });
        }
        keys.extend(handle.keys.drain(..samples));
        Ok(())
    }
}
