//! Connections: their number is limited, and none keeps the server waiting.

mod guests;
mod paced;

use bytes::Bytes;
use guests::Guests;
pub use guests::{Answering, Guest};
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use intendant_transport::ServerTls;
use paced::Paced;
use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::time::timeout;

/// How long the headers of a request may take to arrive.
const HEADERS_WITHIN: Duration = Duration::from_secs(15);

/// Pause after a connection could not be accepted: the process has no file descriptors left.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The most bytes of the headers of a request. While this many bytes of answers are unsent, the server does
/// not read pipelined requests, except for one.
const HEADER_BYTES_MAX: usize = 16 << 10;

/// The bounds of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most connections at the same time.
    pub connections: usize,
    /// How long requests under way may take when the server ends.
    pub end_within: Duration,
}

/// What answers a request. The connection may make way for another one unless the service holds an
/// [`Answering`] of the guest, or the peer has not yet taken an answer.
pub trait Service: Clone + Send + Sync + 'static {
    /// The body of an answer.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static;

    /// Answers a request.
    fn answer(
        &self,
        request: Request<Incoming>,
        guest: Arc<Guest>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;
}

/// Serves connections until `end`, and then the requests under way. With `tls`, connections are encrypted.
pub async fn serve(
    listener: TcpListener,
    limits: Limits,
    tls: Option<ServerTls>,
    service: impl Service,
    end: impl Future<Output = ()>,
) {
    let (graceful, guests) = (GracefulShutdown::new(), Arc::new(Guests::new(limits.connections)));
    let mut end = std::pin::pin!(end);
    loop {
        let accepted = async {
            let (stream, address) = listener.accept().await?;
            std::io::Result::Ok((stream, guests.enter(address.ip()).await))
        };
        let (stream, guest) = tokio::select! {
            () = &mut end => break,
            accepted = accepted => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                    continue;
                }
            },
        };
        // Answers are small, and each is written at once.
        let _ = stream.set_nodelay(true);
        let (service, watcher, asked) = (service.clone(), graceful.watcher(), Arc::clone(&guest));
        let (guests, tls) = (Arc::clone(&guests), tls.clone());
        let connection = async move {
            let Some(tls) = tls else {
                return connection(stream, service, watcher, asked).await.map_err(|error| error.to_string());
            };
            let shaken = timeout(HEADERS_WITHIN, tls.accept(stream)).await;
            let stream = shaken.map_err(|_| "no TLS handshake in time".to_owned())?;
            let stream = stream.map_err(|error| format!("no TLS handshake: {error}"))?;
            connection(stream, service, watcher, asked).await.map_err(|error| error.to_string())
        };
        tokio::spawn(async move {
            tokio::select! {
                served = connection => if let Err(error) = served {
                    tracing::debug!("a connection has ended: {error}");
                },
                () = guest.leaves() => tracing::debug!("a silent connection makes way for another one"),
            }
            guests.leave(&guest);
        });
    }
    drop(listener);
    let _ = timeout(limits.end_within, graceful.shutdown()).await;
}

/// Serves one connection to its end.
fn connection(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    service: impl Service,
    watcher: Watcher,
    guest: Arc<Guest>,
) -> impl Future<Output = hyper::Result<()>> {
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN).max_buf_size(HEADER_BYTES_MAX);
    let asked = Arc::clone(&guest);
    let service = service_fn(move |request| {
        let (service, guest) = (service.clone(), Arc::clone(&asked));
        async move { Ok::<_, Infallible>(service.answer(request, guest).await) }
    });
    watcher.watch(server.serve_connection(TokioIo::new(Paced::new(stream, guest)), service))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    const ANSWER: usize = 1 << 20;

    /// Counts the requests, and answers each with the same bytes.
    #[derive(Clone)]
    struct Counting(Arc<AtomicUsize>);

    impl Service for Counting {
        type Body = Full<Bytes>;

        async fn answer(&self, _request: Request<Incoming>, _guest: Arc<Guest>) -> Response<Full<Bytes>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Response::new(Full::new(vec![b'x'; ANSWER].into()))
        }
    }

    fn router(answered: &Arc<AtomicUsize>) -> Counting {
        Counting(Arc::clone(answered))
    }

    fn guest() -> Arc<Guest> {
        Guest::new(std::net::Ipv4Addr::LOCALHOST.into(), &Arc::default())
    }

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_peer_does_not_read_ends_and_its_further_requests_are_not_answered() {
        let (answered, graceful) = (Arc::default(), GracefulShutdown::new());
        let (mut client, server) = duplex(64 << 10);
        client.write_all(&REQUEST.repeat(100)).await.unwrap();
        let served = connection(server, router(&answered), graceful.watcher(), guest());
        // Time passes when nothing else happens.
        let ended = tokio::time::timeout(Duration::from_secs(3600), served).await;
        assert!(ended.expect("the connection ends").is_err());
        assert!(answered.load(Ordering::Relaxed) <= 2, "{answered:?}");
        drop(client);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_slowly_gets_its_answer() {
        let (answered, graceful) = (Arc::default(), GracefulShutdown::new());
        let (mut client, server) = duplex(16 << 10);
        client.write_all(REQUEST).await.unwrap();
        let served = tokio::spawn(connection(server, router(&answered), graceful.watcher(), guest()));
        let (mut got, mut buffer) = (0, vec![0; 16 << 10]);
        while got < ANSWER {
            // Some 8 kB per second.
            tokio::time::sleep(Duration::from_secs(2)).await;
            let read = client.read(&mut buffer).await.unwrap();
            assert!(read > 0, "the connection ended after {got} bytes");
            got += read;
        }
        drop(client);
        assert!(served.await.is_ok());
    }
}
