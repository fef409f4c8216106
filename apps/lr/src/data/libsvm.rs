//! libsvm's format: `LABEL INDEX:VALUE INDEX:VALUE … # COMMENT` on each line, with ascending indices, from 1.

use super::line::{Label, Labels, Line, number};
use super::rows::FEATURES_MAX;

/// Parses a line. `None` if the line has nothing but a comment.
pub(super) fn parse(line: &str, labels: Labels, row: &mut Line) -> Result<Option<Label>, String> {
    let text = line.split_once('#').map_or(line, |(text, _)| text);
    let mut words = text.split_ascii_whitespace().peekable();
    let Some(first) = words.peek() else { return Ok(None) };
    let label = match (labels, first.contains(':')) {
        (Labels::Needed, true) => {
            return Err(format!("the label is missing: the line begins with '{first}'"));
        }
        (Labels::Needed, false) => Label::parse(first)?,
        // A line that is no row at all would otherwise be one without features.
        (Labels::Ignored, false) if first.parse::<f64>().is_err() => {
            return Err(format!(
                "the line begins with '{first}'; expected INDEX:VALUE, or a number as label"
            ));
        }
        (Labels::Ignored, _) => Label::Unknown,
    };
    if !first.contains(':') {
        words.next();
    }
    let mut last = 0;
    for word in words {
        let Some((index, value)) = word.split_once(':') else {
            return Err(format!("'{word}' is no feature; expected INDEX:VALUE"));
        };
        let index = match index.parse::<u64>() {
            Ok(0) => return Err("the index is 0; indices begin with 1".to_owned()),
            Ok(index) if index <= FEATURES_MAX.into() => index as u32,
            Ok(_) | Err(_) => {
                return Err(format!("the index is '{index}'; expected a number from 1 to {FEATURES_MAX}"));
            }
        };
        if index <= last {
            return Err(format!("index {index} follows index {last}; indices must ascend"));
        }
        last = index;
        let value = number(value).map_err(|problem| format!("the value of feature {index} {problem}"))?;
        row.add(index - 1, value);
    }
    Ok(Some(label))
}
