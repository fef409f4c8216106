//! Metrics pushed to a collector of OpenTelemetry: OTLP over HTTP, protobuf.
//!
//! The OpenTelemetry library asks for each metric separately; [`Shared`] reads the source once for all of
//! them. A histogram becomes two counters, its sum and its count, because the library accepts single
//! observations but not counted buckets.

use crate::metric::{Kind, Metric, Sample, Source, Value};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider};
use opentelemetry_otlp::{MetricExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider, Temporality};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Environment variables that name the collector.
const VARIABLES: [&str; 2] = ["OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// The path at which a collector accepts metrics, below its address.
const PATH: &str = "v1/metrics";

/// How long the last push may take.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Metrics cannot be pushed.
#[derive(Debug, thiserror::Error)]
#[error("metrics cannot be pushed{}: {reason}", endpoint.as_ref().map_or(String::new(), |at| format!(" to {at}")))]
pub struct PushError {
    endpoint: Option<String>,
    reason: String,
}

/// A periodic push, every minute or at the interval in `OTEL_METRIC_EXPORT_INTERVAL`. When it is dropped, it
/// pushes once more.
#[derive(Debug)]
pub struct Push(Option<SdkMeterProvider>);

/// Whether the environment names a collector.
#[must_use]
pub fn is_in_environment() -> bool {
    VARIABLES.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

impl Push {
    /// Starts pushing the metrics of `source`, under the service name `service`, to the collector at
    /// `endpoint` (`http://HOST:PORT`), or to the collector that the environment names.
    ///
    /// # Errors
    /// If the endpoint is invalid, or the environment has invalid settings.
    pub fn start(source: Arc<dyn Source>, service: &str, endpoint: Option<&str>) -> Result<Self, PushError> {
        let refused = |reason: String| PushError { endpoint: endpoint.map(str::to_owned), reason };
        // The exporter uses the same encryption library as the rest of the program. Another call may have
        // installed it before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut exporter = MetricExporter::builder().with_http();
        if let Some(endpoint) = endpoint {
            let has_scheme = ["http://", "https://"].iter().any(|scheme| endpoint.starts_with(scheme));
            if !has_scheme {
                return Err(refused("write http://HOST:PORT or https://HOST:PORT".to_owned()));
            }
            exporter = exporter.with_endpoint(format!("{}/{PATH}", endpoint.trim_end_matches('/')));
        }
        let exporter = exporter.build().map_err(|error| refused(error.to_string()))?;
        let exporter = Telling { exporter, has_warned: AtomicBool::new(false) };
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name(service.to_owned());
        }
        let reader = PeriodicReader::builder(exporter).build();
        let provider =
            SdkMeterProvider::builder().with_reader(reader).with_resource(resource.build()).build();
        register(&provider.meter("intendant"), source);
        Ok(Self(Some(provider)))
    }
}

impl Drop for Push {
    fn drop(&mut self) {
        let Some(provider) = self.0.take() else { return };
        // A collector that hangs must not keep the program from ending. The thread that waits for it is then
        // left behind.
        let (done, waiting) = std::sync::mpsc::channel::<()>();
        let last = std::thread::Builder::new().name("otlp-end".to_owned()).spawn(move || {
            // The exporter has already logged what went wrong.
            let _ = provider.shutdown();
            drop(done);
        });
        if last.is_ok() && waiting.recv_timeout(END_WITHIN) == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            tracing::warn!("the last metrics could not be pushed within {} s", END_WITHIN.as_secs());
        }
    }
}

/// An exporter that logs a warning for the first of several failed pushes.
struct Telling {
    exporter: MetricExporter,
    has_warned: AtomicBool,
}

impl PushMetricExporter for Telling {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let pushed = self.exporter.export(metrics).await;
        match &pushed {
            // Relaxed: the flag publishes no other data.
            Ok(()) => self.has_warned.store(false, Ordering::Relaxed),
            Err(error) if !self.has_warned.swap(true, Ordering::Relaxed) => {
                tracing::warn!("metrics could not be pushed, and are pushed again later: {error}");
            }
            Err(_) => {}
        }
        pushed
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.exporter.temporality()
    }
}

