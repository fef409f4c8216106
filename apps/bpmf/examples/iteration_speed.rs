//! Measures how long an iteration takes on one thread:
//! `cargo run --release -p bpmf --example iteration_speed -- RANK ENTRIES`. The matrix has 4,000
//! rows and 1,000 columns; its known cells are drawn evenly.
#![allow(clippy::print_stdout, reason = "the result")]

use bpmf::{Block, Config, Model, Scratch};
use intendant_core::random::{stream, unit};
use std::sync::Arc;
use std::time::Instant;

const ROWS: u32 = 4_000;
const COLUMNS: u32 = 1_000;
const ITERATIONS: u32 = 6;

#[expect(clippy::disallowed_methods, reason = "this measures")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let (rank, entries) = (number(16)?, number(100_000)?);
    let cell = |index: u64| {
        let number = |what: u64, below: u32| (unit(stream(what, &[index])) * f64::from(below)) as u32;
        (number(1, ROWS), number(2, COLUMNS), unit(stream(3, &[index])))
    };
    let config = Config { rank: rank as usize, iterations: ITERATIONS, burn_in: 0, ..Config::default() };
    let model = Model::new(config, (ROWS, COLUMNS), (0..entries).map(cell), std::iter::empty(), 0.5)?;
    let (mut block, mut scratch) = (Block::new(Arc::new(model), 0, 1)?, Scratch::new());
    let start = Instant::now();
    while block.step().is_some() {
        block.work()?.into_iter().try_for_each(|task| task.run(&mut scratch))?;
        block.finish();
    }
    let seconds = start.elapsed().as_secs_f64() / f64::from(ITERATIONS);
    // Multiplications and additions: the products of entries on both sides, and the Cholesky factor of each
    // row.
    let k = rank as f64;
    let operations = 2.0 * entries as f64 * k * k + f64::from(ROWS + COLUMNS) * k * k * k / 3.0;
    println!(
        "rank {rank}, {entries} entries: {:.2} ms, {:.1} GFLOP/s",
        1e3 * seconds,
        operations / seconds / 1e9
    );
    Ok(())
}
