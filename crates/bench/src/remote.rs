//! Remote accesses: the cost for a worker of values that another process owns. If the worker uses only such
//! values, this is also access to local values through messages between processes.

use crate::args::Op;
use crate::error::BenchError;
use crate::keys::Drawn;
use crate::measure::{Spread, micros, now, quantile};
use crate::pair::{Loads, Pair};
use crate::row::Row;
use crate::settings::Settings;
use intendant::{Element, Key, NodeId, Ticket};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

const PING_PONG: &str = "ping-pong of the same bytes (ratio of p50)";
const COPY: &str = "copy of the values in one stream";

/// Calls between two checks whether the time is over.
const STRIDE: usize = 8;

pub(crate) fn rows<E: Element>(settings: &Settings, pair: &mut Pair<E>) -> Result<Vec<Row>, BenchError> {
    let layout = pair.node.layout();
    let there: Vec<Key> = (0..settings.keys).map(Key).filter(|key| layout.home(*key) == NodeId(1)).collect();
    if there.is_empty() {
        let keys = settings.keys;
        return Err(BenchError::Usage(format!(
            "no key of {keys} is at home on the second node; ask for more --keys"
        )));
    }
    let mut caller = Caller {
        drawn: Drawn::of(&there, settings.dist, settings.batch, 11),
        values: vec![E::ZERO; settings.batch * settings.len],
        flying: VecDeque::new(),
        in_flight: settings.in_flight,
        next: 0,
    };
    settings.ops.iter().map(|op| row(settings, pair, &mut caller, *op)).collect()
}

/// A round: a turn of the limit and one of the measurement.
struct Round {
    limit: Loads,
    limit_us: Vec<f64>,
    ours: Loads,
    ours_us: Vec<f64>,
}

fn row<E: Element>(
    settings: &Settings,
    pair: &mut Pair<E>,
    caller: &mut Caller<E>,
    op: Op,
) -> Result<Row, BenchError> {
    let synchronous = settings.in_flight == 1;
    let time = settings.turn();
    let before = pair.worker.access();
    // This turn warms up, and measures how many bytes a call sends in either direction.
    let sizes = ours(pair, caller, op, time, &mut Vec::new())?;
    let (request, response) = (sizes.bytes_per_call(0), sizes.bytes_per_call(1));
    let limit = |pair: &mut Pair<E>, times: &mut Vec<f64>| match synchronous {
        true => pair.turn(|pair| match pair.is_first() {
            true => pair.raw.ask(request, response, time, times),
            false => pair.raw.answer(request, response),
        }),
        // Values flow from the owner to a worker that pulls, and from a worker that pushes to the owner.
        false => pair.turn(|pair| match pair.is_first() == (op == Op::Push) {
            true => pair.raw.pour(time),
            false => pair.raw.drain(),
        }),
    };
    limit(pair, &mut Vec::new())?;
    let mut rounds = Vec::new();
    for _ in 0..settings.rounds {
        let (mut limit_us, mut ours_us) = (Vec::new(), Vec::new());
        let limit = limit(pair, &mut limit_us)?;
        let ours = ours(pair, caller, op, time, &mut ours_us)?;
        limit_us.sort_by(f64::total_cmp);
        ours_us.sort_by(f64::total_cmp);
        rounds.push(Round { limit, limit_us, ours, ours_us });
    }
    let after = pair.worker.access();
    if after.local > before.local {
        return Err(BenchError::Usage(format!(
            "{} of the accesses were served by the worker's own node: technique {} brings values there; mode local measures that",
            after.local - before.local,
            settings.technique
        )));
    }
    let mut row = Row::new(settings, op.name(), pair.raw.limit(if synchronous { PING_PONG } else { COPY }));
    fill(settings, &rounds, synchronous, &mut row);
    let (read, all) = (after.windows - before.windows, after.remote - before.remote);
    row.more.insert("windows_share", read as f64 / all.max(1) as f64);
    row.more.insert("request_bytes", request as f64);
    row.more.insert("response_bytes", response as f64);
    Ok(row)
}

