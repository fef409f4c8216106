//! A dashboard in this process, and a client that can send any bytes.

use intendant_dashboard::{Dashboard, Settings};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// No answer takes that long; a test that waits fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Status, headers in lower case, body.
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Why the request was refused.
    pub(crate) fn error(&self) -> String {
        self.json()["error"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }
}

impl Server {
    pub(crate) fn start(settings: Settings) -> Self {
        let settings = Settings { listen: "127.0.0.1:0".to_owned(), ..settings };
        let (end, ended) = oneshot::channel();
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let dashboard = Dashboard::bind(settings).await.unwrap();
                tell.send(dashboard.address()).unwrap();
                dashboard.serve(async { drop(ended.await) }).await;
            });
        });
        Self { address: told.recv_timeout(PATIENCE).unwrap(), end: Some(end), thread: Some(thread) }
    }

    /// Sends bytes, and reads until the server closes the connection.
    pub(crate) fn send(&self, request: &[u8]) -> Response {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // A server that refuses an upload closes before it has read everything.
        let _ = stream.write_all(request);
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(bytes.len());
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let body = bytes.get(end + 4..).unwrap_or_default().to_vec();
        Response { status, head, body }
    }

    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Response {
        let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            request.push_str(&format!("Host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            request.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        request.push_str("\r\n");
        self.send(&[request.as_bytes(), body].concat())
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        self.request("GET", path, &[], &[])
    }

    /// The answer to a question, which must succeed.
    pub(crate) fn json(&self, path: &str) -> Value {
        let response = self.get(path);
        assert_eq!(response.status, 200, "{path}: {}", response.text());
        response.json()
    }

    /// Uploads files, by name.
    pub(crate) fn upload(&self, files: &[(&str, &[u8])]) -> Response {
        let head = files.iter().map(|(name, content)| json!({ "name": name, "bytes": content.len() }));
        let head = Value::Array(head.collect()).to_string();
        let contents = files.iter().flat_map(|(_, content)| content.iter().copied());
        let body: Vec<u8> = head.bytes().chain([b'\n']).chain(contents).collect();
        self.request("POST", "/api/upload", &[], &body)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server has panicked");
        }
    }
}
