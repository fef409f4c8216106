//! Relocation: the cost of moving values between two processes, many at a time and one batch alone.
//!
//! Each node has one half of the keys. Then both nodes localize all keys of the other node, again and again.
//! So at each node, as many keys arrive as leave.

use crate::error::BenchError;
use crate::measure::{Spread, micros, now, quantile};
use crate::pair::{Loads, Pair};
use crate::row::Row;
use crate::settings::Settings;
use intendant::{Element, Key, Ticket};
use intendant_core::random::Permutation;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

const EXCHANGE: &str = "exchange of the same bytes in both directions";
const PING_PONG: &str = "ping-pong of the same bytes (ratio of p50)";

/// The order in which keys move.
const ORDER_SEED: u64 = 5;

pub(crate) fn rows<E: Element>(settings: &Settings, pair: &mut Pair<E>) -> Result<Vec<Row>, BenchError> {
    let order = Permutation::new(settings.keys, ORDER_SEED);
    let keys: Vec<Key> = (0..settings.keys).map(|at| Key(order.apply(at))).collect();
    let (one, other) = keys.split_at(keys.len() / 2);
    let mut mover = Mover {
        halves: [one, other].map(|half| half.chunks_exact(settings.batch).map(<[Key]>::to_vec).collect()),
        swapped: !pair.is_first(),
        in_flight: settings.in_flight,
        moved: 0,
    };
    // Each node takes one half, wherever the keys were before. From now on, all keys change places in a swap.
    pair.turn(|pair| mover.take_own(pair, &mut Vec::new()))?;
    let before = pair.node.management()?.relocations;
    mover.moved = 0;
    let rows = vec![many(settings, pair, &mut mover)?, alone(settings, pair, &mut mover)?];
    let (moved, arrived) = (mover.moved, pair.node.management()?.relocations - before);
    if arrived != moved {
        return Err(BenchError::Other(format!(
            "{arrived} keys arrived at this node, but it asked for {moved} that were elsewhere"
        )));
    }
    Ok(rows)
}

/// Both nodes take the keys of the other node.
fn many<E: Element>(settings: &Settings, pair: &mut Pair<E>, mover: &mut Mover) -> Result<Row, BenchError> {
    let (time, batch) = (settings.turn(), settings.batch as f64);
    let mut swaps =
        |pair: &mut Pair<E>, times: &mut Vec<f64>| pair.turns(time, |pair, _| mover.swap(pair, times));
    let sizes = swaps(pair, &mut Vec::new())?;
    let batches = settings.keys as usize / 2 / settings.batch;
    // What a node sends in a swap.
    let bytes = [0, 1].map(|node| sizes.bytes_per_call(node) * batches);
    let exchanges = |pair: &mut Pair<E>| {
        let (send, receive) = if pair.is_first() { (bytes[0], bytes[1]) } else { (bytes[1], bytes[0]) };
        pair.turns(time, |pair, _| pair.raw.exchange(send, receive).map(|()| batches as u64))
    };
    exchanges(pair)?;
    let (mut rounds, mut times) = (Vec::new(), Vec::new());
    for _ in 0..settings.rounds {
        let limit = exchanges(pair)?;
        rounds.push((limit, swaps(pair, &mut times)?));
    }
    let mut row = Row::new(settings, "localize", pair.raw.limit(EXCHANGE));
    fill(&rounds, batch, &mut row);
    row.set_ratio(rounds.iter().map(|(limit, ours)| wall(ours, batch) / wall(limit, batch)));
    times.sort_by(f64::total_cmp);
    (row.p50_us, row.p99_us) = (quantile(&times, 0.5), quantile(&times, 0.99));
    row.more.insert("in_flight", settings.in_flight as f64);
    row.more.insert("bytes_per_key", sizes.bytes_per_call(0) as f64 / batch);
    Ok(row)
}

/// The first node takes batches from the second, one at a time; then the second takes them back.
fn alone<E: Element>(settings: &Settings, pair: &mut Pair<E>, mover: &mut Mover) -> Result<Row, BenchError> {
    let (time, batch) = (settings.turn(), settings.batch as f64);
    let sizes = mover.one_by_one(pair, time, &mut Vec::new())?;
    let (request, response) = (sizes.bytes_per_call(0), sizes.bytes_per_call(1));
    let limit = |pair: &mut Pair<E>, times: &mut Vec<f64>| {
        pair.turn(|pair| match pair.is_first() {
            true => pair.raw.ask(request, response, time, times),
            false => pair.raw.answer(request, response),
        })
    };
    limit(pair, &mut Vec::new())?;
    let (mut rounds, mut quantiles) = (Vec::new(), Vec::new());
    for _ in 0..settings.rounds {
        let (mut limit_us, mut ours_us) = (Vec::new(), Vec::new());
        let limit = limit(pair, &mut limit_us)?;
        rounds.push((limit, mover.one_by_one(pair, time, &mut ours_us)?));
        limit_us.sort_by(f64::total_cmp);
        ours_us.sort_by(f64::total_cmp);
        quantiles.push([&limit_us, &ours_us].map(|times| [quantile(times, 0.5), quantile(times, 0.99)]));
    }
    let mut row = Row::new(settings, "localize-one", pair.raw.limit(PING_PONG));
    fill(&rounds, batch, &mut row);
    // The second node measures nothing here.
    let of = |which: usize, at: usize| Spread::of(quantiles.iter().map(|q| q[which][at])).median;
    row.set_ratio(quantiles.iter().map(|[limit, ours]| ours[0] / limit[0]));
    (row.p50_us, row.p99_us) = (of(1, 0), of(1, 1));
    row.more.insert("in_flight", 1.0);
    row.more.insert("limit_p50_us", of(0, 0));
    row.more.insert("limit_p99_us", of(0, 1));
    row.more.insert("request_bytes", request as f64);
    row.more.insert("response_bytes", response as f64);
    Ok(row)
}

