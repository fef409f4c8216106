//! The limit: a gather or add over plain memory, without roles and bookkeeping, and without a latch or with
//! little more than a latch.

use crate::args::Op;
use intendant::{Element, Key};
use intendant_core::lock;
use std::hint::black_box;
use std::sync::Mutex;

/// A flat array of rows.
pub(crate) struct Plain<E> {
    rows: Vec<E>,
    len: usize,
}

impl<E: Element> Plain<E> {
    pub(crate) fn new(keys: u64, len: usize) -> Self {
        Self { rows: vec![E::ONE; keys as usize * len], len }
    }

    /// One call: copies the rows of `keys` to `values`, or adds `values` to them.
    #[inline(never)]
    pub(crate) fn call(&mut self, op: Op, keys: &[Key], values: &mut [E]) {
        let len = self.len;
        match op {
            Op::Pull => {
                for (key, value) in keys.iter().zip(values.chunks_exact_mut(len)) {
                    value.copy_from_slice(&self.rows[key.index() * len..][..len]);
                }
            }
            Op::Push => self.add(keys, values),
        }
        black_box(values);
    }

    /// Adds `values` to the rows of `keys`.
    #[inline(never)]
    pub(crate) fn add(&mut self, keys: &[Key], values: &[E]) {
        let len = self.len;
        for (key, value) in keys.iter().zip(values.chunks_exact(len)) {
            let row = &mut self.rows[key.index() * len..][..len];
            row.iter_mut().zip(value).for_each(|(row, value)| *row += *value);
        }
        black_box(&mut self.rows);
    }
}

/// Rows that threads share, each behind a latch.
pub(crate) struct Latched<E> {
    rows: Vec<Mutex<Box<[E]>>>,
}

impl<E: Element> Latched<E> {
    pub(crate) fn new(keys: u64, len: usize) -> Self {
        Self { rows: (0..keys).map(|_| Mutex::new(vec![E::ONE; len].into())).collect() }
    }

    /// As [`Plain::call`].
    #[inline(never)]
    pub(crate) fn call(&self, op: Op, keys: &[Key], values: &mut [E]) {
        let len = values.len() / keys.len();
        for (key, value) in keys.iter().zip(values.chunks_exact_mut(len)) {
            let mut row = lock(&self.rows[key.index()]);
            match op {
                Op::Pull => value.copy_from_slice(&row),
                Op::Push => row.iter_mut().zip(value).for_each(|(row, value)| *row += *value),
            }
        }
        black_box(values);
    }
}
