//! Reads of values in the memory of another process: the cost of a mirror for its readers and its writer,
//! next to a plain copy.

use crate::args::Op;
use crate::error::BenchError;
use crate::keys::Drawn;
use crate::measure::{Spent, Spread, now, per_call};
use crate::pair::Pair;
use crate::row::Row;
use crate::settings::Settings;
use intendant::{Element, Key};
use intendant_onesided::{Host, Name, Secret};
use intendant_segment::{Segment, View, mirror};
use std::hint::black_box;
use std::time::Duration;

const COPY: &str = "a plain copy of the values from one flat array of this process";

/// How long the nodes may take to map each other's memory.
const DEADLINE: Duration = Duration::from_secs(20);

/// Writes after which a mirror ends: so many that it does not end.
const LENT: u64 = u64::MAX;

/// Calls between two looks at the clock.
const STRIDE: usize = 64;

/// Whose memory is read, and what its owner does.
#[derive(Clone, Copy)]
enum Owner {
    /// This process itself.
    Own,
    /// The other process, which waits.
    Still,
    /// The other process, which writes all the time.
    Writing,
}

pub(crate) fn rows<E: Element>(settings: &Settings, pair: &mut Pair<E>) -> Result<Vec<Row>, BenchError> {
    let memory = Memory::map(settings, pair)?;
    let mut rows = Vec::new();
    for op in &settings.ops {
        match op {
            Op::Pull => {
                for (name, owner) in
                    [("read-own", Owner::Own), ("read", Owner::Still), ("read-busy", Owner::Writing)]
                {
                    rows.push(reads(settings, pair, &memory, name, owner)?);
                }
            }
            Op::Push => rows.push(writes(settings, pair, &memory)?),
        }
    }
    Ok(rows)
}

/// Mirrors of all values, in the memory of each node.
struct Memory {
    own: Segment,
    /// The memory of the other node.
    other: View,
    drawn: Drawn,
    value_bytes: usize,
    words: usize,
}

impl Memory {
    fn map<E: Element>(settings: &Settings, pair: &mut Pair<E>) -> Result<Self, BenchError> {
        let value_bytes = settings.value_bytes();
        let words = mirror::words(value_bytes);
        let refused = |error: &dyn std::fmt::Display| BenchError::Other(error.to_string());
        let own = Segment::published(words * settings.keys as usize).map_err(|error| refused(&error))?;
        let value = vec![1; value_bytes];
        (0..settings.keys).for_each(|key| mirror::publish(&own, words * key as usize, key, LENT, &value));
        let host = Host::listen().map_err(|error| refused(&error))?;
        let told = pair.worker.gather("window", host.name().to_string().into_bytes())?;
        let name = |told: &Vec<u8>| String::from_utf8_lossy(told).parse::<Name>().ok();
        let names: Vec<_> = told.iter().map(name).collect();
        let rank = pair.node.rank().index();
        // Both processes are copies of this one; nothing secret is shared.
        let shared = host.share(&own, rank, &names, Secret::new([0; 32]), DEADLINE, &|| true);
        let mapped = shared.map_err(|error| refused(&error))?.into_iter().flatten().next();
        let Some(other) = mapped else {
            return Err(BenchError::Usage(
                "mode window reads memory, but the two nodes are on different hosts".into(),
            ));
        };
        let drawn = Drawn::new(settings.dist, settings.keys, settings.batch, 11);
        Ok(Self { own, other, drawn, value_bytes, words })
    }

    fn at(&self, key: Key) -> usize {
        self.words * key.index()
    }
}

/// Plain values in one array, and room for those of a call.
struct Plain {
    array: Vec<u8>,
    values: Vec<u8>,
}

impl Plain {
    fn new(settings: &Settings, memory: &Memory) -> Self {
        let bytes = memory.value_bytes;
        Self { array: vec![1; bytes * settings.keys as usize], values: vec![0; bytes * settings.batch] }
    }

    /// Copies the values of a call out of the array.
    fn read(&mut self, memory: &Memory, call: usize) {
        let bytes = memory.value_bytes;
        for (key, value) in memory.drawn.call(call).iter().zip(self.values.chunks_exact_mut(bytes)) {
            value.copy_from_slice(&self.array[bytes * key.index()..][..bytes]);
        }
        black_box(&mut self.values);
    }

