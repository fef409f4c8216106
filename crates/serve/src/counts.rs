//! The metrics of a service.

use crate::program::Endpoint;
use intendant_core::lock;
use intendant_metrics::{Buckets, Kind, Metric, Sample, Source, Value, process};
use serde_json::Map;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

static REQUESTS: Metric = Metric {
    name: "intendant_serve_requests_total",
    kind: Kind::Counter,
    unit: "requests",
    help: "Requests that were answered, by path and status",
};
static SECONDS: Metric = Metric {
    name: "intendant_serve_request_seconds",
    kind: Kind::Histogram,
    unit: "seconds",
    help: "Time from the head of a request to its answer, by path",
};
static QUESTIONS: Metric = Metric {
    name: "intendant_serve_questions_total",
    kind: Kind::Counter,
    unit: "questions",
    help: "Questions that the model was asked, by path",
};
static BATCHES: Metric = Metric {
    name: "intendant_serve_batches_total",
    kind: Kind::Counter,
    unit: "batches",
    help: "How often the model was asked questions together, by path",
};
static WAITING: Metric = Metric {
    name: "intendant_serve_waiting_questions",
    kind: Kind::Gauge,
    unit: "questions",
    help: "Questions that wait for the model now, by path",
};
static LOADS: Metric = Metric {
    name: "intendant_serve_model_loads_total",
    kind: Kind::Counter,
    unit: "loads",
    help: "How often a model was read, by result (ok or failed)",
};
static MEMORY: Metric = Metric {
    name: "process_resident_memory_bytes",
    kind: Kind::Gauge,
    unit: "bytes",
    help: "Memory that is resident",
};
static CPU: Metric = Metric {
    name: "process_cpu_seconds_total",
    kind: Kind::Counter,
    unit: "seconds",
    help: "CPU time of all threads",
};

/// Upper bounds of the histogram, seconds.
const BOUNDS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0];

/// The path of a request that is none of ours.
const OTHER: &str = "other";

#[derive(Debug, Default)]
struct Path {
    by_status: BTreeMap<u16, u64>,
    seconds: Buckets,
}

#[derive(Clone, Copy, Debug, Default)]
struct Desk {
    questions: u64,
    batches: u64,
    waiting: u64,
}

/// The metrics.
#[derive(Debug)]
pub(crate) struct Counts {
    paths: Mutex<BTreeMap<&'static str, Path>>,
    endpoints: &'static [Endpoint],
    desks: Mutex<Vec<Desk>>,
    /// Loads that failed, and those that did not.
    loads: Mutex<[u64; 2]>,
}

impl Counts {
    pub(crate) fn new(endpoints: &'static [Endpoint]) -> Self {
        let desks = Mutex::new(vec![Desk::default(); endpoints.len()]);
        Self { paths: Mutex::default(), endpoints, desks, loads: Mutex::default() }
    }

    /// Counts a request that was answered; `path` is that of an address of ours.
    pub(crate) fn request(&self, path: Option<&'static str>, status: u16, took: Duration) {
        let mut paths = lock(&self.paths);
        let path = paths.entry(path.unwrap_or(OTHER)).or_default();
        *path.by_status.entry(status).or_default() += 1;
        let seconds = took.as_secs_f64();
        if path.seconds.counts.is_empty() {
            path.seconds.counts = BOUNDS.iter().map(|bound| (*bound, 0)).collect();
        }
        path.seconds.sum += seconds;
        path.seconds.count += 1;
        if let Some((_, count)) = path.seconds.counts.iter_mut().find(|(bound, _)| seconds <= *bound) {
            *count += 1;
        }
    }

    /// Counts questions that the model was asked together.
    pub(crate) fn answered(&self, desk: usize, questions: usize) {
        if let Some(desk) = lock(&self.desks).get_mut(desk) {
            desk.questions += questions as u64;
            desk.batches += 1;
        }
    }

    /// Notes how many questions wait at each desk.
    pub(crate) fn waiting(&self, waiting: impl IntoIterator<Item = usize>) {
        for (desk, waiting) in lock(&self.desks).iter_mut().zip(waiting) {
            desk.waiting = waiting as u64;
        }
    }

