//! Local accesses: what a worker pays for values that its own node holds.

use crate::args::{Args, Dist, Op};
use crate::keys;
use crate::limit::Plain;
use crate::measure::{Spent, Spread, now, per_call, quantile};
use crate::row::Row;
use intendant::{Element, ElementType, Error, Key, Layout, Node, NodeConfig, Worker};
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// Calls whose keys are drawn ahead, per thread; enough that no cache remembers the sequence.
const KEYS_DRAWN: usize = 1 << 20;
/// Calls that are timed one by one for the quantiles.
const CALLS_TIMED: usize = 20_000;

pub(crate) fn run(args: &Args) -> Result<Vec<Row>, String> {
    match args.float {
        ElementType::F32 => rows::<f32>(args),
        ElementType::F64 => rows::<f64>(args),
    }
}

fn rows<E: Element>(args: &Args) -> Result<Vec<Row>, String> {
    let ops = args.op.map_or(vec![Op::Pull, Op::Push], |op| vec![op]);
    ops.into_iter().map(|op| row::<E>(args, op).map_err(|error| error.to_string())).collect()
}

/// One thread's results: per round, a call of the limit and one of ours; and single calls in microseconds.
struct Thread {
    rounds: Vec<(Spent, Spent)>,
    calls_us: Vec<f64>,
}

fn row<E: Element>(args: &Args, op: Op) -> Result<Row, Error> {
    let layout = Layout::builder().range("value", args.keys, args.len as usize).build()?;
    let mut config = NodeConfig::<E>::new(layout, Arc::new(|_, value| value.fill(E::ONE)));
    config.technique = args.technique;
    config.workers = args.threads as usize;
    let mut node = Node::start_alone(config)?;
    let barrier = Barrier::new(args.threads as usize);
    let threads: Vec<Thread> = std::thread::scope(|scope| {
        let running: Vec<_> = node
            .workers()
            .into_iter()
            .map(|worker| {
                let barrier = &barrier;
                scope.spawn(move || thread(args, op, worker, barrier))
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("a measuring thread panicked"))
            .collect::<Result<_, _>>()
    })?;
    node.shutdown()?;

    let batch = f64::from(args.batch);
    let rounds = || threads.iter().flat_map(|thread| &thread.rounds);
    let median = |of: fn(&(Spent, Spent)) -> f64| Spread::of(rounds().map(of)).median / batch;
    let ratio_spread = Spread::of(rounds().map(|(limit, ours)| ours.wall_ns / limit.wall_ns));
    let mut calls_us: Vec<f64> = threads.iter().flat_map(|thread| thread.calls_us.iter().copied()).collect();
    calls_us.sort_by(f64::total_cmp);
    let wall_ns_per_key = median(|(_, ours)| ours.wall_ns);
    Ok(Row {
        mode: "local",
        op: match op {
            Op::Pull => "pull",
            Op::Push => "push",
        },
        technique: args.technique.to_string(),
        float: args.float.to_string(),
        dist: match args.dist {
            Dist::Uniform => "uniform",
            Dist::Zipf => "zipf",
        },
        keys: args.keys,
        len: args.len,
        batch: args.batch,
        threads: args.threads,
        wall_ns_per_key,
        cpu_ns_per_key: median(|(_, ours)| ours.cpu_ns),
        limit_wall_ns_per_key: median(|(limit, _)| limit.wall_ns),
        limit_cpu_ns_per_key: median(|(limit, _)| limit.cpu_ns),
        ratio: ratio_spread.median,
        ratio_spread,
        keys_per_s: 1e9 / wall_ns_per_key * f64::from(args.threads),
        p50_us: quantile(&calls_us, 0.5),
        p99_us: quantile(&calls_us, 0.99),
    })
}

/// Each thread has a plain array of its own: the limit knows no sharing.
fn thread<E: Element>(
    args: &Args,
    op: Op,
    mut worker: Worker<E>,
    barrier: &Barrier,
) -> Result<Thread, Error> {
    let (batch, len) = (args.batch as usize, args.len as usize);
    let calls = (KEYS_DRAWN / batch).max(64);
    let keys = keys::draw(args.dist, args.keys, calls, batch, 11 + u64::from(worker.id().0));
    let call = |at: usize| &keys[(at % calls) * batch..][..batch];
    let mut plain = Plain::<E>::new(args.keys, len);
    let mut values = vec![E::ZERO; batch * len];
    // Updates of zero would be the same work; these keep the values finite however long it runs.
    let small = E::from_f64(1e-30);
    let round = Duration::from_secs_f64(args.seconds / f64::from(2 * (args.rounds + 1)));
    let stride = (4096 / batch).max(1);

    let ours = |worker: &mut Worker<E>, keys: &[Key], values: &mut [E]| match op {
        Op::Pull => worker.pull(keys, values),
        Op::Push => worker.push(keys, values),
    };
    let mut rounds = Vec::new();
    // The first round warms up.
    for warm in std::iter::once(false).chain((0..args.rounds).map(|_| true)) {
        values.fill(small);
        barrier.wait();
        let limit = per_call(round, stride, |at| plain.call(op, call(at), &mut values));
        values.fill(small);
        barrier.wait();
        let mut failed = None;
        let spent = per_call(round, stride, |at| {
            if let Err(error) = ours(&mut worker, call(at), &mut values) {
                failed = Some(error);
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if warm {
            rounds.push((limit, spent));
        }
    }
    let mut calls_us = Vec::with_capacity(CALLS_TIMED);
    for at in 0..CALLS_TIMED {
        let start = now();
        ours(&mut worker, call(at), &mut values)?;
        calls_us.push(start.elapsed().as_nanos() as f64 / 1e3);
    }
    Ok(Thread { rounds, calls_us })
}