    /// Copies the values of a call into the array.
    fn write(&mut self, memory: &Memory, call: usize) {
        let bytes = memory.value_bytes;
        for (key, value) in memory.drawn.call(call).iter().zip(self.values.chunks_exact(bytes)) {
            self.array[bytes * key.index()..][..bytes].copy_from_slice(value);
        }
        black_box(&mut self.array);
    }
}

fn row(settings: &Settings, op: &str, rounds: &[(Spent, Spent)]) -> Row {
    let batch = settings.batch as f64;
    let mut row = Row::new(settings, op, COPY);
    let median = |of: fn(&(Spent, Spent)) -> f64| Spread::of(rounds.iter().map(of)).median / batch;
    row.limit_wall_ns_per_key = median(|(limit, _)| limit.wall_ns);
    row.limit_cpu_ns_per_key = median(|(limit, _)| limit.cpu_ns);
    row.wall_ns_per_key = median(|(_, ours)| ours.wall_ns);
    row.cpu_ns_per_key = median(|(_, ours)| ours.cpu_ns);
    // The ratio is of CPU time, so the time of other programs does not count.
    row.set_ratio(rounds.iter().map(|(limit, ours)| ours.cpu_ns / limit.cpu_ns));
    row.keys_per_s = 1e9 / row.wall_ns_per_key;
    row
}

/// The first node reads; the other one does what `owner` says meanwhile.
fn reads<E: Element>(
    settings: &Settings,
    pair: &mut Pair<E>,
    memory: &Memory,
    name: &str,
    owner: Owner,
) -> Result<Row, BenchError> {
    let own = View::of(&memory.own);
    let view = match owner {
        Owner::Own => &own,
        Owner::Still | Owner::Writing => &memory.other,
    };
    let mut plain = Plain::new(settings, memory);
    let (mut rounds, mut missed, mut calls) = (Vec::new(), 0u64, 0u64);
    let time = settings.turn();
    for _ in 0..=settings.rounds {
        let limit = per_call(time, STRIDE, |call| plain.read(memory, call));
        let mut ours = Spent::default();
        pair.turn(|pair| {
            if pair.is_first() {
                let bytes = memory.value_bytes;
                ours = per_call(time, STRIDE, |call| {
                    let keys = memory.drawn.call(call).iter();
                    for (key, value) in keys.zip(plain.values.chunks_exact_mut(bytes)) {
                        missed += u64::from(!mirror::read(view, memory.at(*key), key.0, value));
                    }
                    calls += 1;
                    black_box(&mut plain.values);
                });
            } else if let Owner::Writing = owner {
                write_for(memory, time);
            }
            Ok(1)
        })?;
        rounds.push((limit, ours));
    }
    // The first round warms up.
    let mut row = row(settings, name, &rounds[1..]);
    row.more.insert("missed_share", missed as f64 / (calls * settings.batch as u64).max(1) as f64);
    Ok(row)
}

/// Writes mirrors, one after the other, until `time` is over.
fn write_for(memory: &Memory, time: Duration) {
    let (begun, value, mut call) = (now(), vec![1; memory.value_bytes], 0);
    while begun.elapsed() < time {
        for key in memory.drawn.call(call) {
            mirror::rewrite(&memory.own, memory.at(*key), key.0, &value);
        }
        call += 1;
    }
}

/// The first node writes; the other one waits.
fn writes<E: Element>(settings: &Settings, pair: &mut Pair<E>, memory: &Memory) -> Result<Row, BenchError> {
    let mut plain = Plain::new(settings, memory);
    let mut rounds = Vec::new();
    let time = settings.turn();
    for _ in 0..=settings.rounds {
        let limit = per_call(time, STRIDE, |call| plain.write(memory, call));
        let mut ours = Spent::default();
        pair.turn(|pair| {
            if pair.is_first() {
                ours = per_call(time, STRIDE, |call| {
                    let keys = memory.drawn.call(call).iter();
                    for (key, value) in keys.zip(plain.values.chunks_exact(memory.value_bytes)) {
                        mirror::rewrite(&memory.own, memory.at(*key), key.0, value);
                    }
                });
            }
            Ok(1)
        })?;
        rounds.push((limit, ours));
    }
    Ok(row(settings, "write", &rounds[1..]))
}
