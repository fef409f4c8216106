//! Tables of measured numbers: medians, targets, and the place of a table in its page.

use std::fmt;
use std::path::Path;

/// The end of a table in its page.
const END: &str = "<!-- end -->";

/// What a number has to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Target {
    pub(super) at_most: Option<f64>,
    pub(super) at_least: Option<f64>,
}

impl Target {
    /// Whether the number reaches the target; `None` without a target.
    pub(super) fn reached(self, number: f64) -> Option<bool> {
        match (self.at_most, self.at_least) {
            (None, None) => None,
            (most, least) => Some(most.is_none_or(|m| number <= m) && least.is_none_or(|l| number >= l)),
        }
    }

    /// The verdict of a table; empty without a target.
    pub(super) fn verdict(self, number: f64) -> &'static str {
        match self.reached(number) {
            None => "",
            Some(true) => "reached",
            Some(false) => "**missed**",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.at_most, self.at_least) {
            (Some(most), _) => write!(formatter, "≤ {most}"),
            (None, Some(least)) => write!(formatter, "≥ {least}"),
            (None, None) => Ok(()),
        }
    }
}

/// The median; of an even number, the mean of the two in the middle. `None` of none.
pub(crate) fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some((low + high) / 2.0)
}

/// The number with three significant digits.
pub(super) fn shown(number: f64) -> String {
    let digits = 2 - (number.abs().max(1e-9).log10().floor() as i32).clamp(-6, 2);
    format!("{number:.*}", digits as usize)
}

/// The median and the range of `numbers`.
pub(super) fn with_range(numbers: &[f64], median: f64) -> String {
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{} ({} to {})", shown(median), shown(least), shown(most))
}

/// Replaces the table of the page that `command` writes: what is between the comments `begin: command` and
/// `end`.
pub(crate) fn replace_between(page: &Path, command: &str, table: &str) -> Result<(), String> {
    let text = std::fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))?;
    let text = replace(&text, command, table)
        .ok_or_else(|| format!("{} has no place for the table of `{command}`", page.display()))?;
    std::fs::write(page, text).map_err(|error| format!("{}: {error}", page.display()))
}

/// The page with its table replaced; `None` if it has no place for one.
pub(super) fn replace(page: &str, command: &str, table: &str) -> Option<String> {
    let begin = format!("<!-- begin: {command} -->\n");
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{begin}{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
        for (number, text) in [(0.00345, "0.00345"), (1.0, "1.00"), (34.56, "34.6"), (602_123.0, "602123")] {
            assert_eq!(shown(number), text);
        }
    }
}
