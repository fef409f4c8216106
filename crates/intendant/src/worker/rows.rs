//! Rows that a worker reads and changes in place, without a pull and a push.

use super::Worker;
use super::fetched::{Fetched, LENT};
use crate::error::Error;
use crate::parts::NodeParts;
use intendant_core::{Element, Key};
use intendant_engine::Row;
use std::sync::Arc;

/// How many rows ahead [`Worker::update`] fetches values, and [`Rows::prefetch`] slots after that.
const VALUES_AHEAD: usize = 3;
const SLOTS_AHEAD: usize = 8;

/// The rows of a call, by position: see [`Worker::rows`].
///
/// [`Rows::finish`] ends the call. If the rows are dropped instead, changes of lent rows stay, and changes of
/// copies are lost.
#[must_use = "`finish` pushes what was done to rows that are not here"]
pub struct Rows<'a, E: Element> {
    /// A clone of the worker's, so that a lent row does not borrow the worker.
    node: Arc<NodeParts<E>>,
    call: Call<'a, E>,
}

/// The state of a call that changes while rows are lent.
struct Call<'a, E: Element> {
    worker: &'a mut Worker<E>,
    keys: &'a [Key],
    /// Whether [`intendant_engine::Shared::lend_again`] may lend rows: no position has a copy, and no
    /// operation is in flight.
    again: bool,
    /// Samples that [`Rows::sample`] did not lend.
    strayed: usize,
    /// Why a row could not be read.
    failed: Option<Error>,
}

impl<E: Element> Worker<E> {
    /// Calls `update` with each key's position in `keys` and with its value, to be read and changed in place.
    /// Returns when `update` has been called for all keys.
    ///
    /// Where this node has a copy that can be written, this costs neither a copy nor a message: `update` gets
    /// the parameter itself, and each call of it is one atomic read and update. Values of other keys are
    /// pulled together; `update` gets copies, and the worker pushes the difference that it makes, which is
    /// added to the changes that others made meanwhile. As with [`Worker::push_async`], this does not wait
    /// for the push to arrive.
    ///
    /// ```
    /// use intendant::{Key, Layout, Node, NodeConfig};
    /// use std::sync::Arc;
    ///
    /// let layout = Layout::builder().range("vector", 100, 4).build()?;
    /// let config = NodeConfig::new(layout, Arc::new(|_key, value: &mut [f32]| value.fill(1.0)));
    /// let mut node = Node::start_alone(config)?;
    /// let mut worker = node.workers().remove(0);
    ///
    /// // A step of gradient descent on |x|² with learning rate 0.25.
    /// let mut loss = 0.0;
    /// worker.update(&[Key(3), Key(7)], |_position, value| {
    ///     for x in value {
    ///         loss += *x * *x;
    ///         *x -= 0.25 * 2.0 * *x;
    ///     }
    /// })?;
    /// assert_eq!(loss, 8.0);
    ///
    /// let mut values = [0.0; 8];
    /// worker.pull(&[Key(3), Key(7)], &mut values)?;
    /// assert_eq!(values, [0.5; 8]);
    /// # drop(worker);
    /// # node.shutdown()?;
    /// # Ok::<(), intendant::Error>(())
    /// ```
    ///
    /// `update` should do arithmetic and nothing else: other threads may wait for the value. The call counts
    /// as a pull and a push of each key.
    ///
    /// # Errors
    /// As [`Worker::pull`]; also if a key has a rule. If the cluster fails in the middle, some rows may have
    /// been updated.
    pub fn update(&mut self, keys: &[Key], mut update: impl FnMut(usize, &mut [E])) -> Result<(), Error> {
        let mut rows = self.rows(keys)?;
        (0..keys.len().min(VALUES_AHEAD)).for_each(|at| rows.prefetch(at));
        for at in 0..keys.len() {
            rows.prefetch(at + VALUES_AHEAD);
            update(at, &mut rows.row(at));
        }
        rows.finish()
    }

