//! The HTTP server: a thread that ends with the run.
//!
//! It answers only `GET` requests for two paths, within small limits. Whatever clients send to its port, it
//! must not slow the training noticeably.

use crate::guard::Guard;
use crate::metric::Source;
use crate::visitors::{Visitor, Visitors};
use crate::{json, text};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

/// The most connections at a time that have brought no request that is answered. To admit a further one, the
/// server closes one of them.
const STRANGERS_MAX: usize = 16;

/// The most connections at a time that have brought such a request. A further one is refused.
const READERS_MAX: usize = 16;

/// The most bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// The most headers of a request.
const HEADERS_MAX: usize = 64;

/// How long the head of a request may take to arrive.
const HEAD_WITHIN: Duration = Duration::from_secs(5);

/// How long a source may take to provide its values.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// How long a connection may live without a request that is answered.
const STRANGER_WITHIN: Duration = Duration::from_secs(5);

/// How much longer a connection with such a request may live, however many requests it brings.
const READER_WITHIN: Duration = Duration::from_secs(300);

/// A pause after an error of the listening socket, such as too many open files.
const ERROR_PAUSE: Duration = Duration::from_millis(200);

/// Why there is no endpoint.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The address is not on the loopback interface, and there is no token.
    #[error("{address} can be reached from other machines, and there is no token that keeps strangers out")]
    NoToken {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be bound.
    #[error("cannot listen at {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The operating system did not provide a thread, or a resource that the thread needs.
    #[error("cannot start a server: {0}")]
    Start(#[from] io::Error),
}

/// An address that is bound, and answers once it is [opened](Endpoint::open) or [served](Endpoint::serve).
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
    guard: Guard,
}

impl Endpoint {
    /// Binds an address. If it is not a loopback address, requests must bring the token.
    ///
    /// # Errors
    /// See [`EndpointError`].
    pub fn bind(
        address: SocketAddr,
        token: Option<&intendant_transport::Token>,
    ) -> Result<Self, EndpointError> {
        let guard = Guard::of(address, token).ok_or(EndpointError::NoToken { address })?;
        let bound = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, listener))
        });
        let (address, listener) = bound.map_err(|source| EndpointError::Bind { address, source })?;
        Ok(Self { listener, address, guard })
    }

    /// The address, with the port that the operating system chose.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests on a thread of its own, until the server is dropped.
    ///
    /// # Errors
    /// [`EndpointError::Start`].
    pub fn serve(self, source: Arc<dyn Source>) -> Result<Server, EndpointError> {
        let server = self.open()?;
        server.show(source);
        Ok(server)
    }

    /// Answers requests on a thread of its own, until the server is dropped. While the server has no source
    /// to [show](Server::show), it answers with status 503.
    ///
    /// # Errors
    /// [`EndpointError::Start`].
    pub fn open(self) -> Result<Server, EndpointError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            // One thread for a reading, and one for a reading that is stuck.
            .max_blocking_threads(2)
            .thread_name("metrics-reader")
            .build()?;
        let Self { listener, guard, .. } = self;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let source = Arc::default();
        let answers = Arc::new(Answers { guard, source: Arc::clone(&source) });
        let thread = std::thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    // The sender was dropped.
                    _ = stopped => {}
                    () = accept(listener, answers) => {}
                }
            });
            // Readings that hang are left behind.
            runtime.shutdown_background();
        })?;
        Ok(Server { source, stop: Some(stop), thread: Some(thread) })
    }
}

/// The source that the server shows, if there is one.
type Shown = Arc<Mutex<Option<Arc<dyn Source>>>>;

fn lock(shown: &Shown) -> MutexGuard<'_, Option<Arc<dyn Source>>> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running server; it ends when it is dropped.
pub struct Server {
    source: Shown,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// From now on, requests are answered with the values of this source.
    pub fn show(&self, source: Arc<dyn Source>) {
        self.replace(Some(source));
    }

    /// From now on, requests are answered with status 503 again, until there is another source to
    /// [show](Self::show). Readings that are under way end with the values of the previous source.
    pub fn hide(&self) {
        self.replace(None);
    }

