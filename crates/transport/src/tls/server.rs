//! TLS of a server whose clients are no nodes: it shows a certificate, and clients need none.

use super::files::{TlsFileError, TlsFiles};
use super::{TlsStream, provider};
use rustls::ServerConfig;
use rustls::version::TLS13;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// The certificate of an HTTP server, and its key.
#[derive(Clone)]
pub struct ServerTls(TlsAcceptor);

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}

impl ServerTls {
    /// Reads the certificate, followed by those between it and its authority, and the key; both in PEM. The
    /// call blocks.
    ///
    /// # Errors
    /// See [`TlsFileError`]; each names the file.
    pub fn load(cert: &Path, key: &Path) -> Result<Self, TlsFileError> {
        // Clients show no certificates, so that no authority is needed to check them.
        let files = TlsFiles { cert: cert.to_owned(), key: key.to_owned(), ca: cert.to_owned() };
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| files.unusable_certificate(&error))?
            .with_no_client_auth()
            .with_single_cert(files.chain()?, files.key()?)
            .map_err(|error| files.unusable_key(&error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config).into()))
    }

    /// The handshake with a client. The caller bounds the time.
    ///
    /// # Errors
    /// If the client ends it, or does not speak TLS 1.3.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream> {
        Ok(TlsStream(Box::new(self.0.accept(stream).await?.into())))
    }
}
