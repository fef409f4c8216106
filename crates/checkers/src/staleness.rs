//! Bounded staleness: a pull at clock c sees every push that any worker made up to its clock c − s − 1.
//!
//! The same book says what synchronisation promises: with synchronous replicas, a worker's clock is the
//! number of synchronisations that it has come to, and s is 0. And when the cluster has rested, every pull
//! sees every push from before, with any technique.

use hashbrown::HashMap;
use intendant_core::Key;
use intendant_sim::Finding;

type Hash = foldhash::fast::FixedState;

/// Pushes of a worker on a key.
#[derive(Default)]
struct Pushes {
    /// At which clock each of them was made; ascending.
    clocks: Vec<u32>,
    /// How many there were when the cluster rested last.
    rested: usize,
}

/// What a pull must see, besides what was there when the cluster rested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// Pushes made at clocks before this one.
    pub(crate) clock: u32,
    /// How often the cluster had rested when the pull was made.
    rests: u32,
}

/// What workers pushed when.
pub(crate) struct Staleness {
    /// By key, then worker.
    pushes: HashMap<Key, Vec<Pushes>, Hash>,
    /// Clocks of the workers that are at work; `None` if the technique has no clocks.
    clocks: Option<Vec<Option<u32>>>,
    workers: usize,
    rests: u32,
}

impl Staleness {
    pub(crate) fn new(workers: usize, clocked: bool) -> Self {
        let clocks = clocked.then(|| vec![Some(0); workers]);
        Self { pushes: HashMap::default(), clocks, workers, rests: 0 }
    }

    /// A worker has this clock now; `None` while it rests.
    pub(crate) fn set_clock(&mut self, worker: usize, clock: Option<u32>) {
        if let Some(clocks) = &mut self.clocks {
            clocks[worker] = clock;
        }
    }

    /// A worker pushes to a key.
    pub(crate) fn push(&mut self, worker: usize, key: Key, clock: u32) {
        let workers = self.workers;
        let pushes =
            self.pushes.entry(key).or_insert_with(|| (0..workers).map(|_| Pushes::default()).collect());
        pushes[worker].clocks.push(clock);
    }

    /// The cluster rests: everything is everywhere.
    pub(crate) fn rested(&mut self) {
        self.rests += 1;
        for pushes in self.pushes.values_mut().flatten() {
            pushes.rested = pushes.clocks.len();
        }
    }

    /// What a pull that is made now must see.
    pub(crate) fn need(&self, clock: u32) -> Need {
        Need { clock, rests: self.rests }
    }

    /// A worker learns what a pull saw.
    pub(crate) fn pulled(&self, worker: usize, key: Key, need: Need, lanes: &[u32]) -> Result<(), Finding> {
        let finding = |what: String| {
            Err((
                "staleness",
                format!("worker {worker} pulls {key:?} as of {need:?} and sees {lanes:?}; {what}"),
            ))
        };
        let mut clocks = self.clocks.iter().flatten().enumerate();
        if let Some((late, clock)) = clocks.find(|(_, clock)| clock.is_some_and(|clock| clock < need.clock)) {
            return finding(format!("worker {late} is at {clock:?} and may still push"));
        }
        let Some(pushes) = self.pushes.get(&key) else { return Ok(()) };
        for (other, (pushes, seen)) in pushes.iter().zip(lanes).enumerate() {
            let made = pushes.clocks.partition_point(|clock| *clock < need.clock);
            // Later pushes may have been there as well at a later rest.
            let there = if need.rests == self.rests { pushes.rested } else { 0 };
            let least = made.max(there);
            if (*seen as usize) < least {
                return finding(format!("there were {least} pushes of worker {other} that it must see"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: Key = Key(3);

    #[test]
    fn a_pull_sees_what_is_old_enough() {
        let mut book = Staleness::new(2, true);
        book.push(1, K, 4);
        book.push(1, K, 5);
        book.set_clock(1, Some(6));
        book.set_clock(0, Some(7));
        let pull = |book: &Staleness, clock, seen| book.pulled(0, K, book.need(clock), &[0, seen]);
        assert_eq!(pull(&book, 4, 0), Ok(()));
        assert_eq!(pull(&book, 5, 1), Ok(()));
        assert!(pull(&book, 5, 0).is_err());
        assert!(pull(&book, 6, 1).is_err());
        assert!(pull(&book, 7, 2).is_err(), "worker 1 may still push at clock 6");
        book.set_clock(1, None);
        assert_eq!(pull(&book, 7, 2), Ok(()), "not while it rests");
    }

    #[test]
    fn everything_is_seen_after_a_rest() {
        let mut book = Staleness::new(2, true);
        book.push(0, K, 9);
        let before = book.need(0);
        book.rested();
        assert!(book.pulled(1, K, book.need(0), &[0, 0]).is_err());
        assert_eq!(book.pulled(1, K, book.need(0), &[1, 0]), Ok(()));
        assert_eq!(book.pulled(1, K, before, &[0, 0]), Ok(()), "made before");
    }
}
