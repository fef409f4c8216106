//! A server and its clients, with and without TLS.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use intendant_apptest::{Authority, Certificate, NodeFiles};
use intendant_transport::ServerTls;
use intendant_web::{BindError, Guest, Limits, Service, bind, serve};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;

const LIMITS: Limits = Limits { connections: 8, end_within: Duration::from_secs(60) };

/// Answers with the path.
#[derive(Clone)]
struct Echo;

impl Service for Echo {
    type Body = Full<Bytes>;

    async fn answer(&self, request: Request<Incoming>, guest: Arc<Guest>) -> Response<Full<Bytes>> {
        let _answering = guest.answering();
        Response::new(Full::new(request.uri().path().to_owned().into()))
    }
}

/// Asks for a path, and reads to the end of the connection.
async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str) -> io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// Serves while `clients` run.
async fn with_server<F: Future<Output = ()>>(tls: Option<ServerTls>, clients: impl FnOnce(SocketAddr) -> F) {
    let (listener, address) = bind("127.0.0.1:0", false).await.unwrap();
    let (end, ended) = oneshot::channel::<()>();
    let server = tokio::spawn(serve(listener, LIMITS, tls, Echo, async { drop(ended.await) }));
    clients(address).await;
    drop(end);
    server.await.unwrap();
}

fn connector(files: &NodeFiles) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&files.ca).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(config.with_root_certificates(roots).with_no_client_auth()).into()
}

#[tokio::test]
async fn clients_without_certificates_speak_tls_and_others_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let files = Authority::new().issue(folder.path(), "server", Certificate::Good);
    let tls = ServerTls::load(&files.cert, &files.key).unwrap();
    with_server(Some(tls), async |address| {
        let name = ServerName::try_from("intendant").unwrap();
        // More silent clients than places, which do not even begin to encrypt.
        let mut silent = Vec::new();
        for _ in 0..3 * LIMITS.connections {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let stream = TcpStream::connect(address).await.unwrap();
        let stream = connector(&files).connect(name.clone(), stream).await.unwrap();
        let answer = ask(stream, "/encrypted").await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\n/encrypted"), "{answer}");
        // In plain text, there is no answer; nor for a client that trusts another authority.
        let plain = ask(TcpStream::connect(address).await.unwrap(), "/").await.unwrap_or_default();
        assert!(!plain.contains("HTTP/1.1 200"), "{plain}");
        let other = Authority::new().issue(folder.path(), "other", Certificate::Good);
        let stream = TcpStream::connect(address).await.unwrap();
        assert!(connector(&other).connect(name, stream).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn files_that_do_not_fit_to_each_other_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let [one, other] = ["one", "other"].map(|name| authority.issue(folder.path(), name, Certificate::Good));
    let refused = |cert, key| ServerTls::load(cert, key).unwrap_err().to_string();
    assert!(refused(&one.cert, &other.key).contains("does not belong to the certificate"));
    assert!(refused(&one.key, &one.key).contains("contains no certificate"));
    assert!(refused(&one.cert, &one.cert).contains("contains no private key"));
    assert!(refused(&folder.path().join("none"), &one.key).contains("cannot read"));
}

#[tokio::test]
async fn addresses_that_others_reach_need_a_token() {
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let refused = bind(listen, false).await.unwrap_err();
        assert!(matches!(refused, BindError::Open { .. }), "{refused}");
        assert!(refused.to_string().contains("--token-file"), "{refused}");
    }
    assert!(bind("0.0.0.0:0", true).await.is_ok());
    let (_taken, address) = bind("127.0.0.1:0", false).await.unwrap();
    let refused = bind(&address.to_string(), false).await.unwrap_err();
    assert!(refused.to_string().contains("--listen"), "{refused}");
    assert!(bind("nonsense", false).await.is_err());
    with_server(None, async |address| {
        let answer = ask(TcpStream::connect(address).await.unwrap(), "/plain").await.unwrap();
        assert!(answer.ends_with("/plain"), "{answer}");
    })
    .await;
}
