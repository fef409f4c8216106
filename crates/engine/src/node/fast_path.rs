//! The fast path: a worker's thread serves the keys of a call that are here, and defers the others to their
//! channels.

mod by_rule;
mod serve;

use super::lend::Readable;
use super::local::{Deferral, Local, Started};
use super::{Shared, elements_of};
use crate::LocalAccess;
use crate::error::AccessError;
use crate::input::{Kind, Submission, Work};
use intendant_core::{ChannelId, Element, Key, Layout, Tick, copy_to_bytes, limits};
use intendant_techniques::{Initiator, Role, access};
use intendant_wire::AccessKind;
use serve::{Add, HELD, Put, Read, Serve};

/// Keys of a batch are prefetched in groups: slots two groups ahead of the copying, values one group ahead.
/// With groups of 8 to 16 keys, a memory access of a few hundred nanoseconds completes before the key is
/// needed; larger groups only evict other data from the cache.
const GROUP: usize = 8;

/// The rest of a call, after the keys that are here have been served.
struct Call<'a, E> {
    kind: Kind,
    /// Operands of all keys.
    values: &'a [E],
    /// For a pull that keeps its values: the number of their elements, and the values that were served here.
    kept: Option<(usize, Vec<E>)>,
    /// The time of a [`Kind::Localize`].
    now: Tick,
}

impl<'a, E> Call<'a, E> {
    #[inline]
    fn access(kind: AccessKind, values: &'a [E]) -> Self {
        Self { kind: Kind::Access(kind), values, kept: None, now: Tick(0) }
    }
}

impl<E: Element> Shared<E> {
    /// Checks a call of this kind before anything is done for it. A call without values has no `elements`.
    #[inline]
    pub(super) fn check(
        &self,
        kind: AccessKind,
        keys: &[Key],
        elements: Option<usize>,
    ) -> Result<(), AccessError> {
        if keys.len() > limits::FRAME_KEYS_MAX {
            return Err(AccessError::TooManyKeys { keys: keys.len(), max: limits::FRAME_KEYS_MAX });
        }
        if let Some(position) = keys.iter().position(|key| !self.layout.contains(*key)) {
            let last = Key(self.layout.keys() - 1);
            return Err(AccessError::KeyOutOfRange { key: keys[position], position, last });
        }
        let Some(found) = elements else { return Ok(()) };
        let expected = match self.layout.uniform() {
            Some(len) => keys.len() * len,
            None => keys.iter().map(|key| elements_of(&self.layout, kind, *key)).sum(),
        };
        if found == expected {
            Ok(())
        } else {
            Err(AccessError::ValueLength { keys: keys.len(), expected, found })
        }
    }

    /// Starts a pull of `keys` into `values` (all values, concatenated). Keys that are served here are in
    /// `values` when this returns; the others follow with completions. A key that occurs twice is read twice.
    ///
    /// # Errors
    /// See [`AccessError`]; then nothing was done.
    #[inline]
    pub fn pull(&self, local: &mut Local<E>, keys: &[Key], values: &mut [E]) -> Result<Started, AccessError> {
        self.check(AccessKind::Pull, keys, Some(values.len()))?;
        self.read(local, keys, values);
        Ok(self.start(local, Call::access(AccessKind::Pull, &[])))
    }

    /// Starts a pull of `keys` that keeps their values until the caller takes them ([`Local::take`]). There
    /// always is an operation.
    ///
    /// # Errors
    /// See [`AccessError`]; then nothing was done.
    pub fn pull_kept(&self, local: &mut Local<E>, keys: &[Key]) -> Result<Started, AccessError> {
        self.check(AccessKind::Pull, keys, None)?;
        let elements = keys.iter().map(|key| self.layout.visible(*key)).sum();
        let mut values = local.buffer(elements);
        self.read(local, keys, &mut values);
        let kept = Some((elements, local.keep(keys.len(), values)));
        Ok(self.start(local, Call { kept, ..Call::access(AccessKind::Pull, &[]) }))
    }

    /// Reads the keys that are here.
    #[inline]
    fn read(&self, local: &mut Local<E>, keys: &[Key], values: &mut [E]) {
        if self.layout.has_rules() {
            by_rule::read(self, local, keys, values);
        } else {
            self.walk(local, keys, Read(values));
        }
        local.count_pull(keys.len(), self.access);
    }

