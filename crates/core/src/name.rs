//! Values that have a name, as on command lines and in reports.

use std::fmt::Display;

/// No value of the kind has the given name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{given}' is not {kind}; use {}", one_of(known))]
pub struct UnknownName {
    kind: &'static str,
    given: String,
    known: Vec<String>,
}

fn one_of(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        [name] => name.clone(),
        [names @ .., last] => format!("{} or {last}", names.join(", ")),
    }
}

/// The value of `all` that is displayed as `name`. `kind` says what the values are, with an article.
///
/// # Errors
/// [`UnknownName`] if there is no such value; it lists the names.
///
/// ```
/// # use intendant_core::{ElementType, by_name};
/// let all = [ElementType::F32, ElementType::F64];
/// assert_eq!(by_name("an element type", "f64", all), Ok(ElementType::F64));
/// let error = by_name("an element type", "f16", all).unwrap_err();
/// assert_eq!(error.to_string(), "'f16' is not an element type; use f32 or f64");
/// ```
pub fn by_name<T: Display>(
    kind: &'static str,
    name: &str,
    all: impl IntoIterator<Item = T>,
) -> Result<T, UnknownName> {
    let mut known = Vec::new();
    for value in all {
        let its = value.to_string();
        if its == name {
            return Ok(value);
        }
        known.push(its);
    }
    Err(UnknownName { kind, given: name.to_owned(), known })
}
