//! `intendant trace key`.

use super::args::PictureArgs;
use super::failure::Failure;
use super::json::json;
use super::open::{open, say_inconsistencies};
use super::picture::{window, write_picture};
use super::words::{counted, durations_of, shown, time};
use intendant_analysis::{Allocation, KeyHistory, svg};
use intendant_trace::Filter;
use std::fmt::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

const SCHEMA: &str = "intendant.trace-key/1";

pub(super) fn run(
    path: &Path,
    key: u64,
    top: usize,
    picture: &PictureArgs,
    events_max: u64,
    as_json: bool,
) -> Result<String, Failure> {
    let run = open(path, events_max)?;
    let one: Range<u64> = key..key.saturating_add(1);
    let allocation = Allocation::of(&Arc::new(run), &Filter::Keys(vec![one]));
    say_inconsistencies(path, &allocation);
    if !allocation.keys().contains(key) {
        let (filter, keys) = (&allocation.run().header().filter, allocation.run().header().keys());
        return Err(Failure::Usage(match keys.checked_sub(1) {
            Some(last) if key > last => format!("there is no key {key}: those of the run are 0 to {last}"),
            _ => format!(
                "key {key} was not traced: the run has {} and traced {}; record it with --trace-keys {key}",
                counted(keys, "key"),
                shown(filter)
            ),
        }));
    }
    let mut said = String::new();
    if let Some(out) = &picture.svg {
        write_picture(out, &svg::key(&allocation, key, window(&allocation, picture)?), &[path])?;
        said = format!("{}: key {key}\n", out.display());
    }
    let history = match (picture.from, picture.to) {
        (None, None) => allocation.history(key, top),
        (from, to) => {
            // Reads the whole history first, because the limit applies to the listed part.
            let mut history = allocation.history(key, usize::MAX);
            let part = from.unwrap_or(0)..=to.unwrap_or(u64::MAX);
            history.decisions.retain(|decision| part.contains(&decision.at_us));
            history.waits.retain(|wait| part.contains(&wait.at_us));
            history.omitted = history.decisions.len().saturating_sub(top) as u64;
            history.decisions.truncate(top);
            history
        }
    };
    if as_json {
        json(SCHEMA, &history)
    } else {
        Ok(text(&history, picture.from.or(picture.to).is_some()) + &said)
    }
}

fn text(history: &KeyHistory, is_part: bool) -> String {
    let mut text = format!("key {}", history.key);
    if let Some((range, number)) = &history.name {
        let _ = write!(text, ", number {number} of '{}'", shown(range));
    }
    match history.home {
        Some(home) => {
            let _ = writeln!(text, ", at home at node {home}");
        }
        None => text += ", whose home is not known\n",
    }
    if history.is_static_replica {
        text += "every node has a replica throughout the run\n";
    }
    let counts = &history.counts;
    let _ = writeln!(
        text,
        "{}, {} set up, {}, {}, {}",
        counted(counts.relocations.into(), "relocation"),
        counted(counts.replicas.into(), "replica"),
        counted(counts.intents.into(), "intent"),
        durations_of(counts.remote.into(), "remote access", "remote accesses", counts.remote_us),
        durations_of(counts.waited.into(), "wait", "waits", counts.waited_us),
    );
    // Waits provide an additional fact: why the key was not at the node.
    let mut waits = history.waits.iter().peekable();
    for decision in &history.decisions {
        let _ = write!(text, "  {}  node {:<4} {}", time(decision.at_us), decision.node, decision.text);
        let is_wait = !decision.moves;
        if let Some(wait) = waits.next_if(|wait| {
            is_wait
                && (wait.at_us, wait.node) == (decision.at_us, decision.node)
                && decision.text.starts_with(&wait.access)
        }) {
            let _ = write!(text, ": {}", wait.why);
        }
        text.push('\n');
    }
    if history.decisions.is_empty() {
        text += if is_part { "nothing happened to it in this time\n" } else { "nothing happened to it\n" };
    }
    if history.omitted > 0 {
        let _ = writeln!(text, "  and more: --top lists more than the first {}", history.decisions.len());
    }
    text
}
