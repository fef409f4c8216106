//! Access to values: pull, push and set, at the worker and at the channel alike.
//!
//! | who | has | does |
//! | --- | --- | --- |
//! | worker | key with role `Owner`, none of its own operations on the key outstanding | serves at once |
//! | worker | anything else | defers the key to its channel |
//! | channel | deferred key, role `Owner` | serves, completes |
//! | channel | deferred key, role `Arriving` | queues it until the key arrives ([`crate::relocation`]) |
//! | channel | deferred key, role `Absent` or `Leaving` | sends a request to the first hop |
//! | channel | request, role `Owner` | serves, responds straight to the origin |
//! | channel | request, role `Arriving` | queues it |
//! | channel | request, role `Absent` or `Leaving` | forwards it to the next hop |
//! | channel | response | completes |
//!
//! [`Directory::first_hop`](crate::Directory::first_hop) and
//! [`Directory::next_hop`](crate::Directory::next_hop) say where requests go. The owner applies an access
//! under the latch of the key, so accesses to a key are atomic and have one order.

use intendant_core::{Element, add_bytes, copy_from_bytes, copy_to_bytes};
use intendant_wire::AccessKind;

/// Copies `value` to `operand`.
///
/// # Panics
/// If the two differ in length.
#[inline]
pub fn pull<E: Element>(value: &[E], operand: &mut [E]) {
    operand.copy_from_slice(value);
}

/// Adds `update` to `value`.
///
/// # Panics
/// If the two differ in length.
#[inline]
pub fn push<E: Element>(value: &mut [E], update: &[E]) {
    assert_eq!(value.len(), update.len(), "update and value differ in length");
    for (value, update) in value.iter_mut().zip(update) {
        *value += *update;
    }
}

/// Applies an access whose operand came in a frame. A pull appends the elements to `read`. A push adds
/// exactly what [`push`] adds.
///
/// # Panics
/// If the operand of a push or set is not as long as the value.
#[inline]
pub fn apply<E: Element>(kind: AccessKind, value: &mut [E], operand: &[u8], read: &mut Vec<u8>) {
    match kind {
        AccessKind::Pull => copy_to_bytes(value, read),
        AccessKind::Push => add_bytes(value, operand),
        AccessKind::Set => copy_from_bytes(value, operand),
    }
}
