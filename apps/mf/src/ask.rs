//! Questions by name, and their answers: for the commands and for the service.

use intendant_core::Element;
use intendant_trained::{Answered, Hit, Style, finite, object};
use mf::{Axis, Trained};
use serde_json::Value;

/// How recommendations are shown.
pub(crate) const RECOMMENDED: Style = Style { answer: "column", number: PREDICTION };

/// What the value of a cell is called.
pub(crate) const PREDICTION: &str = "prediction";

/// A row and a column of a cell, by number.
pub(crate) type Cell = (u32, u32);

/// Finds a cell.
pub(crate) fn find<E: Element>(model: &Trained<E>, [row, column]: [&str; 2]) -> Result<Cell, String> {
    Ok((model.names(Axis::Rows).find(row)?, model.names(Axis::Columns).find(column)?))
}

/// The value of a cell as a JSON object.
pub(crate) fn predicted<E: Element>(model: &Trained<E>, (row, column): Cell) -> Value {
    let asked =
        [("row", model.names(Axis::Rows).name(row)), ("column", model.names(Axis::Columns).name(column))];
    object(&asked, [(PREDICTION, finite(model.predict(row, column)))])
}

/// The columns with the largest predictions of rows.
pub(crate) fn recommend<E: Element>(
    model: &Trained<E>,
    rows: &[u32],
    count: usize,
    left_out: &[&[u32]],
    threads: usize,
) -> Vec<Answered> {
    let found = model.recommend(rows, count, left_out, threads);
    answered(model, ("row", Axis::Rows), Axis::Columns, rows, found)
}

/// What the rows or columns of similar factors are called, and how they are shown.
pub(crate) fn similarity(axis: Axis) -> Style {
    Style { answer: what(axis), number: "similarity" }
}

/// The rows or columns with the most similar factors.
pub(crate) fn similar<E: Element>(
    model: &Trained<E>,
    axis: Axis,
    asked: &[u32],
    count: usize,
    threads: usize,
) -> Vec<Answered> {
    answered(model, (what(axis), axis), axis, asked, model.similar(axis, asked, count, threads))
}

fn what(axis: Axis) -> &'static str {
    match axis {
        Axis::Rows => "row",
        Axis::Columns => "column",
    }
}

/// The answers `found` to questions about `asked`, in names.
fn answered<E: Element>(
    model: &Trained<E>,
    (what, asked_axis): (&'static str, Axis),
    found_axis: Axis,
    asked: &[u32],
    found: Vec<Vec<Hit>>,
) -> Vec<Answered> {
    let (asked_names, found_names) = (model.names(asked_axis), model.names(found_axis));
    let answered = |(asked, hits): (&u32, Vec<Hit>)| Answered {
        asked: vec![(what, asked_names.name(*asked).to_owned())],
        found: hits.iter().map(|hit| (found_names.name(hit.row).to_owned(), hit.score)).collect(),
    };
    asked.iter().zip(found).map(answered).collect()
}