    /// Counts a load of a model.
    pub(crate) fn loaded(&self, is_ok: bool) {
        lock(&self.loads)[usize::from(is_ok)] += 1;
    }
}

impl Source for Counts {
    fn catalogue(&self) -> Vec<&'static Metric> {
        vec![&REQUESTS, &SECONDS, &QUESTIONS, &BATCHES, &WAITING, &LOADS, &MEMORY, &CPU]
    }

    fn labels(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn read(&self) -> Vec<Sample> {
        let number = |metric, labels, value: f64| Sample { metric, labels, value: Value::Number(value) };
        let path = |path: &str| ("path", path.to_owned());
        let mut samples = Vec::new();
        {
            let paths = lock(&self.paths);
            for (name, counts) in paths.iter() {
                samples.extend(counts.by_status.iter().map(|(status, count)| {
                    number(&REQUESTS, vec![path(name), ("status", status.to_string())], *count as f64)
                }));
            }
            samples.extend(paths.iter().map(|(name, counts)| Sample {
                metric: &SECONDS,
                labels: vec![path(name)],
                value: Value::Buckets(counts.seconds.clone()),
            }));
        }
        let desks = lock(&self.desks).clone();
        let of_desks = |metric, value: fn(&Desk) -> u64| {
            let desks = self.endpoints.iter().zip(&desks);
            let sample = move |(endpoint, desk): (&Endpoint, &Desk)| {
                number(metric, vec![path(endpoint.path)], value(desk) as f64)
            };
            desks.map(sample).collect::<Vec<_>>()
        };
        samples.extend(of_desks(&QUESTIONS, |desk| desk.questions));
        samples.extend(of_desks(&BATCHES, |desk| desk.batches));
        samples.extend(of_desks(&WAITING, |desk| desk.waiting));
        let loads = *lock(&self.loads);
        samples.extend(
            ["failed", "ok"]
                .iter()
                .zip(loads)
                .map(|(result, count)| number(&LOADS, vec![("result", (*result).to_owned())], count as f64)),
        );
        samples.extend(process::resident_bytes().map(|bytes| Sample::number(&MEMORY, bytes as f64)));
        samples.push(Sample::number(&CPU, process::cpu_ns() as f64 / 1e9));
        samples
    }

    fn describe(&self) -> Map<String, serde_json::Value> {
        Map::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Found;

    static ENDPOINTS: [Endpoint; 1] =
        [Endpoint { path: "/v1/near", about: "", members: &[], found: Found::Number("n") }];

    #[test]
    fn what_is_counted_is_in_the_text() {
        let counts = Counts::new(&ENDPOINTS);
        counts.request(Some("/v1/near"), 200, Duration::from_millis(3));
        counts.request(Some("/v1/near"), 200, Duration::from_secs(60));
        counts.request(None, 404, Duration::ZERO);
        counts.answered(0, 7);
        counts.answered(3, 9);
        counts.waiting([5]);
        counts.loaded(true);
        let catalogue = counts.catalogue();
        assert!(counts.read().iter().all(|sample| catalogue.contains(&sample.metric)));
        let text = intendant_metrics::text::encode(&counts).unwrap();
        for line in [
            "intendant_serve_requests_total{path=\"/v1/near\",status=\"200\"} 2.0",
            "intendant_serve_requests_total{path=\"other\",status=\"404\"} 1.0",
            "intendant_serve_request_seconds_count{path=\"/v1/near\"} 2",
            "intendant_serve_request_seconds_bucket{path=\"/v1/near\",le=\"0.002\"} 0",
            "intendant_serve_request_seconds_bucket{path=\"/v1/near\",le=\"0.005\"} 1",
            "intendant_serve_request_seconds_bucket{path=\"/v1/near\",le=\"5\"} 1",
            "intendant_serve_questions_total{path=\"/v1/near\"} 7.0",
            "intendant_serve_batches_total{path=\"/v1/near\"} 1.0",
            "intendant_serve_waiting_questions{path=\"/v1/near\"} 5.0",
            "intendant_serve_model_loads_total{result=\"failed\"} 0.0",
            "intendant_serve_model_loads_total{result=\"ok\"} 1.0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
