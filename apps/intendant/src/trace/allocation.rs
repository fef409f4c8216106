//! `intendant trace allocation` and `intendant trace affinity`.

use super::args::{PictureArgs, ViewArgs};
use super::failure::Failure;
use super::json::json;
use super::open::allocation_of;
use super::picture::{window, write_picture};
use super::words::{counted, grouped, table, time};
use intendant_analysis::svg::{self, Panel};
use intendant_analysis::{Affinity, Allocation, By, KeyCounts, Row, Window};
use intendant_trace::Filter;
use serde::Serialize;
use std::path::Path;

const SCHEMA: &str = "intendant.trace-allocation/1";
const SCHEMA_AFFINITY: &str = "intendant.trace-affinity/1";

/// Maximum number of keys that the table counts, evenly spread.
const COUNTED_MAX: u64 = 100_000;

/// Number of most frequently moved keys that the text lists.
const MOST_MOVED: usize = 5;

/// The allocation of keys at a moment.
#[derive(Serialize)]
struct At {
    at_us: u64,
    /// For each node, the number of keys that it owns.
    owned: Vec<u64>,
    /// Number of keys that are being moved, or whose owner is not known.
    moving: u64,
    /// Number of replicas of all keys.
    replicas: u64,
}

#[derive(Serialize)]
struct Shown {
    /// Number of keys that were traced and selected.
    keys: u64,
    /// Number of keys that `moments` counts.
    counted_keys: u64,
    moments: Vec<At>,
    window: Window,
    rows: Vec<Row>,
    most_moved: Vec<KeyCounts>,
}

pub(super) fn run(
    path: &Path,
    view: &ViewArgs,
    moments: u32,
    rows: u32,
    picture: &PictureArgs,
    as_json: bool,
) -> Result<String, Failure> {
    let allocation = allocation_of(path, view)?;
    let window = window(&allocation, picture)?;
    let keys = allocation.keys().spread(rows.into());
    let mut said = String::new();
    if let Some(out) = &picture.svg {
        let title = title(&allocation, &keys);
        let panel = Panel { title: &title, allocation: &allocation, keys: &keys, window };
        write_picture(out, &svg::allocation(&[panel]), &[path])?;
        said = format!("{}: {}\n", out.display(), counted(keys.len() as u64, "key"));
    }
    let sample = allocation.keys().spread(COUNTED_MAX);
    let shown = Shown {
        keys: allocation.keys().len(),
        counted_keys: sample.len() as u64,
        moments: count(&allocation, &sample, window, moments),
        window,
        rows: if as_json { allocation.rows(&keys, window) } else { Vec::new() },
        most_moved: allocation.top(By::Relocations, MOST_MOVED),
    };
    if as_json { json(SCHEMA, &shown) } else { Ok(text(&allocation, &shown) + &said) }
}

/// The title of a picture.
pub(super) fn title(allocation: &Allocation, keys: &[u64]) -> String {
    let header = allocation.run().header();
    let (shown, all) = (keys.len() as u64, allocation.keys().len());
    let keys = if shown == all {
        counted(all, "key")
    } else {
        format!("{} of {}", grouped(shown), counted(all, "key"))
    };
    format!("{} with {}, {keys}", header.task, header.technique)
}

fn count(allocation: &Allocation, keys: &[u64], window: Window, moments: u32) -> Vec<At> {
    let length = u128::from(window.to_us() - window.from_us());
    let at = |moment: u32| {
        // The first and the last moment are the ends of the window.
        let part = length * u128::from(moment) / u128::from((moments - 1).max(1));
        window.from_us().saturating_add(part as u64)
    };
    let count = |moment: u32| {
        let found = allocation.moment(keys, at(moment));
        let mut owned = vec![0; allocation.run().header().nodes.into()];
        let mut moving = 0;
        for owner in found.owners {
            match usize::try_from(owner).ok().and_then(|owner| owned.get_mut(owner)) {
                Some(count) => *count += 1,
                None => moving += 1,
            }
        }
        let replicas = found.replicas.iter().map(|count| u64::from(*count)).sum();
        At { at_us: found.at_us, owned, moving, replicas }
    };
    (0..moments).map(count).collect()
}

fn text(allocation: &Allocation, shown: &Shown) -> String {
    let of = if shown.counted_keys == shown.keys {
        counted(shown.keys, "key")
    } else {
        format!("{} of {}, evenly spread", grouped(shown.counted_keys), counted(shown.keys, "key"))
    };
    let mut header = vec!["time".to_owned()];
    header.extend((0..allocation.run().header().nodes).map(|node| format!("node {node}")));
    header.extend(["moving", "replicas"].map(str::to_owned));
    let mut rows = vec![header];
    for moment in &shown.moments {
        let mut row = vec![time(moment.at_us)];
        row.extend(
            moment.owned.iter().chain([&moment.moving, &moment.replicas]).map(|count| grouped(*count)),
        );
        rows.push(row);
    }
    let mut text = format!("where keys were: {of}\n{}", table(&rows));
    if !shown.most_moved.is_empty() {
        let mut rows =
            vec![["key", "relocations", "replicas", "remote", "conflicts"].map(str::to_owned).to_vec()];
        for counts in &shown.most_moved {
            let numbers = [counts.relocations, counts.replicas, counts.remote, counts.conflicts];
            let mut row = vec![counts.key.to_string()];
            row.extend(numbers.iter().map(|count| grouped((*count).into())));
            rows.push(row);
        }
        text += &format!("keys that moved most often\n{}", table(&rows));
    }
    text
}

pub(super) fn affinity(
    path: &Path,
    view: &ViewArgs,
    top: usize,
    picture: Option<&Path>,
    as_json: bool,
) -> Result<String, Failure> {
    let allocation = allocation_of(path, view)?;
    // Keys that the user names are shown in the user's order, even if they never moved.
    let keys: Vec<u64> = if view.keys == Filter::All {
        allocation.top(By::Relocations, top).into_iter().map(|counts| counts.key).collect()
    } else {
        allocation.keys().iter().take(top).collect()
    };
    let mut said = String::new();
    if let Some(out) = picture {
        write_picture(out, &svg::affinity(&allocation, &keys), &[path])?;
        said = format!("{}: {}\n", out.display(), counted(keys.len() as u64, "key"));
    }
    let found = allocation.affinity(&keys);
    if as_json {
        #[derive(Serialize)]
        struct Shown {
            keys: Vec<Affinity>,
        }
        return json(SCHEMA_AFFINITY, Shown { keys: found });
    }
    if found.is_empty() {
        let why = if top == 0 { "--top 0 shows no key" } else { "no key moved; name keys with --keys" };
        return Ok(format!("{why}\n{said}"));
    }
    let nodes = allocation.run().header().nodes;
    let header = |first: &str| {
        let mut row = vec![first.to_owned()];
        row.extend((0..nodes).map(|node| format!("node {node}")));
        row
    };
    let percent = |share: &f64| format!("{:.0}", share * 100.0);
    let (mut times, mut moves) = (vec![header("key")], vec![header("key")]);
    times[0].push("moving".to_owned());
    for affinity in &found {
        let mut row = vec![affinity.key.to_string()];
        row.extend(affinity.share.iter().chain([&affinity.moving_share]).map(percent));
        times.push(row);
        let mut row = vec![affinity.key.to_string()];
        row.extend(affinity.relocations.iter().map(ToString::to_string));
        moves.push(row);
    }
    Ok(format!("time at each node, in %\n{}relocations to each node\n{}{said}", table(&times), table(&moves)))
}
