//! The view of a running cluster, with fake nodes.

use crate::server::Server;
use intendant_dashboard::Settings;
use intendant_transport::{Challenge, Token};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// A fake node that sends a prescribed answer.
struct Node {
    address: SocketAddr,
    answer: Arc<Mutex<Vec<u8>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Node {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let node = Self { address, answer: Arc::default(), asked: Arc::default() };
        let (answer, asked) = (Arc::clone(&node.answer), Arc::clone(&node.asked));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let (mut request, mut bytes) = (Vec::new(), [0; 1024]);
                while !request.ends_with(b"\r\n\r\n") {
                    match stream.read(&mut bytes) {
                        Ok(read) if read > 0 => request.extend_from_slice(&bytes[..read]),
                        Ok(_) | Err(_) => break,
                    }
                }
                asked.lock().unwrap().push(String::from_utf8_lossy(&request).into_owned());
                let _ = stream.write_all(&answer.lock().unwrap());
            }
        });
        node
    }

    fn says(&self, status: &str, body: &[u8]) {
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        *self.answer.lock().unwrap() = [head.as_bytes(), body].concat();
    }

    fn numbers(&self, node: u64, peers: &[Option<SocketAddr>], now: u64, metrics: &Value, marks: &Value) {
        let said = json!({
            "schema": "intendant.live/1", "node": node, "nodes": peers.len(), "task": "kge",
            "technique": "adaptive", "workers": 2, "peers": peers, "started_unix_ms": 1_000,
            "now_unix_ms": now, "metrics": metrics, "marks": marks,
        });
        self.says("200 OK", said.to_string().as_bytes());
    }
}

/// Asks until an answer satisfies `is_so`.
fn until(server: &Server, is_so: impl Fn(&Value) -> bool) -> Value {
    let start = Instant::now();
    loop {
        let answer = server.json("/api/live?since=0");
        if is_so(&answer) {
            return answer;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{answer}");
        std::thread::yield_now();
    }
}

fn watching(address: SocketAddr) -> Server {
    Server::start(Settings { live: Some(address.to_string().parse().unwrap()), ..Settings::default() })
}

#[test]
fn all_nodes_of_a_cluster_are_asked_and_a_lost_one_is_shown() {
    let nodes = [Node::start(), Node::start()];
    let peers = [Some(nodes[0].address), Some(nodes[1].address)];
    let metrics = |examples: u64| json!({ "intendant_examples_total": examples, "process_resident_memory_bytes": 5e7, "other": 1 });
    let marks = json!([{ "at_unix_ms": 2_000, "kind": "epoch", "number": 1 }]);
    nodes[0].numbers(0, &peers, 5_000, &metrics(100), &marks);
    nodes[1].numbers(1, &peers, 5_100, &metrics(40), &marks);
    let server = watching(nodes[0].address);
    let both = |state: &'static str| {
        move |answer: &Value| {
            answer["nodes"].as_array().is_some_and(|nodes| nodes.len() == 2)
                && answer["nodes"][1]["state"] == state
        }
    };
    let answer = until(&server, both("answers"));
    assert_eq!((&answer["task"], &answer["technique"]), (&json!("kge"), &json!("adaptive")));
    let at = answer["series"].as_array().unwrap().iter().position(|name| name == "examples").unwrap();
    assert_eq!(answer["nodes"][0]["values"][at], json!([100.0]));
    assert_eq!(answer["nodes"][1]["values"][at], json!([40.0]));
    assert_eq!(answer["nodes"][1]["at_ms"], json!([5_100]));
    assert_eq!(answer["marks"], marks, "marks of several nodes count once");
    // A page that knows the earlier samples gets only the later ones.
    let newest = answer["newest"].as_u64().unwrap();
    nodes[0].numbers(
        0,
        &peers,
        6_000,
        &metrics(300),
        &json!([{ "at_unix_ms": 5_500, "kind": "lost", "node": 1 }]),
    );
    nodes[1].says("500 Internal Server Error", b"");
    let answer = until(&server, |answer| {
        both("silent")(answer) && answer["nodes"][0]["at_ms"].as_array().is_some_and(|at| at.len() == 2)
    });
    assert_eq!(answer["nodes"][0]["values"][at], json!([100.0, 300.0]));
    assert_eq!(answer["marks"][1]["kind"], "lost");
    // The answer says how long the node has been silent.
    assert_eq!(answer["nodes"][0]["silent_ms"], Value::Null);
    assert!(answer["nodes"][1]["silent_ms"].is_u64(), "{answer}");
    let before = answer["nodes"][1]["silent_ms"].as_u64();
    until(&server, |answer| answer["nodes"][1]["silent_ms"].as_u64() > before);
    let later = server.json(&format!("/api/live?since={newest}"));
    assert_eq!(later["nodes"][0]["at_ms"], json!([6_000]));
}

