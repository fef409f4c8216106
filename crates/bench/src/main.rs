//! `intendant-bench` measures the cost of operations next to a limit of the machine.
//!
//! Every mode runs its own limit in the same processes, in turn with the measurement, and prints the ratio,
//! which is the number to quote. Seconds of different runs or machines are not comparable.
//!
//! `turns` has the turns of modes with one process, `pair` the turns of modes with two.

mod announce;
mod args;
mod error;
mod idle;
mod intent;
mod keys;
mod limit;
mod local;
mod measure;
mod memory;
mod node;
mod pair;
mod pin;
mod raw;
mod relocate;
mod remote;
mod row;
mod sample;
mod settings;
mod sync;
mod turns;
mod window;

use args::{Access, Args, Mode};
use clap::Parser;
use error::BenchError;
use intendant::{Element, ElementType};
use pair::{Pair, Part};
use row::Row;
use settings::Settings;
use std::process::ExitCode;

fn main() -> ExitCode {
    match Settings::new(Args::parse()).and_then(|settings| run(&settings)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("intendant-bench: error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Runs the measurement. Returns the exit code.
fn run(settings: &Settings) -> Result<u8, BenchError> {
    // Only once: the nodes have the same command line.
    if std::env::var_os("INTENDANT_LAUNCHED").is_none() {
        for option in &settings.unused {
            eprintln!("intendant-bench: note: mode {} does not use {option}", settings.mode.name());
        }
    }
    if let Some(path) = &settings.json {
        row::check(path)?;
    }
    match settings.float {
        ElementType::F32 => run_with::<f32>(settings),
        ElementType::F64 => run_with::<f64>(settings),
    }
}

fn run_with<E: Element>(settings: &Settings) -> Result<u8, BenchError> {
    let rows = match settings.mode {
        Mode::Local if settings.access == Access::Ipc => return between(settings, remote::rows::<E>),
        Mode::Local => local::rows::<E>(settings)?,
        Mode::Remote => return between(settings, remote::rows::<E>),
        Mode::Window => return between(settings, window::rows::<E>),
        Mode::Relocate => return between(settings, relocate::rows::<E>),
        Mode::Sync => return between(settings, sync::rows::<E>),
        Mode::Intent => return between(settings, intent::rows::<E>),
        Mode::Idle => return between(settings, idle::rows::<E>),
        Mode::Memory => memory::rows::<E>(settings)?,
        Mode::Sample => sample::rows::<E>(settings)?,
    };
    // A process that mode memory measures has already printed its number.
    if settings.resident.is_some() {
        return Ok(0);
    }
    row::write(settings, &rows)?;
    Ok(0)
}

/// The work of one of two nodes.
type Measure<E> = fn(&Settings, &mut Pair<E>) -> Result<Vec<Row>, BenchError>;

/// Measures between two processes; the first node writes what both measured.
fn between<E: Element>(settings: &Settings, measure: Measure<E>) -> Result<u8, BenchError> {
    let rendezvous = match pair::part(settings.mode)? {
        Part::Launcher(code) => return Ok(code),
        Part::Node(rendezvous) => rendezvous,
    };
    let mut pair = Pair::join(settings, node::config::<E>(settings)?, rendezvous)?;
    let rows = measure(settings, &mut pair)?;
    let first = pair.is_first();
    pair.leave()?;
    if first {
        row::write(settings, &rows)?;
    }
    Ok(0)
}
