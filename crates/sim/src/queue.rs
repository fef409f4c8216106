//! The event queue: events ordered by virtual time. The seed orders events of the same time.

use crate::dice::Dice;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

struct Entry<T> {
    /// Time in nanoseconds, then 32 random bits, then 32 bits of a running number: no two entries are equal.
    rank: u128,
    event: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.rank.cmp(&self.rank)
    }
}

/// Pending events, and the virtual time.
pub(crate) struct Queue<T> {
    heap: BinaryHeap<Entry<T>>,
    now_ns: u64,
    scheduled: u64,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), now_ns: 0, scheduled: 0 }
    }

    /// Nanoseconds since the start.
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Number of pending events.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Schedules `event` at `at_ns`, which must not be in the past.
    pub(crate) fn schedule(&mut self, at_ns: u64, event: T, dice: &mut Dice) {
        debug_assert!(at_ns >= self.now_ns, "an event in the past");
        let tie = (dice.word() << 32) | (self.scheduled & 0xffff_ffff);
        self.scheduled += 1;
        self.heap.push(Entry { rank: (u128::from(at_ns) << 64) | u128::from(tie), event });
    }

    /// Time of the next event.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|entry| (entry.rank >> 64) as u64)
    }

    /// The next event, and two of which one is the next but one, unless others are scheduled before them.
    pub(crate) fn upcoming(&self) -> impl Iterator<Item = &T> {
        self.heap.as_slice().iter().take(3).map(|entry| &entry.event)
    }

    /// Removes the next event and advances the time to it; `None` if no event is pending.
    pub(crate) fn next(&mut self) -> Option<T> {
        let Entry { rank, event } = self.heap.pop()?;
        self.now_ns = (rank >> 64) as u64;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_orders_and_the_seed_breaks_ties() {
        let order = |seed| {
            let (mut queue, mut dice) = (Queue::new(), Dice::new(seed));
            for event in 0..20 {
                queue.schedule(7, event, &mut dice);
            }
            queue.schedule(3, 100, &mut dice);
            queue.schedule(9, 200, &mut dice);
            let order: Vec<i32> = std::iter::from_fn(|| queue.next()).collect();
            assert_eq!((order[0], order[21], queue.now_ns()), (100, 200, 9));
            order
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }
}
