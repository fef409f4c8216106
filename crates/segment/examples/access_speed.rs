//! Measures accesses to slots next to a plain copy of as many bytes, by one thread, on memory in the cache.
//!
//! `cargo run --release -p intendant-segment --example access_speed -- [ROUNDS]`
#![allow(clippy::print_stdout, reason = "its output is what this program is for")]

use intendant_segment::{Segment, slot};
use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

const INCARNATION: u64 = 1;
const KEY: u64 = 2;
/// The result is the fastest of this many repetitions, because other programs can only add time.
const REPETITIONS: usize = 15;

fn main() -> Result<(), Box<dyn Error>> {
    let rounds =
        std::env::args().nth(1).map(|text| text.parse::<u64>()).transpose()?.unwrap_or(100_000).max(1);
    println!("ns per access   copy   words     get     set  decode  encode");
    for bytes in [64, 512, 4096] {
        let words = bytes / 8;
        let segment = Segment::shared(slot::words(words))?;
        let source: Vec<u64> = (0..words as u64).collect();
        let mut value = vec![0; words];
        let mut image = vec![0; slot::words(words)];
        let mut clock = 0;
        slot::set(&segment, 0, INCARNATION, KEY, 1, &source)?;
        let copy = fastest(rounds, || black_box(&mut value[..]).copy_from_slice(black_box(&source)));
        let read = fastest(rounds, || segment.read(slot::HEADER, black_box(&mut value)));
        let get = fastest(rounds, || {
            let _ = black_box(slot::get(&segment, 0, INCARNATION, KEY, black_box(&mut value)));
        });
        let decode = fastest(rounds, || {
            segment.read(0, black_box(&mut image));
            let _ = black_box(slot::decode(INCARNATION, KEY, words, &image));
        });
        let mut failed = None;
        let set = fastest(rounds, || {
            clock += 1;
            failed = slot::set(&segment, 0, INCARNATION, KEY, 1 + clock, black_box(&source)).err().or(failed);
        });
        let encode = fastest(rounds, || {
            clock += 1;
            slot::encode(INCARNATION, KEY, clock, black_box(&source), &mut image);
            segment.write(0, black_box(&image));
        });
        if let Some(error) = failed {
            return Err(error.into());
        }
        let times = [copy, read, get, set, decode, encode].map(|nanos| format!("{nanos:8.1}")).concat();
        println!("{bytes:>5} bytes  {times}");
    }
    Ok(())
}

/// Nanoseconds of one call.
fn fastest(rounds: u64, mut act: impl FnMut()) -> f64 {
    let mut fastest = f64::INFINITY;
    for _ in 0..REPETITIONS {
        let start = now();
        for _ in 0..rounds {
            act();
        }
        fastest = fastest.min(start.elapsed().as_nanos() as f64 / rounds as f64);
    }
    fastest
}

#[expect(clippy::disallowed_methods, reason = "measuring is what this program is for")]
fn now() -> Instant {
    Instant::now()
}
