//! Links with TLS over real sockets: the bytes on the wire, and why nodes refuse each other.

use crate::common::{LOOPBACK, PATIENCE, bind, content, identity, next, next_frame, raw_hello};
use bytes::Bytes;
use intendant_apptest::{Authority, Certificate, NodeFiles};
use intendant_core::NodeId;
use intendant_transport::socket::{Listener, Mesh};
use intendant_transport::{
    Address, Fabric, FabricBuilder, FabricEvent, HandshakeError, Tls, TlsError, TlsFiles, Transport,
    TransportError,
};
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn tls_files(files: NodeFiles) -> TlsFiles {
    TlsFiles { cert: files.cert, key: files.key, ca: files.ca }
}

fn good(authority: &Authority, folder: &Path, stem: &str) -> Tls {
    Tls::load(&tls_files(authority.issue(folder, stem, Certificate::Good))).expect("good files")
}

/// Connects two nodes, with TLS or without, and returns the results of their meshes.
async fn pair(
    tls: [Option<Tls>; 2],
    transport: Transport,
    within: Duration,
) -> [Result<Mesh, TransportError>; 2] {
    let [a, b] = tls.map(|tls| bind(transport).with_tls(tls));
    let roster = [a.address(), b.address()];
    let (zero, one) = (identity(0, 2, 1), identity(1, 2, 1));
    let (a, b) = tokio::join!(a.mesh(&zero, &roster, within), b.mesh(&one, &roster, within));
    [a, b]
}

fn fabric(mesh: &mut Mesh) -> Fabric {
    let builder = mesh.take_builders().pop().expect("a channel");
    FabricBuilder::from(builder).finish().expect("in a runtime")
}

#[tokio::test]
async fn frames_of_all_sizes_cross_a_tls_link_in_both_directions() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new();
    let tls = ["a", "b"].map(|stem| Some(good(&authority, folder.path(), stem)));
    let meshes = pair(tls, Transport::Tcp, PATIENCE).await;
    let mut meshes = meshes.map(|mesh| mesh.expect("both are good"));
    assert_eq!(meshes[0].links().tcp, 1);
    let [mut a, mut b] = meshes.each_mut().map(fabric);
    let sizes = [0, 1, 5, 100, 16_379, 16_380, 16_384, 65_536, 70_000, 1_000_000, 3_000_000, 17, 0];
    let rounds = 6;
    let send = |fabric: &mut Fabric, to| {
        for round in 0..rounds {
            for (index, &size) in sizes.iter().enumerate() {
                let mut head = content(u64::from(to), round * 100 + index as u64, size);
                let rest = head.split_off(size / 3);
                fabric.send_parts(NodeId(to), head, rest);
            }
        }
        assert!(fabric.backlog_bytes(NodeId(to)) > 0, "a socket cannot take so much");
        fabric.close();
    };
    send(&mut a, 1);
    send(&mut b, 0);
    let receive = |mut fabric: Fabric, own: u16| async move {
        for round in 0..rounds {
            for (index, &size) in sizes.iter().enumerate() {
                let (from, frame) = next_frame(&mut fabric).await;
                assert_eq!(from, NodeId(1 - own));
                assert!(frame == content(u64::from(own), round * 100 + index as u64, size), "{size} bytes");
            }
        }
        assert!(matches!(next(&mut fabric).await, FabricEvent::Closed { .. }));
        assert!(matches!(next(&mut fabric).await, FabricEvent::Finished));
    };
    tokio::join!(receive(a, 0), receive(b, 1));
}

