#![doc = include_str!("../README.md")]
//!
//! Sampling as a service of the parameter server: the application specifies *how* to sample, the system
//! chooses *which* keys [thesis §4.3]. A [`Sampler`] holds the registered distributions, the same on all
//! nodes. The [`Manager`] of a node serves them: [`Manager::prepare`] is called when a batch is prepared and
//! returns a [`Handle`], not keys; [`Manager::draw`] takes keys from the handle, in portions if wanted, right
//! before they are pulled. Between the two calls, the system may move keys to the node, or choose other keys,
//! as far as the distribution's [`Conformity`] allows. The [`Scheme`] determines how it does so. [`NearKeys`]
//! are the keys that a node may draw locally; the node changes them whenever a key comes or goes.
//!
//! | scheme | L1 conform | L2 bounded | L3 long-term | overall | what is given up |
//! | --- | --- | --- | --- | --- | --- |
//! | independent | yes | yes | yes | yes | nothing: each sample is drawn from π alone, wherever it is |
//! | reuse | | yes | yes | yes | samples within U·G of each other at a node may be the same key |
//! | postponing | | | yes | yes | the order of a handle's samples depends on the locations of their keys |
//! | local | | | | yes | keys that are elsewhere are not drawn |
//! | repurposing | | | | | keys are as frequent as in direct accesses, independently of π |
//!
//! The error of local sampling depends on the locations of keys. If each of Q nodes always holds the same
//! share of the keys, a key is drawn at one node only: at that node, with uniform π, Q times as often as it
//! should be, and never at the others. The distance from π (half the sum of absolute differences) is 1 − 1/Q
//! at each node: with four nodes, three quarters of the probability is on the wrong keys. Over all nodes
//! together, and if keys move, frequencies approach π: the more equal the nodes' shares of π, the more
//! closely. The tests measure it.
//!
//! This crate has no values, messages or threads, and uses neither the clock nor the randomness of the
//! operating system.
#![forbid(unsafe_code)]

mod alias;
mod distribution;
mod handle;
mod locality;
mod manager;
mod near;
mod pools;
mod recent;
mod sampler;
mod scheme;
mod share;

pub use distribution::{Distribution, DistributionError};
pub use handle::Handle;
pub use locality::{Everything, Locality};
pub use manager::{Manager, SamplingStats};
pub use near::NearKeys;
pub use sampler::{DistributionId, SampleError, Sampler, SamplerBuilder, SchemeError};
pub use scheme::{Conformity, Pooling, Scheme};