fn fill(settings: &Settings, rounds: &[Round], synchronous: bool, row: &mut Row) {
    let batch = settings.batch as f64;
    let value_bytes = settings.value_bytes() as f64;
    // For the limit, a call of a ping-pong stands for a batch, and a call of a copy is a byte.
    let limit_keys = |round: &Round| match synchronous {
        true => round.limit.0[0].calls * batch,
        false => round.limit.0[0].calls / value_bytes,
    };
    let our_keys = |round: &Round| round.ours.0[0].calls * batch;
    let median = |of: &dyn Fn(&Round) -> f64| Spread::of(rounds.iter().map(of)).median;
    let wall = |round: &Round| round.ours.0[0].wall_ns / our_keys(round);
    let limit_wall = |round: &Round| round.limit.0[0].wall_ns / limit_keys(round);
    row.wall_ns_per_key = median(&wall);
    row.limit_wall_ns_per_key = median(&limit_wall);
    row.cpu_ns_per_key = median(&|round| round.ours.cpu_ns() / our_keys(round));
    row.limit_cpu_ns_per_key = median(&|round| round.limit.cpu_ns() / limit_keys(round));
    row.keys_per_s = 1e9 / row.wall_ns_per_key;
    row.p50_us = median(&|round| quantile(&round.ours_us, 0.5));
    row.p99_us = median(&|round| quantile(&round.ours_us, 0.99));
    row.more.insert("in_flight", settings.in_flight as f64);
    if synchronous {
        row.set_ratio(
            rounds.iter().map(|round| quantile(&round.ours_us, 0.5) / quantile(&round.limit_us, 0.5)),
        );
        row.more.insert("limit_p50_us", median(&|round| quantile(&round.limit_us, 0.5)));
        row.more.insert("limit_p99_us", median(&|round| quantile(&round.limit_us, 0.99)));
    } else {
        row.set_ratio(rounds.iter().map(|round| wall(round) / limit_wall(round)));
        row.more.insert("share_of_limit", 1.0 / row.ratio);
        row.more.insert("payload_bytes_per_s", value_bytes * row.keys_per_s);
        row.more.insert("limit_bytes_per_s", value_bytes / row.limit_wall_ns_per_key * 1e9);
    }
}

/// A turn of the measurement. The second node's worker only waits, while its node answers.
fn ours<E: Element>(
    pair: &mut Pair<E>,
    caller: &mut Caller<E>,
    op: Op,
    time: Duration,
    times: &mut Vec<f64>,
) -> Result<Loads, BenchError> {
    pair.turn(|pair| if pair.is_first() { caller.call(pair, op, time, times) } else { Ok(0) })
}

/// The calls of the first node's worker.
struct Caller<E> {
    drawn: Drawn,
    values: Vec<E>,
    /// Calls under way, and when they began.
    flying: VecDeque<(Ticket, Instant)>,
    in_flight: usize,
    /// The next call's number.
    next: usize,
}

impl<E: Element> Caller<E> {
    /// Calls until `time` is over, and waits until all calls are done. Appends their times to `times`, and
    /// returns their number.
    fn call(
        &mut self,
        pair: &mut Pair<E>,
        op: Op,
        time: Duration,
        times: &mut Vec<f64>,
    ) -> Result<u64, BenchError> {
        self.values.fill(E::from_f64(1e-30));
        let (begun, first) = (now(), self.next);
        while !self.next.is_multiple_of(STRIDE) || begun.elapsed() < time || self.next == first {
            if self.in_flight == 1 {
                let (start, keys) = (now(), self.drawn.call(self.next));
                match op {
                    Op::Pull => pair.worker.pull(keys, &mut self.values)?,
                    Op::Push => pair.worker.push(keys, &self.values)?,
                }
                times.push(micros(start.elapsed()));
            } else {
                self.start(pair, op, times)?;
            }
            self.next += 1;
        }
        while !self.flying.is_empty() {
            self.finish(pair, op, times)?;
        }
        Ok((self.next - first) as u64)
    }

    fn start(&mut self, pair: &mut Pair<E>, op: Op, times: &mut Vec<f64>) -> Result<(), BenchError> {
        if self.flying.len() == self.in_flight {
            self.finish(pair, op, times)?;
        }
        let (start, keys) = (now(), self.drawn.call(self.next));
        let ticket = match op {
            Op::Pull => pair.worker.pull_async(keys)?,
            Op::Push => pair.worker.push_async(keys, &self.values)?,
        };
        self.flying.push_back((ticket, start));
        Ok(())
    }

    fn finish(&mut self, pair: &mut Pair<E>, op: Op, times: &mut Vec<f64>) -> Result<(), BenchError> {
        let Some((ticket, start)) = self.flying.pop_front() else { return Ok(()) };
        match op {
            Op::Pull => pair.worker.wait_pull(ticket, &mut self.values)?,
            Op::Push => pair.worker.wait(ticket)?,
        }
        times.push(micros(start.elapsed()));
        Ok(())
    }
}