#[tokio::test]
async fn a_link_carries_tls_records_and_nothing_readable() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new();
    let tls = ["a", "b"].map(|stem| good(&authority, folder.path(), stem));
    let [a, b] = tls.map(|tls| Listener::bind(LOOPBACK, Transport::Tcp).expect("a port").with_tls(Some(tls)));
    // Node 0 dials node 1 through a relay that keeps all bytes.
    let relay = TcpListener::bind(LOOPBACK).await.expect("a port");
    let behind = b.address();
    let detour = [a.address(), Address::from(relay.local_addr().expect("bound"))];
    let roster = [a.address(), behind];
    let relayed = tokio::spawn(async move {
        let (mut dialler, _) = relay.accept().await.expect("node 0 dials");
        let mut acceptor = TcpStream::connect(behind.tcp).await.expect("node 1 listens");
        let ((mut from_a, mut to_a), (mut from_b, mut to_b)) = (dialler.split(), acceptor.split());
        let one = async {
            let mut seen = Vec::new();
            let mut buffer = vec![0; 4096];
            while let Ok(bytes @ 1..) = from_a.read(&mut buffer).await {
                seen.extend_from_slice(&buffer[..bytes]);
                to_b.write_all(&buffer[..bytes]).await.expect("node 1 reads");
            }
            to_b.shutdown().await.expect("a socket");
            seen
        };
        let (seen, _) = tokio::join!(one, tokio::io::copy(&mut from_b, &mut to_a));
        seen
    });
    let (zero, one) = (identity(0, 2, 1), identity(1, 2, 1));
    let (a, b) = tokio::join!(a.mesh(&zero, &detour, PATIENCE), b.mesh(&one, &roster, PATIENCE));
    let (mut a, mut b) = (a.expect("good"), b.expect("good"));
    let [mut a, mut b] = [fabric(&mut a), fabric(&mut b)];
    let secret = Bytes::from_static(b"values that no machine on the way should read");
    a.send(NodeId(1), secret.clone());
    a.close();
    b.close();
    let finish = |mut fabric: Fabric| async move {
        while !matches!(next(&mut fabric).await, FabricEvent::Finished) {}
    };
    let expected = secret.clone();
    let receive = async move {
        assert!(matches!(next_frame(&mut b).await, (NodeId(0), frame) if frame == expected));
        finish(b).await;
    };
    tokio::join!(finish(a), receive);
    let seen = relayed.await.expect("no panic");
    let contains = |part: &[u8]| seen.windows(part.len()).any(|window| window == part);
    assert!(!contains(&secret) && !contains(b"INTENDNT") && !contains(&[7; 32]), "{seen:?}");
    // All of it is records: type, version 3.x, length.
    let mut rest = &seen[..];
    let mut types = Vec::new();
    while let [kind, 3, _, high, low, more @ ..] = rest {
        types.push(*kind);
        rest = &more[usize::from(u16::from_be_bytes([*high, *low]))..];
    }
    assert!(rest.is_empty(), "{rest:?}");
    assert_eq!(types[0], 0x16, "a hello");
    assert_eq!(types.last(), Some(&0x17), "application data");
}

#[tokio::test]
async fn nodes_of_one_host_may_use_rings_beside_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new();
    let tls = ["a", "b"].map(|stem| Some(good(&authority, folder.path(), stem)));
    let [a, _b] = pair(tls, Transport::Auto, PATIENCE).await;
    let links = a.expect("both are good").links();
    assert_eq!(links.shm, usize::from(cfg!(target_os = "linux")));
}

/// The final error of a dialler.
fn final_error(result: Result<Mesh, TransportError>) -> TlsError {
    let error = result.expect_err("it must not get in");
    let TransportError::Refused { error: HandshakeError::Tls(error), .. } = error else { panic!("{error}") };
    error
}

/// Time for a node that waits for a peer which is refused. The dialler needs less.
const SHORT: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_node_without_tls_and_one_with_it_tell_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let tls = good(&Authority::new(), folder.path(), "a");
    let [dialler, _] = pair([None, Some(tls.clone())], Transport::Tcp, SHORT).await;
    let error = final_error(dialler);
    assert!(matches!(error, TlsError::TlsPeer), "{error}");
    assert!(error.to_string().contains("--tls-cert"), "{error}");
    let [dialler, _] = pair([Some(tls), None], Transport::Tcp, SHORT).await;
    let error = final_error(dialler);
    assert!(matches!(error, TlsError::PlainPeer), "{error}");
    assert!(error.to_string().contains("--tls-cert"), "{error}");
}

