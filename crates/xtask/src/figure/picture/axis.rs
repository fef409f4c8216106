//! Axes: which numbers lie where, and which of them are labelled.

use crate::figure::metric::short;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

/// A linear or logarithmic axis, or one of names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    from: f64,
    to: f64,
    log: bool,
    labels: Labels,
}

#[derive(Clone, Debug, PartialEq)]
enum Labels {
    /// Round numbers.
    Round,
    /// These numbers.
    These(Vec<f64>),
    /// Names, at .5, 1.5 and so on.
    Names(Vec<String>),
}

impl Axis {
    /// An axis that has room for all of `numbers`, which are positive if it is logarithmic. Linear axes begin
    /// at zero if `zero`.
    pub(crate) fn fit(numbers: impl Iterator<Item = f64>, log: bool, zero: bool) -> Self {
        let ends = |(least, most): (f64, f64), number: f64| (least.min(number), most.max(number));
        let finite = numbers.filter(|number| number.is_finite() && (!log || *number > 0.0));
        let (mut least, mut most) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), ends);
        if least > most {
            (least, most) = (1.0, 2.0);
        }
        let (from, to) = if log {
            let margin = (most / least).powf(0.06).max(1.1);
            (least / margin, most * margin)
        } else if zero {
            (least.min(0.0), if most > 0.0 { most * 1.08 } else { 1.0 })
        } else {
            let margin = ((most - least) * 0.06).max(most.abs() * 1e-3);
            (least - margin, most + margin)
        };
        Self { from, to, log, labels: Labels::Round }
    }

    /// An axis of names.
    pub(crate) fn names(names: Vec<String>) -> Self {
        Self { from: 0.0, to: names.len() as f64, log: false, labels: Labels::Names(names) }
    }

    /// Labels these numbers instead of round ones.
    pub(crate) fn label(self, numbers: Vec<f64>) -> Self {
        Self { labels: Labels::These(numbers), ..self }
    }

    /// The number at the axis' lower end.
    pub(crate) const fn from(&self) -> f64 {
        self.from
    }

    /// The number at the axis' upper end.
    pub(crate) const fn to(&self) -> f64 {
        self.to
    }

    fn round(&self, most: usize) -> Vec<f64> {
        let within = |number: &f64| (self.from..=self.to).contains(number);
        if !self.log {
            let step = [1.0, 2.0, 5.0]
                .iter()
                .flat_map(|digit| (-12..13).map(move |power| digit * 10f64.powi(power)))
                .filter(|step| (self.to - self.from) / step <= most.max(2) as f64)
                .fold(f64::INFINITY, f64::min);
            let first = (self.from / step).ceil() as i64;
            return (first..).map(|at| at as f64 * step).take_while(|number| *number <= self.to).collect();
        }
        let of = |digits: &'static [f64]| {
            (-15..16).flat_map(move |power| digits.iter().map(move |digit| digit * 10f64.powi(power)))
        };
        let sets: [&[f64]; 4] = [&[1.0, 2.0, 3.0, 5.0, 7.0], &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
        let fits = sets.iter().map(|set| of(set).filter(within).collect::<Vec<f64>>());
        let decades: Vec<f64> = of(&[1.0]).filter(within).collect();
        let every = decades.len().div_ceil(most.max(2));
        fits.clone()
            .find(|labels| labels.len() <= most.max(2))
            .unwrap_or_else(|| decades.into_iter().step_by(every.max(1)).collect())
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, number: &f64, (begin, end): (i32, i32)) -> i32 {
        let place = |number: f64| if self.log { number.ln() } else { number };
        // What has no place on a logarithmic axis, such as zero, lies at its lower end.
        let number = if self.log && *number <= 0.0 || number.is_nan() { self.from } else { *number };
        let share = (place(number) - place(self.from)) / (place(self.to) - place(self.from));
        begin + (share.clamp(-1.0, 2.0) * f64::from(end - begin)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match &self.labels {
            Labels::Round => self.round(hint.max_num_points().min(9)),
            Labels::These(numbers) => numbers.clone(),
            Labels::Names(names) => (0..names.len()).map(|at| at as f64 + 0.5).collect(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, number: &f64) -> String {
        match &self.labels {
            Labels::Names(names) => names.get(*number as usize).cloned().unwrap_or_default(),
            Labels::Round | Labels::These(_) => plain(*number),
        }
    }
}

/// A number without zeros that say nothing: three digits, or all digits of a whole number.
pub(crate) fn plain(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e9 {
        let digits = format!("{:.0}", number.abs());
        let groups: Vec<&str> = digits
            .as_bytes()
            .rchunks(3)
            .rev()
            .map(|group| std::str::from_utf8(group).unwrap_or_default())
            .collect();
        return format!("{}{}", if number < 0.0 { "-" } else { "" }, groups.join(","));
    }
    let text = short(number);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plotters::coord::ranged1d::BoldPoints;

    #[test]
    fn numbers_lie_where_they_belong() {
        let axis = Axis { from: 1.0, to: 100.0, log: true, labels: Labels::Round };
        assert_eq!([1.0, 10.0, 100.0].map(|number| axis.map(&number, (0, 200))), [0, 100, 200]);
        assert_eq!([0.0, -3.0, f64::NAN].map(|number| axis.map(&number, (0, 200))), [0; 3]);
        assert_eq!(axis.map(&f64::INFINITY, (0, 200)), 400, "outside");
        let axis = Axis { log: false, from: 0.0, ..axis };
        assert_eq!([0.0, 10.0, 100.0].map(|number| axis.map(&number, (200, 0))), [200, 180, 0]);
    }

    #[test]
    fn labels_are_round_and_few() {
        let labels = |from, to, log| {
            let axis = Axis { from, to, log, labels: Labels::Round };
            axis.key_points(BoldPoints(9)).iter().map(|number| axis.format_ext(number)).collect::<Vec<_>>()
        };
        assert_eq!(labels(0.0, 1.0, false), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(labels(0.8, 9.0, true), ["1", "2", "3", "5", "7"]);
        assert_eq!(labels(0.8, 900.0, true), ["1", "2", "5", "10", "20", "50", "100", "200", "500"]);
        assert_eq!(labels(0.5, 2e6, true), ["1", "10", "100", "1,000", "10,000", "100,000", "1,000,000"]);
        let axis = Axis::fit([3.0, 5.0].into_iter(), false, true);
        assert!(axis.from() == 0.0 && axis.to() > 5.0);
        assert!(Axis::fit([f64::NAN].into_iter(), true, false).from() > 0.0, "of nothing");
    }
}