    /// As [`Worker::update`], for loops that need rows in their own order, or more than once. Pulls the rows
    /// that are not on this node, and returns all rows, which the caller borrows one at a time. A key that
    /// occurs twice is one row if it is on this node, and two copies if not.
    ///
    /// # Errors
    /// As [`Worker::pull`].
    pub fn rows<'a>(&'a mut self, keys: &'a [Key]) -> Result<Rows<'a, E>, Error> {
        self.observe(keys);
        self.take_in()?;
        self.write_on();
        let fetched = &mut self.fetched;
        fetched.places.clear();
        fetched.positions.clear();
        self.inner.shared.find_absent(&self.local, keys, &mut fetched.positions)?;
        fetched.keys.clear();
        fetched.values.clear();
        fetched.pulled.clear();
        fetched.pulled_and_lent = 0;
        if !fetched.positions.is_empty() {
            self.fetch(keys)?;
            self.lend_arrived(keys)?;
        }
        let node = Arc::clone(&self.inner);
        let again = self.fetched.places.is_empty() && node.shared.lends_again(&self.local);
        Ok(Rows { node, call: Call { worker: self, keys, again, strayed: 0, failed: None } })
    }

    /// Pulls copies for the positions that have none yet.
    #[inline(never)]
    pub(crate) fn fetch(&mut self, keys: &[Key]) -> Result<(), Error> {
        let mut fetched = std::mem::take(&mut self.fetched);
        let layout = self.inner.shared.layout();
        fetched.places.resize(keys.len(), LENT);
        let (first, start) = (fetched.keys.len(), fetched.values.len());
        let mut end = start;
        for position in &fetched.positions[first..] {
            let key = keys[*position as usize];
            fetched.places[*position as usize] = end;
            fetched.keys.push(key);
            end += layout.len(key);
        }
        fetched.values.resize(end, E::ZERO);
        let pulled = self.pull_unobserved(&fetched.keys[first..], &mut fetched.values[start..]);
        fetched.pulled.extend_from_slice(&fetched.values[start..]);
        self.fetched = fetched;
        pulled
    }

    /// Drops the copies of rows that can be lent by now: those of keys that have moved to this node, and
    /// those of keys whose copy on this node was too old.
    #[inline(never)]
    pub(crate) fn lend_arrived(&mut self, keys: &[Key]) -> Result<(), Error> {
        let mut fetched = std::mem::take(&mut self.fetched);
        let mut absent = Vec::new();
        let found = self.inner.shared.find_absent(&self.local, &fetched.keys, &mut absent);
        if found.is_ok() && absent.len() < fetched.keys.len() {
            let layout = self.inner.shared.layout();
            fetched.places.fill(LENT);
            let (mut from, mut to, mut left) = (0, 0, absent.iter().peekable());
            for at in 0..fetched.keys.len() {
                let (key, position) = (fetched.keys[at], fetched.positions[at]);
                let end = from + layout.len(key);
                if left.next_if(|absent| **absent as usize == at).is_some() {
                    fetched.places[position as usize] = to;
                    fetched.values.copy_within(from..end, to);
                    to += end - from;
                }
                from = end;
            }
            fetched.pulled_and_lent = fetched.keys.len() - absent.len();
            fetched.positions = absent.iter().map(|at| fetched.positions[*at as usize]).collect();
            fetched.keys = fetched.positions.iter().map(|position| keys[*position as usize]).collect();
            if fetched.keys.is_empty() {
                fetched.places.clear();
            }
            fetched.values.truncate(to);
            fetched.pulled.clear();
            fetched.pulled.extend_from_slice(&fetched.values);
        }
        self.fetched = fetched;
        Ok(found?)
    }

    /// Pulls the row at a position, which has left this node since the call began.
    #[cold]
    fn fetch_one(&mut self, keys: &[Key], at: usize) -> Result<(), Error> {
        self.fetched.positions.push(at as u32);
        self.fetch(keys)
    }
}

