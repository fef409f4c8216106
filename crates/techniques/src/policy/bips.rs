//! Static replicas and static allocation, as in BiPS and Parallax [thesis §5.1.5, Tab. 5.1]: hot keys are
//! replicated on every node, the others stay at their homes.
//!
//! An [`Assignment`](crate::Assignment) says which keys are replicated, as with [`super::nups`]. All other
//! keys are managed as by [`super::classic`]. The comparison with `nups` shows what relocation contributes.

use super::{Policy, nups};

/// What this technique decides.
pub const POLICY: Policy = Policy { name: "bips", relocation: None, ..nups::POLICY };
