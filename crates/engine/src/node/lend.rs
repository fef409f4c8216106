//! Rows lent to workers, which read and change them in place.
//!
//! A pull and a push of a key copy its value twice and take its latch twice. A worker that needs a value for
//! a moment only borrows it instead: it holds the latch of the key's shard, and computes on the value itself.
//!
//! - What a worker does with a lent row is one atomic read and update of that key.
//! - Rows are independent of each other: between two rows, other workers and channels may change any key, as
//!   between a pull and a push.
//! - A worker holds one row at a time, so that latches cannot form a cycle. (Callers lend rows through
//!   `&mut self`. A row does not borrow [`Local`]: the compiler would reject a function that returns such a
//!   row if there is one, and otherwise uses the worker.) The borrower may compute, but must not wait for
//!   anything while it holds a row.

use super::Shared;
use super::local::Local;
use crate::LocalAccess;
use crate::error::AccessError;
use intendant_core::{Element, Key};
use intendant_store::{Lends, Row};
use intendant_techniques::{Role, SlotState};
use intendant_wire::AccessKind;

/// A search prefetches slots this many keys ahead.
const AHEAD: usize = 16;

/// A search that needs no slots itself prefetches those of this many keys, whose rows are lent first.
const FIRST: usize = 64;

/// Lends a value if nothing has to be noted for it, judging by its slot alone.
struct Again;

impl Lends<SlotState> for Again {
    #[inline(always)]
    fn lends(self, state: &mut SlotState) -> bool {
        state.lend_again()
    }
}

/// Lends a value if this node has a copy that serves a pull, without a bound on staleness.
pub(super) struct Readable;

impl Lends<SlotState> for Readable {
    #[inline(always)]
    fn lends(self, state: &mut SlotState) -> bool {
        state.role.is_copy() && !state.is_closed()
    }
}

