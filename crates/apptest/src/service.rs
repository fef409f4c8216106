//! A program that answers over HTTP, and a client that can send any bytes.

use crate::process::{App, finish, start};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::time::Duration;

/// No answer takes that long; a test that waits fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(120);

/// A service of an application, as a process.
#[derive(Debug)]
pub struct Service {
    process: Option<Child>,
    /// What it has printed: its address, with the scheme.
    pub printed: String,
    /// Its host and port.
    pub address: String,
}

/// Status, headers in lower case, body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status; 0 if there was no answer.
    pub status: u16,
    /// The first line and the headers.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// The body, which must be JSON.
    ///
    /// # Panics
    /// If it is not.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Why the request was refused.
    ///
    /// # Panics
    /// If the answer does not say it.
    #[must_use]
    #[track_caller]
    pub fn error(&self) -> String {
        self.json()["error"].as_str().unwrap_or_else(|| panic!("no reason: {}", self.text())).to_owned()
    }

    /// A header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

impl Service {
    /// Starts `serve` of a program, and waits until it answers: on a port of 127.0.0.1, unless `flags` say
    /// otherwise.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    #[track_caller]
    pub fn start(app: App, flags: &[&str]) -> Self {
        let listen: &[&str] = if flags.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
        let mut process = start(app.command(&[&["serve"], listen, flags].concat()));
        let mut printed = String::new();
        let out = process.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut printed).expect("its output");
        if printed.is_empty() {
            let output = finish(process);
            panic!("it has ended: {}", String::from_utf8_lossy(&output.stderr));
        }
        let address = printed.split('/').nth(2).expect("an address").trim().to_owned();
        Self { process: Some(process), printed, address }
    }

    /// A new connection.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        stream
    }

    /// Sends bytes, and reads until the service closes the connection.
    #[must_use]
    pub fn send(&self, bytes: &[u8]) -> Response {
        let mut stream = self.connect();
        // A service that refuses a request closes before it has read everything.
        let _ = stream.write_all(bytes);
        answer(stream)
    }

    /// Sends a request by itself.
    #[must_use]
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        self.send(&[self.head(method, path, headers, body.len()).as_bytes(), body].concat())
    }

    /// The head of a request, after which the service closes the connection.
    #[must_use]
    pub fn head(&self, method: &str, path: &str, headers: &[(&str, &str)], length: usize) -> String {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head += &format!("Host: {}\r\n", self.address);
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if length > 0 {
            head += &format!("Content-Length: {length}\r\n");
        }
        head + "\r\n"
    }

    /// The answer to a GET.
    #[must_use]
    pub fn get(&self, path: &str) -> Response {
        self.request("GET", path, &[], &[])
    }

    /// The answer to a POST of JSON.
    #[must_use]
    pub fn post(&self, path: &str, body: &Value) -> Response {
        self.request("POST", path, &[("Content-Type", "application/json")], body.to_string().as_bytes())
    }

    /// The answer to a question, or to a list of them, which must succeed.
    ///
    /// # Panics
    /// If it does not.
    #[must_use]
    #[track_caller]
    pub fn ask(&self, path: &str, body: &Value) -> Value {
        let response = self.post(path, body);
        assert_eq!(response.status, 200, "{path} {body}: {}", response.text());
        response.json()
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// If it has ended.
    pub fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().expect("it lives");
        kill_process(Pid::from_child(process), signal).expect("it lives");
    }

    /// Ends it by SIGTERM. Returns its exit code, and what it wrote to standard error.
    ///
    /// # Panics
    /// If it has ended by itself, or does not end.
    #[must_use]
    #[track_caller]
    pub fn end(self) -> (Option<i32>, String) {
        self.signal(Signal::TERM);
        self.ended()
    }

    /// Waits for its end. Returns its exit code, and what it wrote to standard error.
    ///
    /// # Panics
    /// If it does not end.
    #[must_use]
    #[track_caller]
    pub fn ended(mut self) -> (Option<i32>, String) {
        let output = finish(self.process.take().expect("it lives"));
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The process has ended, unless the test did not end it.
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Reads an answer, until the service closes the connection.
#[must_use]
pub fn answer(mut stream: TcpStream) -> Response {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(bytes.len());
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Response { status, head, body: bytes.get(end + 4..).unwrap_or_default().to_vec() }
}
