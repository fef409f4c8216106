//! Sparse updates of static keys, as nodes compute them and as messages carry them, and their sum.

use bytes::Bytes;
use intendant_core::Element;
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
    /// Number of whole elements of type `E`.
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
}

/// The sum of own updates and those of a message, of which some parts have arrived. An update that both have
/// becomes the sum of both, element by element; an update that only one of them has is copied, bit by bit.
#[derive(Clone, Debug)]
pub(super) struct Adding<E> {
    /// Not shared.
    sum: Arc<Deltas<E>>,
    /// How many own updates are in the sum, and how many elements they have.
    at: usize,
    offset: usize,
}

impl<E: Element> Adding<E> {
    /// The sum of `own` before any part of the message, in memory that is not shared.
    pub(super) fn new(memory: Arc<Deltas<E>>, own: &Deltas<E>) -> Self {
        let mut new = Self { sum: memory, at: 0, offset: 0 };
        // Most changed keys change on every node, so the sum is often as long as the own updates.
        let sum = new.unshared();
        sum.indices.reserve_exact(own.indices.len());
        sum.values.reserve_exact(own.values.len());
        new
    }

    /// Adds the next part of the message. `add` gets an own element and one of the part. `len` says how many
    /// elements a key has.
    ///
    /// # Panics
    /// If either does not have as many elements as its keys.
    pub(super) fn add(
        &mut self,
        own: &Deltas<E>,
        part: &Part,
        len: impl Fn(u32) -> usize,
        add: impl Fn(E, E) -> E,
    ) {
        // Hot keys change on every node in every round: both often have the same keys.
        if own.indices[self.at..].starts_with(&part.indices) {
            return self.both(own, &part.indices, &part.values, &add);
        }
        let mut rest = &part.values[..];
        for index in &part.indices {
            let (delta, after) = rest.split_at(len(*index) * size_of::<E>());
            rest = after;
            let before = own.indices[self.at..].iter().take_while(|own| *own < index);
            let (keys, elements) = before.fold((0, 0), |(keys, all), own| (keys + 1, all + len(*own)));
            self.own(own, keys, elements);
            if own.indices.get(self.at) == Some(index) {
                self.both(own, &[*index], delta, &add);
            } else {
                let sum = self.unshared();
                sum.indices.push(*index);
                sum.values.extend(delta.chunks_exact(size_of::<E>()).map(E::read_le));
            }
        }
    }

    /// The sum, with what is left of the own updates.
    pub(super) fn finish(mut self, own: &Deltas<E>) -> Arc<Deltas<E>> {
        self.own(own, own.indices.len() - self.at, own.values.len() - self.offset);
        self.sum
    }

    fn unshared(&mut self) -> &mut Deltas<E> {
        Arc::get_mut(&mut self.sum).expect("the sum is not shared")
    }

    /// Adds the next own updates and those in `delta`, both of which are of the keys `indices`.
    fn both(&mut self, own: &Deltas<E>, indices: &[u32], delta: &[u8], add: impl Fn(E, E) -> E) {
        let elements = delta.len() / size_of::<E>();
        let own = &own.values[self.offset..self.offset + elements];
        let theirs = delta.chunks_exact(size_of::<E>()).map(E::read_le);
        let sum = self.unshared();
        sum.values.extend(own.iter().zip(theirs).map(|(own, theirs)| add(*own, theirs)));
        sum.indices.extend_from_slice(indices);
        self.at += indices.len();
        self.offset += elements;
    }

    /// Copies the next own updates, of `keys` keys, which the message does not have.
    fn own(&mut self, own: &Deltas<E>, keys: usize, elements: usize) {
        let (indices, values) = (self.at..self.at + keys, self.offset..self.offset + elements);
        (self.at, self.offset) = (indices.end, values.end);
        let sum = self.unshared();
        sum.indices.extend_from_slice(&own.indices[indices]);
        sum.values.extend_from_slice(&own.values[values]);
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
    /// Hides the memory, which is not part of the state of the all-reduce.
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