impl<E: Element> Rows<'_, E> {
    /// Lends the row at a position. The caller should do arithmetic and nothing else before it drops the row.
    /// If the cluster has failed, the row is a copy that is thrown away, and [`Rows::finish`] returns the
    /// error.
    ///
    /// # Panics
    /// If the call has no such position.
    #[inline(always)]
    pub fn row(&mut self, at: usize) -> Row<'_, E> {
        if self.call.again
            && let Some(row) = self.node.shared.lend_again(&self.call.worker.local, self.call.keys[at])
        {
            return row;
        }
        self.call.row(&self.node, at)
    }

    /// As [`Rows::row`], for a sample. `None` if samples are drawn among the keys that are on this node
    /// ([`intendant_sampling::Scheme::Local`]), and this key has left since the call began. The caller should
    /// skip this sample: a pull would make the caller wait for one of many samples, and a moment later the
    /// sampler would have drawn another key. With other schemes, the call pulls the row, because these
    /// schemes promise certain keys.
    #[inline(always)]
    pub fn sample(&mut self, at: usize) -> Option<Row<'_, E>> {
        if self.call.again
            && let row @ Some(_) = self.node.shared.lend_again(&self.call.worker.local, self.call.keys[at])
        {
            return row;
        }
        self.call.sample(&self.node, at)
    }

    /// Hints that the row at a position is about to be lent. Positions beyond the last one are ignored.
    #[inline(always)]
    pub fn prefetch(&self, at: usize) {
        let Call { worker, keys, .. } = &self.call;
        if let Some(key) = keys.get(at) {
            self.node.shared.prefetch_row(&worker.local, *key, keys.get(at + SLOTS_AHEAD).copied());
        }
    }

    /// Pushes the changes of copies, without waiting for the push to arrive.
    ///
    /// # Errors
    /// As [`Worker::pull`].
    #[inline(never)]
    pub fn finish(self) -> Result<(), Error> {
        let Self { node, call: Call { worker, keys, strayed, failed, .. } } = self;
        let copies = worker.fetched.keys.len();
        // Samples that were not lent count as well, so that the number of accesses does not depend on which
        // keys move.
        worker.local.count_updates(keys.len() - copies, worker.fetched.pulled_and_lent);
        if strayed > 0 {
            node.sampling.count_strayed(strayed as u64);
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if copies == 0 {
            return Ok(());
        }
        let fetched = std::mem::take(&mut worker.fetched);
        let Fetched { keys, mut values, pulled, places, positions, pulled_and_lent } = fetched;
        values.iter_mut().zip(&pulled).for_each(|(value, pulled)| *value -= *pulled);
        // `flush` waits for all pushes.
        let _ticket = worker.push_async(&keys, &values)?;
        worker.fetched = Fetched { keys, values, pulled, places, positions, pulled_and_lent };
        Ok(())
    }
}

impl<E: Element> Call<'_, E> {
    #[inline(never)]
    fn row<'a>(&'a mut self, node: &'a NodeParts<E>, at: usize) -> Row<'a, E> {
        let key = self.keys[at];
        if self.worker.fetched.places.get(at).is_none_or(|place| *place == LENT) {
            if let Some(row) = node.shared.lend_first(&self.worker.local, key) {
                return row;
            }
            self.again = false;
            if let Err(error) = self.worker.fetch_one(self.keys, at) {
                self.failed.get_or_insert(error);
            }
        }
        let start = self.worker.fetched.places[at];
        let len = node.shared.layout().len(key);
        Row::unshared(&mut self.worker.fetched.values[start..start + len])
    }

    #[inline(never)]
    fn sample<'a>(&'a mut self, node: &'a NodeParts<E>, at: usize) -> Option<Row<'a, E>> {
        let is_copy = self.worker.fetched.places.get(at).is_some_and(|place| *place != LENT);
        if !is_copy && node.sampling.draws_near() {
            let row = node.shared.lend_first(&self.worker.local, self.keys[at]);
            self.strayed += usize::from(row.is_none());
            return row;
        }
        Some(self.row(node, at))
    }
}
