//! `intendant trace compare`.

use super::args::{PictureArgs, ViewArgs};
use super::failure::Failure;
use super::json::json;
use super::open::allocation_of;
use super::picture::{window, write_picture};
use super::words::{shown, table};
use intendant_analysis::svg::{self, Panel};
use intendant_analysis::{Comparison, Summary};
use std::path::Path;

const SCHEMA: &str = "intendant.trace-compare/1";

/// Number of longest waits of each run in the output of `--json`.
const WAITS: usize = 10;

pub(super) fn run(
    paths: [&Path; 2],
    view: &ViewArgs,
    rows: u32,
    picture: &PictureArgs,
    as_json: bool,
) -> Result<String, Failure> {
    let [a, b] = [allocation_of(paths[0], view)?, allocation_of(paths[1], view)?];
    if let Some(out) = &picture.svg {
        let [keys_a, keys_b] = [&a, &b].map(|run| run.keys().spread(rows.into()));
        let [title_a, title_b] = [("A: ", &a, &keys_a), ("B: ", &b, &keys_b)]
            .map(|(which, run, keys)| which.to_owned() + &super::allocation::title(run, keys));
        let panels = [
            Panel { title: &title_a, allocation: &a, keys: &keys_a, window: window(&a, picture)? },
            Panel { title: &title_b, allocation: &b, keys: &keys_b, window: window(&b, picture)? },
        ];
        write_picture(out, &svg::allocation(&panels), &paths)?;
    }
    let comparison = Comparison::of(Summary::of(&a, WAITS), Summary::of(&b, WAITS));
    if as_json { json(SCHEMA, &comparison) } else { Ok(text(&comparison, paths)) }
}

fn text(comparison: &Comparison, paths: [&Path; 2]) -> String {
    let name = |run: &Summary, path: &Path| {
        if run.technique.is_empty() { path.display().to_string() } else { shown(&run.technique) }
    };
    let [a, b] = [name(&comparison.a, paths[0]), name(&comparison.b, paths[1])];
    let [a, b] = if a == b { paths.map(|path| shown(&path.display().to_string())) } else { [a, b] };
    let mut rows = vec![vec![String::new(), a, b, "ratio".to_owned()]];
    for line in &comparison.lines {
        let number = |number: Option<f64>| match number {
            None => "-".to_owned(),
            Some(number) if number.fract() == 0.0 => super::words::grouped(number as u64),
            Some(number) if number >= 1000.0 => super::words::grouped(number.round() as u64),
            Some(number) => format!("{number:.3}"),
        };
        let ratio = match (line.a, line.b) {
            (Some(a), Some(b)) if a > 0.0 => format!("{:.3}", b / a),
            (Some(_), Some(_)) | (None, _) | (_, None) => "-".to_owned(),
        };
        let unit = if line.unit.is_empty() { String::new() } else { format!(" ({})", line.unit) };
        rows.push(vec![format!("{}{unit}", line.what), number(line.a), number(line.b), ratio]);
    }
    let mut text = table(&rows);
    for doubt in &comparison.doubts {
        text += &format!("note: {doubt}\n");
    }
    text + "A trace has no local accesses; the reports of both runs tell the share of local ones.\n"
}
