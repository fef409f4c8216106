//! A worker that announces the keys that it will use some batches ahead, as a training worker does.

use crate::error::BenchError;
use crate::keys::Drawn;
use crate::measure::{Spent, now, thread_cpu_ns};
use crate::pair::Pair;
use crate::settings::Settings;
use intendant::{Clock, Element, Worker};
use std::time::Duration;

/// Batches between the announcement and the use of a batch, as by default in training programs.
const AHEAD: usize = 128;

/// Batches that are announced in one go, so that the time for reading the clocks is negligible.
pub(crate) const BURST: usize = 16;

/// Announces batches, and uses them at the announced clocks.
pub(crate) struct Announcer<E> {
    drawn: Drawn,
    values: Vec<E>,
    /// Batches announced so far.
    announced: usize,
    /// The cost of announcing, all batches together.
    pub(crate) spent: Spent,
}

impl<E: Element> Announcer<E> {
    pub(crate) fn new(settings: &Settings, pair: &Pair<E>) -> Self {
        let seed = 23 + u64::from(pair.node.rank().0);
        Self {
            drawn: Drawn::new(settings.dist, settings.keys, settings.batch, seed),
            values: vec![E::ZERO; settings.batch * settings.len],
            announced: 0,
            spent: Spent::default(),
        }
    }

    /// Works until `time` is over; returns how many batches were announced.
    pub(crate) fn work(&mut self, worker: &mut Worker<E>, time: Duration) -> Result<u64, BenchError> {
        let (begun, first) = (now(), self.announced);
        self.spent = Spent::default();
        loop {
            let (wall, cpu) = (now(), thread_cpu_ns());
            for _ in 0..BURST {
                let clock = self.announced as u32;
                worker.intent(self.drawn.call(self.announced), Clock(clock)..Clock(clock + 1))?;
                self.announced += 1;
            }
            self.spent.wall_ns += wall.elapsed().as_nanos() as f64;
            self.spent.cpu_ns += thread_cpu_ns() - cpu;
            while worker.clock().0 as usize + AHEAD < self.announced {
                let clock = worker.clock().0 as usize;
                let keys = self.drawn.call(clock);
                worker.pull(keys, &mut self.values)?;
                // Updates alternate between up and down, so that values stay small. Much smaller updates
                // would not change the values, and would not be sent.
                self.values.fill(E::from_f64(if clock.is_multiple_of(2) { 0.25 } else { -0.25 }));
                let _ticket = worker.push_async(keys, &self.values)?;
                worker.advance_clock();
            }
            if begun.elapsed() >= time {
                worker.flush()?;
                return Ok((self.announced - first) as u64);
            }
        }
    }

    /// The limit: appends the keys of as many batches to a list until `time` is over. Returns the number of
    /// batches and the cost.
    pub(crate) fn append(&self, time: Duration) -> (u64, Spent) {
        let (begun, mut batches) = (now(), 0);
        let (mut list, mut spent) = (Vec::new(), Spent::default());
        loop {
            let (wall, cpu) = (now(), thread_cpu_ns());
            // The list keeps its memory, because the reader of the announcements also returns the list that
            // grew.
            list.clear();
            for _ in 0..BURST {
                list.extend_from_slice(self.drawn.call(batches));
                batches += 1;
            }
            std::hint::black_box(&mut list);
            spent.wall_ns += wall.elapsed().as_nanos() as f64;
            spent.cpu_ns += thread_cpu_ns() - cpu;
            if begun.elapsed() >= time {
                return (batches as u64, spent);
            }
        }
    }
}