    /// Starts a push: adds `values` (all updates, concatenated) to the values of `keys`, or applies the rules
    /// of the keys to them. A key that occurs twice gets both updates.
    ///
    /// # Errors
    /// See [`AccessError`]; then nothing was done.
    #[inline]
    pub fn push(&self, local: &mut Local<E>, keys: &[Key], values: &[E]) -> Result<Started, AccessError> {
        self.check(AccessKind::Push, keys, Some(values.len()))?;
        if self.layout.has_rules() {
            by_rule::push(self, local, keys, values);
        } else {
            self.walk(local, keys, Add(values));
        }
        local.count_push(keys.len(), self.access);
        Ok(self.start(local, Call::access(AccessKind::Push, values)))
    }

    /// Starts a set: overwrites the values of `keys`. If a key occurs twice, the later value stays.
    ///
    /// # Errors
    /// See [`AccessError`]; then nothing was done.
    #[inline]
    pub fn set(&self, local: &mut Local<E>, keys: &[Key], values: &[E]) -> Result<Started, AccessError> {
        self.check(AccessKind::Set, keys, Some(values.len()))?;
        if self.layout.has_rules() {
            by_rule::set(self, local, keys, values)?;
        } else {
            self.walk(local, keys, Put(values));
        }
        local.count_push(keys.len(), self.access);
        Ok(self.start(local, Call::access(AccessKind::Set, values)))
    }

    /// Serves the keys that are here, one latch at a time, and defers the others in `local`. Slots and then
    /// values are prefetched.
    #[inline]
    fn walk<S: Serve<E>>(&self, local: &mut Local<E>, keys: &[Key], mut call: S) {
        if self.access == LocalAccess::Queue {
            return self.defer_all(local, S::KIND, keys);
        }
        let bounded = self.clocks.is_bounded() && S::KIND == AccessKind::Pull;
        let need = bounded.then(|| self.clocks.need(local.clock()));
        let again = S::AGAIN && self.lends_again(local);
        if let [key] = keys {
            if again && self.visit_again(local, *key, 0, &mut call).is_some() {
                return;
            }
            // Taking a latch is a barrier for later loads. These prefetches overlap with the previous call,
            // which still waits for its value.
            self.store.prefetch_slot(*key);
            self.store.prefetch_value(*key);
            self.visit(local, *key, 0, 0, need, &mut call);
            return;
        }
        let group = |number: usize| keys.chunks(GROUP).nth(number).unwrap_or_default();
        group(0).iter().chain(group(1)).for_each(|key| self.store.prefetch_slot(*key));
        group(0).iter().for_each(|key| self.store.prefetch_value(*key));
        let (mut offset, mut position) = (0, 0);
        for (number, keys) in keys.chunks(GROUP).enumerate() {
            group(number + 2).iter().for_each(|key| self.store.prefetch_slot(*key));
            group(number + 1).iter().for_each(|key| self.store.prefetch_value(*key));
            for key in keys {
                let end = if again { self.visit_again(local, *key, offset, &mut call) } else { None };
                offset = match end {
                    Some(end) => end,
                    None => self.visit(local, *key, position, offset, need, &mut call),
                };
                position += 1;
            }
        }
    }

    /// As [`Shared::visit`], in a few instructions, if the key is here and nothing needs to be noted;
    /// otherwise `None`.
    #[inline(always)]
    fn visit_again<S: Serve<E>>(
        &self,
        local: &Local<E>,
        key: Key,
        offset: usize,
        call: &mut S,
    ) -> Option<usize> {
        // An earlier key of this call may have been deferred.
        if !local.is_flushed() {
            return None;
        }
        let end = offset + S::elements(&self.layout, key);
        let mut row = match S::KIND {
            AccessKind::Pull => self.store.lend_favoured(local.favour()?, key, Readable)?,
            AccessKind::Push => self.lend_again(local, key)?,
            // A replica takes no set.
            AccessKind::Set => return None,
        };
        call.serve_row(&mut row, offset..end);
        Some(end)
    }

