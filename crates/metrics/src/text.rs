//! Samples in the text format of Prometheus, version 0.0.4.

use crate::metric::{Kind, Sample, Source, Value};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt;

/// The media type of the text of [`encode`].
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The suffix of the names of counters, which the encoder appends.
const TOTAL: &str = "_total";

/// The labels of exemplars, of which there are none.
type NoLabels = [(&'static str, &'static str); 0];

/// The values of a source as text, in the format of Prometheus.
///
/// # Errors
/// If a sample is of another kind than its metric: a mistake in the source.
pub fn encode(source: &dyn Source) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Samples { labels: source.labels(), samples: source.read() }));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry)?;
    Ok(text)
}

/// Samples, in the form in which the encoder asks for them.
#[derive(Debug)]
struct Samples {
    labels: Vec<(&'static str, String)>,
    samples: Vec<Sample>,
}

impl Collector for Samples {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in self.samples.chunk_by(|a, b| a.metric == b.metric) {
            let Some(first) = family.first() else { continue };
            let (name, kind) = match first.metric.kind {
                Kind::Counter => {
                    (first.metric.name.strip_suffix(TOTAL).ok_or(fmt::Error)?, MetricType::Counter)
                }
                Kind::Gauge => (first.metric.name, MetricType::Gauge),
                Kind::Histogram => (first.metric.name, MetricType::Histogram),
            };
            let mut encoder = encoder.encode_descriptor(name, first.metric.help, None, kind)?;
            for sample in family {
                let labels = [self.labels.as_slice(), &sample.labels].concat();
                write(encoder.encode_family(&labels)?, sample)?;
            }
        }
        Ok(())
    }
}

fn write(mut encoder: MetricEncoder<'_>, sample: &Sample) -> Result<(), fmt::Error> {
    match (&sample.value, sample.metric.kind) {
        (Value::Number(value), Kind::Counter) => encoder.encode_counter::<NoLabels, f64, f64>(value, None),
        (Value::Number(value), Kind::Gauge) => encoder.encode_gauge(value),
        (Value::Buckets(buckets), Kind::Histogram) => {
            encoder.encode_histogram::<NoLabels>(buckets.sum, buckets.count, &buckets.counts, None)
        }
        // A mistake in the source, which the source's own test finds.
        (Value::Number(_), Kind::Histogram) | (Value::Buckets(_), Kind::Counter | Kind::Gauge) => {
            Err(fmt::Error)
        }
    }
}
