//! Metrics, their values, and the source that provides them.

use serde_json::Map;

/// The type of a metric, as Prometheus distinguishes types.
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
    /// The unit, in plural: `seconds`, `bytes`, or what is counted; empty if there is none.
    pub unit: &'static str,
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
    /// The number of observations.
    pub count: u64,
    /// Upper bounds in ascending order, each with the number of observations between the previous bound and
    /// this one. Observations above the last bound are in no bucket.
    pub counts: Vec<(f64, u64)>,
}

/// A provider of metrics, which the server reads while the program runs.
///
/// The server calls these methods on a thread of its own, for each request. They may block for a moment; the
/// server abandons an answer that takes longer than a few seconds.
pub trait Source: Send + Sync + 'static {
    /// All metrics that may have samples.
    fn catalogue(&self) -> Vec<&'static Metric>;

    /// The labels that all samples share.
    fn labels(&self) -> Vec<(&'static str, String)>;

    /// The current values. Samples of one metric are adjacent; a metric without a value has no sample.
    fn read(&self) -> Vec<Sample>;

    /// The further members of the `/live` object, beside the values.
    fn describe(&self) -> Map<String, serde_json::Value>;
}
