//! What a call does with a value that is here, in layouts without rules.

use intendant_core::{Element, Key, Layout};
use intendant_store::Entry;
use intendant_techniques::{SlotState, access};
use intendant_wire::AccessKind;
use std::ops::Range;

/// What a call does with a value that is here. The compiler inlines implementations of this trait everywhere,
/// but not closures.
pub(super) trait Serve<E: Element> {
    const KIND: AccessKind;

    /// Elements of the call for `key`.
    #[inline(always)]
    fn elements(layout: &Layout, key: Key) -> usize {
        layout.len(key)
    }

    /// Whether [`Serve::serve_row`] alone serves a value that can be lent without noting anything.
    const AGAIN: bool = false;

    /// Serves a key by its value alone.
    #[inline(always)]
    fn serve_row(&mut self, _value: &mut [E], _place: Range<usize>) {
        unreachable!("the call needs more than the value");
    }

    /// Serves the key. `place` is the range of its elements among those of the call.
    #[inline(always)]
    fn serve(&mut self, entry: &mut Entry<'_, SlotState, E>, place: Range<usize>) {
        self.serve_row(entry.value_mut().expect(HELD), place);
    }

    /// Where the value of a pull goes.
    #[inline(always)]
    fn target(&mut self, _place: Range<usize>) -> &mut [E] {
        &mut []
    }
}

pub(super) struct Read<'a, E>(pub(super) &'a mut [E]);
pub(super) struct Add<'a, E>(pub(super) &'a [E]);
pub(super) struct Put<'a, E>(pub(super) &'a [E]);

/// The reason why a served key has a value, for `expect`.
pub(super) const HELD: &str = "a served key must have a value";

impl<E: Element> Serve<E> for Read<'_, E> {
    const KIND: AccessKind = AccessKind::Pull;
    const AGAIN: bool = true;

    #[inline(always)]
    fn serve_row(&mut self, value: &mut [E], place: Range<usize>) {
        access::pull(value, &mut self.0[place]);
    }

    #[inline(always)]
    fn target(&mut self, place: Range<usize>) -> &mut [E] {
        &mut self.0[place]
    }
}

impl<E: Element> Serve<E> for Add<'_, E> {
    const KIND: AccessKind = AccessKind::Push;
    const AGAIN: bool = true;

    #[inline(always)]
    fn serve_row(&mut self, value: &mut [E], place: Range<usize>) {
        access::push(value, &self.0[place]);
    }
}

impl<E: Element> Serve<E> for Put<'_, E> {
    const KIND: AccessKind = AccessKind::Set;

    #[inline(always)]
    fn serve_row(&mut self, value: &mut [E], place: Range<usize>) {
        value.copy_from_slice(&self.0[place]);
    }
}