    /// Defers all keys of a call to their channels.
    #[inline(never)]
    fn defer_all(&self, local: &mut Local<E>, kind: AccessKind, keys: &[Key]) {
        let mut offset = 0;
        for (position, key) in keys.iter().copied().enumerate() {
            local.defer(self.layout.shard(key), position, key, offset);
            offset += elements_of(&self.layout, kind, key);
        }
    }

    /// Serves one key of a call if it is here, and defers it if not. Returns the offset of the next key's
    /// elements. A pull reads a copy only if the copy has reached the clock `need`.
    #[inline(always)]
    fn visit<S: Serve<E>>(
        &self,
        local: &mut Local<E>,
        key: Key,
        position: usize,
        offset: usize,
        need: Option<u32>,
        call: &mut S,
    ) -> usize {
        let end = offset + S::elements(&self.layout, key);
        let (mut entry, role) = self.latch_for(local, key);
        let owned = role == Role::Owner && need.is_none();
        let here = owned || self.serves(key, &entry.state(), S::KIND, need.unwrap_or(0));
        // This operation must not overtake an outstanding one of the same worker on the same key, even if the
        // key is here now.
        if here && !local.has_outstanding(self.layout.shard(key), key) {
            call.serve(&mut entry, offset..end);
            if !owned && S::KIND != AccessKind::Pull {
                self.mark(&mut entry);
            } else if S::KIND != AccessKind::Pull && entry.state().is_published() {
                // Takes the value, not the entry: a borrowed entry would have to live in memory.
                let follows = self.republish(key, entry.value().expect(HELD));
                entry.state_mut().set_published(follows);
            }
        } else {
            let (state, target) = (entry.state(), call.target(offset..end));
            let read = S::KIND == AccessKind::Pull
                && self.windows.is_some()
                && self.read_elsewhere(local, key, &state, target);
            drop(entry);
            if !read {
                local.defer(self.layout.shard(key), position, key, offset);
            }
        }
        end
    }

    /// Reads the values of those of `keys` that are here into their places in `values`; `here` says, per key,
    /// which these are. The places of the others do not change. This is the PullIfLocal of Lapse. With
    /// [`LocalAccess::Queue`] no key is here for the worker.
    ///
    /// # Errors
    /// See [`AccessError`]; then nothing was done.
    #[inline(never)]
    pub fn pull_if_local(
        &self,
        local: &mut Local<E>,
        keys: &[Key],
        values: &mut [E],
        here: &mut Vec<bool>,
    ) -> Result<(), AccessError> {
        self.check(AccessKind::Pull, keys, Some(values.len()))?;
        here.clear();
        if self.access == LocalAccess::Queue {
            here.resize(keys.len(), false);
            return Ok(());
        }
        let mut offset = 0;
        let need = self.clocks.need(local.clock());
        for key in keys {
            let len = self.layout.visible(*key);
            let mut served = false;
            if !local.has_outstanding(self.layout.shard(*key), *key) {
                let (entry, _) = self.latch_for(local, *key);
                let serves = self.serves(*key, &entry.state(), AccessKind::Pull, need);
                if let (true, Some(value)) = (serves, entry.value()) {
                    access::pull(&value[..len], &mut values[offset..offset + len]);
                    served = true;
                }
            }
            here.push(served);
            offset += len;
        }
        local.count_pull_if_local(here.iter().filter(|here| **here).count());
        Ok(())
    }

    /// Starts to relocate `keys` to this node. The operation, if there is one, is done when all of them have
    /// arrived; some may have left again by then. Does nothing if keys do not move on request, and for keys
    /// with static replicas. `now` is the time of the call, on the clock of [`crate::Channel::handle`].
    ///
    /// # Errors
    /// See [`AccessError`]; then nothing was done.
    #[inline(never)]
    pub fn localize(&self, local: &mut Local<E>, keys: &[Key], now: Tick) -> Result<Started, AccessError> {
        self.check(AccessKind::Pull, keys, None)?;
        if self.policy.relocation != Some(Initiator::Requester) {
            return Ok(Started { op: None, submissions: Vec::new() });
        }
        if self.access == LocalAccess::Queue {
            keys.iter().enumerate().for_each(|(position, key)| local.defer_localize(position, *key));
            return Ok(self.start(local, Call { kind: Kind::Localize, values: &[], kept: None, now }));
        }
        keys.iter().take(2 * GROUP).for_each(|key| self.store.prefetch_slot(*key));
        for (position, key) in keys.iter().enumerate() {
            if let Some(ahead) = keys.get(position + 2 * GROUP) {
                self.store.prefetch_slot(*ahead);
            }
            let (mut entry, role) = self.latch_for(local, *key);
            if role.is_owner() {
                entry.state_mut().set_localized();
            } else if !role.is_copy() {
                local.defer_localize(position, *key);
            }
        }
        Ok(self.start(local, Call { kind: Kind::Localize, values: &[], kept: None, now }))
    }