#[tokio::test]
async fn certificates_of_another_authority_are_refused_by_either_side() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ours, theirs) = (Authority::new(), Authority::new());
    let here = || ours.issue(folder.path(), "ours", Certificate::Good);
    let there = || theirs.issue(folder.path(), "theirs", Certificate::Good);
    let load = |files: NodeFiles| Some(Tls::load(&tls_files(files)).expect("good files"));
    // The dialler does not know the acceptor's authority.
    let [dialler, _] = pair([load(here()), load(there())], Transport::Tcp, SHORT).await;
    let error = final_error(dialler);
    assert!(matches!(error, TlsError::Theirs { .. }), "{error}");
    assert!(error.to_string().contains("ours-ca.pem"), "{error}");
    // The dialler knows both authorities, the acceptor does not know the dialler's.
    let (mut both, other) = (here(), there());
    let pems = [&both.ca, &other.ca].map(|ca| std::fs::read_to_string(ca).expect("a file"));
    both.ca = folder.path().join("both.pem");
    std::fs::write(&both.ca, pems.concat()).expect("a file");
    let [dialler, _] = pair([load(both), load(other)], Transport::Tcp, SHORT).await;
    let error = final_error(dialler);
    assert!(matches!(error, TlsError::Ours { .. }), "{error}");
    assert!(error.to_string().contains("--tls-ca") && error.to_string().contains("ours-cert.pem"), "{error}");
}

#[tokio::test]
async fn a_plain_client_is_refused_before_anything_of_it_is_examined() {
    let folder = tempfile::tempdir().expect("a folder");
    let tls = good(&Authority::new(), folder.path(), "a");
    let listener = bind(Transport::Tcp).with_tls(Some(tls));
    let roster = [Address::from(LOOPBACK), listener.address()];
    let gate =
        tokio::spawn(async move { listener.mesh(&identity(1, 2, 1), &roster, PATIENCE).await.map(drop) });
    // A correct hello, with the right token.
    let mut client = TcpStream::connect(roster[1].tcp).await.expect("the gate listens");
    client.write_all(&raw_hello(&identity(0, 2, 1), 1, 0)).await.expect("it fits");
    let mut answer = Vec::new();
    tokio::time::timeout(PATIENCE, client.read_to_end(&mut answer))
        .await
        .expect("an end")
        .expect("an answer");
    assert_eq!(answer[..7], [0x15, 3, 3, 0, 2, 2, 70], "a fatal alert");
    assert!(answer[7..].iter().all(|byte| *byte == 0), "no verdict");
    gate.abort();
}

#[test]
fn unusable_files_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ours, theirs) = (Authority::new(), Authority::new());
    let good = tls_files(ours.issue(folder.path(), "good", Certificate::Good));
    let foreign = tls_files(theirs.issue(folder.path(), "foreign", Certificate::Good));
    let of = |kind, stem: &str| tls_files(ours.issue(folder.path(), stem, kind));
    let text = folder.path().join("text.pem");
    std::fs::write(&text, "no certificate\n").expect("a file");
    let absent = folder.path().join("absent.pem");
    let with = |change: &dyn Fn(&mut TlsFiles)| {
        let mut files = good.clone();
        change(&mut files);
        files
    };
    Tls::load(&good).expect("good files");
    let cases = [
        (of(Certificate::Expired, "old"), &["old-cert.pem", "has expired", "days ago"][..]),
        (of(Certificate::OtherName, "other"), &["other-cert.pem", "'intendant'"]),
        (with(&|f| f.ca.clone_from(&foreign.ca)), &["good-cert.pem", "not signed by", "foreign-ca.pem"]),
        (with(&|f| f.key.clone_from(&foreign.key)), &["foreign-key.pem", "good-cert.pem", "does not belong"]),
        (with(&|f| f.cert.clone_from(&absent)), &["absent.pem (--tls-cert)", "cannot read"]),
        (with(&|f| f.key.clone_from(&absent)), &["absent.pem (--tls-key)", "cannot read"]),
        (with(&|f| f.ca.clone_from(&absent)), &["absent.pem (--tls-ca)", "cannot read"]),
        (with(&|f| f.cert.clone_from(&text)), &["text.pem (--tls-cert)", "no certificate in PEM"]),
        (with(&|f| f.key.clone_from(&text)), &["text.pem (--tls-key)", "no private key in PEM"]),
        (with(&|f| f.ca.clone_from(&text)), &["text.pem (--tls-ca)", "no certificate in PEM"]),
        (with(&|f| f.key.clone_from(&f.cert.clone())), &["good-cert.pem (--tls-key)", "no private key"]),
    ];
    for (files, expected) in cases {
        let error = Tls::load(&files).map(drop).expect_err("unusable").to_string();
        assert!(expected.iter().all(|part| error.contains(part)), "{expected:?}: {error}");
    }
    // The debug output of a node's files never shows their contents.
    let shown = format!("{:?}", Tls::load(&good));
    assert!(shown.contains("good-key.pem") && !shown.contains("BEGIN"), "{shown}");
}

