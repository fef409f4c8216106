//! Claims: checks the bounds of a figure's claims against the numbers of its runs.

use super::config::{Claim, Scale};
use super::metric::{Bounds, Ratio, Reports, Spread};
use std::fmt;

/// A claim with its outcome.
pub(crate) struct JudgedClaim {
    text: String,
    paper: String,
    bound: String,
    fitted: bool,
    deviation: Option<String>,
    /// The number and the outcome; `None` if the claim was not checked.
    found: Option<Found>,
}

/// The number of a claim that was checked.
struct Found {
    number: Spread,
    outcome: Outcome,
    /// Of how many seeds, and with how many of them the bounds hold.
    seeds: (usize, usize),
}

/// The outcome of a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    Holds,
    /// It does not hold, but the number is in the range of its known deviation.
    Deviates,
    /// The number is outside of the bounds or, with a known deviation, outside of its range.
    Broken,
}

impl JudgedClaim {
    /// Whether the claim must hold and does not.
    pub(crate) fn broken(&self) -> bool {
        self.outcome() == Some(Outcome::Broken)
    }

    /// The outcome; `None` if it was not checked.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.found.as_ref().map(|found| found.outcome)
    }

    /// The claim with its number, bounds and the source's number, without the outcome.
    pub(crate) fn line(&self) -> String {
        let Self { text, paper, bound, fitted, found, .. } = self;
        let Some(Found { number, seeds: (seeds, holds), .. }) = found else { return text.clone() };
        let fitted = if *fitted { "; fitted to it" } else { "" };
        let seeds =
            if *seeds > 1 { format!("; within bounds with {holds} of {seeds} seeds") } else { String::new() };
        format!("{text}: {number} ({bound}; source: {paper}{fitted}{seeds})")
    }

    /// The claim in words.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The reason for a known deviation.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.deviation.as_deref()
    }

    /// Whether constants or settings were fitted to the source's number.
    pub(crate) const fn fitted(&self) -> bool {
        self.fitted
    }

    /// Whether the claim was checked.
    pub(crate) fn judged(&self) -> bool {
        self.found.is_some()
    }
}

impl fmt::Display for JudgedClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line();
        match self.outcome() {
            None => write!(f, "  not judged  {line}")?,
            Some(outcome) => write!(f, "  {:<8}  {line}", outcome.word())?,
        }
        match &self.deviation {
            Some(reason) if self.judged() => write!(f, "\n            {reason}"),
            Some(_) | None => Ok(()),
        }
    }
}

impl Outcome {
    /// In a word: how pages and the terminal show it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Broken => "BROKEN",
            Self::Deviates => "DEVIATES",
        }
    }
}

/// Checks a claim with the median of its seeds. Returns an error if a report lacks a number. A claim about a
/// run that was left out, or at another scale, is not checked.
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
    let mut found = None;
    if claim.scales.is_empty() || claim.scales.contains(&scale) {
        let over = claim.over.as_ref().and_then(|over| over.split_once(": "));
        let value = claim.value.split_once(": ").and_then(|value| reports.spread(value, over));
        if let Some(number) = value.transpose()? {
            let within = |ratio: Ratio| claim.holds(ratio.least(), ratio.most());
            let Bounds { least, most } = number.median_bounds();
            let outcome = match claim.deviates {
                None if claim.holds(least, most) => Outcome::Holds,
                Some([from, to]) if least >= from && most <= to => Outcome::Deviates,
                None | Some(_) => Outcome::Broken,
            };
            found = Some(Found { seeds: number.count(within), number, outcome });
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
            let by_run =
                BTreeMap::from([("a".to_owned(), vec![report(a)]), ("b".to_owned(), vec![report(b)])]);
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
}
