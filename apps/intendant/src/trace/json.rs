//! The output of `--json`.

use super::failure::Failure;
use super::words;
use serde::Serialize;

/// The text of `--json`: a schema, and its content.
pub(super) fn json(schema: &'static str, content: impl Serialize) -> Result<String, Failure> {
    #[derive(Serialize)]
    struct Document<T> {
        schema: &'static str,
        #[serde(flatten)]
        content: T,
    }
    let text = serde_json::to_string_pretty(&Document { schema, content });
    let text = text.map_err(|error| Failure::Usage(error.to_string()))?;
    // Non-ASCII letters occur only within strings, where JSON has an escape for each of them.
    let is_shown = |letter: char| matches!(letter, ' '..='~' | '\n') || !words::is_control(letter);
    let escaped = |letter: char| {
        if is_shown(letter) { letter.to_string() } else { format!("\\u{:04x}", u32::from(letter)) }
    };
    Ok(text.chars().map(escaped).chain(["\n".to_owned()]).collect())
}
