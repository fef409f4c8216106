//! The files in `bench-configs/`: parses figures and checks that their parts fit together.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

/// The amount of work of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scale {
    /// Seconds.
    Ci,
    /// Minutes.
    Small,
    /// Up to hours.
    Full,
}

impl Scale {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ci => "ci",
            Self::Small => "small",
            Self::Full => "full",
        }
    }
}

/// A figure or table of a source.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    /// What the figure shows.
    pub(crate) title: String,
    /// The source, by a key of `docs/references.md`.
    pub(crate) source: String,
    /// Package and binary of the program.
    pub(crate) app: String,
    /// Flags of all runs.
    pub(crate) args: Vec<String>,
    /// Further flags of all runs, by scale.
    #[serde(default)]
    pub(crate) scales: BTreeMap<Scale, Vec<String>>,
    /// The runs.
    pub(crate) runs: Vec<Run>,
    /// The columns of the table.
    pub(crate) columns: Vec<Column>,
    /// The claims about the numbers.
    #[serde(default)]
    pub(crate) claims: Vec<Claim>,
    /// Notes on how to read the table; printed with it.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
    /// The definition of quality, for the metrics that use it.
    pub(crate) quality: Option<Quality>,
    /// Number of seeds at scale small, if it is not the usual one: figures whose runs take many minutes have
    /// one.
    pub(crate) seeds: Option<NonZeroU64>,
    /// Number of seeds at scale ci, one if there is none: figures that judge single parameters have more.
    pub(crate) ci_seeds: Option<NonZeroU64>,
    /// The pictures, beside that of quality. If there are none, the first column is shown, and each column of
    /// ratios.
    #[serde(default)]
    pub(crate) plots: Vec<Plot>,
    /// Pictures of traces, by the seed 1.
    #[serde(default)]
    pub(crate) pictures: Vec<TracePicture>,
}

/// What a run traces.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Traced {
    /// The keys, as `--trace-keys` reads them.
    #[serde(default = "all")]
    pub(crate) keys: String,
    /// The range of keys that numbers and pictures are about, by its name in the task.
    pub(crate) range: String,
}

fn all() -> String {
    "all".to_owned()
}

/// A picture of the first epoch of a trace: of many keys, or of one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TracePicture {
    /// What it shows.
    pub(crate) title: String,
    /// The run.
    pub(crate) run: String,
    /// The key at this quantile of the time under intent: a row for each node.
    pub(crate) quantile: Option<f64>,
    /// Otherwise so many keys, at equal distances: a row for each.
    #[serde(default = "rows")]
    pub(crate) rows: usize,
    /// Whether keys that have the same owners one after the other are next to each other. By default, they
    /// are in their own order.
    #[serde(default)]
    pub(crate) sorted: bool,
    /// The part of the epoch that is shown.
    #[serde(default = "one")]
    pub(crate) until: f64,
}

const fn rows() -> usize {
    100
}

impl TracePicture {
    fn check(&self, figure: &Figure) -> Result<(), String> {
        let wrong = |what: String| Err(format!("the picture '{}' {what}", self.title));
        match figure.runs.iter().find(|run| run.name == self.run) {
            None => return wrong(format!("is of '{}', which is no run", self.run)),
            Some(Run { trace: None, .. }) => {
                return wrong(format!("is of '{}', which has no trace", self.run));
            }
            Some(_) => {}
        }
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        if !is_share(self.until) || self.until == 0.0 || self.quantile.is_some_and(|share| !is_share(share)) {
            return wrong("needs a quantile and a part of the epoch between 0 and 1".to_owned());
        }
        Ok(())
    }
}

/// A picture of a column.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plot {
    /// What it shows; the heading of the column by default.
    pub(crate) title: Option<String>,
    /// Bars or lines.
    pub(crate) kind: PlotKind,
    /// The heading of the column.
    pub(crate) y: String,
    /// The label of the horizontal axis, for lines.
    pub(crate) x: Option<String>,
    /// The axes that are logarithmic.
    #[serde(default)]
    pub(crate) log: Vec<PlotAxis>,
    /// Whether the line `y = x` is drawn: a linear speed-up.
    #[serde(default)]
    pub(crate) linear: bool,
    /// The lines.
    #[serde(default)]
    pub(crate) series: Vec<Series>,
}

