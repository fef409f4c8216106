//! Management of a key: rows are nodes [thesis Fig. 5.14].

use super::allocation::name;
use super::canvas::{Anchor, Area, Canvas, Fill, LINE, MARGIN};
use crate::allocation::{Allocation, Stretch, Window};

/// Where rows begin, right of the names of nodes.
const LEFT: u32 = 90;
/// The height of a row, of its upper part (owner and replicas), and of the line of intents.
const ROW: u32 = 26;
const UPPER: u32 = 16;
const INTENT: u32 = 4;

/// The colour of intents.
const INTENT_COLOUR: &str = "#444444";

/// Draws when each node owned a key, held a replica, and had active intent.
#[must_use]
pub fn key(allocation: &Allocation, key: u64, window: Window) -> String {
    let mut canvas = Canvas::new(window.pixels() + LEFT + 2 * MARGIN);
    let title = format!("Management of key {key} ({})", name(allocation, key));
    canvas.text((MARGIN, MARGIN + LINE - 4), Anchor::Start, &title);
    let more = [
        (Fill::Node(0), "owner"),
        (Fill::Faint(0), "replica"),
        (Fill::Plain(INTENT_COLOUR), "active intent (line below)"),
    ];
    let top = canvas.legend(MARGIN + LINE + 4, 0, &more);
    let rows = allocation.node_rows(key, window);
    for (row, at) in rows.iter().zip(0..) {
        let y = top + at * ROW;
        canvas.text((LEFT - 6, y + UPPER - 3), Anchor::End, &format!("node {}", row.node));
        let mut fill = |fill: Fill, stretches: &[Stretch], y: u32, height: u32| {
            let mut area = Area::default();
            for stretch in stretches {
                area.add(LEFT + stretch.from, y, stretch.to - stretch.from, height);
            }
            canvas.area(fill, &area);
        };
        fill(Fill::Faint(row.node), &row.replica, y + 1, UPPER);
        fill(Fill::Node(row.node), &row.owner, y + 1, UPPER);
        fill(Fill::Plain(INTENT_COLOUR), &row.intent, y + UPPER + 2, INTENT);
    }
    let bottom = top + rows.len() as u32 * ROW;
    canvas.frame((LEFT, top), window.pixels(), bottom - top);
    let bottom = canvas.axis((LEFT, bottom), window);
    canvas.end(bottom + MARGIN, &title)
}
