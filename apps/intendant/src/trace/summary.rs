//! `intendant trace summary`.

use super::args::ViewArgs;
use super::failure::Failure;
use super::json::json;
use super::open::allocation_of;
use super::words::{bytes, clocks, counted, duration, durations, grouped, shown, table};
use intendant_analysis::{Durations, Summary};
use std::fmt::Write;
use std::path::Path;

const SCHEMA: &str = "intendant.trace-summary/1";

/// Maximum number of nodes whose columns fit. With more nodes, tables show sums.
const COLUMNS_MAX: usize = 16;

/// Number of letters of a line of settings.
const SETTINGS_WIDTH: usize = 95;

pub(super) fn run(path: &Path, view: &ViewArgs, top: usize, as_json: bool) -> Result<String, Failure> {
    let summary = Summary::of(&allocation_of(path, view)?, top);
    if as_json { json(SCHEMA, &summary) } else { Ok(text(&summary)) }
}

fn text(run: &Summary) -> String {
    let mut text = String::new();
    let mut line = |name: &str, what: String| {
        let _ = writeln!(text, "{name:<12} {what}");
    };
    line(
        "run",
        format!("{} with {}", named(&run.task, "unknown task"), named(&run.technique, "unknown technique")),
    );
    for settings in wrapped(&run.settings) {
        line("", settings);
    }
    let with_files = run.nodes.iter().filter(|info| info.file.is_some()).count();
    line("nodes", format!("{}, {with_files} with traces", run.nodes.len()));
    line("length", duration((run.to_us - run.from_us) as f64));
    line(
        "keys",
        format!(
            "{} of {} traced ({}), {} with events",
            grouped(run.traced_keys),
            grouped(run.keys),
            named(&run.filter, "unknown filter"),
            grouped(run.active_keys)
        ),
    );
    let took = match run.relocation.count {
        // With intents, the owner decides, so that no node asks.
        0 if run.relocations > 0 => String::new(),
        _ => format!("; from asking to arrival: {}", durations(&run.relocation)),
    };
    line("relocations", format!("{}{took}", grouped(run.relocations)));
    line("replicas", format!("{} set up", grouped(run.replicas)));
    line("conflicts", grouped(run.conflicts));
    line("remote", durations(&run.remote));
    line("waited", format!("{} (for keys on their way)", durations(&run.waited)));
    if let Some(us) = run.epoch_us() {
        line("epochs", format!("{}, {} each", run.epochs.len(), duration(us as f64)));
    }
    if !run.checkpoints.is_empty() {
        line("checkpoints", run.checkpoints.len().to_string());
    }
    if !run.links.is_empty() {
        line("sent", bytes(run.bytes()));
    }
    text += &clocks(&run.nodes, &run.alignment);
    text += &lost(run);
    text += &management(run);
    text += &events(run);
    text += &links(run);
    text += &staleness(run);
    text += &causes(run);
    if !run.longest.is_empty() {
        text += "longest remote accesses and waits\n";
        for wait in &run.longest {
            let _ = writeln!(
                text,
                "  {} at {}: {}",
                duration(wait.after_us as f64),
                super::words::time(wait.at_us),
                wait.text
            );
        }
    }
    text
}

/// Settings, as many per line as fit.
fn wrapped(settings: &[(String, String)]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (name, value) in settings {
        let setting = format!("{} {}", shown(name), shown(value));
        match lines.last_mut() {
            Some(line) if line.len() + setting.len() < SETTINGS_WIDTH => *line += &format!(", {setting}"),
            Some(_) | None => lines.push(setting),
        }
    }
    lines
}

fn named(name: &str, unknown: &str) -> String {
    if name.is_empty() { unknown.to_owned() } else { shown(name) }
}

