//! Mutual TLS: the files of a node, and the handshake on a connection that is established.
//!
//! Both planes use this module, so that both make the same checks and report failures in the same words. Each
//! side verifies that the other's certificate is signed by the authority, is valid now and carries the name
//! [`TLS_NAME`]. The name is the same for all nodes, and no address is verified: nodes are dialled by
//! addresses that launchers choose, and the authority decides who is a node.
//!
//! TLS 1.3 only, without resumption: connections of a cluster last as long as the cluster. No process-wide
//! provider of cryptography is installed.

mod error;
mod files;
mod peers;
mod server;

pub use error::TlsError;
pub use files::{TLS_NAME, TlsFileError, TlsFiles};
pub use server::ServerTls;

use error::of_io;
use peers::NamedPeers;
use rustls::client::Resumption;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, Connection, RootCertStore, ServerConfig};
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::either::Either;

/// The acceptor's first byte after the handshake. In TLS 1.3 a dialler ends the handshake before the acceptor
/// has verified the dialler's certificate; this byte tells the dialler that it is accepted.
const WELCOME: u8 = b'I';

/// The first byte of every TLS connection: a record with a handshake message.
const RECORD_HANDSHAKE: u8 = 0x16;

/// The first byte of a TLS alert.
const RECORD_ALERT: u8 = 0x15;

/// The answer to a dialler that does not use TLS: a fatal alert (unsupported version) that every TLS library
/// understands, padded to the length of a verdict.
const NOT_WITHOUT_TLS: [u8; 24] = {
    let mut bytes = [0; 24];
    let alert = [RECORD_ALERT, 3, 3, 0, 2, 2, 70];
    let mut at = 0;
    while at < alert.len() {
        bytes[at] = alert[at];
        at += 1;
    }
    bytes
};

/// The answer to a dialler that uses TLS where this node does not: no TLS record begins like this.
const NO_TLS_HERE: &[u8] = b"INTENDNT: no TLS here\n";

/// Bytes that a refused dialler may still send before the connection is closed, and the time for that.
/// Closing with bytes unread resets the connection, and the dialler may then not read why it is refused.
const LEFTOVER_BYTES_MAX: u64 = 64 << 10;
const LEFTOVER: Duration = Duration::from_secs(1);

/// What a node needs for TLS connections: its certificate, its key and the authority of the cluster.
#[derive(Clone)]
pub struct Tls {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
    files: Arc<TlsFiles>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files, and verifies this node's certificate as its peers will. The call blocks.
    ///
    /// # Errors
    /// See [`TlsFileError`]; each names the file.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsFileError> {
        let provider = Arc::new(provider());
        let chain = files.chain()?;
        let roots = Arc::new(files.roots()?);
        let servers = rustls::client::WebPkiServerVerifier::builder_with_provider(
            Arc::clone(&roots),
            Arc::clone(&provider),
        )
        .build()
        .map_err(|error| files.unusable_authority(&error))?;
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
            .build()
            .map_err(|error| files.unusable_authority(&error))?;
        let name = name();
        verify(&chain, servers.as_ref(), clients.as_ref(), &name)
            .map_err(|error| files.unusable_certificate(&error))?;
        let versions = &[&TLS13];
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(|error| files.unusable_certificate(&error))?
            .with_root_certificates(RootCertStore::clone(&roots))
            .with_client_auth_cert(chain.clone(), files.key()?)
            .map_err(|error| files.unusable_key(&error))?;
        client.resumption = Resumption::disabled();
        let clients = Arc::new(NamedPeers { verifier: clients, name });
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(|error| files.unusable_certificate(&error))?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, files.key()?)
            .map_err(|error| files.unusable_key(&error))?;
        server.send_tls13_tickets = 0;
        Ok(Self {
            connector: Arc::new(client).into(),
            acceptor: Arc::new(server).into(),
            files: Arc::new(files.clone()),
        })
    }

    /// The handshake of a dialler. It ends when the acceptor has accepted this node's certificate.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub async fn connect(&self, stream: TcpStream) -> Result<TlsStream, TlsError> {
        let connected = async {
            let mut stream = self.connector.connect(name(), stream).await?;
            let mut welcome = [0];
            stream.read_exact(&mut welcome).await?;
            match welcome {
                [WELCOME] => Ok(TlsStream(Box::new(stream.into()))),
                _ => Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a node of a cluster")),
            }
        };
        connected.await.map_err(|error| of_io(error, &self.files))
    }

    /// The handshake of an acceptor.
    async fn accept(&self, stream: TcpStream) -> Result<TlsStream, TlsError> {
        match self.acceptor.accept(stream).into_fallible().await {
            Ok(mut stream) => {
                let welcomed = async {
                    stream.write_all(&[WELCOME]).await?;
                    stream.flush().await
                };
                welcomed.await.map_err(|error| of_io(error, &self.files))?;
                Ok(TlsStream(Box::new(stream.into())))
            }
            Err((error, stream)) => {
                part(stream, &[]).await;
                Err(of_io(error, &self.files))
            }
        }
    }
}

