//! The affinity of keys, as a table with bars [Lapse demo Fig. 4].

use super::allocation::name;
use super::canvas::{Anchor, Canvas, Fill, LINE, MARGIN};
use crate::allocation::Allocation;

/// Where cells begin, right of the names of keys.
const LEFT: u32 = 150;
const CELL: u32 = 46;
const ROW: u32 = 24;
/// The least width of a half of the table, so that its heading fits.
const HALF: u32 = 160;
/// Space between both halves of the table.
const BETWEEN: u32 = 20;
const BAR: u32 = 4;

/// For each key, the share of time at each node, and how often it moved there.
#[must_use]
pub fn affinity(allocation: &Allocation, keys: &[u64]) -> String {
    let nodes = allocation.run().header().nodes;
    let half = HALF.max(u32::from(nodes) * CELL);
    let right = LEFT + half + BETWEEN;
    let mut canvas = Canvas::new(right + half + 2 * MARGIN);
    let mut y = MARGIN + LINE;
    canvas.text((MARGIN, y), Anchor::Start, "Key");
    canvas.text((LEFT, y), Anchor::Start, "Time at each node (%)");
    canvas.text((right, y), Anchor::Start, "Relocations to each node");
    y += LINE + 4;
    let middle = |start: u32, node: u16| start + u32::from(node) * CELL + CELL / 2;
    for node in 0..nodes {
        for start in [LEFT, right] {
            canvas.rectangle(Fill::Node(node), (middle(start, node) - CELL / 2, y - 11), 10, 10);
            canvas.text((middle(start, node), y - 2), Anchor::Middle, &node.to_string());
        }
    }
    y += 4;
    for affinity in allocation.affinity(keys) {
        canvas.text((LEFT - 10, y + LINE), Anchor::End, &name(allocation, affinity.key));
        for ((node, share), count) in (0..nodes).zip(&affinity.share).zip(&affinity.relocations) {
            let x = middle(LEFT, node) - CELL / 2;
            canvas.text((middle(LEFT, node), y + LINE), Anchor::Middle, &format!("{:.0}", share * 100.0));
            let bar = (share.clamp(0.0, 1.0) * f64::from(CELL - 4)).round() as u32;
            canvas.rectangle(Fill::Node(node), (x, y + LINE + 2), bar, BAR);
            canvas.text((middle(right, node), y + LINE), Anchor::Middle, &count.to_string());
        }
        y += ROW;
    }
    canvas.end(y + MARGIN, "Affinity of keys to nodes")
}
