//! Memory: resident bytes per key, as the slope between two models in processes of their own.

use crate::error::BenchError;
use crate::measure::{Spread, now};
use crate::node;
use crate::row::Row;
use crate::settings::Settings;
use intendant::Element;
use std::process::{Command, Stdio};

/// How much larger the larger model is.
const FACTOR: u64 = 4;

/// The file in which the operating system reports how much memory is resident.
const STATM: &str = "/proc/self/statm";

pub(crate) fn rows<E: Element>(settings: &Settings) -> Result<Vec<Row>, BenchError> {
    if let Some(keys) = settings.resident {
        let settings = Settings { keys, ..settings.clone() };
        println_resident::<E>(&settings)?;
        return Ok(Vec::new());
    }
    let (few, many) = (settings.keys / FACTOR, settings.keys);
    let (begun, mut slopes) = (now(), Vec::new());
    while slopes.is_empty()
        || (slopes.len() < settings.rounds && begun.elapsed().as_secs_f64() < settings.seconds)
    {
        let (less, more) = (resident(settings, few)?, resident(settings, many)?);
        slopes.push((more - less) / (many - few) as f64);
    }
    let payload = settings.value_bytes() as f64;
    let mut row = Row::new(settings, "resident", "the bytes of the values (ratio of bytes per key)");
    row.set_ratio(slopes.iter().map(|slope| slope / payload));
    row.more.insert("bytes_per_key", Spread::of(slopes).median);
    row.more.insert("limit_bytes_per_key", payload);
    row.more.insert("keys_few", few as f64);
    Ok(vec![row])
}

/// The resident bytes of a process with a model of `keys` keys.
fn resident(settings: &Settings, keys: u64) -> Result<f64, BenchError> {
    let failed = |what: String| BenchError::Other(format!("a process with {keys} keys: {what}"));
    let program = std::env::current_exe().map_err(|error| failed(format!("this program's path: {error}")))?;
    let output = Command::new(program)
        .args(["memory", "--resident", &keys.to_string(), "--len", &settings.len.to_string()])
        .args(["--float", &settings.float.to_string(), "--technique", &settings.technique.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(format!("{}; is there enough memory for it?", output.status)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| failed(format!("said '{}'", text.trim())))
}

/// The measured process: starts a node and prints how many bytes are resident.
#[expect(clippy::print_stdout, reason = "the process that asked reads it")]
fn println_resident<E: Element>(settings: &Settings) -> Result<(), BenchError> {
    let node = node::alone::<E>(settings)?;
    let unknown = |what: String| BenchError::Other(format!("resident bytes are unknown: {STATM}: {what}"));
    let text = std::fs::read_to_string(STATM).map_err(|error| unknown(error.to_string()))?;
    // Sizes in pages: all, resident, …
    let pages: Option<usize> = text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok());
    println!("{}", pages.ok_or_else(|| unknown(text))? * rustix::param::page_size());
    Ok(node.shutdown()?)
}
