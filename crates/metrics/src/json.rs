//! Samples as a JSON object, for a page that shows them.

use crate::metric::{Sample, Source, Value};
use serde_json::{Map, Number};

/// The body of an answer to `/live`: the description of the source, and its values.
pub(crate) fn encode(source: &dyn Source) -> String {
    let mut object = source.describe();
    let mut metrics = Map::new();
    for sample in source.read() {
        match &sample.value {
            Value::Number(value) => add(&mut metrics, &sample, "", *value),
            Value::Buckets(buckets) => {
                add(&mut metrics, &sample, "_sum", buckets.sum);
                add(&mut metrics, &sample, "_count", buckets.count as f64);
            }
        }
    }
    object.insert("metrics".to_owned(), metrics.into());
    serde_json::Value::Object(object).to_string()
}

/// Adds a series, unless JSON cannot represent its value.
fn add(metrics: &mut Map<String, serde_json::Value>, sample: &Sample, ending: &str, value: f64) {
    let Some(value) = Number::from_f64(value) else { return };
    let mut name = format!("{}{ending}", sample.metric.name);
    if !sample.labels.is_empty() {
        let labels: Vec<_> =
            sample.labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        name = format!("{name}{{{}}}", labels.join(","));
    }
    metrics.insert(name, value.into());
}

/// Escapes the value of a label as in the text format.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
