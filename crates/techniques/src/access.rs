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

use intendant_core::{Element, SharedRule, add_bytes, copy_from_bytes, copy_to_bytes};
use intendant_wire::AccessKind;

/// Copies `value` to `operand`, or the visible part of a row: with a rule, a row is longer.
///
/// # Panics
/// If `operand` is longer than `value`.
#[inline]
pub fn pull<E: Element>(value: &[E], operand: &mut [E]) {
    if operand.len() == value.len() {
        operand.copy_from_slice(value);
    } else {
        pull_visible(value, operand);
    }
}

#[cold]
#[inline(never)]
fn pull_visible<E: Element>(row: &[E], operand: &mut [E]) {
    operand.copy_from_slice(&row[..operand.len()]);
}

/// Adds `update` to `value`. Returns false, and changes nothing, if the two differ in length: then `value` is
/// the row of a key with a rule, which the caller applies.
#[inline]
#[must_use]
pub fn push<E: Element>(value: &mut [E], update: &[E]) -> bool {
    if value.len() != update.len() {
        return false;
    }
    for (value, update) in value.iter_mut().zip(update) {
        *value += *update;
    }
    true
}

/// Applies an access, whose operand came in a frame, to the value of a key without a rule. A pull appends the
/// elements to `read`. A push adds exactly what [`push`] adds. Returns false, and changes nothing, if the
/// operand of a push or set is not as long as the value: then `value` is the row of a key with a rule, see
/// [`apply_by_rule`]. The same for a pull, if there may be rules.
#[inline]
#[must_use]
pub fn apply<E: Element>(
    kind: AccessKind,
    has_rules: bool,
    value: &mut [E],
    operand: &[u8],
    read: &mut Vec<u8>,
) -> bool {
    match kind {
        AccessKind::Pull if has_rules => return false,
        AccessKind::Pull => copy_to_bytes(value, read),
        AccessKind::Push | AccessKind::Set if operand.len() != size_of_val(value) => return false,
        AccessKind::Push => add_bytes(value, operand),
        AccessKind::Set => copy_from_bytes(value, operand),
    }
    true
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
    if kind == AccessKind::Pull {
        return copy_to_bytes(&row[..rule.visible()], read);
    }
    let mut elements = vec![E::ZERO; operand.len() / size_of::<E>()];
    copy_from_bytes(&mut elements, operand);
    match kind {
        AccessKind::Push => rule.push(row, &elements, pends),
        AccessKind::Set | AccessKind::Pull => rule.set(row, &elements),
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
        assert!(push(&mut value, &[0.5, -4.0]));
        assert_eq!(value, [1.5, -2.0]);
    }

    #[test]
    fn an_operand_of_a_frame_is_added_or_set_and_a_read_is_appended() {
        let (mut value, mut read) = ([1.0f32, 2.0], bytes(&[9.0]));
        assert!(apply(AccessKind::Pull, false, &mut value, &[], &mut read));
        assert_eq!(read, bytes(&[9.0, 1.0, 2.0]));
        assert!(apply(AccessKind::Push, false, &mut value, &bytes(&[0.5, -4.0]), &mut read));
        assert_eq!(value, [1.5, -2.0]);
        assert!(apply(AccessKind::Set, false, &mut value, &bytes(&[7.0, 8.0]), &mut read));
        assert_eq!((value, read.len()), ([7.0, 8.0], 12));
    }

    #[test]
    fn a_row_is_not_changed_without_its_rule() {
        let (mut row, mut read) = ([1.0f32, 2.0], Vec::new());
        assert!(!push(&mut row, &[1.0]));
        for kind in [AccessKind::Push, AccessKind::Set] {
            assert!(!apply(kind, false, &mut row, &bytes(&[1.0]), &mut read));
        }
        assert_eq!((row, read), ([1.0, 2.0], Vec::new()));
        let mut visible = [0.0];
        pull(&row, &mut visible);
        assert_eq!(visible, [1.0]);
    }
}