impl<E: Element> Shared<E> {
    /// Lends the value of `key` to a worker. Copies are marked as changed. `None` if this node has no copy
    /// that serves a pull and a push of this worker here and now, or an operation of the worker on the key is
    /// outstanding. The worker then pulls the value, and pushes what it adds.
    ///
    /// A thread must not hold two rows at once. The call counts nothing ([`Local::count_updates`] does): a
    /// step of a task may need a row more than once.
    ///
    /// # Panics
    /// If the key does not exist.
    #[inline(always)]
    pub fn lend(&self, local: &Local<E>, key: Key) -> Option<Row<'_, E>> {
        if self.lends_again(local)
            && let row @ Some(_) = self.lend_again(local, key)
        {
            return row;
        }
        self.lend_first(local, key)
    }

    /// Whether [`Shared::lend_again`] may be called before the worker's next operation: the store of its node
    /// favours it, none of its operations is in flight, and there is no bound on staleness.
    #[inline]
    pub fn lends_again(&self, local: &Local<E>) -> bool {
        let is_favoured = self.access == LocalAccess::Shared && local.favour().is_some();
        is_favoured && !self.clocks.is_bounded() && local.is_flushed()
    }

    /// As [`Shared::lend`], in a few instructions, if [`Shared::lends_again`] and nothing needs to be noted
    /// for the row; otherwise `None`.
    ///
    /// # Panics
    /// If the thread holds another row.
    #[inline(always)]
    pub fn lend_again(&self, local: &Local<E>, key: Key) -> Option<Row<'_, E>> {
        intendant_core::strict_assert!(self.lends_again(local), "an operation is in flight");
        self.store.lend_favoured(local.favour()?, key, Again)
    }

    /// As [`Shared::lend`], for a row that [`Shared::lend_again`] has not lent.
    ///
    /// # Panics
    /// As [`Shared::lend`].
    #[inline(never)]
    pub fn lend_first(&self, local: &Local<E>, key: Key) -> Option<Row<'_, E>> {
        if self.access == LocalAccess::Queue || self.is_waited_for(local, key) {
            return None;
        }
        let need = self.need_of(local);
        let (mut entry, role) = self.latch_for(local, key);
        if role != Role::Owner || need.is_some() {
            if !self.lends(key, &entry.state(), need.unwrap_or(0)) {
                return None;
            }
            // A channel processes a marked key under its latch, so a channel that sees the mark also sees the
            // change.
            self.mark(&mut entry);
        } else if entry.state().is_published() {
            return self.lend_published(entry);
        }
        entry.into_row()
    }

    /// Appends to `absent` the positions of those of `keys` whose rows cannot be lent to this worker now.
    /// The answer may be outdated at once.
    ///
    /// # Errors
    /// See [`AccessError`]; then nothing was done.
    pub fn find_absent(
        &self,
        local: &Local<E>,
        keys: &[Key],
        absent: &mut Vec<u32>,
    ) -> Result<(), AccessError> {
        self.check(AccessKind::Pull, keys, None)?;
        if self.layout.has_rules()
            && let Some(key) = keys.iter().find(|key| self.layout.rule(**key).is_some())
        {
            return Err(AccessError::RowOfRule { key: *key });
        }
        if self.lends_all() {
            return Ok(());
        }
        if self.access == LocalAccess::Queue {
            absent.extend(0..keys.len() as u32);
            return Ok(());
        }
        if let Some(parts) = &self.parts {
            keys.iter().take(FIRST).for_each(|key| self.store.prefetch_slot(*key));
            // Together with directed replicas, `Policy::check` allows neither bounds on staleness nor moves
            // on request nor static replicas. So if this node keeps parts, it can lend the row of each key of
            // which it has a part.
            for (position, key) in keys.iter().enumerate() {
                if parts.of(key.index()) == 0 || self.is_waited_for(local, *key) {
                    absent.push(position as u32);
                }
            }
            return Ok(());
        }
        let need = self.need_of(local).unwrap_or(0);
        keys.iter().take(AHEAD).for_each(|key| self.store.prefetch_slot(*key));
        for (position, key) in keys.iter().enumerate() {
            if let Some(ahead) = keys.get(position + AHEAD) {
                self.store.prefetch_slot(*ahead);
            }
            let here = || self.lends(*key, &self.latch_for(local, *key).0.state(), need);
            if self.is_waited_for(local, *key) || !here() {
                absent.push(position as u32);
            }
        }
        Ok(())
    }

    /// Whether every row can be lent to every worker at any time: a single node without staleness bounds,
    /// with [`LocalAccess::Shared`].
    #[inline]
    pub fn lends_all(&self) -> bool {
        self.layout.nodes() == 1 && !self.clocks.is_bounded() && self.access == LocalAccess::Shared
    }

    /// Hints that the row of `key` is about to be lent, and that of `later` a few rows after it.
    #[inline(always)]
    pub fn prefetch_row(&self, local: &Local<E>, key: Key, later: Option<Key>) {
        if self.access == LocalAccess::Queue {
            return;
        }
        if let Some(later) = later {
            match local.favour() {
                Some(_) => self.store.prefetch_favoured_slot(later),
                None => self.store.prefetch_slot(later),
            }
        }
        self.store.prefetch_value(key);
    }

    /// Whether an operation of the worker on the key is outstanding, which its later accesses must not
    /// overtake.
    #[inline]
    fn is_waited_for(&self, local: &Local<E>, key: Key) -> bool {
        local.has_outstanding(self.layout.shard(key), key)
    }

    /// With bounded staleness, the clock that copies must have reached for this worker.
    #[inline]
    fn need_of(&self, local: &Local<E>) -> Option<u32> {
        self.clocks.is_bounded().then(|| self.clocks.need(local.clock()))
    }

    /// Whether a key in this state serves a pull and a push: a copy that serves a pull also serves a push.
    #[inline]
    fn lends(&self, key: Key, state: &SlotState, need: u32) -> bool {
        self.serves(key, state, AccessKind::Pull, need)
    }
}