/// A connection that was accepted: without TLS on a node that has none, with it on a node that has it.
pub type Admitted = Either<TcpStream, TlsStream>;

/// Waits for the first byte of a dialler, and performs the handshake if this node uses TLS. A dialler that
/// uses TLS where this node does not, or the other way round, gets an answer that it recognises.
///
/// The caller bounds the time.
///
/// # Errors
/// See [`TlsError`].
pub async fn admit(stream: TcpStream, tls: Option<&Tls>) -> Result<Admitted, TlsError> {
    let mut first = [0];
    if stream.peek(&mut first).await.map_err(TlsError::Io)? == 0 {
        return Err(TlsError::Io(io::ErrorKind::UnexpectedEof.into()));
    }
    match (tls, first == [RECORD_HANDSHAKE]) {
        (None, false) => Ok(Either::Left(stream)),
        (Some(tls), true) => tls.accept(stream).await.map(Either::Right),
        (Some(_), false) => {
            part(stream, &NOT_WITHOUT_TLS).await;
            Err(TlsError::PlainPeer)
        }
        (None, true) => {
            part(stream, NO_TLS_HERE).await;
            Err(TlsError::TlsPeer)
        }
    }
}

/// Whether this first byte of an acceptor's answer to a dialler without TLS shows that the acceptor uses TLS.
pub fn is_tls_answer(first: u8) -> bool {
    matches!(first, RECORD_ALERT | RECORD_HANDSHAKE)
}

/// Sends a last message, and closes the connection such that the other side can read it.
async fn part(mut stream: TcpStream, last: &[u8]) {
    let farewell = async {
        stream.write_all(last).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(LEFTOVER_BYTES_MAX), &mut tokio::io::sink()).await
    };
    // Whatever the result, the connection is closed afterwards.
    let _ = timeout(LEFTOVER, farewell).await;
}

/// AES-128-GCM first: it is the fastest where processors have instructions for AES.
fn provider() -> CryptoProvider {
    use ring::cipher_suite::{
        TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
    };
    let suites = vec![TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256];
    CryptoProvider { cipher_suites: suites, ..ring::default_provider() }
}

fn name() -> ServerName<'static> {
    ServerName::try_from(TLS_NAME).expect("it is a valid DNS name")
}

/// Verifies a node's certificate for both sides of a connection: a node dials some peers and accepts others.
fn verify(
    chain: &[CertificateDer<'_>],
    servers: &dyn ServerCertVerifier,
    clients: &dyn ClientCertVerifier,
    name: &ServerName<'_>,
) -> Result<(), rustls::Error> {
    let Some((own, others)) = chain.split_first() else {
        return Err(rustls::Error::NoCertificatesPresented);
    };
    let now = UnixTime::now();
    servers.verify_server_cert(own, others, name, &[], now)?;
    clients.verify_client_cert(own, others, now)?;
    Ok(())
}

/// A TLS connection over TCP.
#[derive(Debug)]
pub struct TlsStream(Box<tokio_rustls::TlsStream<TcpStream>>);

impl TlsStream {
    /// The TCP connection below.
    pub fn tcp(&self) -> &TcpStream {
        self.0.get_ref().0
    }

    /// The TCP connection below, and the state of TLS.
    pub(crate) fn into_parts(self) -> (TcpStream, Connection) {
        match *self.0 {
            tokio_rustls::TlsStream::Client(stream) => {
                let (stream, session) = stream.into_inner();
                (stream, session.into())
            }
            tokio_rustls::TlsStream::Server(stream) => {
                let (stream, session) = stream.into_inner();
                (stream, session.into())
            }
        }
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(cx)
    }
}
