//! Access to values: pull, push and set, at the worker and at the channel alike.
//!
//! | actor | condition | action |
//! | --- | --- | --- |
//! | worker | role `Owner`, `Hub`, `Static`; none of its operations on the key outstanding | serves |
//! | worker | role `Replica`, the same; no set | serves, marks the key if it changes it |
//! | worker | anything else; a copy beyond the staleness bound | defers the key to its channel |
//! | channel | deferred key, role `Owner`, `Hub` or `Static` | serves, completes |
//! | channel | deferred key, role `Replica` | serves; a set waits until the replica is dropped |
//! | channel | deferred pull, copy exceeds the staleness bound | parks it until the copy is fresher |
//! | channel | deferred key, role `Arriving` | queues it until the key arrives ([`crate::relocation`]) |
//! | channel | deferred key, role `Absent` or `Leaving` | sends a request to the first hop |
//! | channel | request, role `Owner` or `Hub` | serves, responds straight to the origin |
//! | channel | request, role `Arriving` | queues it |
//! | channel | request, role `Absent`, `Leaving` or `Replica` | forwards it to the next hop |
//! | channel | request, role `Static` | refuses it: every node has a copy |
//! | channel | response | completes |
//!
//! [`Directory::first_hop`](crate::Directory::first_hop) and
//! [`Directory::next_hop`](crate::Directory::next_hop) say where requests go. The owner applies an access
//! under the latch of the key, so accesses to a key are atomic and have one order.

use crate::combine::push_message;
use intendant_core::{Element, SharedRule, add_bytes, copy_from_bytes, copy_to_bytes};
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

/// Applies an access, whose operand came in a frame, to the value of a key without a rule. A pull appends the
/// elements to `read`. A push adds exactly what [`push`] adds.
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

/// Applies an access, whose operand came in a frame, to the row of a key with a rule. A pull appends the
/// visible part to `read`. A push becomes pending as well if `pends`; see [`SharedRule::push`].
///
/// # Panics
/// If a length is wrong.
#[cold]
pub fn apply_by_rule<E: Element>(
    rule: &SharedRule,
    kind: AccessKind,
    row: &mut [E],
    operand: &[u8],
    pends: bool,
    read: &mut Vec<u8>,
) {
    match kind {
        AccessKind::Pull => copy_to_bytes(&row[..rule.visible()], read),
        AccessKind::Push => push_message(rule, row, operand, pends),
        AccessKind::Set => {
            let mut visible = vec![E::ZERO; rule.visible()];
            copy_from_bytes(&mut visible, operand);
            rule.set(row, &visible);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[f32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        copy_to_bytes(values, &mut bytes);
        bytes
    }

    #[test]
    fn a_worker_reads_and_adds() {
        let (mut value, mut operand) = ([1.0f32, 2.0], [0.0; 2]);
        pull(&value, &mut operand);
        assert_eq!(operand, [1.0, 2.0]);
        push(&mut value, &[0.5, -4.0]);
        assert_eq!(value, [1.5, -2.0]);
    }

    #[test]
    fn an_operand_of_a_frame_is_added_or_set_and_a_read_is_appended() {
        let (mut value, mut read) = ([1.0f32, 2.0], bytes(&[9.0]));
        apply(AccessKind::Pull, &mut value, &[], &mut read);
        assert_eq!(read, bytes(&[9.0, 1.0, 2.0]));
        apply(AccessKind::Push, &mut value, &bytes(&[0.5, -4.0]), &mut read);
        assert_eq!(value, [1.5, -2.0]);
        apply(AccessKind::Set, &mut value, &bytes(&[7.0, 8.0]), &mut read);
        assert_eq!((value, read.len()), ([7.0, 8.0], 12));
    }

    #[test]
    #[should_panic(expected = "update and value differ in length")]
    fn an_update_is_as_long_as_its_value() {
        push(&mut [1.0f32, 2.0], &[1.0]);
    }
}
