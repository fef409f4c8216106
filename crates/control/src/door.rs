//! Accepts connections for the coordinator, and closes connections that do not show the token.
//!
//! A connection costs a descriptor, and every process that reaches the port can open one. A connection has a
//! few seconds to send a request that passes the check of the token ([`Pass::stamp`]). The number of
//! connections that have not passed it yet is bounded. A new connection replaces the oldest of them, because
//! a node shows its token at once. If descriptors run out nevertheless, new connections are delayed.
//!
//! The server, not this module, checks the token. With TLS, a connection reaches the server once its other
//! end has shown a certificate, for which it has the same time.

use intendant_core::Tick;
use intendant_core::lock;
use intendant_transport::tls::{self, Admitted};
use intendant_transport::{Throttle, Tls};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

/// How long a connection may take to show the token.
const PROBATION: Duration = Duration::from_secs(3);

/// Pause after the system refused to accept: asking again sooner frees no descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections on `listener`, on the caller's runtime, as long as the returned stream is read. At
/// most `strangers_max` of the connections have no stamp.
pub(super) fn open(
    listener: TcpListener,
    tls: Option<Tls>,
    strangers_max: usize,
) -> ReceiverStream<Result<Connection, io::Error>> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(accept(listener, tls, strangers_max, sender));
    ReceiverStream::new(receiver)
}

async fn accept(
    listener: TcpListener,
    tls: Option<Tls>,
    strangers_max: usize,
    sender: mpsc::Sender<Result<Connection, io::Error>>,
) {
    let mut strangers: VecDeque<Stranger> = VecDeque::new();
    let (opened, mut failures) = (tokio::time::Instant::now(), Throttle::default());
    let refusals = Arc::new(Refusals { throttle: Mutex::default(), opened });
    loop {
        let (stream, caller) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(suppressed) = failures.pass(Tick(opened.elapsed().as_micros() as u64)) {
                    tracing::warn!("coordinator: cannot accept a connection: {error}{suppressed}");
                }
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("coordinator: a connection ended at once: {error}");
            continue;
        }
        strangers.retain(|stranger| !stranger.pass.stamped() && !stranger.keep.is_closed());
        if strangers.len() >= strangers_max {
            tracing::debug!(
                "coordinator: {strangers_max} connections have not shown a token; closing the oldest"
            );
            strangers.pop_front();
        }
        let (keep, expelled) = oneshot::channel();
        let pass = Pass(Arc::default());
        strangers.push_back(Stranger { pass: pass.clone(), keep });
        let probation = Probation { over: Box::pin(tokio::time::sleep(PROBATION)), expelled };
        if sender.is_closed() {
            return;
        }
        // Each connection has a task of its own, so that a caller that sends nothing does not delay others.
        let (tls, sender, refusals) = (tls.clone(), sender.clone(), Arc::clone(&refusals));
        tokio::spawn(async move {
            if let Some((wire, probation)) = admit(stream, caller, tls.as_ref(), probation, &refusals).await {
                // The server ends with the process.
                let _ = sender.send(Ok(Connection { wire, pass, probation: Some(probation) })).await;
            }
        });
    }
}

/// Limits the lines about refused connections in the log.
struct Refusals {
    throttle: Mutex<Throttle>,
    opened: tokio::time::Instant,
}

/// Reads the first bytes of a connection, which decide whether it uses TLS. Returns `None` if the connection
/// is refused or takes too long.
async fn admit(
    stream: TcpStream,
    caller: SocketAddr,
    tls: Option<&Tls>,
    mut probation: Probation,
    refusals: &Refusals,
) -> Option<(Admitted, Probation)> {
    let admitted = tokio::select! {
        admitted = tls::admit(stream, tls) => admitted,
        () = &mut probation.over => return None,
        _ = &mut probation.expelled => return None,
    };
    match admitted {
        Ok(admitted) => Some((admitted, probation)),
        Err(error) => {
            let now = Tick(refusals.opened.elapsed().as_micros() as u64);
            // Connections that end by themselves do not use up the lines that refusals may log.
            let pass = if error.is_final() { lock(&refusals.throttle).pass(now) } else { None };
            match pass {
                Some(suppressed) => {
                    tracing::warn!("coordinator: refused a connection from {caller}: {error}{suppressed}");
                }
                None => tracing::debug!("coordinator: a connection from {caller} ended: {error}"),
            }
            None
        }
    }
}

/// A connection's mark that it has shown the token.
#[derive(Clone, Debug)]
pub(super) struct Pass(Arc<AtomicBool>);

impl Pass {
    /// The connection may stay.
    pub(super) fn stamp(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn stamped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The acceptor's side of a connection without a stamp.
struct Stranger {
    pass: Pass,
    /// Dropped to close the connection.
    keep: oneshot::Sender<()>,
}

/// The two reasons to close a connection without a stamp.
struct Probation {
    over: Pin<Box<Sleep>>,
    expelled: oneshot::Receiver<()>,
}

/// A connection that breaks when its time is over and it has no stamp.
pub(super) struct Connection {
    wire: Admitted,
    pass: Pass,
    probation: Option<Probation>,
}

impl Connection {
    /// Fails once the connection must be closed. Called before every read and write that may wait, so that
    /// the server notices.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let Some(probation) = &mut self.probation else { return Ok(()) };
        if self.pass.stamped() {
            self.probation = None;
            return Ok(());
        }
        let Probation { over, expelled } = probation;
        // Both futures may be polled again after the first error. A channel that has delivered its message
        // must not be polled again.
        let expelled = expelled.is_terminated() || Pin::new(expelled).poll(context).is_ready();
        if expelled || over.as_mut().poll(context).is_ready() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the connection did not show a token"));
        }
        Ok(())
    }
}

impl Connected for Connection {
    type ConnectInfo = Pass;

    fn connect_info(&self) -> Pass {
        self.pass.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.wire).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.wire).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.wire).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(context)
    }
}
