//! Turns of the limit and of the measurement on the threads of one process.

use crate::error::BenchError;
use crate::measure::{Spent, Spread, micros, now, per_call, quantile};
use crate::row::Row;
use crate::settings::Settings;
use intendant::{Element, Node, Worker};
use std::sync::Barrier;

/// Calls that are timed one by one for the quantiles.
const CALLS_TIMED: usize = 20_000;
/// Keys between two looks at the clock.
const STRIDE_KEYS: usize = 4096;

/// The work of a thread in its turns. Both kinds of calls get the number of the call.
pub(crate) trait Work<E: Element> {
    /// Is called before a turn of either kind.
    fn prepare(&mut self) {}
    /// A call of the limit.
    fn limit(&mut self, call: usize);
    /// A call of the measurement.
    fn ours(&mut self, worker: &mut Worker<E>, call: usize) -> Result<(), BenchError>;
}

/// One thread's results: per round, the cost of a call of the limit and of a call of the measurement; and the
/// times of single calls in microseconds.
struct Thread {
    rounds: Vec<(Spent, Spent)>,
    calls_us: Vec<f64>,
}

/// Runs `work` on each worker of a node, and fills in the cost per key.
pub(crate) fn measure<E: Element, W: Work<E> + Send>(
    settings: &Settings,
    node: &mut Node<E>,
    work: impl Fn(&Worker<E>) -> W + Sync,
    row: &mut Row,
) -> Result<(), BenchError> {
    let barrier = Barrier::new(settings.threads);
    let threads: Vec<Thread> = std::thread::scope(|scope| {
        let running: Vec<_> = node
            .workers()
            .into_iter()
            .map(|worker| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || thread(settings, work(&worker), worker, barrier))
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("a measuring thread panicked"))
            .collect::<Result<_, _>>()
    })?;

    let batch = settings.batch as f64;
    let rounds = || threads.iter().flat_map(|thread| &thread.rounds);
    let median = |of: fn(&(Spent, Spent)) -> f64| Spread::of(rounds().map(of)).median / batch;
    row.wall_ns_per_key = median(|(_, ours)| ours.wall_ns);
    row.cpu_ns_per_key = median(|(_, ours)| ours.cpu_ns);
    row.limit_wall_ns_per_key = median(|(limit, _)| limit.wall_ns);
    row.limit_cpu_ns_per_key = median(|(limit, _)| limit.cpu_ns);
    row.set_ratio(rounds().map(|(limit, ours)| ours.wall_ns / limit.wall_ns));
    row.keys_per_s = 1e9 / row.wall_ns_per_key * settings.threads as f64;
    let mut calls_us: Vec<f64> = threads.iter().flat_map(|thread| thread.calls_us.iter().copied()).collect();
    calls_us.sort_by(f64::total_cmp);
    (row.p50_us, row.p99_us) = (quantile(&calls_us, 0.5), quantile(&calls_us, 0.99));
    Ok(())
}

fn thread<E: Element>(
    settings: &Settings,
    mut work: impl Work<E>,
    mut worker: Worker<E>,
    barrier: &Barrier,
) -> Result<Thread, BenchError> {
    let turn = settings.turn();
    let stride = (STRIDE_KEYS / settings.batch).max(1);
    let mut rounds = Vec::new();
    let mut failed = None;
    // The first round warms up. A thread that has failed still comes to the barriers, because the others wait
    // there.
    for measured in std::iter::once(false).chain((0..settings.rounds).map(|_| true)) {
        work.prepare();
        barrier.wait();
        let limit = per_call(turn, stride, |call| work.limit(call));
        work.prepare();
        barrier.wait();
        let ours = per_call(turn, stride, |call| {
            if let Err(error) = work.ours(&mut worker, call) {
                failed = Some(error);
            }
        });
        if measured {
            rounds.push((limit, ours));
        }
    }
    if let Some(error) = failed {
        return Err(error);
    }
    let mut calls_us = Vec::with_capacity(CALLS_TIMED);
    // Long calls are timed for the duration of a turn, and at least one call is timed.
    let begun = now();
    while calls_us.len() < CALLS_TIMED && (calls_us.is_empty() || begun.elapsed() < turn) {
        let start = now();
        work.ours(&mut worker, calls_us.len())?;
        calls_us.push(micros(start.elapsed()));
    }
    Ok(Thread { rounds, calls_us })
}
