//! Metrics: the numbers of reports that tables show and claims compare.

use super::config::{Column, Quality, Scale};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// The report of a run.
#[derive(Clone, Debug)]
pub(crate) struct Report(Value);

/// The quality after an epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// From 1.
    pub(crate) epoch: usize,
    /// Since the beginning, without evaluation.
    pub(crate) seconds: f64,
    /// As reported.
    pub(crate) quality: f64,
}

/// A number, or a lower bound of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Number {
    pub(crate) value: f64,
    /// Whether `value` is a lower bound, because the run ended too early.
    pub(crate) or_more: bool,
}

impl Number {
    pub(crate) const fn exact(value: f64) -> Self {
        Self { value, or_more: false }
    }

    /// The ratio `self / other`, with an open end if one of them is a lower bound.
    pub(crate) fn over(self, other: Self) -> Ratio {
        let value = self.value / other.value;
        Ratio { value, or_more: self.or_more, or_less: other.or_more }
    }
}

/// A ratio that may be a lower or an upper bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    value: f64,
    or_more: bool,
    or_less: bool,
}

impl Ratio {
    /// The number, whatever it bounds.
    pub(crate) const fn value(self) -> f64 {
        self.value
    }

    /// Its lower bound.
    pub(crate) const fn least(self) -> f64 {
        if self.or_less { 0.0 } else { self.value }
    }

    /// Its upper bound.
    pub(crate) const fn most(self) -> f64 {
        if self.or_more && !self.value.is_nan() { f64::INFINITY } else { self.value }
    }
}

/// What a number is not less and not more than; 0 and infinity if nothing is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) least: f64,
    pub(crate) most: f64,
}

/// A number of several seeds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spread {
    /// By seed, ascending by value. Not empty.
    ratios: Vec<Ratio>,
}

impl Spread {
    fn new(mut ratios: Vec<Ratio>) -> Self {
        ratios.sort_by(|a, b| a.value.total_cmp(&b.value));
        Self { ratios }
    }

    /// The number of which half of the seeds have no more; of an even number of seeds, the lower one. Bounds
    /// count as numbers.
    pub(crate) fn median(&self) -> Ratio {
        self.ratios[(self.ratios.len() - 1) / 2]
    }

    /// The bounds of the median: it lies between them, wherever between its bounds each seed's number is.
    pub(crate) fn median_bounds(&self) -> Bounds {
        let median = |bound: fn(Ratio) -> f64| {
            let mut bounds: Vec<f64> = self.ratios.iter().copied().map(bound).collect();
            bounds.sort_by(f64::total_cmp);
            bounds[(bounds.len() - 1) / 2]
        };
        Bounds { least: median(Ratio::least), most: median(Ratio::most) }
    }

    /// All numbers divided by one.
    pub(crate) fn divided_by(mut self, divisor: f64) -> Self {
        self.ratios.iter_mut().for_each(|ratio| ratio.value /= divisor);
        self
    }

    /// The least and the greatest number.
    pub(crate) fn ends(&self) -> (Ratio, Ratio) {
        (self.ratios[0], self.ratios[self.ratios.len() - 1])
    }

    /// Of how many seeds it is, and for how many a condition holds.
    pub(crate) fn count(&self, holds: impl Fn(Ratio) -> bool) -> (usize, usize) {
        (self.ratios.len(), self.ratios.iter().filter(|ratio| holds(**ratio)).count())
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

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.least, self.most) {
            (0.0, f64::INFINITY) => write!(f, "unknown"),
            (least, f64::INFINITY) => write!(f, "> {}", short(least)),
            (least, most) if least == most || most.is_nan() => write!(f, "{}", short(most)),
            (0.0, most) => write!(f, "< {}", short(most)),
            (least, most) => write!(f, "{} to {}", short(least), short(most)),
        }
    }
}

/// The median, or its bounds; of several seeds, also the least and the greatest number.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.median_bounds())?;
        if self.ratios.len() > 1 {
            let (least, most) = self.ends();
            write!(f, " [{}, {}]", short(least.value), short(most.value))?;
        }
        Ok(())
    }
}

