//! What a client cannot do.

use crate::source::{Fixed, TOKEN, ask, connect, get, samples, serve, serve_beyond_loopback};
use intendant_metrics::Endpoint;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

const GET: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";

#[test]
fn heads_of_requests_are_short() {
    let (address, _server) = serve(samples);
    let long = format!("{GET}X: {}\r\n\r\n", "x".repeat(64 << 10));
    let many: String = (0..100).map(|n| format!("X-{n}: 1\r\n")).collect();
    let deep = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(64 << 10));
    for request in [long, format!("{GET}{many}\r\n"), deep] {
        let answer = ask(address, request.as_bytes());
        let refused = answer.is_empty() || answer.starts_with("HTTP/1.1 4");
        assert!(refused, "{} bytes: {answer}", request.len());
    }
    assert!(get(address, "/metrics").starts_with("HTTP/1.1 200 "));
}

#[test]
fn what_is_no_request_is_refused() {
    let (address, _server) = serve(samples);
    for bytes in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut stream = connect(address);
        stream.write_all(bytes).expect("sent");
        stream.shutdown(std::net::Shutdown::Write).expect("a socket");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{bytes:?}");
    }
    assert!(get(address, "/metrics").starts_with("HTTP/1.1 200 "));
}

/// Sends a request that does not ask for the end of the connection.
fn request(mut stream: &TcpStream, headers: &str) {
    let head = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
}

#[test]
fn a_refusal_ends_the_connection() {
    let (address, _server) = serve(samples);
    for request in [
        "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        "GET /metrics HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n",
        "GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ] {
        let answer = ask(address, request.as_bytes());
        // For HTTP/1.0, the library adds the option that the request asks for; the connection ends
        // nevertheless.
        assert!(answer.contains("\r\nconnection: close"), "{request}: {answer}");
    }
    let (address, _server) = serve_beyond_loopback(samples);
    let stream = connect(address);
    request(&stream, "");
    let mut answer = String::new();
    (&stream).read_to_string(&mut answer).expect("an answer, and an end");
    assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("\r\nconnection: close\r\n"), "{answer}");
}

#[test]
fn strangers_do_not_keep_readers_out() {
    let (address, _server) = serve_beyond_loopback(samples);
    let scrape = || {
        let request = format!("{GET}Authorization: Bearer {TOKEN}\r\n\r\n");
        ask(address, request.as_bytes())
    };
    let mut strangers = Vec::new();
    for _ in 0..20 {
        // More connections of each kind than there are places. The server accepts connections in their order,
        // so the scrape comes after them.
        for _ in 0..20 {
            let (silent, slow, refused) = (connect(address), connect(address), connect(address));
            // If the server has closed the connection meanwhile, the write fails.
            let _ = (&slow).write_all(b"GET /metrics HTTP/1.1\r\nHost: ");
            let _ = (&refused).write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
            strangers.extend([silent, slow, refused]);
        }
        let answer = scrape();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
}

/// The status of the next answer of a connection.
fn status(mut stream: &TcpStream) -> Option<String> {
    let mut start = [0; 12];
    stream.read_exact(&mut start).ok()?;
    Some(String::from_utf8_lossy(&start[9..]).into_owned())
}

/// Whether the connection is still open. Skips the bytes that the server has sent.
fn is_open(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket");
    loop {
        match (&mut &*stream).read(&mut [0; 4096]) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}

#[test]
fn readers_beyond_the_limit_are_told_so() {
    let (address, _server) = serve(samples);
    loop {
        let open: Vec<_> = (0..16).map(|_| connect(address)).collect();
        for stream in &open {
            request(stream, "");
            assert_eq!(status(stream).as_deref(), Some("200"));
        }
        let answer = get(address, "/metrics");
        // The server closes connections without a request after a while. If the test was suspended for so
        // long, this attempt proves nothing.
        if open.iter().all(is_open) {
            assert!(
                answer.starts_with("HTTP/1.1 503 ") && answer.contains("too many connections"),
                "{answer}"
            );
            break;
        }
    }
    // There is room again as soon as the server has noticed that the connections are closed.
    while !get(address, "/metrics").starts_with("HTTP/1.1 200 ") {}
}

#[test]
fn requests_before_there_are_values_are_told_so() {
    let endpoint = Endpoint::bind("127.0.0.1:0".parse().expect("an address"), None).expect("a port");
    let address = endpoint.address();
    let server = endpoint.open().expect("a thread");
    for path in ["/metrics", "/live"] {
        let answer = get(address, path);
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("no values yet"), "{answer}");
    }
    assert!(get(address, "/other").starts_with("HTTP/1.1 404 "));
    server.show(Arc::new(Fixed(samples)));
    assert!(get(address, "/metrics").starts_with("HTTP/1.1 200 "));
}