/// The socket takes less than was encrypted, and nothing follows that would push the rest.
#[tokio::test]
async fn what_is_encrypted_is_written_although_nothing_follows() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new();
    let tls = ["a", "b"].map(|stem| Some(good(&authority, folder.path(), stem)));
    let mut meshes = pair(tls, Transport::Tcp, PATIENCE).await.map(|mesh| mesh.expect("both are good"));
    let [mut a, mut b] = meshes.each_mut().map(fabric);
    // The first poll registers the socket.
    assert!(tokio::time::timeout(Duration::from_millis(20), a.next()).await.is_err());
    let (size, mut sent) = (16 << 10, 0);
    // Each frame is encrypted as a whole, until the socket does not take all of one.
    while a.backlog_bytes(NodeId(1)) == 0 {
        a.send(NodeId(1), content(1, sent, size));
        a.try_flush();
        sent += 1;
    }
    for index in 0..sent {
        let (_, frame) = tokio::select! {
            received = next_frame(&mut b) => received,
            event = a.next() => panic!("{event:?}"),
        };
        assert!(frame == content(1, index, size), "frame {index} of {sent}");
    }
    assert_eq!(a.backlog_bytes(NodeId(1)), 0);
}

/// A program of another kind dials an acceptor, with files of the cluster's authority.
async fn dial_raw(acceptor: &Tls, files: &NodeFiles) -> Result<(), TlsError> {
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};
    let certificate = |path| CertificateDer::from_pem_file(path).expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(certificate(&files.ca)).expect("an authority");
    let key = PrivateKeyDer::from_pem_file(&files.key).expect("a key");
    let config = ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate(&files.cert)], key)
        .expect("a pair");
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let listener = TcpListener::bind(LOOPBACK).await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let dialler = async {
        let stream = TcpStream::connect(address).await.expect("it listens");
        // The acceptor's verdict on the certificate comes after the dialler's handshake.
        if let Ok(mut stream) = connector.connect("intendant".try_into().expect("a name"), stream).await {
            let _ = stream.read_u8().await;
        }
    };
    let accepted = async {
        let (stream, _) = listener.accept().await.expect("a dialler");
        intendant_transport::tls::admit(stream, Some(acceptor)).await.map(drop)
    };
    tokio::join!(dialler, accepted).1
}

#[tokio::test]
async fn an_acceptor_refuses_certificates_that_its_authority_signed_for_other_uses() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new();
    let acceptor = good(&authority, folder.path(), "acceptor");
    let of = |certificate, stem: &str| authority.issue(folder.path(), stem, certificate);
    dial_raw(&acceptor, &of(Certificate::Good, "good")).await.expect("a node's certificate");
    let refused =
        dial_raw(&acceptor, &of(Certificate::OtherName, "other")).await.expect_err("of another use");
    assert!(refused.is_final(), "{refused}");
    assert!(refused.to_string().contains("'intendant'"), "{refused}");
}