/// How a column is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PlotKind {
    /// A bar for each run.
    Bars,
    /// Lines through runs.
    Lines,
}

/// An axis of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PlotAxis {
    /// Horizontal.
    X,
    /// Vertical.
    Y,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Series {
    /// Its name in the legend.
    pub(crate) name: String,
    /// The runs.
    pub(crate) runs: Vec<String>,
    /// The place of each run on the horizontal axis.
    pub(crate) x: Vec<f64>,
}

impl Plot {
    /// Bars of a column.
    pub(crate) fn bars(heading: &str) -> Self {
        let y = heading.to_owned();
        let (title, x, log, linear, series) = (None, None, Vec::new(), false, Vec::new());
        Self { title, kind: PlotKind::Bars, y, x, log, linear, series }
    }

    fn check(&self, figure: &Figure) -> Result<(), String> {
        let wrong = |what: String| Err(format!("the picture of '{}' {what}", self.y));
        if figure.columns.iter().all(|column| column.heading != self.y) {
            return wrong("shows no column: there is none with this heading".to_owned());
        }
        if (self.kind == PlotKind::Lines) == self.series.is_empty() {
            return wrong("needs series if it has lines, and none if it has bars".to_owned());
        }
        for series in &self.series {
            if series.runs.len() != series.x.len() {
                return wrong(format!(
                    "has {} runs and {} places of '{}'",
                    series.runs.len(),
                    series.x.len(),
                    series.name
                ));
            }
            if let Some(run) =
                series.runs.iter().find(|run| figure.runs.iter().all(|known| known.name != **run))
            {
                return wrong(format!("names '{run}', which is no run"));
            }
        }
        Ok(())
    }
}

/// The quality of a model after an epoch, and the level that is good enough.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Quality {
    /// JSON pointer into an epoch of a report: `/quality/rmse`.
    pub(crate) pointer: String,
    /// What it is, for pictures; the last part of the pointer by default.
    pub(crate) label: Option<String>,
    /// Whether lower numbers are better: a loss, an error.
    pub(crate) lower_is_better: bool,
    /// The number of an untrained model, by scale, because it may depend on the data. Quality is the distance
    /// from it.
    pub(crate) from: BTreeMap<Scale, f64>,
    /// The run whose best quality is the reference.
    pub(crate) baseline: String,
    /// The fraction of the reference that is good enough.
    pub(crate) part: f64,
}

/// A run of the program.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    /// Name in the table and in claims.
    pub(crate) name: String,
    /// Flags of this run.
    pub(crate) args: Vec<String>,
    /// Further flags, by scale.
    #[serde(default)]
    pub(crate) args_at: BTreeMap<Scale, Vec<String>>,
    /// The scales at which it runs; all if empty.
    #[serde(default)]
    pub(crate) scales: Vec<Scale>,
    /// The program, if it is not the figure's.
    pub(crate) app: Option<String>,
    /// What is traced, if anything: see [`super::traced`].
    pub(crate) trace: Option<Traced>,
    /// The source's numbers, by heading of a column.
    #[serde(default)]
    pub(crate) paper: BTreeMap<String, String>,
}

impl Run {
    /// Whether it runs at a scale.
    pub(crate) fn is_at(&self, scale: Scale) -> bool {
        self.scales.is_empty() || self.scales.contains(&scale)
    }
}

/// A column of the table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Column {
    /// Its heading, with the unit.
    pub(crate) heading: String,
    /// The metric: a number of a report; see [`super::metric`].
    pub(crate) metric: String,
    /// The number is divided by this.
    #[serde(default = "one")]
    pub(crate) divide_by: f64,
    /// Divides this run's metric by each run's metric: a speed-up.
    pub(crate) relative_to: Option<String>,
}

const fn one() -> f64 {
    1.0
}

/// A claim: bounds of a run's metric, or of its ratio to another run's metric.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claim {
    /// In words.
    pub(crate) text: String,
    /// The metric: `run: metric`.
    pub(crate) value: String,
    /// The divisor, if the claim is about a ratio.
    pub(crate) over: Option<String>,
    /// Lower bound.
    pub(crate) at_least: Option<f64>,
    /// Upper bound.
    pub(crate) at_most: Option<f64>,
    /// The source's number.
    pub(crate) paper: String,
    /// Whether constants of the model or settings of the runs were fitted to this number of the source, so
    /// that the claim does not confirm it.
    #[serde(default)]
    pub(crate) fitted: bool,
    /// The reason for a known deviation from the source. The claim then need not hold, but the number must be
    /// within `deviates`.
    pub(crate) deviation: Option<String>,
    /// The range of the number under the known deviation. A number outside breaks the claim.
    pub(crate) deviates: Option<[f64; 2]>,
    /// The scales at which it is judged; all if empty.
    #[serde(default)]
    pub(crate) scales: Vec<Scale>,
}

