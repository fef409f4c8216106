//! A source with a sample of each kind, and a client.

use intendant_metrics::{Buckets, Endpoint, Kind, Metric, Sample, Server, Source, Value};
use intendant_transport::Token;
use serde_json::{Map, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

pub(crate) static JOBS: Metric =
    Metric { name: "jobs_total", kind: Kind::Counter, unit: "jobs", help: "Jobs that are done" };
pub(crate) static ROOM: Metric =
    Metric { name: "room", kind: Kind::Gauge, unit: "feet", help: "Room, in \"feet\"" };
pub(crate) static WAIT: Metric =
    Metric { name: "wait_seconds", kind: Kind::Histogram, unit: "seconds", help: "Waits" };

/// Labels that need escapes.
pub(crate) const NAME: &str = "a \"b\"\\c\nd";

pub(crate) fn samples() -> Vec<Sample> {
    let labels = |name: &str| vec![("name", name.to_owned())];
    let buckets = Buckets { sum: 2.5, count: 7, counts: vec![(0.5, 3), (1.0, 2)] };
    vec![
        Sample { metric: &JOBS, labels: labels("x"), value: Value::Number(7.0) },
        Sample { metric: &JOBS, labels: labels(NAME), value: Value::Number(9_007_199_254_740_991.0) },
        Sample::number(&ROOM, -0.5),
        Sample { metric: &WAIT, labels: Vec::new(), value: Value::Buckets(buckets) },
    ]
}

/// A source that has the given samples.
pub(crate) struct Fixed(pub(crate) fn() -> Vec<Sample>);

impl Source for Fixed {
    fn catalogue(&self) -> Vec<&'static Metric> {
        vec![&JOBS, &ROOM, &WAIT]
    }

    fn labels(&self) -> Vec<(&'static str, String)> {
        vec![("node", "3".to_owned())]
    }

    fn read(&self) -> Vec<Sample> {
        (self.0)()
    }

    fn describe(&self) -> Map<String, serde_json::Value> {
        Map::from_iter([("node".to_owned(), json!(3))])
    }
}

/// Serves a source at a free port of 127.0.0.1.
pub(crate) fn serve(samples: fn() -> Vec<Sample>) -> (SocketAddr, Server) {
    let endpoint = Endpoint::bind("127.0.0.1:0".parse().expect("an address"), None).expect("a port");
    let address = endpoint.address();
    (address, endpoint.serve(Arc::new(Fixed(samples))).expect("a thread"))
}

/// The token of [`serve_beyond_loopback`].
pub(crate) const TOKEN: &str = "00112233445566778899aabbccddeeff";

/// Serves a source at a free port of all addresses. Returns one of these addresses.
pub(crate) fn serve_beyond_loopback(samples: fn() -> Vec<Sample>) -> (SocketAddr, Server) {
    let token = Token::from_hex(TOKEN).expect("a token");
    let endpoint = Endpoint::bind("0.0.0.0:0".parse().expect("an address"), Some(&token)).expect("a port");
    let port = endpoint.address().port();
    (([127, 0, 0, 1], port).into(), endpoint.serve(Arc::new(Fixed(samples))).expect("a thread"))
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a server");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    stream
}

/// Sends a request. Returns the answer, as far as it arrives.
pub(crate) fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = connect(address);
    let mut answer = Vec::new();
    // A server that refuses a request need not read all of it, and connections may be reset then.
    let _ = stream.write_all(request);
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).expect("UTF-8")
}

pub(crate) fn get(address: SocketAddr, path: &str) -> String {
    ask(address, format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes())
}

/// The body of a successful answer.
pub(crate) fn body(answer: &str) -> &str {
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    answer.split_once("\r\n\r\n").expect("a head").1
}