impl Report {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map(Self).map_err(|error| format!("invalid report: {error}"))
    }

    /// With numbers of the run's trace.
    pub(crate) fn with_trace(mut self, numbers: Value) -> Self {
        self.0["trace"] = numbers;
        self
    }

    pub(crate) fn text(&self) -> String {
        self.0.to_string()
    }

    /// The number at a JSON pointer.
    fn at(&self, pointer: &str) -> Result<f64, String> {
        let number = self.0.pointer(pointer).and_then(Value::as_f64);
        number.ok_or_else(|| format!("the report has no number {pointer}"))
    }

    fn epochs(&self) -> &[Value] {
        self.0["epochs"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Seconds of all epochs.
    fn seconds(&self) -> Result<f64, String> {
        if self.epochs().is_empty() {
            return Err("the report has no epochs".to_owned());
        }
        let seconds = |epoch: &Value| epoch["seconds"].as_f64();
        self.epochs().iter().map(|e| seconds(e).ok_or_else(|| "an epoch has no seconds".to_owned())).sum()
    }

    /// CPU seconds of an epoch and a worker.
    fn compute_seconds(&self) -> Result<f64, String> {
        let seconds = |epoch: &Value| epoch["cpu_seconds"].as_f64();
        let of_epochs = self.epochs().iter().map(|e| seconds(e).ok_or("an epoch has no CPU seconds"));
        let sum: f64 = of_epochs.sum::<Result<f64, _>>()?;
        let workers = self.at("/nodes")? * self.at("/workers_per_node")?;
        Ok(sum / workers / self.epochs().len() as f64)
    }

    /// The course of quality: a point for each epoch that has one.
    fn course(&self, quality: &Quality) -> Result<Vec<Point>, String> {
        let mut seconds = 0.0;
        let mut course = Vec::new();
        for (at, epoch) in self.epochs().iter().enumerate() {
            seconds += epoch["seconds"].as_f64().ok_or_else(|| "an epoch has no seconds".to_owned())?;
            if let Some(found) = epoch.pointer(&quality.pointer).and_then(Value::as_f64) {
                course.push(Point { epoch: at + 1, seconds, quality: found });
            }
        }
        if course.is_empty() {
            return Err(format!("no epoch has a number {}", quality.pointer));
        }
        Ok(course)
    }

    /// A metric that depends on this report only.
    fn own(&self, name: &str) -> Result<f64, String> {
        match name {
            "seconds" => Ok(self.seconds()? / self.epochs().len() as f64),
            "compute_seconds" => self.compute_seconds(),
            "communication_seconds" => {
                Ok(self.seconds()? / self.epochs().len() as f64 - self.compute_seconds()?)
            }
            "examples_per_s" => {
                let examples: f64 = self.epochs().iter().filter_map(|epoch| epoch["examples"].as_f64()).sum();
                Ok(examples / self.seconds()?)
            }
            "reads_per_s" => Ok(self.at("/access/pull_keys")? / self.seconds()?),
            "remote_per_s" => Ok(self.at("/access/remote")? / self.seconds()?),
            "relocations_per_s" => Ok(self.at("/management/relocations")? / self.seconds()?),
            "bytes_per_s" => Ok(self.at("/network/bytes")? / self.seconds()?),
            pointer if pointer.starts_with('/') => self.at(pointer),
            other => Err(format!("there is no metric '{other}'")),
        }
    }
}

/// The reports of a figure.
#[derive(Clone, Debug)]
pub(crate) struct Reports {
    /// By run, then by seed. All runs have equally many seeds.
    pub(crate) by_run: BTreeMap<String, Vec<Report>>,
    pub(crate) quality: Option<Quality>,
    pub(crate) scale: Scale,
}

impl Reports {
    /// No reports, at a scale.
    #[cfg(test)]
    pub(crate) const fn new(scale: Scale) -> Self {
        Self { by_run: BTreeMap::new(), quality: None, scale }
    }

    /// A metric of a run by its name, divided by that of another run with the same seed; `None` if a run was
    /// left out.
    ///
    /// | name | number |
    /// | --- | --- |
    /// | `seconds` | mean duration of an epoch |
    /// | `compute_seconds` | CPU seconds of an epoch and a worker, mean; of `bpmf` its arithmetic |
    /// | `communication_seconds` | the other seconds of an epoch |
    /// | `examples_per_s` | examples trained per second |
    /// | `reads_per_s` | keys pulled per second of all workers |
    /// | `remote_per_s` | remote accesses per second, reads and writes |
    /// | `relocations_per_s` | keys that moved per second |
    /// | `bytes_per_s` | bytes sent per second, by all nodes |
    /// | `quality` | [`Quality`] after the last epoch that has one, as reported |
    /// | `progress` | its distance from the untrained model, as a fraction of the baseline's best distance |
    /// | `time_to_quality` | seconds without evaluation until quality is good enough, interpolated |
    /// | `/…` | the number at this JSON pointer |
    ///
    /// If quality is never good enough, `time_to_quality` is a lower bound: all seconds.
    pub(crate) fn spread(
        &self,
        (run, name): (&str, &str),
        over: Option<(&str, &str)>,
    ) -> Option<Result<Spread, String>> {
        let seeds = self.by_run.get(run)?.len();
        let of_seed = |seed: usize| {
            let value = self.number(run, name, seed)?;
            let over =
                over.map_or(Some(Ok(Number::exact(1.0))), |(run, name)| self.number(run, name, seed))?;
            Some(value.and_then(|value| Ok(value.over(over?))))
        };
        let ratios: Option<Result<Vec<Ratio>, String>> = (0..seeds).map(of_seed).collect();
        Some(ratios?.map(Spread::new))
    }

    /// A column's numbers of a run; `None` if it was left out.
    pub(crate) fn column(&self, column: &Column, run: &str) -> Option<Result<Spread, String>> {
        let spread = match &column.relative_to {
            None => self.spread((run, &column.metric), None),
            Some(base) => self.spread((base, &column.metric), Some((run, &column.metric))),
        };
        Some(spread?.map(|spread| spread.divided_by(column.divide_by)))
    }

    /// A metric of a run with a seed.
    fn number(&self, run: &str, name: &str, seed: usize) -> Option<Result<Number, String>> {
        let report = self.by_run.get(run)?.get(seed)?;
        let number = match name {
            "quality" => self.course(report).map(|course| Number::exact(course[course.len() - 1].quality)),
            "progress" | "time_to_quality" => {
                let baseline = &self.quality.as_ref()?.baseline;
                let baseline = self.by_run.get(baseline)?.get(seed)?;
                self.compared(name, report, baseline)
            }
            own => report.own(own).map(Number::exact),
        };
        Some(number.map_err(|error| format!("{run}: {error}")))
    }

    /// The course of quality of each seed of a run; none without quality.
    pub(crate) fn courses(&self, run: &str) -> Vec<Vec<Point>> {
        let reports = self.by_run.get(run).map(Vec::as_slice).unwrap_or_default();
        reports.iter().filter_map(|report| self.course(report).ok()).collect()
    }

    fn course(&self, report: &Report) -> Result<Vec<Point>, String> {
        let quality = self.quality.as_ref().ok_or("the figure does not define quality")?;
        report.course(quality)
    }

    /// A metric that compares with the baseline's report.
    fn compared(&self, name: &str, report: &Report, baseline: &Report) -> Result<Number, String> {
        let Some(Quality { ref from, part, lower_is_better, .. }) = self.quality else {
            return Err("the figure does not define quality".to_owned());
        };
        let Some(&from) = from.get(&self.scale) else {
            let scale = self.scale.name();
            return Err(format!(
                "the figure does not define the quality of an untrained model at scale {scale}"
            ));
        };
        let far = |at: &Point| if lower_is_better { from - at.quality } else { at.quality - from };
        let best = self.course(baseline)?.iter().map(far).fold(f64::NEG_INFINITY, f64::max);
        if best <= 0.0 {
            return Err(format!(
                "the baseline does not learn: its best quality is {best} better than that of an untrained model"
            ));
        }
        let course: Vec<(f64, f64)> =
            self.course(report)?.iter().map(|at| (at.seconds, far(at) / best)).collect();
        let (total, last) = course[course.len() - 1];
        if name == "progress" {
            return Ok(Number::exact(last));
        }
        let mut before = (0.0, 0.0);
        for at in course {
            if at.1 >= part {
                let share = (part - before.1) / (at.1 - before.1);
                return Ok(Number::exact(before.0 + share * (at.0 - before.0)));
            }
            before = at;
        }
        Ok(Number { value: total, or_more: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(runs: &[(&str, &str)], quality: Option<Quality>) -> Reports {
        let parse =
            |(name, text): &(&str, &str)| ((*name).to_owned(), Report::parse(text).expect("a report"));
        let by_run = runs.iter().map(parse).map(|(run, report)| (run, vec![report])).collect();
        Reports { by_run, quality, ..Reports::new(Scale::Small) }
    }

    /// An error whose untrained value is 2, and 4 at another scale.
    fn falling(baseline: &str) -> Quality {
        let from = BTreeMap::from([(Scale::Small, 2.0), (Scale::Ci, 4.0)]);
        let (pointer, baseline) = ("/quality/rmse".to_owned(), baseline.to_owned());
        Quality { pointer, label: None, lower_is_better: true, from, baseline, part: 0.9 }
    }

    #[test]
    fn numbers_are_found_and_those_that_are_not_there_are_named() {
        let text = r#"{"nodes":2,"workers_per_node":2,
            "epochs":[{"seconds":1.0,"cpu_seconds":1.0},{"seconds":3.0,"cpu_seconds":5.0}],"access":{"pull_keys":80,"remote":40},
            "management":{"relocations":8,"relocation_ms":{"mean":2.5}},"network":{"bytes":400}}"#;
        let reports = reports(&[("a", text), ("empty", "{}")], None);
        for (name, number) in [
            ("seconds", 2.0),
            ("compute_seconds", 0.75),
            ("communication_seconds", 1.25),
            ("reads_per_s", 20.0),
            ("remote_per_s", 10.0),
            ("relocations_per_s", 2.0),
            ("bytes_per_s", 100.0),
            ("/management/relocation_ms/mean", 2.5),
        ] {
            assert_eq!(reports.number("a", name, 0), Some(Ok(Number::exact(number))), "{name}");
        }
        let missing = reports.number("a", "/test/rmse", 0);
        assert_eq!(missing, Some(Err("a: the report has no number /test/rmse".to_owned())));
        for wrong in ["speed", "quality"] {
            assert!(reports.number("a", wrong, 0).is_some_and(|number| number.is_err()), "{wrong}");
        }
        assert!(reports.number("empty", "seconds", 0).is_some_and(|number| number.is_err()));
        assert_eq!(reports.number("b", "seconds", 0), None);
    }

    /// An error whose untrained value is 2. The baseline reaches 1, of which nine tenths are good enough:
    /// 1.1.
    #[test]
    fn time_to_quality_is_interpolated_and_open_if_quality_is_not_reached() {
        let text = |steps: &[(f64, f64)]| {
            let epoch = |(seconds, rmse): &(f64, f64)| {
                format!(r#"{{"seconds":{seconds},"quality":{{"rmse":{rmse}}}}}"#)
            };
            format!(r#"{{"epochs":[{}]}}"#, steps.iter().map(epoch).collect::<Vec<_>>().join(","))
        };
        let single = text(&[(10.0, 1.4), (10.0, 1.0), (10.0, 1.2)]);
        let fast = text(&[(1.0, 1.3), (1.0, 1.2), (2.0, 1.0)]);
        let slow = text(&[(50.0, 1.9), (50.0, 1.8)]);
        let at_once = text(&[(4.0, 1.0)]);
        let quality = falling("single");
        let runs = [("single", &single[..]), ("fast", &fast), ("slow", &slow), ("at once", &at_once)];
        let reports = reports(&runs, Some(quality));
        let time = |run| reports.number(run, "time_to_quality", 0).expect("it ran").expect("a number");
        let close = |number: Number, value: f64| (number.value - value).abs() < 1e-9 && !number.or_more;
        assert!(close(time("single"), 17.5), "{:?}", time("single"));
        assert!(close(time("fast"), 3.0), "{:?}", time("fast"));
        assert!(close(time("at once"), 3.6), "{:?}", time("at once"));
        assert_eq!(time("slow"), Number { value: 100.0, or_more: true });
        let ratio = time("slow").over(time("fast"));
        assert!((ratio.least() - 100.0 / 3.0).abs() < 1e-9 && ratio.most().is_infinite(), "{ratio:?}");
        assert_eq!(Spread::new(vec![ratio]).to_string(), "> 33.3");
        let inverse = time("fast").over(time("slow"));
        assert!(inverse.least() == 0.0 && (inverse.most() - 0.03).abs() < 1e-9, "{inverse:?}");
        let progress = reports.number("slow", "progress", 0).expect("it ran").expect("a number");
        assert!(close(progress, 0.2), "{progress:?}");
        let quality = reports.number("slow", "quality", 0).expect("it ran").expect("a number");
        assert!(close(quality, 1.8), "{quality:?}");
        let progress_at = |scale, lower_is_better| {
            let quality = Some(Quality { lower_is_better, ..falling("single") });
            Reports { scale, quality, ..reports.clone() }.number("slow", "progress", 0).expect("it ran")
        };
        let elsewhere = progress_at(Scale::Ci, true).expect("a number");
        assert!(close(elsewhere, 2.2 / 3.0), "{elsewhere:?}");
        // A baseline that got worse, or one without a value of the untrained model, is an error.
        let worse = progress_at(Scale::Small, false).expect_err("a rate that falls");
        assert!(worse.contains("the baseline does not learn"), "{worse}");
        let unknown = progress_at(Scale::Full, true).expect_err("no beginning");
        assert!(unknown.contains("at scale full"), "{unknown}");
        // Without the baseline, there is no metric.
        let alone =
            Reports { by_run: BTreeMap::from([("fast".into(), reports.by_run["fast"].clone())]), ..reports };
        assert_eq!(alone.number("fast", "time_to_quality", 0), None);
    }

    /// A run that ended before it was good enough leaves the median of three seeds between the other two.
    #[test]
    fn bounds_of_numbers_give_bounds_of_their_median() {
        let [two, three] = [2.0, 3.0].map(Number::exact);
        let late = |value| Number { value, or_more: true };
        let show = |ratios: &[Ratio]| Spread::new(ratios.to_vec()).to_string();
        let one = Number::exact(1.0);
        assert_eq!(show(&[late(2.0).over(one)]), "> 2.00");
        assert_eq!(show(&[two.over(late(1.0))]), "< 2.00");
        assert_eq!(show(&[late(2.0).over(late(1.0))]), "unknown");
        assert_eq!(show(&[Number::exact(0.0).over(one)]), "0");
        let others = [two.over(one), three.over(one)];
        let with = |ratio| show(&[ratio, others[0], others[1]]);
        assert_eq!(with(late(1.0).over(late(1.0))), "2.00 to 3.00 [1.00, 3.00]");
        assert_eq!(with(Number::exact(2.5).over(late(1.0))), "2.00 to 2.50 [2.00, 3.00]");
        assert_eq!(with(Number::exact(1.5).over(late(1.0))), "2.00 [1.50, 3.00]");
        let bounds = Spread::new(vec![late(1.0).over(late(1.0)), others[0], others[1]]).median_bounds();
        assert_eq!(bounds, Bounds { least: 2.0, most: 3.0 });
    }

    /// Ratios are of equal seeds, and their median is shown with both ends.
    #[test]
    fn ratios_are_paired_by_seed() {
        let seeds = |all: [f64; 3]| {
            all.map(|s| Report::parse(&format!(r#"{{"epochs":[{{"seconds":{s}}}]}}"#)).expect("a report"))
        };
        let runs = [("a", [2.0, 30.0, 4.0]), ("b", [1.0, 10.0, 4.0])];
        let by_run = runs.map(|(run, all)| (run.to_owned(), seeds(all).to_vec())).into();
        let reports = Reports { by_run, ..Reports::new(Scale::Small) };
        let spread =
            reports.spread(("a", "seconds"), Some(("b", "seconds"))).expect("runs").expect("numbers");
        assert_eq!(spread.to_string(), "2.00 [1.00, 3.00]");
        assert_eq!(spread.count(|ratio| ratio.least() >= 2.0), (3, 2));
        let own = reports.spread(("a", "seconds"), None).expect("runs").expect("numbers");
        assert_eq!(own.to_string(), "4.00 [2.00, 30.0]");
        assert_eq!(reports.spread(("a", "seconds"), Some(("c", "seconds"))), None);
    }

    #[test]
    fn numbers_are_short() {
        let numbers = [0.012_345, 1.234, 12.34, 1234.5, 0.0];
        assert_eq!(numbers.map(short), ["0.0123", "1.23", "12.3", "1234", "0"]);
    }
}