/// A reading of the source that all instruments of one push share.
struct Shared {
    source: Arc<dyn Source>,
    labels: Vec<(&'static str, String)>,
    latest: Mutex<Latest>,
}

#[derive(Default)]
struct Latest {
    /// From 1.
    number: u64,
    samples: Arc<Vec<Sample>>,
}

impl Shared {
    /// The latest samples, or new ones if the instrument has already seen the latest: `seen` is the number of
    /// the last reading that the instrument got. Updates `seen`. So the first instrument that is asked in a
    /// push reads the source, and the others get the same samples.
    fn samples(&self, seen: &AtomicU64) -> Arc<Vec<Sample>> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.load(Ordering::Relaxed) == latest.number {
            *latest = Latest { number: latest.number + 1, samples: Arc::new(self.source.read()) };
        }
        seen.store(latest.number, Ordering::Relaxed);
        Arc::clone(&latest.samples)
    }

    /// Attributes and value of each sample of a metric.
    fn values(
        &self,
        seen: &AtomicU64,
        metric: &'static Metric,
        value: fn(&Value) -> f64,
    ) -> Vec<(Vec<KeyValue>, f64)> {
        let samples = self.samples(seen);
        let of_metric = samples.iter().filter(|sample| sample.metric == metric);
        let point = |sample: &Sample| {
            let labels = self.labels.iter().chain(&sample.labels);
            let attributes = labels.map(|(name, text)| KeyValue::new(*name, text.clone())).collect();
            (attributes, value(&sample.value))
        };
        of_metric.map(point).collect()
    }
}

/// The unit as OpenTelemetry writes it.
fn unit(metric: &Metric) -> &'static str {
    match metric.unit {
        "seconds" => "s",
        "bytes" => "By",
        _ => "1",
    }
}

fn register(meter: &Meter, source: Arc<dyn Source>) {
    let metrics = source.catalogue();
    let shared = Arc::new(Shared { labels: source.labels(), source, latest: Mutex::default() });
    for metric in metrics {
        match metric.kind {
            Kind::Counter => {
                counter(meter, &shared, metric, (metric.name.to_owned(), unit(metric)), number);
            }
            Kind::Gauge => {
                let (shared, seen) = (Arc::clone(&shared), AtomicU64::new(0));
                let observe = move |observer: &dyn opentelemetry::metrics::AsyncInstrument<f64>| {
                    for (attributes, value) in shared.values(&seen, metric, number) {
                        observer.observe(value, &attributes);
                    }
                };
                let gauge = meter.f64_observable_gauge(metric.name).with_description(metric.help);
                gauge.with_unit(unit(metric)).with_callback(observe).build();
            }
            Kind::Histogram => {
                counter(meter, &shared, metric, (format!("{}_sum", metric.name), unit(metric)), number);
                counter(meter, &shared, metric, (format!("{}_count", metric.name), "1"), count);
            }
        }
    }
}

fn counter(
    meter: &Meter,
    shared: &Arc<Shared>,
    metric: &'static Metric,
    (name, unit): (String, &'static str),
    value: fn(&Value) -> f64,
) {
    let (shared, seen) = (Arc::clone(shared), AtomicU64::new(0));
    let observe = move |observer: &dyn opentelemetry::metrics::AsyncInstrument<f64>| {
        for (attributes, value) in shared.values(&seen, metric, value) {
            observer.observe(value, &attributes);
        }
    };
    let counter = meter.f64_observable_counter(name).with_description(metric.help);
    counter.with_unit(unit).with_callback(observe).build();
}

/// The value of a number, or the sum of a histogram.
fn number(value: &Value) -> f64 {
    match value {
        Value::Number(value) => *value,
        Value::Buckets(buckets) => buckets.sum,
    }
}

fn count(value: &Value) -> f64 {
    match value {
        Value::Number(_) => 1.0,
        Value::Buckets(buckets) => buckets.count as f64,
    }
}
