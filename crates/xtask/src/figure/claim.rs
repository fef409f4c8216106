//! Claims: checks the bounds of a figure's claims against the numbers of its runs.

use super::config::{Claim, Scale};
use super::metric::{Number, Ratio, Reports};
use std::fmt;

/// A claim with its outcome.
pub(crate) struct JudgedClaim {
    text: String,
    paper: String,
    bound: String,
    fitted: bool,
    deviation: Option<String>,
    /// The number and the outcome; `None` if the claim was not checked.
    found: Option<(Ratio, Outcome)>,
}

/// The outcome of a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Holds,
    /// It does not hold, but the number is in the range of its known deviation.
    Deviates,
    /// The number is outside of the bounds or, with a known deviation, outside of its range.
    Broken,
}

impl JudgedClaim {
    /// Whether the claim must hold and does not.
    pub(crate) fn broken(&self) -> bool {
        matches!(self.found, Some((_, Outcome::Broken)))
    }

    /// Whether the claim was checked.
    pub(crate) fn judged(&self) -> bool {
        self.found.is_some()
    }
}

impl fmt::Display for JudgedClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, paper, bound, fitted, deviation, found } = self;
        let Some((number, outcome)) = found else { return write!(f, "  not judged  {text}") };
        let word = match outcome {
            Outcome::Holds => "holds   ",
            Outcome::Broken => "BROKEN  ",
            Outcome::Deviates => "DEVIATES",
        };
        let fitted = if *fitted { "; fitted to it" } else { "" };
        write!(f, "  {word}  {text}: {number} ({bound}; source: {paper}{fitted})")?;
        match deviation {
            Some(reason) => write!(f, "\n            {reason}"),
            None => Ok(()),
        }
    }
}

/// The number with three significant digits, without an exponent.
pub(crate) fn short(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return number.to_string();
    }
    let digits = (2 - number.abs().log10().floor() as i32).max(0) as usize;
    format!("{number:.digits$}")
}

/// Checks a claim. Returns an error if a report lacks a number. A claim about a run that was left out, or at
/// another scale, is not checked.
pub(crate) fn judge(claim: &Claim, reports: &Reports, scale: Scale) -> Result<JudgedClaim, String> {
    let mut bound = match (claim.at_least, claim.at_most) {
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (Some(least), None) => format!("at least {least}"),
        (None, Some(most)) => format!("at most {most}"),
        (None, None) => "no bound".to_owned(),
    };
    if let Some([from, to]) = claim.deviates {
        bound.push_str(&format!(", known deviation: {from} to {to}"));
    }
    let term = |term: &String| {
        let (run, metric) = term.split_once(": ")?;
        reports.number(run, metric)
    };
    let mut found = None;
    if claim.scales.is_empty() || claim.scales.contains(&scale) {
        let value = term(&claim.value).transpose()?;
        let over = claim.over.as_ref().map_or(Some(Ok(Number::exact(1.0))), term).transpose()?;
        if let (Some(value), Some(over)) = (value, over) {
            let number = value.over(over);
            let (least, most) = (number.least(), number.most());
            let outcome = match claim.deviates {
                None if claim.holds(least, most) => Outcome::Holds,
                Some([from, to]) if least >= from && most <= to => Outcome::Deviates,
                None | Some(_) => Outcome::Broken,
            };
            found = Some((number, outcome));
        }
    }
    let Claim { text, paper, fitted, deviation, .. } = claim.clone();
    Ok(JudgedClaim { text, paper, bound, fitted, deviation, found })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::metric::Report;
    use std::collections::BTreeMap;

    fn claim(over: Option<&str>, at_least: Option<f64>, at_most: Option<f64>) -> Claim {
        Claim {
            text: "faster".to_owned(),
            value: "a: seconds".to_owned(),
            over: over.map(str::to_owned),
            at_least,
            at_most,
            paper: "3".to_owned(),
            fitted: false,
            deviation: None,
            deviates: None,
            scales: vec![Scale::Small],
        }
    }

    #[test]
    fn a_claim_holds_within_its_bounds_and_not_outside() {
        let report = |seconds: f64| {
            Report::parse(&format!(r#"{{"epochs":[{{"seconds":{seconds}}}]}}"#)).expect("a report")
        };
        let reports = |a, b| {
            let by_run = BTreeMap::from([("a".to_owned(), report(a)), ("b".to_owned(), report(b))]);
            Reports { by_run, ..Reports::new(Scale::Small) }
        };
        let nan = reports(0.0, 0.0);
        let reports = reports(6.0, 2.0);
        let judged = |claim: &Claim, scale| judge(claim, &reports, scale).expect("numbers are there");
        let ratio = Some("b: seconds");
        assert!(!judged(&claim(ratio, Some(3.0), Some(3.0)), Scale::Small).broken());
        assert!(judged(&claim(ratio, Some(3.1), None), Scale::Small).broken());
        assert!(judged(&claim(None, None, Some(5.9)), Scale::Small).broken());
        assert!(!judged(&claim(ratio, Some(3.1), None), Scale::Ci).broken(), "not judged at this scale");
        assert!(!judged(&claim(Some("c: seconds"), Some(9.0), None), Scale::Small).broken(), "left out");
        assert!(judge(&claim(Some("b: /test/rmse"), Some(9.0), None), &reports, Scale::Small).is_err());
        // A known deviation has a range; a number outside of it breaks the claim.
        for (range, broken) in [([5.95, 6.1], false), ([6.1, 7.0], true), ([5.92, 5.98], true)] {
            let deviation = Some("another setting".to_owned());
            let known = Claim { deviation, deviates: Some(range), ..claim(None, None, Some(5.9)) };
            let verdict = judged(&known, Scale::Small);
            assert_eq!(
                (verdict.broken(), verdict.to_string().contains("DEVIATES")),
                (broken, !broken),
                "{verdict}"
            );
        }
        // NaN is within no bounds.
        assert!(judge(&claim(ratio, Some(0.0), None), &nan, Scale::Small).expect("numbers").broken());
    }

    #[test]
    fn numbers_are_short() {
        let numbers = [0.012_345, 1.234, 12.34, 1234.5, 0.0];
        assert_eq!(numbers.map(short), ["0.0123", "1.23", "12.3", "1234", "0"]);
    }
}
