//! What a collector of OpenTelemetry receives. The collector is part of this test, which decodes the
//! requests.

use intendant_metrics::otlp::Push;
use intendant_metrics::{Buckets, Kind, Metric, Sample, Source, Value};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, metric::Data, number_data_point};
use prost::Message;
use serde_json::Map;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

static JOBS: Metric =
    Metric { name: "jobs_total", kind: Kind::Counter, unit: "jobs", help: "Jobs that are done" };
static ROOM: Metric = Metric { name: "room_bytes", kind: Kind::Gauge, unit: "bytes", help: "Room" };
static WAIT: Metric = Metric { name: "wait_seconds", kind: Kind::Histogram, unit: "seconds", help: "Waits" };
static LATE: Metric = Metric { name: "late", kind: Kind::Gauge, unit: "", help: "It has no value" };

/// A source whose readings all differ: all values of a push must be of the same reading.
#[derive(Default)]
struct Counting(AtomicU64);

impl Source for Counting {
    fn catalogue(&self) -> Vec<&'static Metric> {
        vec![&JOBS, &ROOM, &WAIT, &LATE]
    }

    fn labels(&self) -> Vec<(&'static str, String)> {
        vec![("node", "3".to_owned())]
    }

    fn read(&self) -> Vec<Sample> {
        let reading = 1 + self.0.fetch_add(1, Ordering::SeqCst);
        let job = |kind: &str, count: u64| Sample {
            metric: &JOBS,
            labels: vec![("kind", kind.to_owned())],
            value: Value::Number(count as f64),
        };
        let buckets = Buckets { sum: 2.5 * reading as f64, count: 7 * reading, counts: vec![(0.5, 3)] };
        vec![
            job("a", reading),
            job("b", 2 * reading),
            Sample::number(&ROOM, reading as f64),
            Sample { metric: &WAIT, labels: Vec::new(), value: Value::Buckets(buckets) },
        ]
    }

    fn describe(&self) -> Map<String, serde_json::Value> {
        Map::new()
    }
}

/// Receives one request. Returns its first line and its body.
fn receive(listener: &TcpListener) -> (String, Vec<u8>) {
    let (mut stream, _) = listener.accept().expect("a connection");
    let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a head");
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_lowercase()),
        }
    }
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
    let mut body = vec![0; length.parse().expect("a number")];
    reader.read_exact(&mut body).expect("a body");
    assert!(lines.contains(&"content-type: application/x-protobuf".to_owned()), "{lines:?}");
    let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    stream.write_all(answer.as_bytes()).expect("sent");
    (lines[0].clone(), body)
}

fn attributes(attributes: &[KeyValue]) -> String {
    let text = |attribute: &KeyValue| {
        let value = attribute.value.as_ref().and_then(|value| value.value.as_ref());
        match value {
            Some(any_value::Value::StringValue(value)) => format!("{}={value}", attribute.key),
            other => panic!("{}: {other:?}", attribute.key),
        }
    };
    let mut texts: Vec<_> = attributes.iter().map(text).collect();
    texts.sort();
    texts.join(",")
}

#[test]
fn a_collector_receives_all_metrics_of_one_reading() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}/", listener.local_addr().expect("bound"));
    let source = Arc::new(Counting::default());
    let push =
        Push::start(Arc::clone(&source) as Arc<dyn Source>, "programs", Some(&endpoint)).expect("started");
    let end = std::thread::spawn(move || drop(push));
    let (path, body) = receive(&listener);
    end.join().expect("no panic");
    assert_eq!(path, "post /v1/metrics http/1.1");
    let request = ExportMetricsServiceRequest::decode(body.as_slice()).expect("protobuf");
    let [resource] = &request.resource_metrics[..] else { panic!("one resource") };
    let about = attributes(&resource.resource.as_ref().expect("it is named").attributes);
    assert!(about.contains("service.name=programs"), "{about}");
    let [scope] = &resource.scope_metrics[..] else { panic!("one scope") };
    let mut received = BTreeMap::new();
    for metric in &scope.metrics {
        let (points, kind) = match metric.data.as_ref().expect("data") {
            Data::Gauge(gauge) => (&gauge.data_points, "gauge"),
            Data::Sum(sum) => {
                assert_eq!(sum.aggregation_temporality(), AggregationTemporality::Cumulative);
                assert!(sum.is_monotonic);
                (&sum.data_points, "sum")
            }
            other @ (Data::Histogram(_) | Data::ExponentialHistogram(_) | Data::Summary(_)) => {
                panic!("{}: {other:?}", metric.name)
            }
        };
        for point in points {
            let Some(number_data_point::Value::AsDouble(value)) = point.value else { panic!("a number") };
            let series = format!("{} {kind} {} {}", metric.name, metric.unit, attributes(&point.attributes));
            assert!(received.insert(series, value).is_none());
        }
    }
    let expected = [
        ("jobs_total sum 1 kind=a,node=3", 1.0),
        ("jobs_total sum 1 kind=b,node=3", 2.0),
        ("room_bytes gauge By node=3", 1.0),
        ("wait_seconds_count sum 1 node=3", 7.0),
        ("wait_seconds_sum sum s node=3", 2.5),
    ];
    let expected = expected.map(|(series, value)| (series.to_owned(), value));
    assert_eq!(received, BTreeMap::from(expected));
    assert_eq!(source.0.load(Ordering::SeqCst), 1, "one reading for all metrics");
}

#[test]
fn an_endpoint_that_is_none_is_an_error_and_one_that_does_not_answer_ends_nothing() {
    let source = || Arc::new(Counting::default());
    for endpoint in ["localhost:4318", "", "ftp://localhost", "http://a b"] {
        let error = Push::start(source(), "programs", Some(endpoint)).expect_err("no endpoint").to_string();
        assert!(error.starts_with(&format!("metrics cannot be pushed to {endpoint}")), "{error}");
    }
    // A port that was free a moment ago.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
    drop(listener);
    drop(Push::start(source(), "programs", Some(&endpoint)).expect("started"));
}
