//! The parameters that `--explain` names.

use std::ops::Range;

/// Keys that can be explained in one run: a person does not read more.
pub(crate) const KEYS_MAX: usize = 100;

/// The parameters to explain, as the user names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) text: String,
    pub(crate) parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Keys(Range<u64>),
    Name(String),
}

/// Reads the flag: numbers, ranges `first..end` without their ends, and names, separated by commas.
pub(crate) fn keys(text: &str) -> Result<Keys, String> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (mut parts, mut count) = (Vec::new(), 0);
    for part in text.split(',') {
        let range = match part.split_once("..").map(|(first, end)| (number(first), number(end))) {
            Some((Some(first), Some(end))) => Some(first..end),
            Some(_) => None,
            None => number(part).map(|first| first..first.saturating_add(1)),
        };
        match range {
            Some(range) if range.is_empty() => {
                return Err(format!("'{part}' is empty: the end of a range does not belong to it"));
            }
            Some(range) => {
                count = (range.end - range.start).saturating_add(count);
                parts.push(Part::Keys(range));
            }
            None if part.trim().is_empty() => {
                return Err(
                    "a key or a name is missing; use names, numbers and ranges like 3,10..20".to_owned()
                );
            }
            None => parts.push(Part::Name(part.trim().to_owned())),
        }
    }
    if count > KEYS_MAX as u64 {
        return Err(format!("these are more than {KEYS_MAX} keys; ask for fewer"));
    }
    Ok(Keys { text: text.to_owned(), parts })
}