#[test]
fn an_address_where_nothing_listens_is_told() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = watching(closed);
    let answer = until(&server, |answer| answer["nodes"][0]["error"].is_string());
    assert_eq!(answer["address"], closed.to_string());
    assert!(answer["nodes"][0]["error"].as_str().unwrap().contains("refused"), "{answer}");
    assert_eq!(
        (&answer["nodes"][0]["state"], &answer["nodes"][0]["silent_ms"]),
        (&json!("waiting"), &Value::Null)
    );
}

#[test]
fn answers_of_other_programs_are_said_and_do_no_harm() {
    let node = Node::start();
    let server = watching(node.address);
    let long = vec![b'['; 5 << 20];
    for (status, body, reason) in [
        ("404 Not Found", &b""[..], "--metrics"),
        ("401 Unauthorized", b"", "--live-token-file"),
        ("503 Service Unavailable", b"there are no values yet", "does not train yet"),
        ("200 OK", b"<html>", "cannot be read"),
        ("200 OK", b"{\"schema\":\"other/9\"}", "other/9"),
        ("200 OK", long.as_slice(), ""),
        ("200 OK", b"{\"schema\":\"intendant.live/1\",\"metrics\":{\"x\":\"<script>\"}}", "cannot be read"),
    ] {
        node.says(status, body);
        until(&server, |answer| {
            answer["nodes"][0]["error"]
                .as_str()
                .is_some_and(|error| !error.is_empty() && error.contains(reason))
        });
    }
    // Impossible numbers of nodes and impossible times.
    let peers = vec![Some(node.address); 3];
    node.numbers(u64::MAX, &peers, u64::MAX, &json!({ "intendant_examples_total": 1e300 }), &json!([]));
    until(&server, |answer| answer["nodes"].as_array().is_some_and(|nodes| nodes.len() == 1024));
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn nodes_get_a_proof_of_the_token_of_readers_and_not_the_token() {
    let node = Node::start();
    let challenge = Challenge::draw().unwrap();
    let head = format!("401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nWWW-Authenticate: {challenge}");
    node.says(&head, b"");
    let text = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    let token = Token::from_hex(text).unwrap();
    let server = Server::start(Settings {
        live: Some(node.address.to_string().parse().unwrap()),
        live_token: Some(token.clone()),
        ..Settings::default()
    });
    // The node that asks for the proof goes on asking.
    until(&server, |answer| {
        answer["nodes"][0]["error"].as_str().is_some_and(|error| error.contains("wants"))
    });
    node.numbers(0, &[Some(node.address)], 5_000, &json!({}), &json!([]));
    until(&server, |answer| answer["nodes"][0]["state"] == "answers");
    let asked = node.asked.lock().unwrap();
    let proof = format!("authorization: {}\r\n", challenge.answer(&token)).to_lowercase();
    assert!(
        asked[0].starts_with("GET /live HTTP/1.1\r\n") && !asked[0].to_lowercase().contains("authorization")
    );
    assert!(asked[1].to_lowercase().contains(&proof), "{}", asked[1]);
    assert!(asked.iter().all(|request| !request.contains(text)), "{asked:?}");
}
