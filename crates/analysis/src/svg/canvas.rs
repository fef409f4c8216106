//! Shapes and texts of a picture.

use crate::allocation::Window;
use crate::palette::{Pattern, look};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The position at which texts begin, and the height of a line of text.
pub(super) const MARGIN: u32 = 10;
pub(super) const LINE: u32 = 16;

/// The fewest pixels between two ticks of a time axis.
const TICK_PIXELS: u32 = 90;

/// How a text is placed relative to its position.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// What an area is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fill {
    /// The look of a node.
    Node(u16),
    /// The colour of a node, faint, with the hatch of replicas.
    Faint(u16),
    /// The hatch of replicas, over other colours.
    Hatch,
    /// One colour.
    Plain(&'static str),
}

/// A picture that grows from top to bottom.
pub(super) struct Canvas {
    width: u32,
    body: String,
    patterns: BTreeSet<&'static str>,
}

/// Rectangles of one fill.
#[derive(Default)]
pub(super) struct Area(String);

impl Area {
    pub(super) fn add(&mut self, x: u32, y: u32, width: u32, height: u32) {
        let _ = write!(self.0, "M{x} {y}h{width}v{height}h-{width}z");
    }
}

/// Replaces the characters of `text` that have a meaning in XML and those that XML does not allow.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            _ if letter.is_control() => escaped.push('\u{fffd}'),
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// Shortens a text to at most `most` letters.
pub(super) fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// A duration in words.
pub(crate) fn duration(us: u64) -> String {
    match us {
        0..1000 => format!("{us} us"),
        1000..1_000_000 => format!("{} ms", decimal(us as f64 / 1e3)),
        _ => format!("{} s", decimal(us as f64 / 1e6)),
    }
}

/// Microseconds between two ticks: 1, 2 or 5 times a power of ten.
fn step(window: Window) -> u64 {
    let ticks = u64::from((window.pixels() / TICK_PIXELS).max(1));
    let least = (window.to_us() - window.from_us()).div_ceil(ticks).max(1);
    let mut power = 1u64;
    loop {
        for step in [power, power.saturating_mul(2), power.saturating_mul(5)] {
            if step >= least {
                return step;
            }
        }
        power = power.saturating_mul(10);
    }
}

