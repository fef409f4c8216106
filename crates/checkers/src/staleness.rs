//! Bounded staleness: a pull at clock c sees every push that any worker made up to clock c − s − 1, with
//! staleness bound s.
//!
//! The same account covers two other guarantees. With static replicas synchronised on request, a worker's
//! clock is the number of its synchronisations, and s is 0. After the cluster has rested, every pull sees
//! every earlier push, with any technique.

use hashbrown::HashMap;
use intendant_core::Key;
use intendant_sim::Finding;

type Hash = foldhash::fast::FixedState;

/// A worker's pushes to a key.
#[derive(Default)]
struct Pushes {
    /// Per push, the worker's clock; ascending.
    clocks: Vec<u32>,
    /// Number of pushes at the last rest.
    rested: usize,
}

/// The guarantee of a pull: which pushes it must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// Pushes made at clocks before this one.
    pub(crate) clock: u32,
    /// Number of rests before the pull was issued.
    rests: u32,
}

/// The pushes and clocks of all workers.
pub(crate) struct Staleness {
    /// By key, then worker.
    pushes: HashMap<Key, Vec<Pushes>, Hash>,
    /// Clocks of the workers, `None` for resting workers; `None` altogether if the technique has no clocks.
    clocks: Option<Vec<Option<u32>>>,
    workers: usize,
    rests: u32,
}

impl Staleness {
    pub(crate) fn new(workers: usize, clocked: bool) -> Self {
        let clocks = clocked.then(|| vec![Some(0); workers]);
        Self { pushes: HashMap::default(), clocks, workers, rests: 0 }
    }

    /// Sets a worker's clock; `None` while it rests.
    pub(crate) fn set_clock(&mut self, worker: usize, clock: Option<u32>) {
        if let Some(clocks) = &mut self.clocks {
            clocks[worker] = clock;
        }
    }

    /// Records a push.
    pub(crate) fn push(&mut self, worker: usize, key: Key, clock: u32) {
        let workers = self.workers;
        let pushes =
            self.pushes.entry(key).or_insert_with(|| (0..workers).map(|_| Pushes::default()).collect());
        pushes[worker].clocks.push(clock);
    }

    /// The cluster rests: every copy has every push.
    pub(crate) fn rested(&mut self) {
        self.rests += 1;
        for pushes in self.pushes.values_mut().flatten() {
            pushes.rested = pushes.clocks.len();
        }
    }

    /// The guarantee of a pull that is issued now and must see pushes of clocks before `clock`.
    pub(crate) fn need(&self, clock: u32) -> Need {
        Need { clock, rests: self.rests }
    }

    /// Checks the lanes that a completed pull saw.
    pub(crate) fn pulled(&self, worker: usize, key: Key, need: Need, lanes: &[u32]) -> Result<(), Finding> {
        let finding = |what: String| {
            Err((
                "staleness",
                format!("worker {worker} pulls {key:?} with {need:?} and sees {lanes:?}; {what}"),
            ))
        };
        let mut clocks = self.clocks.iter().flatten().enumerate();
        if let Some((late, clock)) = clocks.find(|(_, clock)| clock.is_some_and(|clock| clock < need.clock)) {
            return finding(format!("worker {late} is at {clock:?} and may still push"));
        }
        let Some(pushes) = self.pushes.get(&key) else { return Ok(()) };
        for (other, (pushes, seen)) in pushes.iter().zip(lanes).enumerate() {
            let made = pushes.clocks.partition_point(|clock| *clock < need.clock);
            // If the cluster has rested since the pull was issued, `rested` counts pushes that the pull need
            // not see.
            let there = if need.rests == self.rests { pushes.rested } else { 0 };
            let least = made.max(there);
            if (*seen as usize) < least {
                return finding(format!("it must see {least} pushes of worker {other}"));
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
