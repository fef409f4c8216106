//! Allocation over time: rows are keys, colours are owners [thesis Fig. 3.5].

use super::canvas::{Anchor, Area, Canvas, Fill, LINE, MARGIN, shorten};
use crate::allocation::{Allocation, MOVING, UNKNOWN, Window};
use crate::palette::{MOVING_COLOUR, UNKNOWN_COLOUR};
use std::collections::BTreeMap;

/// Where rows begin, right of the names of keys.
const LEFT: u32 = 150;
/// Letters of a name that fit there.
const NAME_MAX: usize = 20;
/// The height that all rows of all panels together should have.
const ROWS_HEIGHT: u32 = 640;

/// A run in a picture.
#[derive(Clone, Copy, Debug)]
pub struct Panel<'a> {
    /// The text above the rows.
    pub title: &'a str,
    /// The run.
    pub allocation: &'a Allocation,
    /// Its keys, one per row.
    pub keys: &'a [u64],
    /// The time, and how wide the rows are.
    pub window: Window,
}

/// Allocation over time of one run, or of several, one above the other.
#[must_use]
pub fn allocation(panels: &[Panel<'_>]) -> String {
    let width = panels.iter().map(|panel| panel.window.pixels()).max().unwrap_or(0) + LEFT + 2 * MARGIN;
    let mut canvas = Canvas::new(width);
    let nodes = panels.iter().map(|panel| panel.allocation.run().header().nodes).max().unwrap_or(0);
    let more = [
        (Fill::Plain(MOVING_COLOUR), "on its way"),
        (Fill::Plain(UNKNOWN_COLOUR), "not known"),
        (Fill::Hatch, "with replicas"),
    ];
    let mut y = canvas.legend(MARGIN, nodes, &more);
    for panel in panels {
        y = draw(&mut canvas, y, panel, ROWS_HEIGHT / panels.len() as u32);
    }
    let titles: Vec<&str> = panels.iter().map(|panel| panel.title).collect();
    canvas.end(y + MARGIN, &format!("Allocation over time: {}", titles.join(", ")))
}

fn draw(canvas: &mut Canvas, y: u32, panel: &Panel<'_>, rows_height: u32) -> u32 {
    canvas.text((MARGIN, y + LINE - 2), Anchor::Start, panel.title);
    let (top, count) = (y + LINE + 6, panel.keys.len() as u32);
    let height = (rows_height / count.max(1)).clamp(1, 20);
    // Lines between rows, where there is room.
    let inner = if height > 4 { height - 1 } else { height };
    let mut areas = BTreeMap::<Fill, Area>::new();
    for (row, at) in panel.allocation.rows(panel.keys, panel.window).iter().zip(0..) {
        let y = top + at * height;
        for stretch in &row.owners {
            let fill = match stretch.value {
                MOVING => Fill::Plain(MOVING_COLOUR),
                UNKNOWN => Fill::Plain(UNKNOWN_COLOUR),
                node => Fill::Node(node as u16),
            };
            areas.entry(fill).or_default().add(LEFT + stretch.from, y, stretch.to - stretch.from, inner);
        }
        for stretch in &row.replicas {
            areas.entry(Fill::Hatch).or_default().add(
                LEFT + stretch.from,
                y,
                stretch.to - stretch.from,
                inner,
            );
        }
    }
    // The hatch lies over the colours of owners.
    let hatch = areas.remove(&Fill::Hatch);
    areas.iter().for_each(|(fill, area)| canvas.area(*fill, area));
    hatch.iter().for_each(|area| canvas.area(Fill::Hatch, area));
    let each = LINE.div_ceil(height);
    for (key, at) in panel.keys.iter().zip(0..).filter(|(_, at)| at % each == 0) {
        let y = top + at * height + height / 2 + 4;
        canvas.text((LEFT - 6, y), Anchor::End, &name(panel.allocation, *key));
    }
    let bottom = top + count * height;
    canvas.frame((LEFT, top), panel.window.pixels(), bottom - top);
    canvas.axis((LEFT, bottom), panel.window) + 6
}

/// The name of a key in pictures.
pub(super) fn name(allocation: &Allocation, key: u64) -> String {
    match allocation.run().name(key) {
        // Only the name of the range is shortened, not the number.
        Some((range, number)) => {
            let number = format!(" {number}");
            shorten(range, NAME_MAX.saturating_sub(number.len()).max(3)) + &number
        }
        None => key.to_string(),
    }
}
