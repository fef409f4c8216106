//! The life of one key: where it was, what was decided, and why.

use super::matrix::start_of;
use super::overview::Waiting;
use super::texts::RangeName;
use super::{question, rounds};
use crate::answer::Refusal;
use crate::library::Loaded;
use intendant_analysis::{MOVING, Place, Stamped, Stretch, Window};
use intendant_trace::What;
use serde::{Deserialize, Serialize};

/// Decisions of an answer.
const DECISIONS_MAX: usize = 1000;

/// Bins of the chart of remote accesses.
const BINS: u32 = 200;

/// Longest waits of an answer.
const WAITS: usize = 10;

#[derive(Debug, Deserialize)]
#[serde(default)]
pub(super) struct Question {
    from: Option<u64>,
    to: Option<u64>,
    columns: u32,
    offset: usize,
    count: usize,
}

impl Default for Question {
    fn default() -> Self {
        Self { from: None, to: None, columns: 800, offset: 0, count: 100 }
    }
}

/// Times are rounded to columns of the picture.
#[derive(Debug, Serialize)]
pub(super) struct View {
    key: String,
    range: RangeName,
    home: Option<u16>,
    from_us: u64,
    to_us: u64,
    rows: Vec<Row>,
    moving: Vec<(u64, u64)>,
    remote_bins: Vec<u64>,
    /// Accesses that waited for the key or a replica, which was on its way.
    waited_bins: Vec<u64>,
    decisions: Vec<Decision>,
    decisions_total: usize,
    waits: Vec<Waiting>,
}

#[derive(Debug, Serialize)]
struct Row {
    node: u16,
    owner: Vec<(u64, u64)>,
    replica: Vec<(u64, u64)>,
    intent: Vec<(u64, u64)>,
    #[serde(flatten)]
    counts: Counts,
}

/// Numbers of a node.
#[derive(Clone, Debug, Default, Serialize)]
struct Counts {
    remote: u64,
    remote_wait_us: u64,
    waited: u64,
    waited_us: u64,
    conflicts: u64,
    /// Synchronisation rounds while the node held a replica.
    rounds: u64,
    /// The mean time between two rounds. The set-up of a replica and its end count like rounds.
    round_gap_us: Option<f64>,
    longest_gap_us: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Decision {
    at_us: u64,
    node: u16,
    text: String,
}

pub(super) fn of(run: &Loaded, key: &str, question: &Question) -> Result<View, Refusal> {
    let key = question::key(run, key)?;
    let window = question::window(run, question.from, question.to, question.columns)?;
    if question.count > DECISIONS_MAX {
        return Err(Refusal::wrong(format!("an answer has at most {DECISIONS_MAX} decisions")));
    }
    let allocation = &run.allocation;
    let times = |stretches: &[Stretch]| stretches.iter().map(|stretch| times(window, stretch)).collect();
    let events = run.positions_between(key, window.from_us(), window.to_us());
    let text =
        |event: Stamped| Decision { at_us: event.at_us, node: event.node.0, text: event.what.to_string() };
    let shown = events.iter().skip(question.offset).take(question.count);
    let decisions =
        shown.filter_map(|position| allocation.run().event(*position as usize)).map(text).collect();
    let bins = Window::new(window.from_us(), window.to_us(), BINS);
    let (mut remote_bins, mut waited_bins) = (vec![0u64; BINS as usize], vec![0u64; BINS as usize]);
    let mut counts = vec![Counts::default(); allocation.run().header().nodes.into()];
    for event in events.iter().filter_map(|position| allocation.run().event(*position as usize)) {
        let Some(counts) = counts.get_mut(usize::from(event.node.0)) else { continue };
        #[expect(clippy::wildcard_enum_match_arm, reason = "other events are in no chart")]
        match event.what {
            What::Remote { after, .. } => {
                counts.remote += 1;
                counts.remote_wait_us = counts.remote_wait_us.saturating_add(after);
                remote_bins[bins.pixel(event.at_us) as usize] += 1;
            }
            What::Waited { after, .. } => {
                counts.waited += 1;
                counts.waited_us = counts.waited_us.saturating_add(after);
                waited_bins[bins.pixel(event.at_us) as usize] += 1;
            }
            What::Conflict => counts.conflicts += 1,
            _ => {}
        }
    }
    for (counts, rounds) in counts.iter_mut().zip(rounds::of(run, key, window)) {
        counts.rounds = rounds.count;
        counts.round_gap_us = rounds.mean_us();
        counts.longest_gap_us = rounds.longest_us();
    }
    let rows = allocation.node_rows(key, window).into_iter().zip(counts);
    let row = |(row, counts): (intendant_analysis::NodeRow, Counts)| Row {
        node: row.node,
        owner: times(&row.owner),
        replica: times(&row.replica),
        intent: times(&row.intent),
        counts,
    };
    let moving = allocation.rows(&[key], window).into_iter().flat_map(|row| row.owners);
    let moving: Vec<Stretch> = moving.filter(|stretch| stretch.value == MOVING).collect();
    Ok(View {
        key: key.to_string(),
        range: RangeName::of(run, key),
        home: allocation.run().home(key),
        from_us: window.from_us(),
        to_us: window.to_us(),
        rows: rows.map(row).collect(),
        moving: times(&moving),
        remote_bins,
        waited_bins,
        decisions,
        decisions_total: events.len(),
        waits: allocation
            .longest_waits_of(key, window.from_us(), window.to_us(), WAITS)
            .iter()
            .map(Waiting::of)
            .collect(),
    })
}

/// Beginning and end of neighbouring columns.
fn times(window: Window, stretch: &Stretch) -> (u64, u64) {
    (start_of(window, stretch.from), start_of(window, stretch.to))
}

#[derive(Debug, Deserialize)]
pub(super) struct Moment {
    at: u64,
}

/// Where a key is at a moment.
#[derive(Debug, Serialize)]
pub(super) struct State {
    key: String,
    range: RangeName,
    at_us: u64,
    owner: Option<u16>,
    moving: bool,
    replicas: Vec<u16>,
    intents: Vec<u16>,
}

pub(super) fn state(run: &Loaded, key: &str, moment: &Moment) -> Result<State, Refusal> {
    let key = question::key(run, key)?;
    let place = run.allocation.place_at(key, moment.at);
    Ok(State {
        key: key.to_string(),
        range: RangeName::of(run, key),
        at_us: moment.at,
        owner: place.owner(),
        moving: matches!(place, Place::Moving { .. }),
        replicas: run.allocation.replicas_at(key, moment.at),
        intents: run.allocation.intents_at(key, moment.at),
    })
}
