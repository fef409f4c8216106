#![doc = include_str!("../README.md")]
//!
//! Sampling as a service of the parameter server: the application says *how* it wants to sample, the system
//! chooses *which* keys [thesis §4.3]. A [`Sampler`] holds the registered distributions, the same on all
//! nodes. The [`Manager`] of a node serves them: [`Manager::prepare`] is called when a batch is prepared and
//! returns a [`Handle`], not keys; [`Manager::draw`] takes keys from the handle, in portions if wanted, right
//! before they are pulled. Between the two the system may bring keys near, or change its mind about them, as
//! far as the distribution's [`Conformity`] allows. How it does is a [`Scheme`].
//!
//! | scheme | L1 conform | L2 bounded | L3 long-term | what is given up |
//! | --- | --- | --- | --- | --- |
//! | independent | yes | yes | yes | nothing: each sample is drawn from π alone; its key may be anywhere |
//! | reuse | | yes | yes | samples within U·G of each other at a node may be the same key |
//! | postponing | | | yes | the order of a handle's samples depends on where their keys are |
//! | local | | | | keys that are elsewhere are not drawn, or (of few that are here) a neighbour is |
//! | repurposing | | | | keys are as frequent as in direct accesses, whatever π says |
//!
//! How far local sampling is off depends on where keys are. Where each of Q nodes holds its share of the keys
//! for ever, a key is drawn at one node only: at that node, with uniform π, Q times as often as it should be,
//! and never at the others. The distance from π (half the sum of absolute differences) is 1 − 1/Q at each
//! node: with four nodes, three quarters of the probability is on the wrong keys. Over all nodes together,
//! and where keys move about, frequencies come back to π. The tests measure it.
//!
//! Absent on purpose: values, messages, threads, the operating system's clock and randomness.
#![forbid(unsafe_code)]

mod distribution;
mod handle;
mod locality;
mod manager;
mod pools;
mod recent;
mod sampler;
mod scheme;

pub use distribution::{Distribution, DistributionError};
pub use handle::Handle;
pub use locality::{Everything, Locality};
pub use manager::{Manager, SamplingStats};
pub use sampler::{DistributionId, SampleError, Sampler, SamplerBuilder, SchemeError};
pub use scheme::{Conformity, Pooling, Scheme};