    /// Starts to synchronise static replicas: the operation is done when an all-reduce that began after this
    /// call is over on this node. Rounds begin when all workers of the node have called; with
    /// [`StaticReplicaPace::Asked`](intendant_techniques::StaticReplicaPace::Asked), when all workers of all
    /// nodes have, so that every copy has all earlier updates of all workers afterwards. There is no
    /// operation if there are no static replicas.
    #[inline(never)]
    pub fn synchronize(&self, local: &mut Local<E>) -> Started {
        let channels = (0..self.layout.channels()).map(|c| ChannelId(c as u16));
        let channels: Vec<_> = channels.filter(|c| !self.static_keys(*c).is_empty()).collect();
        let op = local.start_keyless(channels.len());
        let worker = local.worker();
        let submit = |op| {
            move |channel: ChannelId| {
                let work = Work::Synchronize { position: u32::from(channel.0) };
                (channel, Submission { worker, op, work })
            }
        };
        let submissions = op.map_or_else(Vec::new, |op| channels.into_iter().map(submit(op)).collect());
        Started { op, submissions }
    }

    /// Turns the deferred keys of a call into an operation, if there are any, or values to keep.
    #[inline]
    fn start(&self, local: &mut Local<E>, call: Call<'_, E>) -> Started {
        if local.is_served() && call.kept.is_none() {
            return Started { op: None, submissions: Vec::new() };
        }
        self.start_operation(local, call)
    }

    #[inline(never)]
    fn start_operation(&self, local: &mut Local<E>, call: Call<'_, E>) -> Started {
        let Call { kind, values, kept, now } = call;
        let layout = &*self.layout;
        let need = self.clocks.need(local.clock());
        local.start(kind, kept, layout, |local, op, deferred, submissions| {
            let (worker, clock) = (local.worker(), local.clock());
            for (channel, part) in parts(local, layout, kind, values, deferred).into_iter().enumerate() {
                let Some(Part { keys, positions, operands }) = part else { continue };
                let work = match kind {
                    Kind::Access(kind) => {
                        let values = local.operands.lend(operands);
                        Work::Access { kind, keys, positions, values, clock, need }
                    }
                    Kind::Localize => Work::Localize { keys, positions, issued: now },
                    Kind::Synchronize => unreachable!("no key is deferred to synchronize"),
                };
                submissions.push((ChannelId(channel as u16), Submission { worker, op, work }));
            }
        })
    }
}

/// The deferred keys of one channel.
struct Part {
    keys: Vec<Key>,
    positions: Vec<u32>,
    /// Little-endian elements, for a push or set.
    operands: Vec<u8>,
}

/// Groups the deferred keys of a call by channel.
fn parts<E: Element>(
    local: &mut Local<E>,
    layout: &Layout,
    kind: Kind,
    values: &[E],
    deferred: &[Deferral],
) -> Vec<Option<Part>> {
    let mut parts: Vec<Option<Part>> = (0..layout.channels()).map(|_| None).collect();
    // Each channel gets room for twice its even share.
    let share = |whole: usize| whole.min(2 * whole / layout.channels());
    for deferral in deferred {
        let part = parts[layout.channel(deferral.key).index()].get_or_insert_with(|| Part {
            keys: Vec::with_capacity(share(deferred.len())),
            positions: Vec::with_capacity(share(deferred.len())),
            operands: local.operands.take(share(size_of_val(values))),
        });
        part.keys.push(deferral.key);
        part.positions.push(deferral.position);
        if let Kind::Access(kind @ (AccessKind::Push | AccessKind::Set)) = kind {
            let operand = deferral.offset..deferral.offset + elements_of(layout, kind, deferral.key);
            copy_to_bytes(&values[operand], &mut part.operands);
        }
    }
    parts
}
