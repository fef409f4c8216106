//! The plain shared array: what a single node without a parameter server would use, and the baseline for the
//! store.

use crate::latch::Latch;
use crate::memory::Array;
use crate::prefetch::prefetch_run;
use crate::row::Row;
use intendant_core::{Element, Initialiser, Key, Layout};
use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::Arc;

/// One latch per cache line; otherwise threads with neighbouring latches would wait for each other's line.
#[repr(align(64))]
#[derive(Default)]
struct Line(Latch);

/// All values of a layout in one block of memory, row by row, with striped latches so that rows are read and
/// added atomically.
pub struct Flat<E> {
    layout: Arc<Layout>,
    values: Array<UnsafeCell<E>>,
    /// Index of the first element, per key range.
    starts: Vec<usize>,
    /// Length of all values, if they have the same length; otherwise 0.
    uniform: usize,
    latches: Box<[Line]>,
}

// SAFETY: elements are reached only through `read`, `add`, `set` and `lend`, which hold the latch of the
// key's stripe; rows of different keys do not overlap.
unsafe impl<E: Send> Sync for Flat<E> {}

impl<E: Element> Flat<E> {
    /// Allocates and initialises all values.
    pub fn new(layout: Arc<Layout>, init: &Initialiser<E>) -> Self {
        let (mut starts, mut end) = (Vec::new(), 0);
        for range in layout.ranges() {
            starts.push(end);
            end += (range.keys.end - range.keys.start) as usize * range.len;
        }
        let values = Array::new(end, || UnsafeCell::new(E::ZERO));
        let latches = (0..layout.shards()).map(|_| Line::default()).collect();
        let uniform = if let [len] = layout.lens() { *len } else { 0 };
        let mut flat = Self { layout, values, starts, uniform, latches };
        for key in (0..flat.layout.keys()).map(Key) {
            init(key, &mut flat.lend_alone(key));
        }
        flat
    }

    /// The layout that the array was made for.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The places of the elements of a value.
    #[inline]
    fn places(&self, key: Key) -> Range<usize> {
        if self.uniform > 0 {
            assert!(self.layout.contains(key), "{key:?} is outside of the layout");
            let start = key.index() * self.uniform;
            return start..start + self.uniform;
        }
        let ranges = self.layout.ranges();
        let at = ranges.partition_point(|r| r.keys.end <= key.0);
        assert!(at < ranges.len(), "{key:?} is outside of the layout");
        let start = self.starts[at] + (key.0 - ranges[at].keys.start) as usize * ranges[at].len;
        start..start + ranges[at].len
    }

    #[inline]
    fn row(&self, key: Key) -> &[UnsafeCell<E>] {
        &self.values[self.places(key)]
    }

    #[inline]
    fn with<R>(&self, key: Key, act: impl FnOnce(&mut [E]) -> R) -> R {
        let row = self.row(key);
        let _guard = self.latches[self.layout.shard(key)].0.lock();
        // SAFETY: the latch of the key's stripe is held until the end of this function, rows do not overlap,
        // and `UnsafeCell<E>` has the layout of `E`.
        let row = unsafe { std::slice::from_raw_parts_mut(UnsafeCell::raw_get(row.as_ptr()), row.len()) };
        act(row)
    }

    /// Prefetches the row of `key`.
    #[inline]
    pub fn prefetch(&self, key: Key) {
        let row = self.row(key);
        prefetch_run(row.as_ptr().cast(), size_of_val(row));
    }

    /// Copies the value of `key` to `value`.
    ///
    /// # Panics
    /// If the key does not exist or `value` has another length.
    #[inline]
    pub fn read(&self, key: Key, value: &mut [E]) {
        self.with(key, |row| value.copy_from_slice(row));
    }

    /// Adds `update` to the value of `key`.
    ///
    /// # Panics
    /// If the key does not exist or `update` has another length.
    #[inline]
    pub fn add(&self, key: Key, update: &[E]) {
        self.with(key, |row| {
            assert_eq!(row.len(), update.len(), "update and value of {key:?} differ in length");
            for (value, add) in row.iter_mut().zip(update) {
                *value += *add;
            }
        });
    }

    /// Lends the value of `key`. A thread must not hold two rows at once.
    ///
    /// # Panics
    /// If the key does not exist.
    #[inline]
    pub fn lend(&self, key: Key) -> Row<'_, E> {
        let row = self.row(key);
        let guard = self.latches[self.layout.shard(key)].0.lock();
        // SAFETY: every access holds the latch of the key's stripe, rows do not overlap, `UnsafeCell<E>` has
        // the layout of `E`, and the elements live as long as the array.
        unsafe { Row::latched(UnsafeCell::raw_get(row.as_ptr()), row.len(), guard) }
    }

    /// Lends the value of `key` without a latch, because the caller has exclusive access to the array.
    ///
    /// # Panics
    /// If the key does not exist.
    #[inline]
    pub fn lend_alone(&mut self, key: Key) -> Row<'_, E> {
        let places = self.places(key);
        let row = &mut self.values[places];
        // SAFETY: `UnsafeCell<E>` has the layout of `E`, and the exclusive reference to the cells becomes one
        // to what they contain.
        let row = unsafe { &mut *(std::ptr::from_mut(row) as *mut [E]) };
        Row::unshared(row)
    }

    /// Overwrites the value of `key`.
    ///
    /// # Panics
    /// If the key does not exist or `value` has another length.
    #[inline]
    pub fn set(&self, key: Key, value: &[E]) {
        self.with(key, |row| row.copy_from_slice(value));
    }
}
