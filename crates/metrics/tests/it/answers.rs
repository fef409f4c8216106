//! What is answered.

use crate::source::{JOBS, NAME, ROOM, WAIT, ask, body, get, samples, serve};
use intendant_metrics::{Endpoint, EndpointError, Sample};
use serde_json::{Value, json};
use std::net::TcpStream;

#[test]
fn prometheus_reads_types_labels_and_buckets() {
    let (address, _server) = serve(samples);
    let answer = get(address, "/metrics");
    assert!(answer.contains("\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{answer}");
    let expected = r#"# HELP jobs_total Jobs that are done
# TYPE jobs_total counter
jobs_total{node="3",name="x"} 7.0
jobs_total{node="3",name="a \"b\"\\c\nd"} 9007199254740991.0
# HELP room Room, in "feet"
# TYPE room gauge
room{node="3"} -0.5
# HELP wait_seconds Waits
# TYPE wait_seconds histogram
wait_seconds_bucket{node="3",le="0.5"} 3
wait_seconds_bucket{node="3",le="1"} 5
wait_seconds_bucket{node="3",le="+Inf"} 7
wait_seconds_sum{node="3"} 2.5
wait_seconds_count{node="3"} 7
"#;
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.trim_end_matches('.').to_owned());
        lines.filter(|line| !line.is_empty()).collect()
    };
    assert_eq!(lines(body(&answer)), lines(expected));
}

#[test]
fn json_has_the_same_numbers_beside_what_the_source_tells_of_itself() {
    let (address, _server) = serve(samples);
    let answer = get(address, "/live?x=1");
    assert!(answer.contains("\r\ncontent-type: application/json\r\n"), "{answer}");
    let live: Value = serde_json::from_str(body(&answer)).expect("JSON");
    let escaped = NAME.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let expected = json!({
        "jobs_total{name=\"x\"}": 7.0,
        format!("jobs_total{{name=\"{escaped}\"}}"): 9_007_199_254_740_991.0,
        "room": -0.5,
        "wait_seconds_sum": 2.5,
        "wait_seconds_count": 7.0,
    });
    assert_eq!(live, json!({ "node": 3, "metrics": expected }));
}

#[test]
fn numbers_that_json_does_not_have_are_left_out_of_it() {
    let samples = || vec![Sample::number(&ROOM, f64::NAN), Sample::number(&JOBS, f64::INFINITY)];
    let (address, _server) = serve(samples);
    assert_eq!(body(&get(address, "/live")), r#"{"metrics":{},"node":3}"#);
    let text = get(address, "/metrics");
    assert!(
        text.contains("room{node=\"3\"} NaN\n") && text.contains("jobs_total{node=\"3\"} +Inf\n"),
        "{text}"
    );
}

#[test]
fn a_source_that_fails_is_an_error_of_the_server_which_goes_on() {
    let (address, _server) = serve(|| panic!("as this test wants"));
    for path in ["/metrics", "/live", "/metrics"] {
        assert!(get(address, path).starts_with("HTTP/1.1 500 "), "{path}");
    }
    // A number where buckets belong.
    let (address, _server) = serve(|| vec![Sample::number(&WAIT, 1.0)]);
    assert!(get(address, "/metrics").starts_with("HTTP/1.1 500 "));
}

#[test]
fn only_get_of_two_paths_is_answered() {
    let (address, _server) = serve(samples);
    for path in ["/", "/metrics/", "/metricsx", "/../etc/passwd", "/live/.."] {
        assert!(get(address, path).starts_with("HTTP/1.1 404 "), "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "X"] {
        let request = format!("{method} /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert!(ask(address, request.as_bytes()).starts_with("HTTP/1.1 405 "), "{method}");
    }
}

#[test]
fn nothing_answers_when_the_server_is_dropped() {
    let (address, server) = serve(samples);
    // An open connection does not keep the server alive.
    let _open = TcpStream::connect(address).expect("a server");
    assert!(get(address, "/metrics").starts_with("HTTP/1.1 200 "));
    drop(server);
    assert!(TcpStream::connect(address).is_err());
    Endpoint::bind(address, None).expect("the port is free again");
}

#[test]
fn an_address_that_is_taken_or_needs_a_token_is_an_error_that_names_it() {
    let (address, _server) = serve(samples);
    let error = Endpoint::bind(address, None).expect_err("taken");
    assert!(error.to_string().starts_with(&format!("cannot listen at {address}: ")), "{error}");
    let everywhere = "0.0.0.0:0".parse().expect("an address");
    assert!(matches!(Endpoint::bind(everywhere, None), Err(EndpointError::NoToken { .. })));
}
