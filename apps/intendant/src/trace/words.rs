//! Numbers and tables as text.

use intendant_analysis::{Alignment, Durations, Method, NodeInfo};
use std::fmt::Write;

/// Text of a trace in a form that is safe for a terminal: characters that would control the terminal, begin a
/// line, or change the direction of text are escaped.
pub(super) fn shown(text: &str) -> String {
    let escaped =
        |letter: char| if is_control(letter) { letter.escape_default().to_string() } else { letter.into() };
    text.chars().map(escaped).collect()
}

/// Whether terminals obey this letter instead of showing it.
pub(super) fn is_control(letter: char) -> bool {
    // Marks and embeddings of the direction of text, joiners, and separators of lines and paragraphs.
    let hidden =
        ['\u{61c}'..='\u{61c}', '\u{200b}'..='\u{200f}', '\u{2028}'..='\u{202e}', '\u{2060}'..='\u{206f}'];
    letter.is_control() || letter == '\u{feff}' || hidden.iter().any(|range| range.contains(&letter))
}

/// `count` of a thing, in words.
pub(super) fn counted(count: u64, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{} {thing}s", grouped(count)) }
}

/// A number with commas.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A duration.
pub(super) fn duration(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{us:.0} us"),
        us if us < 1e6 => format!("{:.2} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

/// A time of the run's clock.
pub(super) fn time(us: u64) -> String {
    format!("{}.{:06} s", us / 1_000_000, us % 1_000_000)
}

/// Bytes.
pub(super) fn bytes(bytes: u64) -> String {
    match bytes as f64 {
        few if few < 1e3 => format!("{few} B"),
        some if some < 1e6 => format!("{:.1} kB", some / 1e3),
        more if more < 1e9 => format!("{:.1} MB", more / 1e6),
        many => format!("{:.2} GB", many / 1e9),
    }
}

pub(super) fn durations(of: &Durations) -> String {
    if of.count == 0 {
        return "none".to_owned();
    }
    let [mean, p99, max] = [of.mean_us, of.p99_us, of.max_us as f64].map(duration);
    format!("{}, mean {mean}, 99 % within {p99}, longest {max}", grouped(of.count))
}

/// The offsets of clocks.
pub(super) fn clocks(nodes: &[NodeInfo], alignment: &Alignment) -> String {
    let mut text = match alignment.method {
        Method::OneClock => "clocks: one for all nodes\n".to_owned(),
        Method::Events => {
            let meetings = counted(alignment.meetings, "meeting");
            match alignment.moves {
                0 => format!("clocks: aligned by {meetings}\n"),
                moves => format!("clocks: aligned by {meetings} and {} that moved\n", counted(moves, "key")),
            }
        }
        Method::WallClocks => "clocks: aligned by wall clocks, as far as events do not tell\n".to_owned(),
    };
    if alignment.method != Method::OneClock {
        for info in nodes.iter().filter(|info| info.file.is_some()) {
            let error = info.error_us.map_or("unknown error".to_owned(), |error| format!("± {error} us"));
            let _ = writeln!(text, "  node {:<4} {:+} us {error}", info.node, info.offset_us);
        }
    }
    text
}

/// A table whose columns are as wide as necessary. The first column is aligned to the left, the others to the
/// right.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::from(" ");
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if at == 0 { write!(line, " {cell:<width$}") } else { write!(line, "  {cell:>width$}") };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// The number of things, and how long they took together.
pub(super) fn durations_of(count: u64, thing: &str, things: &str, us: u64) -> String {
    let thing = if count == 1 { thing } else { things };
    let took = if count == 0 { String::new() } else { format!(" ({} together)", duration(us as f64)) };
    format!("{} {thing}{took}", grouped(count))
}