impl Claim {
    /// Whether all numbers between `least` and `most` are within the bounds.
    pub(crate) fn holds(&self, least: f64, most: f64) -> bool {
        self.at_least.is_none_or(|bound| least >= bound) && self.at_most.is_none_or(|bound| most <= bound)
    }

    fn check(&self) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("the claim '{}' {what}", self.text));
        if self.at_least.is_none() && self.at_most.is_none() {
            return wrong("has no bound");
        }
        match (&self.deviation, self.deviates) {
            (None, None) => Ok(()),
            (Some(_), Some([from, to])) if from <= to => {
                if self.holds(from, from) || self.holds(to, to) {
                    return wrong("would hold within its range 'deviates'");
                }
                Ok(())
            }
            _ => wrong("needs both 'deviation' and 'deviates = [from, to]', or neither"),
        }
    }
}

impl Figure {
    /// Reads a figure and checks that its parts fit together.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let figure: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        let known = |name: &str| figure.runs.iter().any(|run| run.name == name);
        let mut names: Vec<&str> = figure.runs.iter().map(|run| run.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("two runs have the name '{}'", twice[0]));
        }
        for run in &figure.runs {
            let lost = run.paper.keys().find(|heading| figure.columns.iter().all(|c| c.heading != **heading));
            if let Some(heading) = lost {
                return Err(format!(
                    "run '{}' has a number of the source for the column '{heading}', which does not exist",
                    run.name
                ));
            }
        }
        if let Some(quality) = &figure.quality {
            if !known(&quality.baseline) {
                return Err(format!("the baseline of quality is '{}', which is no run", quality.baseline));
            }
            if quality.from.is_empty() {
                return Err("quality needs the number of an untrained model ('from') for a scale".to_owned());
            }
            if !(quality.part > 0.0 && quality.part <= 1.0 && quality.pointer.starts_with('/')) {
                return Err("quality needs a JSON pointer and a part between 0 and 1".to_owned());
            }
        }
        for column in &figure.columns {
            if let Some(run) = column.relative_to.as_ref().filter(|run| !known(run)) {
                return Err(format!("column '{}' is relative to '{run}', which is no run", column.heading));
            }
        }
        figure.plots.iter().try_for_each(|plot| plot.check(&figure))?;
        figure.pictures.iter().try_for_each(|picture| picture.check(&figure))?;
        for claim in &figure.claims {
            claim.check()?;
            for term in [Some(&claim.value), claim.over.as_ref()].into_iter().flatten() {
                match term.split_once(": ") {
                    Some((run, _)) if known(run) => {
                        let runs_at = |scale: &&Scale| {
                            figure.runs.iter().any(|known| known.name == run && known.is_at(**scale))
                        };
                        if let Some(scale) = claim.scales.iter().find(|scale| !runs_at(scale)) {
                            return Err(format!(
                                "the claim '{}' is judged at scale {}, where '{run}' does not run",
                                claim.text,
                                scale.name()
                            ));
                        }
                    }
                    Some((run, _)) => {
                        return Err(format!("the claim '{}' names '{run}', which is no run", claim.text));
                    }
                    None => {
                        return Err(format!("'{term}' of the claim '{}' is not 'run: metric'", claim.text));
                    }
                }
            }
        }
        Ok(figure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_figures_of_this_project_can_be_read() {
        let folder = crate::process::root().join("bench-configs");
        let mut seen = 0;
        for name in crate::figure::names(&folder).expect("a folder") {
            let text = std::fs::read_to_string(folder.join(format!("{name}.toml"))).expect("a file");
            let figure = Figure::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            // `adaps-fig-9-kge` is Fig. 9 of AdaPS.
            let mut parts = name.split('-');
            let (key, kind, number) = (parts.next(), parts.next(), parts.next());
            let kind = if kind == Some("tab") { "Tab." } else { "Fig." };
            let place = format!("{kind} {}", number.unwrap_or_default());
            let source = figure.source.to_lowercase().replace('\'', "");
            let cited = source.starts_with(&format!("{} ", key.unwrap_or_default()));
            // Of OSDI'14, sections are known, but not the numbers of figures.
            let placed = figure.source.contains(&place) || key == Some("osdi14") && source.contains('§');
            assert!(cited && placed, "{name} is from '{}'", figure.source);
            seen += 1;
        }
        assert!(seen > 0, "no figure was read");
    }

    #[test]
    fn parts_that_do_not_fit_are_named() {
        let text = |claims: &str, column: &str| {
            format!(
                "title='t'\nsource='s'\napp='mf'\nargs=[]\n[[runs]]\nname='a'\nargs=[]\n[[columns]]\nheading='s'\n\
                 metric='seconds'\n{column}\n{claims}"
            )
        };
        let claim =
            |value: &str, bound: &str| format!("[[claims]]\ntext='c'\nvalue='{value}'\npaper='1'\n{bound}");
        assert!(Figure::parse(&text(&claim("a: seconds", "at_least=1.0"), "")).is_ok());
        let wrong = |claims: &str, column: &str| Figure::parse(&text(claims, column)).expect_err("refused");
        assert!(wrong(&claim("b: seconds", "at_least=1.0"), "").contains("'b', which is no run"));
        assert!(wrong(&claim("a", "at_least=1.0"), "").contains("is not 'run: metric'"));
        assert!(wrong(&claim("a: seconds", ""), "").contains("has no bound"));
        assert!(wrong("", "relative_to='x'").contains("'x', which is no run"));
        assert!(wrong("", "colour='red'").contains("unknown field"));
        let seeds = |seeds: &str| Figure::parse(&format!("seeds={seeds}\n{}", text("", "")));
        assert_eq!(seeds("1").expect("a figure").seeds, NonZeroU64::new(1));
        assert!(seeds("0").expect_err("refused").contains("nonzero"));
        let quality = |baseline: &str, part: &str| {
            format!(
                "[quality]\npointer='/loss'\nlower_is_better=true\nfrom={{ci=1.0}}\nbaseline='{baseline}'\npart={part}"
            )
        };
        assert!(Figure::parse(&text(&quality("a", "0.9"), "")).is_ok());
        assert!(wrong(&quality("b", "0.9"), "").contains("'b', which is no run"));
        assert!(wrong(&quality("a", "9.0"), "").contains("a part between 0 and 1"));
        let picture = |run: &str, rest: &str| {
            format!(
                "[[pictures]]\ntitle='t'\nrun='{run}'\n{rest}\n[[runs]]\nname='b'\nargs=[]\ntrace={{range='r'}}"
            )
        };
        assert!(Figure::parse(&text(&picture("b", "quantile=0.5\nuntil=0.5"), "")).is_ok());
        assert!(wrong(&picture("a", ""), "").contains("'a', which has no trace"));
        assert!(wrong(&picture("c", ""), "").contains("'c', which is no run"));
        for wide in ["quantile=1.5", "until=0.0", "until=2.0"] {
            assert!(wrong(&picture("b", wide), "").contains("between 0 and 1"), "{wide}");
        }
        let deviates = |rest: &str| text(&claim("a: seconds", &format!("at_most=3.0\n{rest}")), "");
        assert!(Figure::parse(&deviates("deviation='why'\ndeviates=[3.1, 4.0]")).is_ok());
        for half in ["deviation='why'", "deviates=[3.1, 4.0]", "deviation='why'\ndeviates=[4.0, 3.1]"] {
            assert!(Figure::parse(&deviates(half)).expect_err("refused").contains("needs both"), "{half}");
        }
        let held = Figure::parse(&deviates("deviation='why'\ndeviates=[2.9, 4.0]")).expect_err("refused");
        assert!(held.contains("would hold"), "{held}");
        let elsewhere = "[[runs]]\nname='b'\nargs=[]\nscales=['full']\n";
        let at = |scale: &str| {
            let bound = format!("at_least=1.0\nscales=['{scale}']");
            text(&format!("{elsewhere}{}", claim("b: seconds", &bound)), "")
        };
        assert!(Figure::parse(&at("full")).is_ok());
        assert!(Figure::parse(&at("ci")).expect_err("refused").contains("where 'b' does not run"));
    }
}
