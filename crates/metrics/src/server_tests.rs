//! Tests of deadlines, with a clock that stands still while any task can run.

use super::*;
use crate::metric::{Metric, Sample};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::Instant;

struct Nothing;

impl Source for Nothing {
    fn catalogue(&self) -> Vec<&'static Metric> {
        Vec::new()
    }

    fn labels(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn read(&self) -> Vec<Sample> {
        Vec::new()
    }

    fn describe(&self) -> serde_json::Map<String, serde_json::Value> {
        serde_json::Map::new()
    }
}

/// A client that is served. When the server stops serving it, the sender is dropped.
fn served() -> (DuplexStream, oneshot::Receiver<()>) {
    let loopback: SocketAddr = "127.0.0.1:80".parse().expect("an address");
    let guard = Guard::of(loopback, None).expect("no token is needed");
    let source: Shown = Arc::default();
    *lock(&source) = Some(Arc::new(Nothing));
    let visitor = Arc::new(Visitors::new(1, 1)).enter(loopback.ip());
    // The buffer is so small that no answer fits.
    let (client, stream) = tokio::io::duplex(64);
    let (end, ended) = oneshot::channel();
    tokio::spawn(async move {
        serve(stream, visitor, Arc::new(Answers { guard, source })).await;
        drop(end);
    });
    (client, ended)
}

/// How long the server serves a client that sends a request and does not read the answer.
async fn lives(request: &str) -> Duration {
    let since = Instant::now();
    let (mut client, ended) = served();
    client.write_all(request.as_bytes()).await.expect("sent");
    let _ = ended.await;
    since.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_stranger_is_soon_gone_whatever_it_does() {
    let soon = STRANGER_WITHIN..STRANGER_WITHIN + Duration::from_secs(1);
    for request in
        ["", "GET /metrics HTTP/1.1\r\nHost: ", "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n"]
    {
        let lives = lives(request).await;
        assert!(soon.contains(&lives), "{request}: {lives:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_may_stay_longer_but_not_for_ever() {
    let lives = lives("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(lives > READER_WITHIN && lives < READER_WITHIN + 2 * STRANGER_WITHIN, "{lives:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_must_leave_is_gone_at_once() {
    let (visitors, since) = (Arc::new(Visitors::new(1, 1)), Instant::now());
    let loopback: SocketAddr = "127.0.0.1:80".parse().expect("an address");
    let answers =
        Answers { guard: Guard::of(loopback, None).expect("no token is needed"), source: Arc::default() };
    let (mut client, stream) = tokio::io::duplex(64);
    let serving = tokio::spawn(serve(stream, visitors.enter(loopback.ip()), Arc::new(answers)));
    let _next = visitors.enter(loopback.ip());
    serving.await.expect("no panic");
    assert_eq!(client.read(&mut [0]).await.expect("the end"), 0);
    assert_eq!(since.elapsed(), Duration::ZERO);
}

/// A hidden source is dropped, so that a node frees its memory when its cluster has ended.
#[tokio::test(start_paused = true)]
async fn a_source_can_be_hidden_and_another_one_shown() {
    let server = Server { source: Arc::default(), stop: None, thread: None };
    let status = async || {
        let loopback: SocketAddr = "127.0.0.1:80".parse().expect("an address");
        let guard = Guard::of(loopback, None).expect("no token is needed");
        let visitor = Arc::new(Visitors::new(1, 1)).enter(loopback.ip());
        let (mut client, stream) = tokio::io::duplex(4096);
        let answers = Answers { guard, source: Arc::clone(&server.source) };
        tokio::spawn(serve(stream, visitor, Arc::new(answers)));
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        client.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("answered");
        answer[9..12].to_owned()
    };
    assert_eq!(status().await, "503");
    for _ in 0..2 {
        let source: Arc<dyn Source> = Arc::new(Nothing);
        let held = Arc::downgrade(&source);
        server.show(source);
        assert_eq!(status().await, "200");
        server.hide();
        assert!(held.upgrade().is_none(), "it is not needed any more");
        assert_eq!(status().await, "503");
    }
}
