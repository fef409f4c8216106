//! Colours of nodes, which pictures and web pages share.
//!
//! The first seven colours are those of Okabe and Ito, which people with any kind of colour vision tell
//! apart; the eighth is a dark indigo. From the ninth node on, colours repeat with a pattern. Pictures also
//! name nodes in words.

use serde::Serialize;

/// The colours of eight nodes.
pub const COLOURS: [&str; 8] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#332288"];

/// The colour of a key that is on its way.
pub const MOVING_COLOUR: &str = "#ffffff";
/// The colour of a key whose owner is not known.
pub const UNKNOWN_COLOUR: &str = "#d9d9d9";

/// The pattern over the colour of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Nothing: nodes 0 to 7.
    Plain,
    /// White dots: nodes 8 to 15.
    Dots,
    /// White vertical lines: nodes 16 to 23.
    Vertical,
    /// White horizontal lines: nodes 24 to 31.
    Horizontal,
    /// A white grid: nodes 32 to 39. From node 40 on, the looks repeat.
    Grid,
}

/// How a node looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Look {
    /// Its colour, `#rrggbb`.
    pub colour: &'static str,
    /// The pattern over it.
    pub pattern: Pattern,
}

/// The look of a node. Forty nodes look different from each other.
#[must_use]
pub fn look(node: u16) -> Look {
    const PATTERNS: [Pattern; 5] =
        [Pattern::Plain, Pattern::Dots, Pattern::Vertical, Pattern::Horizontal, Pattern::Grid];
    let node = usize::from(node);
    Look { colour: COLOURS[node % COLOURS.len()], pattern: PATTERNS[node / COLOURS.len() % PATTERNS.len()] }
}