/// Wall time per key that arrives at the first node.
fn wall(loads: &Loads, batch: f64) -> f64 {
    loads.wall_ns() / (loads.0[0].calls * batch)
}

fn fill(rounds: &[(Loads, Loads)], batch: f64, row: &mut Row) {
    let median = |of: &dyn Fn(&(Loads, Loads)) -> f64| Spread::of(rounds.iter().map(of)).median;
    // CPU time is that of both processes, so it is divided by the keys that arrived at either node.
    let cpu = |loads: &Loads| loads.cpu_ns() / ((loads.0[0].calls + loads.0[1].calls) * batch);
    row.wall_ns_per_key = median(&|(_, ours)| wall(ours, batch));
    row.limit_wall_ns_per_key = median(&|(limit, _)| wall(limit, batch));
    row.cpu_ns_per_key = median(&|(_, ours)| cpu(ours));
    row.limit_cpu_ns_per_key = median(&|(limit, _)| cpu(limit));
    row.keys_per_s = 1e9 / row.wall_ns_per_key;
}

/// Knows which half of the keys is here.
struct Mover {
    /// Both halves of the keys, in batches.
    halves: [Vec<Vec<Key>>; 2],
    /// Whether this node's half is the second.
    swapped: bool,
    in_flight: usize,
    /// Number of keys that were elsewhere when they were localized.
    moved: u64,
}

impl Mover {
    /// Localizes the half that belongs to this node by now. Appends the times of calls to `times`, and
    /// returns their number.
    fn take_own<E: Element>(&mut self, pair: &mut Pair<E>, times: &mut Vec<f64>) -> Result<u64, BenchError> {
        let mut flying: VecDeque<(Ticket, Instant)> = VecDeque::new();
        let mut finish = |pair: &mut Pair<E>, flying: &mut VecDeque<(Ticket, Instant)>| {
            if let Some((ticket, start)) = flying.pop_front() {
                pair.worker.wait(ticket)?;
                times.push(micros(start.elapsed()));
            }
            Ok::<(), BenchError>(())
        };
        let own = &self.halves[usize::from(self.swapped)];
        for keys in own {
            if flying.len() == self.in_flight {
                finish(pair, &mut flying)?;
            }
            let start = now();
            flying.push_back((pair.worker.localize_async(keys)?, start));
            self.moved += keys.len() as u64;
        }
        while !flying.is_empty() {
            finish(pair, &mut flying)?;
        }
        Ok(own.len() as u64)
    }

    /// Exchanges the halves of the nodes.
    fn swap<E: Element>(&mut self, pair: &mut Pair<E>, times: &mut Vec<f64>) -> Result<u64, BenchError> {
        self.swapped = !self.swapped;
        self.take_own(pair, times)
    }

    /// The first node takes batches of the second node's half, one at a time, until `time` is over. Then, in
    /// a turn that does not count, the second node takes these batches back.
    fn one_by_one<E: Element>(
        &mut self,
        pair: &mut Pair<E>,
        time: Duration,
        times: &mut Vec<f64>,
    ) -> Result<Loads, BenchError> {
        let first = pair.is_first();
        let theirs = &self.halves[usize::from(self.swapped != first)];
        let mut all = Loads::default();
        let mut moved = 0;
        let time_ns = time.as_nanos() as f64;
        while all.0[0].calls == 0.0 || all.0[0].wall_ns < time_ns {
            let left = Duration::from_nanos((time_ns - all.0[0].wall_ns) as u64);
            let loads = pair.turn(|pair| {
                let (begun, mut taken) = (now(), 0);
                for keys in theirs.iter().take(if first { theirs.len() } else { 0 }) {
                    let start = now();
                    pair.worker.localize(keys)?;
                    times.push(micros(start.elapsed()));
                    taken += 1;
                    if begun.elapsed() >= left {
                        break;
                    }
                }
                Ok(taken)
            })?;
            all.add(&loads);
            let taken = loads.0[0].calls as usize;
            moved += theirs.iter().take(taken).map(|keys| keys.len() as u64).sum::<u64>();
            pair.turn(|pair| {
                if !first {
                    theirs.iter().take(taken).try_for_each(|keys| pair.worker.localize(keys))?;
                }
                Ok(0)
            })?;
        }
        self.moved += moved;
        Ok(all)
    }
}
