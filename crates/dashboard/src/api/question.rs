//! Parses and checks the questions of requests.

use crate::answer::Refusal;
use crate::library::Loaded;
use axum::extract::{FromRequestParts, Query};
use http::request::Parts;
use intendant_analysis::Window;
use serde::de::DeserializeOwned;

/// Columns of a picture.
pub(super) const COLUMNS_MAX: u32 = 4096;

/// The parsed query string: the part of an address after `?`.
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Refusal> {
        let Query(asked) = Query::<T>::try_from_uri(&parts.uri).map_err(|error| {
            let text = error.body_text();
            let reason = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
            Refusal::wrong(format!("what follows '?' in the address: {reason}"))
        })?;
        Ok(Self(asked))
    }
}

/// The time that a request asks for; by default the whole run.
pub(super) fn window(
    run: &Loaded,
    from: Option<u64>,
    to: Option<u64>,
    columns: u32,
) -> Result<Window, Refusal> {
    if !(1..=COLUMNS_MAX).contains(&columns) {
        return Err(Refusal::wrong(format!("columns is {columns}; allowed are 1 to {COLUMNS_MAX}")));
    }
    let (start, end) = span(run);
    let (from, to) = (from.unwrap_or(start), to.unwrap_or(end));
    if from >= to {
        return Err(Refusal::wrong(format!("the time from {from} to {to} us is empty")));
    }
    Ok(Window::new(from, to, columns))
}

/// When the run begins and ends; at least a microsecond apart.
pub(super) fn span(run: &Loaded) -> (u64, u64) {
    let (start, end) = run.allocation.run().span_us();
    (start, end.max(start + 1))
}

/// Parses a key of the run.
pub(super) fn key(run: &Loaded, text: &str) -> Result<u64, Refusal> {
    let key = text.trim().parse::<u64>().ok();
    let shown: String = text.chars().take(40).collect();
    let key = key.ok_or_else(|| Refusal::wrong(format!("{shown:?} is no key; write a number")))?;
    if !run.allocation.keys().contains(key) {
        return Err(Refusal::missing(format!("key {key} is not in this trace")));
    }
    Ok(key)
}
