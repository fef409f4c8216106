//! Sparse updates of static keys, and their sum.

use intendant_core::Element;

/// Updates of some static keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deltas<E> {
    /// Indices into the list of static keys, ascending.
    pub indices: Vec<u32>,
    /// The elements to add to these keys, concatenated.
    pub values: Vec<E>,
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

    /// Adds `other`. An update that both have becomes `self + other`, element by element; an update that only
    /// one of them has is copied, bit by bit. `len` says how many elements a key has.
    ///
    /// # Panics
    /// If either does not have as many elements as its keys.
    pub fn merge(&mut self, other: &Self, len: impl Fn(u32) -> usize) {
        self.combine(other, len, |own, other| own + other);
    }

    /// As [`merge`](Self::merge), but an update that both have becomes `other + self`.
    ///
    /// # Panics
    /// As [`merge`](Self::merge).
    pub fn merge_after(&mut self, other: &Self, len: impl Fn(u32) -> usize) {
        self.combine(other, len, |own, other| other + own);
    }

    fn combine(&mut self, other: &Self, len: impl Fn(u32) -> usize, add: impl Fn(E, E) -> E) {
        if other.is_empty() {
            return;
        }
        if self.is_empty() {
            self.clone_from(other);
            return;
        }
        // Replicas of hot keys change on every node in every round, so both sides often have the same keys.
        if self.indices == other.indices {
            assert_eq!(self.values.len(), other.values.len(), "the same keys, other elements");
            self.values.iter_mut().zip(&other.values).for_each(|(to, delta)| *to = add(*to, *delta));
            return;
        }
        let mut sum = Self {
            indices: Vec::with_capacity(self.indices.len() + other.indices.len()),
            values: Vec::with_capacity(self.values.len() + other.values.len()),
        };
        let (mut left, mut right) = (self.iter(&len).peekable(), other.iter(&len).peekable());
        loop {
            match (left.peek().copied(), right.peek().copied()) {
                (Some((index, a)), Some((other, b))) if index == other => {
                    sum.indices.push(index);
                    sum.values.extend(a.iter().zip(b).map(|(a, b)| add(*a, *b)));
                    left.next();
                    right.next();
                }
                (Some((index, a)), after) if after.is_none_or(|(other, _)| index < other) => {
                    sum.push(index, a);
                    left.next();
                }
                (_, Some((index, b))) => {
                    sum.push(index, b);
                    right.next();
                }
                (_, None) => break,
            }
        }
        drop((left, right));
        *self = sum;
    }
}
