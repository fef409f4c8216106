//! Sparse updates of static keys, as nodes compute them and as messages carry them, and their sum.

use bytes::Bytes;
use intendant_core::{Element, copy_from_bytes};
use std::fmt;
use std::sync::Arc;

/// Updates of some static keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deltas<E> {
    /// Indices into the list of static keys, ascending.
    pub indices: Vec<u32>,
    /// The elements to add to these keys, concatenated.
    pub values: Vec<E>,
}

/// Updates of some static keys in a message. They stay in the memory in which they have arrived.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// Indices into the list of static keys, ascending.
    pub indices: Vec<u32>,
    /// The elements to add to these keys, concatenated, little-endian.
    pub values: Bytes,
}

impl Part {
    /// Elements of type `E`, whole ones.
    pub(super) fn elements<E>(&self) -> usize {
        self.values.len() / size_of::<E>()
    }
}

impl<E: Element> Deltas<E> {
    /// No updates.
    #[must_use]
    pub const fn new() -> Self {
        Self { indices: Vec::new(), values: Vec::new() }
    }

    /// Whether no key is updated.
    pub const fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// Forgets the updates and keeps the memory.
    fn clear(&mut self) {
        self.indices.clear();
        self.values.clear();
    }

    /// Appends the update of a key; `index` must be larger than all others.
    pub fn push(&mut self, index: u32, delta: &[E]) {
        intendant_core::strict_assert!(
            self.indices.last().is_none_or(|last| *last < index),
            "index {index} after {:?}",
            self.indices.last()
        );
        self.indices.push(index);
        self.values.extend_from_slice(delta);
    }

    /// The updates, by ascending index; `len` says how many elements a key has.
    pub fn iter(&self, len: impl Fn(u32) -> usize) -> impl Iterator<Item = (u32, &[E])> {
        let mut rest = self.values.as_slice();
        self.indices.iter().map(move |index| {
            let (delta, after) = rest.split_at(len(*index));
            rest = after;
            (*index, delta)
        })
    }

    /// Replaces the updates, by those of a message in `parts`.
    pub(super) fn set(&mut self, parts: &[Part]) {
        self.clear();
        for part in parts {
            self.indices.extend_from_slice(&part.indices);
            let from = self.values.len();
            self.values.resize(from + part.elements::<E>(), E::ZERO);
            copy_from_bytes(&mut self.values[from..], &part.values);
        }
    }

    /// Replaces the updates, by the sum of `own` and those of a message in `parts`. An update that both have
    /// becomes `add(own, other)`, element by element; an update that only one of them has is copied, bit by
    /// bit. `len` says how many elements a key has.
    ///
    /// # Panics
    /// If either does not have as many elements as its keys.
    pub fn set_to_sum(
        &mut self,
        own: &Self,
        parts: &[Part],
        len: impl Fn(u32) -> usize,
        add: impl Fn(E, E) -> E,
    ) {
        self.clear();
        let theirs = parts.iter().map(Part::elements::<E>).sum();
        // Hot keys change on every node in every round: the sum is often no longer than either operand.
        self.values.reserve(own.values.len().max(theirs));
        let mut sum = Sum { own, at: 0, offset: 0, sum: self, add };
        for part in parts {
            if own.indices[sum.at..].starts_with(&part.indices) {
                sum.both(&part.indices, &part.values);
                continue;
            }
            let mut rest = &part.values[..];
            for index in &part.indices {
                let (delta, after) = rest.split_at(len(*index) * size_of::<E>());
                rest = after;
                sum.own_before(*index, &len);
                if own.indices.get(sum.at) == Some(index) {
                    sum.both(&[*index], delta);
                } else {
                    sum.sum.indices.push(*index);
                    sum.sum.values.extend(delta.chunks_exact(size_of::<E>()).map(E::read_le));
                }
            }
        }
        sum.own_rest();
        assert_eq!(own.values.len(), sum.offset, "elements of the own updates");
    }
}

/// A sum of updates that is being computed.
struct Sum<'a, E, A> {
    own: &'a Deltas<E>,
    /// Position of the first own update that is not in the sum, and of its first element.
    at: usize,
    offset: usize,
    sum: &'a mut Deltas<E>,
    add: A,
}

impl<E: Element, A: Fn(E, E) -> E> Sum<'_, E, A> {
    /// The next own updates are of the keys `indices`, as are those in `delta`.
    fn both(&mut self, indices: &[u32], delta: &[u8]) {
        let elements = delta.len() / size_of::<E>();
        let own = &self.own.values[self.offset..self.offset + elements];
        let theirs = delta.chunks_exact(size_of::<E>()).map(E::read_le);
        self.sum.values.extend(own.iter().zip(theirs).map(|(own, theirs)| (self.add)(*own, theirs)));
        self.sum.indices.extend_from_slice(indices);
        self.at += indices.len();
        self.offset += elements;
    }

    /// Appends the own updates of keys before `index`.
    fn own_before(&mut self, index: u32, len: impl Fn(u32) -> usize) {
        let before = self.own.indices[self.at..].iter().take_while(|own| **own < index);
        let (keys, elements) = before.fold((0, 0), |(keys, all), own| (keys + 1, all + len(*own)));
        self.own_next(keys, elements);
    }

    fn own_rest(&mut self) {
        self.own_next(self.own.indices.len() - self.at, self.own.values.len() - self.offset);
    }

    fn own_next(&mut self, keys: usize, elements: usize) {
        self.sum.indices.extend_from_slice(&self.own.indices[self.at..self.at + keys]);
        self.sum.values.extend_from_slice(&self.own.values[self.offset..self.offset + elements]);
        self.at += keys;
        self.offset += elements;
    }
}

/// Memory of updates that may be as large as the model, reused from round to round: new memory comes from
/// the operating system page by page, which costs as much as adding the updates up.
#[derive(Clone, Default)]
pub(super) struct Memory<E> {
    /// Messages in flight may still share it.
    pub(super) kept: Vec<Arc<Deltas<E>>>,
}

impl<E> fmt::Debug for Memory<E> {
    /// What it holds is no state of the all-reduce.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memory")
    }
}

impl<E: Element> Memory<E> {
    /// A round of two nodes uses two: the contribution, and the sum.
    pub(super) const KEPT_MAX: usize = 3;

    /// Updates that are not shared, and empty.
    pub(super) fn take(&mut self) -> Arc<Deltas<E>> {
        let free = self.kept.iter_mut().position(|kept| Arc::get_mut(kept).is_some());
        let Some(free) = free else { return Arc::default() };
        let mut free = self.kept.swap_remove(free);
        Arc::get_mut(&mut free).expect("it is not shared").clear();
        free
    }

    /// Takes back updates that others may share for a while.
    pub(super) fn put(&mut self, deltas: Arc<Deltas<E>>) {
        let known = self.kept.iter().any(|kept| Arc::ptr_eq(kept, &deltas));
        if !known && deltas.values.capacity() > 0 && self.kept.len() < Self::KEPT_MAX {
            self.kept.push(deltas);
        }
    }
}
