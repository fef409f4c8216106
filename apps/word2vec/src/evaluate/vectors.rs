//! Vectors of words, found by their keys.

use crate::model::Shape;
use intendant_core::{Element, Key};

/// The vectors of some keys, ascending.
#[derive(Clone, Copy)]
pub(crate) struct Vectors<'a, E> {
    pub(super) keys: &'a [Key],
    pub(super) values: &'a [E],
    pub(super) shape: Shape,
}

impl<E: Element> Vectors<'_, E> {
    /// The place of a key that is among them.
    pub(crate) fn place(&self, key: Key) -> usize {
        self.keys.partition_point(|other| *other < key)
    }

    pub(crate) fn at(&self, place: usize) -> &[E] {
        &self.values[place * self.shape.len()..][..self.shape.dim]
    }

    pub(crate) fn of(&self, key: Key) -> &[E] {
        self.at(self.place(key))
    }
}