    fn replace(&self, source: Option<Arc<dyn Source>>) {
        let last = std::mem::replace(&mut *lock(&self.source), source);
        // This may free much memory. The lock is already released, so requests need not wait.
        drop(last);
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("has_source", &lock(&self.source).is_some()).finish_non_exhaustive()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, it has already reported the panic.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: tokio::net::TcpListener, answers: Arc<Answers>) {
    let visitors = Arc::new(Visitors::new(STRANGERS_MAX, READERS_MAX));
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!("metrics: a connection failed: {error}");
                tokio::time::sleep(ERROR_PAUSE).await;
                continue;
            }
        };
        tokio::spawn(serve(stream, visitors.enter(from.ip()), Arc::clone(&answers)));
    }
}

/// Answers the requests of a connection, until it ends, is too old or must leave.
async fn serve<S>(stream: S, visitor: Visitor, answers: Arc<Answers>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let visitor = Arc::new(visitor);
    let service = service_fn(|request| {
        let (visitor, answers) = (Arc::clone(&visitor), Arc::clone(&answers));
        async move { Ok::<_, Infallible>(answers.answer(&request, &visitor).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let lives = async {
        let is_over = tokio::time::timeout(STRANGER_WITHIN, &mut connection).await.is_ok();
        if !is_over && visitor.is_reader() {
            let _ = tokio::time::timeout(READER_WITHIN, &mut connection).await;
        }
    };
    // A client that breaks the protocol or the limits gets an error from the library, or no answer.
    tokio::select! {
        () = visitor.sent_away() => {}
        () = lives => {}
    }
}

/// The source of the answers, and the guard that decides which requests get one.
struct Answers {
    guard: Guard,
    source: Shown,
}

/// Encodes the values in a format; `None` if they cannot be encoded.
type Encode = fn(&dyn Source) -> Option<String>;

const JSON: &str = "application/json";
const PLAIN: &str = "text/plain; charset=utf-8";

impl Answers {
    async fn answer(&self, request: &Request<Incoming>, visitor: &Visitor) -> Response<Full<Bytes>> {
        let mut response = self.respond(request, visitor).await;
        // A refused request ends its connection.
        if response.status() != StatusCode::OK {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    async fn respond(&self, request: &Request<Incoming>, visitor: &Visitor) -> Response<Full<Bytes>> {
        if let Err(refusal) = self.guard.check(request) {
            let mut response = plain(refusal.status(), refusal.text());
            if refusal.status() == StatusCode::UNAUTHORIZED {
                self.guard.asks().for_each(|way| {
                    response.headers_mut().append(WWW_AUTHENTICATE, way);
                });
            }
            return response;
        }
        if request.method() != Method::GET {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
            return response;
        }
        let (encode, media_type): (Encode, _) = match request.uri().path() {
            "/metrics" => (|source| text::encode(source).ok(), text::MEDIA_TYPE),
            "/live" => (|source| Some(json::encode(source)), JSON),
            _ => {
                return plain(StatusCode::NOT_FOUND, "there are /metrics (Prometheus) and /live (JSON)\n");
            }
        };
        let Some(source) = lock(&self.source).clone() else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "there are no values yet: ask again later\n");
        };
        if !visitor.is_welcome() {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "too many connections read the values already\n");
        }
        values(source, encode, media_type).await
    }
}

/// The answer with the values in a format.
async fn values(source: Arc<dyn Source>, encode: Encode, media_type: &'static str) -> Response<Full<Bytes>> {
    let reading = tokio::task::spawn_blocking(move || encode(&*source));
    match tokio::time::timeout(ANSWER_WITHIN, reading).await {
        Ok(Ok(Some(text))) => respond(StatusCode::OK, media_type, text.into()),
        // The thread panicked and has reported it, or a sample is of another kind than its metric.
        Ok(Ok(None) | Err(_)) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the values cannot be read\n"),
        Err(_) => plain(StatusCode::SERVICE_UNAVAILABLE, "the values could not be read in time\n"),
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    respond(status, PLAIN, Bytes::from_static(text.as_bytes()))
}

fn respond(status: StatusCode, media_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
