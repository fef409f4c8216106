//! Owners and replicas of keys over time: the cells of a picture.
//!
//! The answer is the length of a head (32 bits), the head (JSON), and 16 bits per cell, row by row. The lower
//! 12 bits of a cell are the owner, or one of the marks below. The upper four bits are the number of
//! replicas; 15 means 15 or more. Numbers are little-endian.

use super::question::{self, span};
use super::selection::{self, Choose};
use crate::answer::Refusal;
use crate::library::Loaded;
use intendant_analysis::{MOVING, Window};
use serde::Deserialize;
use serde_json::json;

/// The mark of a key that is on its way.
const MOVING_CELL: u16 = 0xfff;
/// The mark of a key whose owner is not known.
const UNKNOWN_CELL: u16 = 0xffe;
/// The most replicas that a cell can represent.
const REPLICAS_MAX: u16 = 15;

/// Rows of a picture.
const ROWS_MAX: usize = 4096;
/// Cells of a picture: 2 MB.
const CELLS_MAX: usize = 1 << 20;

/// What a cell shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    /// The owner for most of the cell's time, and the most replicas at any moment of it.
    #[default]
    Most,
    /// The owner and the replicas at the beginning of the cell.
    Instant,
}

#[derive(Debug, Deserialize)]
#[serde(default)]
pub(super) struct Question {
    keys: String,
    rows: usize,
    choose: Choose,
    columns: u32,
    from: Option<u64>,
    to: Option<u64>,
    mode: Mode,
}

impl Default for Question {
    fn default() -> Self {
        Self {
            keys: String::new(),
            rows: 100,
            choose: Choose::default(),
            columns: 800,
            from: None,
            to: None,
            mode: Mode::default(),
        }
    }
}

pub(super) fn of(run: &Loaded, question: &Question) -> Result<Vec<u8>, Refusal> {
    let columns = question.columns as usize;
    if question.rows > ROWS_MAX || question.rows.saturating_mul(columns) > CELLS_MAX {
        let reason = format!(
            "a picture has at most {ROWS_MAX} rows, and {CELLS_MAX} cells; ask for fewer rows or columns"
        );
        return Err(Refusal::wrong(reason));
    }
    let window = question::window(run, question.from, question.to, question.columns)?;
    let filter = selection::filter(&question.keys)?;
    let selection = selection::select(run, &filter, question.rows, question.choose);
    let head = json!({
        "keys": selection.keys.iter().map(u64::to_string).collect::<Vec<_>>(),
        "total": selection.total,
        "from_us": window.from_us(),
        "to_us": window.to_us(),
        "columns": columns,
    });
    let head = head.to_string();
    let mut body = Vec::with_capacity(4 + head.len() + 2 * columns * selection.keys.len());
    body.extend_from_slice(&(head.len() as u32).to_le_bytes());
    body.extend_from_slice(head.as_bytes());
    let mut cells = vec![0u16; columns];
    let (_, end) = span(run);
    let times: Vec<u64> = (0..question.columns).map(|column| start_of(window, column)).collect();
    for key in &selection.keys {
        match question.mode {
            Mode::Most => most(run, *key, window, &mut cells),
            Mode::Instant => {
                let instants = run.allocation.instants(*key, &times);
                for (cell, instant) in cells.iter_mut().zip(instants) {
                    *cell = owner(instant.owner) | replicas(instant.replicas) << 12;
                }
            }
        }
        // Nothing is known about the time after the run.
        let known = times.partition_point(|time| *time < end);
        cells[known..].fill(UNKNOWN_CELL);
        cells.iter().for_each(|cell| body.extend_from_slice(&cell.to_le_bytes()));
    }
    Ok(body)
}

fn most(run: &Loaded, key: u64, window: Window, cells: &mut [u16]) {
    for row in run.allocation.rows(&[key], window) {
        for stretch in row.owners {
            cells[stretch.from as usize..stretch.to as usize].fill(owner(stretch.value));
        }
        for stretch in row.replicas {
            let count = replicas(stretch.value.unsigned_abs());
            cells[stretch.from as usize..stretch.to as usize]
                .iter_mut()
                .for_each(|cell| *cell |= count << 12);
        }
    }
}

fn owner(value: i32) -> u16 {
    let other = if value == MOVING { MOVING_CELL } else { UNKNOWN_CELL };
    u16::try_from(value).unwrap_or(other)
}

fn replicas(count: u32) -> u16 {
    count.min(u32::from(REPLICAS_MAX)) as u16
}

/// When a column begins.
pub(super) fn start_of(window: Window, column: u32) -> u64 {
    let width = u128::from(window.to_us() - window.from_us());
    window.from_us() + (width * u128::from(column) / u128::from(window.pixels())) as u64
}
