//! Idle nodes: the CPU time that two nodes use after their work is done.

use crate::announce::Announcer;
use crate::error::BenchError;
use crate::measure::{Spread, now};
use crate::pair::{Load, NODES, Pair};
use crate::row::Row;
use crate::settings::Settings;
use intendant::Element;
use std::time::Duration;

/// Heartbeats come once per second, so a shorter round would count one more or one less.
const ROUND_SECONDS_MIN: f64 = 2.0;

/// How often a resting node checks that the cluster still runs: as often as a waiting launcher.
const LOOK: Duration = Duration::from_millis(500);

pub(crate) fn rows<E: Element>(settings: &Settings, pair: &mut Pair<E>) -> Result<Vec<Row>, BenchError> {
    let mut announcer = Announcer::new(settings, pair);
    // Enough for keys to move, for copies to be made, and for intents to be under way when the work stops.
    pair.turn(|pair| announcer.work(&mut pair.worker, settings.turn()))?;
    let rounds = settings.rounds.min((settings.seconds / ROUND_SECONDS_MIN) as usize).max(1);
    let time = Duration::from_secs_f64(settings.seconds / rounds as f64);
    let mut loads = Vec::new();
    for _ in 0..rounds {
        loads.push(pair.turn(|pair| rest(pair, time).map(|()| 1))?.0);
    }
    let cores = |load: &Load| load.cpu_ns / load.wall_ns;
    let of = |node: usize| Spread::of(loads.iter().map(|loads| cores(&loads[node]))).median;
    let mut row =
        Row::new(settings, "idle", "none: idle nodes need nothing (ratio is cores, of the busier node)");
    row.set_ratio(loads.iter().map(|loads| loads.iter().map(cores).fold(0.0, f64::max)));
    row.more.insert("cores_first", of(0));
    row.more.insert("cores_second", of(NODES - 1));
    Ok(vec![row])
}

/// Does nothing, like a worker that reads a large file.
fn rest<E: Element>(pair: &mut Pair<E>, time: Duration) -> Result<(), BenchError> {
    let begun = now();
    loop {
        let left = time.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        if let Some(failure) = pair.node.failure() {
            return Err(intendant::Error::from(failure).into());
        }
        std::thread::park_timeout(left.min(LOOK));
    }
}