/// A number with at most three digits after the point, without trailing zeros.
fn decimal(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Canvas {
    pub(super) fn new(width: u32) -> Self {
        Self { width, body: String::new(), patterns: BTreeSet::new() }
    }

    pub(super) fn area(&mut self, fill: Fill, area: &Area) {
        if area.0.is_empty() {
            return;
        }
        let mut path = |paint: &str, opacity: &str| {
            let _ = writeln!(self.body, r#"<path fill="{paint}"{opacity} d="{}"/>"#, area.0);
        };
        let overlay = match fill {
            Fill::Plain(colour) => {
                path(colour, "");
                None
            }
            Fill::Hatch => Some("replica"),
            Fill::Node(node) => {
                path(look(node).colour, "");
                pattern(look(node).pattern)
            }
            Fill::Faint(node) => {
                path(look(node).colour, r#" fill-opacity="0.4""#);
                Some("replica")
            }
        };
        if let Some(name) = overlay {
            path(&format!("url(#{name})"), "");
            self.patterns.insert(name);
        }
    }

    pub(super) fn rectangle(&mut self, fill: Fill, (x, y): (u32, u32), width: u32, height: u32) {
        let mut area = Area::default();
        area.add(x, y, width, height);
        self.area(fill, &area);
    }

    pub(super) fn frame(&mut self, (x, y): (u32, u32), width: u32, height: u32) {
        let _ = writeln!(
            self.body,
            r##"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="none" stroke="#555555"/>"##
        );
    }

    pub(super) fn text(&mut self, (x, y): (u32, u32), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let _ = writeln!(self.body, r#"<text x="{x}" y="{y}"{anchor}>{}</text>"#, escape(text));
    }

    /// Draws a time axis below `y`, for a window that begins at `x`. Returns where the axis ends.
    pub(super) fn axis(&mut self, (x, y): (u32, u32), window: Window) -> u32 {
        let step = step(window);
        let mut at_us = window.from_us().next_multiple_of(step);
        while at_us <= window.to_us() {
            // The end of the window is right of the last pixel.
            let at = x + window.pixel(at_us) + u32::from(at_us == window.to_us());
            let _ = writeln!(self.body, r##"<path stroke="#555555" d="M{at} {y}v4"/>"##);
            self.text((at, y + 4 + LINE), Anchor::Middle, &duration(at_us));
            at_us = match at_us.checked_add(step) {
                Some(next) => next,
                None => break,
            };
        }
        y + 4 + LINE + 6
    }

    /// Draws the legend of the looks of nodes, from `y` on. Returns where the legend ends.
    pub(super) fn legend(&mut self, y: u32, nodes: u16, more: &[(Fill, &str)]) -> u32 {
        let nodes = (0..nodes).map(|node| (Fill::Node(node), format!("node {node}")));
        let more = more.iter().map(|(fill, text)| (*fill, (*text).to_owned()));
        let (mut x, mut y) = (MARGIN, y);
        for (fill, text) in nodes.chain(more) {
            let width = 22 + 8 * text.chars().count() as u32;
            if x + width > self.width && x > MARGIN {
                (x, y) = (MARGIN, y + LINE);
            }
            if fill == Fill::Hatch {
                self.rectangle(Fill::Plain("#dddddd"), (x, y), 12, 12);
            }
            self.rectangle(fill, (x, y), 12, 12);
            self.frame((x, y), 12, 12);
            self.text((x + 16, y + 11), Anchor::Start, &text);
            x += width;
        }
        y + LINE + 4
    }

    /// Completes the picture with this height.
    pub(super) fn end(self, height: u32, title: &str) -> String {
        let (width, title) = (self.width, escape(title));
        let mut svg = format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" font-family="sans-serif" font-size="12" fill="#222222">
<title>{title}</title>
<rect width="{width}" height="{height}" fill="#ffffff"/>
"##
        );
        if !self.patterns.is_empty() {
            svg.push_str("<defs>\n");
            self.patterns.iter().for_each(|name| svg.push_str(definition(name)));
            svg.push_str("</defs>\n");
        }
        svg + &self.body + "</svg>\n"
    }
}

fn pattern(pattern: Pattern) -> Option<&'static str> {
    match pattern {
        Pattern::Plain => None,
        Pattern::Dots => Some("dots"),
        Pattern::Vertical => Some("vertical"),
        Pattern::Horizontal => Some("horizontal"),
        Pattern::Grid => Some("grid"),
    }
}

fn definition(name: &str) -> &'static str {
    match name {
        "dots" => {
            r##"<pattern id="dots" width="6" height="6" patternUnits="userSpaceOnUse"><circle cx="3" cy="3" r="1.4" fill="#ffffff"/></pattern>
"##
        }
        "vertical" => {
            r##"<pattern id="vertical" width="5" height="5" patternUnits="userSpaceOnUse"><path stroke="#ffffff" stroke-width="1.5" d="M2.5 0v5"/></pattern>
"##
        }
        "horizontal" => {
            r##"<pattern id="horizontal" width="4" height="4" patternUnits="userSpaceOnUse"><path stroke="#ffffff" stroke-width="1.2" d="M0 2h4"/></pattern>
"##
        }
        "grid" => {
            r##"<pattern id="grid" width="6" height="6" patternUnits="userSpaceOnUse"><path stroke="#ffffff" d="M3 0v6M0 3h6"/></pattern>
"##
        }
        _ => {
            r##"<pattern id="replica" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path stroke="#000000" stroke-opacity="0.6" d="M0.5 0v5"/></pattern>
"##
        }
    }
}
