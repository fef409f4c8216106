//! What is measured.

use serde_json::Map;

/// What a metric counts, as Prometheus distinguishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number that never falls while the process lives. The metric's name ends with `_total`.
    Counter,
    /// A number that rises and falls.
    Gauge,
    /// A distribution.
    Histogram,
}

impl Kind {
    /// The type as the text format names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric: a name and its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name as queries use it, with the unit, and with `_total` if it is a counter.
    pub name: &'static str,
    /// The type.
    pub kind: Kind,
    /// The meaning, one sentence without a full stop.
    pub help: &'static str,
}

/// The value of a metric at some time, for one set of labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The metric.
    pub metric: &'static Metric,
    /// Names and values of the labels that tell samples of the metric apart. Every sample has the labels of
    /// its source in addition.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: Value,
}

impl Sample {
    /// A number without labels of its own.
    #[must_use]
    pub const fn number(metric: &'static Metric, value: f64) -> Self {
        Self { metric, labels: Vec::new(), value: Value::Number(value) }
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of a counter or a gauge.
    Number(f64),
    /// Of a histogram.
    Buckets(Buckets),
}

/// The counts of a histogram.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buckets {
    /// The sum of all observations.
    pub sum: f64,
    /// Their number.
    pub count: u64,
    /// Upper bounds, ascending, each with the number of observations above the bound before it. Observations
    /// above the last bound are in no bucket.
    pub counts: Vec<(f64, u64)>,
}

/// Something that is measured while it runs.
///
/// Its methods are called on a thread of the server, for each request. They may block for a moment; the
/// server gives an answer up that takes longer than a few seconds.
pub trait Source: Send + Sync + 'static {
    /// All metrics that may have samples.
    fn catalogue(&self) -> Vec<&'static Metric>;

    /// Labels of all samples.
    fn labels(&self) -> Vec<(&'static str, String)>;

    /// The values now. Samples of one metric follow each other; a metric without a value has no sample.
    fn read(&self) -> Vec<Sample>;

    /// What `/live` tells beside the values.
    fn describe(&self) -> Map<String, serde_json::Value>;
}
