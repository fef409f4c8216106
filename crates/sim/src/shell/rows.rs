//! The rows of a batch that a simulated worker trains in place.

use crate::cluster::{Cluster, Probe};
use intendant_core::{Element, Key, Layout};
use intendant_task::{Row, Rows};

/// Marks a position whose row is lent.
const LENT: usize = usize::MAX;

/// How many rows after a row slots are fetched.
const SLOTS_AHEAD: usize = 8;

/// Where a batch is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// It has not begun.
    #[default]
    Idle,
    Fetching,
    /// What was done to copies is to be pushed.
    Trained,
}

/// Copies of the rows of a batch that are not at the worker's node.
#[derive(Debug, Default)]
pub(super) struct Copies<E> {
    stage: Stage,
    /// By position of the batch, where its copy begins, or [`LENT`].
    places: Vec<usize>,
    keys: Vec<Key>,
    positions: Vec<u32>,
    /// Keys that were pulled and whose rows are lent nevertheless.
    pulled_and_lent: usize,
    /// The copies, and what was pulled; after training, the copies are what is pushed.
    values: Vec<E>,
    pulled: Vec<E>,
}

impl<E: Element> Copies<E> {
    /// Begins a batch of `positions` rows, unless it has begun already; whether it did.
    pub(super) fn begin(&mut self, positions: usize) -> bool {
        let begins = self.stage == Stage::Idle;
        if begins {
            self.stage = Stage::Fetching;
            self.places.clear();
            self.places.resize(positions, LENT);
            self.keys.clear();
            self.positions.clear();
            self.pulled_and_lent = 0;
            self.values.clear();
            self.pulled.clear();
        }
        begins
    }

    pub(super) fn is_trained(&self) -> bool {
        self.stage == Stage::Trained
    }

    /// Those of the positions that have no copy yet.
    pub(super) fn without(&self, positions: &[u32]) -> Vec<u32> {
        positions.iter().copied().filter(|position| self.places[*position as usize] == LENT).collect()
    }

    /// Adds copies, which are complete, or will be when [`Copies::arrived`] is called.
    pub(super) fn pulled(&mut self, positions: &[u32], keys: &[Key], values: &[E], layout: &Layout) {
        let mut end = self.values.len();
        for (position, key) in positions.iter().zip(keys) {
            self.places[*position as usize] = end;
            end += layout.len(*key);
        }
        self.keys.extend_from_slice(keys);
        self.positions.extend_from_slice(positions);
        self.values.extend_from_slice(values);
        self.pulled.extend_from_slice(values);
    }

    /// The copies added last have arrived.
    pub(super) fn arrived(&mut self, values: &[E]) {
        let start = self.values.len() - values.len();
        self.values[start..].copy_from_slice(values);
        self.pulled[start..].copy_from_slice(values);
    }

    /// Drops the copies of rows that can be lent by now: all but those at the positions of `absent`.
    #[inline(never)]
    pub(super) fn lend_others(&mut self, absent: &[u32], layout: &Layout) {
        if self.keys.is_empty() {
            return;
        }
        let (keys, positions) = (std::mem::take(&mut self.keys), std::mem::take(&mut self.positions));
        let (values, places) = (std::mem::take(&mut self.values), self.places.clone());
        self.places.fill(LENT);
        self.pulled.clear();
        let pulled = keys.len();
        for (key, position) in keys.into_iter().zip(positions) {
            if absent.contains(&position) {
                let place = places[position as usize];
                self.pulled(&[position], &[key], &values[place..place + layout.len(key)], layout);
            }
        }
        self.pulled_and_lent += pulled - self.keys.len();
    }

    /// The batch has been trained. Returns the number of rows that were lent, and how many of these had been
    /// pulled before.
    pub(super) fn trained(&mut self) -> (usize, usize) {
        self.stage = Stage::Trained;
        self.values.iter_mut().zip(&self.pulled).for_each(|(value, pulled)| *value -= *pulled);
        (self.places.len() - self.keys.len(), self.pulled_and_lent)
    }

    /// The keys of copies, and what is to be added to their values.
    pub(super) fn update(&self) -> (&[Key], &[E]) {
        (&self.keys, &self.values)
    }

    pub(super) fn end(&mut self) {
        self.stage = Stage::Idle;
    }
}

/// The rows of a batch: those of the worker's node, and copies of the others.
pub(super) struct ClusterRows<'a, E, P> {
    cluster: &'a Cluster<E, P>,
    worker: usize,
    keys: &'a [Key],
    copies: &'a mut Copies<E>,
}

impl<'a, E: Element, P: Probe<E>> ClusterRows<'a, E, P> {
    pub(super) fn new(
        cluster: &'a Cluster<E, P>,
        worker: usize,
        keys: &'a [Key],
        copies: &'a mut Copies<E>,
    ) -> Self {
        Self { cluster, worker, keys, copies }
    }
}

impl<E: Element, P: Probe<E>> Rows<E> for ClusterRows<'_, E, P> {
    fn row(&mut self, at: usize) -> Row<'_, E> {
        let (key, place) = (self.keys[at], self.copies.places[at]);
        if place == LENT {
            return self.cluster.lend(self.worker, key).expect("no time has passed since the row was found");
        }
        Row::unshared(&mut self.copies.values[place..place + self.cluster.layout().len(key)])
    }

    fn prefetch(&self, at: usize) {
        if let Some(key) = self.keys.get(at) {
            self.cluster.prefetch_row(self.worker, *key, self.keys.get(at + SLOTS_AHEAD).copied());
        }
    }
}
