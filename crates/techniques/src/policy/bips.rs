//! Static replicas and static allocation, as in BiPS and Parallax [thesis §5.1.5, Tab. 5.1]: hot keys are
//! replicated on every node, the others stay at their homes.
//!
//! An [`Assignment`](crate::Assignment) says which keys are replicated, as with [`super::nups`]. All other
//! keys are managed as by [`super::classic`]. The comparison with `nups` shows what relocation contributes.

use super::{Declaration, Policy, nups};

/// The technique.
pub const TECHNIQUE: Declaration = Declaration {
    policy: Policy { name: "bips", relocation: None, ..nups::TECHNIQUE.policy },
    meaning: "hot parameters are replicated on every node, the others stay at their homes",
    source: "BiPS, Parallax",
};
