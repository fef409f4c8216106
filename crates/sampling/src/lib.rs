#![doc = include_str!("../README.md")]
//!
//! Sampling as a service of the parameter server: the application says *how* it wants to sample, the system chooses *which*
//! keys (000, §4.3). A [`Sampler`] holds the registered distributions; [`Sampler::prepare`] is called when a batch is
//! prepared and returns a [`Handle`], not keys; [`Sampler::draw`] takes keys from the handle, in portions if wanted, right
//! before they are pulled. Between the two the system may bring the keys near, or change its mind about them, as far as the
//! distribution's [`Conformity`] allows.
//!
//! Absent on purpose: values, clocks, the operating system's randomness. A sample depends on its stream word only.
#![forbid(unsafe_code)]

mod distribution;
mod sampler;

pub use distribution::{Distribution, DistributionError};
pub use sampler::{Conformity, DistributionId, Handle, SampleError, Sampler, SamplerBuilder, Scheme};