/// The missing events.
fn lost(run: &Summary) -> String {
    // The numbers come from files, and may have any value.
    let sum =
        |of: fn(&intendant_analysis::NodeInfo) -> u64| run.nodes.iter().map(of).fold(0, u64::saturating_add);
    let counts = [
        (sum(|info| info.dropped), "dropped"),
        (sum(|info| info.unknown), "of unknown kinds"),
        (sum(|info| info.refused), "refused"),
    ];
    let mut parts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", counted(*count, "event")))
        .collect();
    let bytes_lost = sum(|info| info.lost_bytes);
    if bytes_lost > 0 {
        parts.push(format!("{} at the ends of files", bytes(bytes_lost)));
    }
    let bytes_damaged = sum(|info| info.damaged_bytes);
    if bytes_damaged > 0 {
        parts.push(format!("{} of damage within files", bytes(bytes_damaged)));
    }
    let of = &run.inconsistencies;
    if of.missing() > 0 {
        parts.push(format!("{} that do not fit to each other", counted(of.missing(), "event")));
    }
    if of.intents > 0 {
        parts.push(format!("{} that begin twice, or end without a beginning", counted(of.intents, "intent")));
    }
    format!("lost: {}\n", if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") })
}

fn management(run: &Summary) -> String {
    let of = &run.management;
    let share = |count: u64| match run.traced_keys {
        0 => String::new(),
        keys => format!("{:.1} %", 100.0 * count as f64 / keys as f64),
    };
    let rows = [
        ("stayed at their homes", of.stayed),
        ("relocated", of.relocated),
        ("replicated", of.replicated),
        ("relocated and replicated", of.both),
        ("static replicas", of.static_replicas),
    ];
    let rows: Vec<Vec<String>> = rows
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| vec![(*name).to_owned(), grouped(*count), share(*count)])
        .collect();
    let roles = &run.roles;
    format!(
        "management of keys\n{}time of keys: {:.1} % at one node alone, {:.1} % with replicas ({:.2} per key on average), {:.1} % on \
         their way\n",
        table(&rows),
        100.0 * roles.alone,
        100.0 * roles.with_replicas,
        roles.replicas,
        100.0 * roles.moving
    )
}

fn events(run: &Summary) -> String {
    let by_node = run.nodes.len() <= COLUMNS_MAX;
    let mut header = vec!["kind".to_owned(), "events".to_owned()];
    if by_node {
        header.extend(run.nodes.iter().map(|info| format!("node {}", info.node)));
    }
    let row = |kinds: &intendant_analysis::Kinds| {
        let mut row = vec![kinds.kind.to_owned(), grouped(kinds.count)];
        if by_node {
            row.extend(kinds.by_node.iter().map(|count| grouped(*count)));
        }
        row
    };
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(run.events.iter().map(row)).collect();
    format!("events\n{}", table(&rows))
}

fn causes(run: &Summary) -> String {
    if run.causes.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = run
        .causes
        .iter()
        .map(|causes| {
            let mean = causes.us as f64 / causes.count.max(1) as f64;
            vec![causes.text.to_owned(), grouped(causes.count), format!("mean {}", duration(mean))]
        })
        .collect();
    let all = run.remote.count.saturating_add(run.waited.count);
    let of = if run.causes_of == all {
        String::new()
    } else {
        format!(" ({} of {})", grouped(run.causes_of), grouped(all))
    };
    format!("why keys were not where they were accessed{of}\n{}", table(&rows))
}

fn links(run: &Summary) -> String {
    if run.links.is_empty() {
        return String::new();
    }
    let mut links = run.links.clone();
    links.sort_by_key(|link| std::cmp::Reverse(link.bytes));
    let shown = COLUMNS_MAX * 2;
    let rows: Vec<Vec<String>> = links
        .iter()
        .take(shown)
        .map(|link| vec![format!("node {} to node {}", link.from, link.to), bytes(link.bytes)])
        .collect();
    let more = links.len().saturating_sub(shown);
    let rest = if more > 0 { format!("  and {}\n", counted(more as u64, "other")) } else { String::new() };
    format!("sent\n{}{rest}", table(&rows))
}

fn staleness(run: &Summary) -> String {
    let with_rounds = run.staleness.iter().filter(|node| node.rounds > 0 || node.clock.is_some());
    let pause = |pause: &Durations| {
        if pause.count == 0 {
            return "-".to_owned();
        }
        format!("{} / {}", duration(pause.mean_us), duration(pause.p99_us))
    };
    let mut rows: Vec<Vec<String>> = with_rounds
        .map(|node| {
            vec![
                format!("node {}", node.node),
                grouped(node.rounds),
                grouped(node.values),
                pause(&node.pause),
                node.clock.map_or("-".to_owned(), |clock| clock.to_string()),
                node.clocks_behind_max.to_string(),
            ]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let header = ["", "times", "values", "pause mean / p99", "last clock", "clocks behind at most"];
    rows.insert(0, header.map(str::to_owned).to_vec());
    format!("synchronisation of copies\n{}", table(&rows))
}
