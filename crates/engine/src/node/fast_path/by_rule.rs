//! Calls in layouts with rules. The walk over the keys takes types of their own for these calls, so that
//! calls in layouts without rules need not check each key for a rule.

use super::serve::{HELD, Serve};
use crate::error::AccessError;
use crate::node::local::Local;
use crate::node::{Shared, note_for_clock};
use intendant_core::{Element, Key, Layout, Timing};
use intendant_store::Entry;
use intendant_techniques::{Role, SlotState, access};
use intendant_wire::AccessKind;
use std::ops::Range;

struct Read<'a, E>(&'a mut [E]);
struct Apply<'a, E>(&'a [E], &'a Layout);
struct Put<'a, E>(&'a [E], &'a Layout);

impl<E: Element> Serve<E> for Read<'_, E> {
    const KIND: AccessKind = AccessKind::Pull;

    fn elements(layout: &Layout, key: Key) -> usize {
        layout.visible(key)
    }

    fn serve(&mut self, entry: &mut Entry<'_, SlotState, E>, place: Range<usize>) {
        let visible = &mut self.0[place];
        access::pull(&entry.value().expect(HELD)[..visible.len()], visible);
    }
}

impl<E: Element> Serve<E> for Apply<'_, E> {
    const KIND: AccessKind = AccessKind::Push;

    fn elements(layout: &Layout, key: Key) -> usize {
        layout.operand(key)
    }

    fn serve(&mut self, entry: &mut Entry<'_, SlotState, E>, place: Range<usize>) {
        let (role, operand) = (entry.state().role, &self.0[place]);
        let rule = self.1.rule(entry.key());
        let row = entry.value_mut().expect(HELD);
        let Some(rule) = rule else { return access::push(row, operand) };
        rule.push(row, operand, role.tells());
        if role.is_owner() && rule.timing() == Timing::Clock {
            note_for_clock(entry);
        }
    }
}

impl<E: Element> Serve<E> for Put<'_, E> {
    const KIND: AccessKind = AccessKind::Set;

    fn elements(layout: &Layout, key: Key) -> usize {
        layout.visible(key)
    }

    fn serve(&mut self, entry: &mut Entry<'_, SlotState, E>, place: Range<usize>) {
        let rule = self.1.rule(entry.key());
        let (row, value) = (entry.value_mut().expect(HELD), &self.0[place]);
        match rule {
            Some(rule) => rule.set(row, value),
            None => row.copy_from_slice(value),
        }
    }
}

/// Reads the keys that are here.
#[inline(never)]
pub(super) fn read<E: Element>(shared: &Shared<E>, local: &mut Local<E>, keys: &[Key], values: &mut [E]) {
    shared.walk(local, keys, Read(values));
}

/// Applies pushes to the keys that are here.
#[inline(never)]
pub(super) fn push<E: Element>(shared: &Shared<E>, local: &mut Local<E>, keys: &[Key], values: &[E]) {
    shared.walk(local, keys, Apply(values, &shared.layout));
}

/// Sets the keys that are here.
///
/// # Errors
/// If one of them has a rule and a static replica: all-reduces add operands, and a set is not an operand.
#[inline(never)]
pub(super) fn set<E: Element>(
    shared: &Shared<E>,
    local: &mut Local<E>,
    keys: &[Key],
    values: &[E],
) -> Result<(), AccessError> {
    let refused = |key: &&Key| shared.layout.rule(**key).is_some() && shared.latch(**key).1 == Role::Static;
    if shared.policy.static_replicas.is_some()
        && let Some(key) = keys.iter().find(refused)
    {
        return Err(AccessError::SetsStatic { key: *key });
    }
    shared.walk(local, keys, Put(values, &shared.layout));
    Ok(())
}
