//! Helpers of this crate's tests: clusters over real sockets, and frames whose content shows where they
//! belong.

use bytes::Bytes;
use intendant_core::{ElementType, NodeId, random};
use intendant_transport::socket::{Identity, Links, Listener, Mesh};
use intendant_transport::{
    Address, Fabric, FabricBuilder, FabricEvent, LinkError, Token, Transport, TransportError, local,
};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;

/// A safety net: nothing here takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// All kinds of connections between processes; all nodes of these tests are on one host. Other systems than
/// Linux have TCP only. RDMA needs a card: without one, it is left out, unless `REQUIRE_VERBS` is set;
/// `scripts/rxe.sh` sets it.
pub(crate) fn kinds() -> Vec<Transport> {
    let mut kinds = vec![Transport::Tcp];
    if cfg!(target_os = "linux") {
        kinds.extend([Transport::Unix, Transport::Auto]);
    }
    if cfg!(feature = "verbs") {
        match Listener::bind(LOOPBACK, Transport::Verbs) {
            Ok(_) => kinds.push(Transport::Verbs),
            Err(error) if std::env::var_os("REQUIRE_VERBS").is_none() => eprintln!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        }
    }
    kinds
}

/// A node's sockets.
pub(crate) fn bind(transport: Transport) -> Listener {
    Listener::bind(LOOPBACK, transport).expect("a free port")
}

/// The end of a connection that is only a socket.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Unpin + Send {
    /// Makes writes leave at once, without waiting for more.
    fn write_at_once(&self);

    /// Ends the connection as a process does that dies with unread bytes.
    fn reset(self: Box<Self>);
}

impl Socket for TcpStream {
    fn write_at_once(&self) {
        self.set_nodelay(true).expect("a socket");
    }

    fn reset(self: Box<Self>) {
        self.set_zero_linger().expect("a socket");
    }
}

impl Socket for UnixStream {
    fn write_at_once(&self) {}

    /// The drop causes a reset if there are unread bytes, and otherwise an end.
    fn reset(self: Box<Self>) {}
}

/// Connects to a node: over its Unix socket if it has one. The name is formed independently of the product's
/// code.
pub(crate) async fn dial(address: Address) -> Box<dyn Socket> {
    match address.unix {
        Some(name) => {
            Box::new(UnixStream::connect(format!("\0intendant-{name}")).await.expect("the gate listens"))
        }
        None => Box::new(TcpStream::connect(address.tcp).await.expect("the gate listens")),
    }
}

pub(crate) fn identity(rank: u16, nodes: u16, channels: u16) -> Identity {
    Identity {
        protocol: 1,
        cluster: 0xc1,
        token: Token::from_bytes([7; 32]),
        layout: 0x1a,
        element: ElementType::F32,
        rank: NodeId(rank),
        nodes,
        channels,
    }
}

/// A complete cluster on this host, every node's mesh by rank.
pub(crate) async fn cluster(transport: Transport, nodes: u16, channels: u16) -> (Vec<Mesh>, Vec<Address>) {
    let listeners: Vec<Listener> = (0..nodes).map(|_| bind(transport)).collect();
    let roster: Vec<Address> = listeners.iter().map(Listener::address).collect();
    let mut joining = JoinSet::new();
    for (rank, listener) in listeners.into_iter().enumerate() {
        let roster = roster.clone();
        joining.spawn(async move {
            let mesh = listener.mesh(&identity(rank as u16, nodes, channels), &roster, PATIENCE).await;
            (rank, mesh.expect("all nodes are there"))
        });
    }
    let mut meshes = joining.join_all().await;
    meshes.sort_by_key(|(rank, _)| *rank);
    let all = usize::from(nodes - 1) * usize::from(channels);
    for (_, mesh) in &meshes {
        let Links { tcp, unix, shm, rdma } = mesh.links();
        assert_eq!(unix + shm, if roster[0].unix.is_some() { all } else { 0 });
        let has_rings = cfg!(target_os = "linux") && matches!(transport, Transport::Auto | Transport::Shm);
        assert_eq!(shm, if has_rings { all } else { 0 });
        assert_eq!(rdma, if transport == Transport::Verbs { all } else { 0 });
        assert_eq!(tcp + unix + shm + rdma, all);
    }
    (meshes.into_iter().map(|(_, mesh)| mesh).collect(), roster)
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Flavour {
    Local,
    Socket(Transport),
}

/// Builders of a cluster, by node, then channel. The meshes are returned to keep their gates open.
pub(crate) async fn builders(
    flavour: Flavour,
    nodes: u16,
    channels: u16,
) -> (Vec<Vec<FabricBuilder>>, Vec<Mesh>) {
    match flavour {
        Flavour::Local => {
            let builders = local::mesh(usize::from(nodes), usize::from(channels));
            (
                builders
                    .into_iter()
                    .map(|node| node.into_iter().map(FabricBuilder::from).collect())
                    .collect(),
                Vec::new(),
            )
        }
        Flavour::Socket(transport) => {
            let (mut meshes, _) = cluster(transport, nodes, channels).await;
            let take = |mesh: &mut Mesh| mesh.take_builders().into_iter().map(FabricBuilder::from).collect();
            (meshes.iter_mut().map(take).collect(), meshes)
        }
    }
}

/// The fabrics of a cluster with one channel, in this runtime.
pub(crate) async fn fabrics(flavour: Flavour, nodes: u16) -> (Vec<Fabric>, Vec<Mesh>) {
    let (builders, meshes) = builders(flavour, nodes, 1).await;
    (builders.into_iter().flatten().map(|builder| builder.finish().expect("in a runtime")).collect(), meshes)
}

/// Runs a dialler with this identity that knows the cluster's addresses. Returns the error with which it
/// fails.
pub(crate) async fn stranger(identity: Identity, roster: &[Address], within: Duration) -> TransportError {
    // It dials Unix sockets that it knows of.
    bind(Transport::Auto).mesh(&identity, roster, within).await.expect_err("a stranger must not get in")
}

/// The content of the `index`-th frame of `stream`, different for every index and stream.
pub(crate) fn content(stream: u64, index: u64, len: usize) -> Bytes {
    let mut bytes = Vec::with_capacity(len + 8);
    let mut word = random::stream(stream, &[index]);
    while bytes.len() < len {
        bytes.extend_from_slice(&word.to_le_bytes());
        word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
    }
    bytes.truncate(len);
    bytes.into()
}

/// The next event; if none comes, the test fails instead of hanging.
pub(crate) async fn next(fabric: &mut Fabric) -> FabricEvent {
    tokio::time::timeout(PATIENCE, fabric.next()).await.expect("an event must come")
}

/// The next event, which is a frame.
pub(crate) async fn next_frame(fabric: &mut Fabric) -> (NodeId, Bytes) {
    match next(fabric).await {
        FabricEvent::Frame { from, frame } => (from, frame),
        other @ (FabricEvent::Closed { .. } | FabricEvent::Lost { .. } | FabricEvent::Finished) => {
            panic!("a frame was expected, not {other:?}")
        }
    }
}

/// A hello as the documentation of the protocol describes it, built independently of the product's code.
pub(crate) fn raw_hello(identity: &Identity, to: u16, channel: u16) -> Vec<u8> {
    let mut bytes = b"INTENDNT".to_vec();
    bytes.extend(identity.protocol.to_le_bytes());
    let hex = identity.token.to_hex();
    bytes.extend((0..32).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("two digits")));
    bytes.extend(identity.cluster.to_le_bytes());
    bytes.extend(identity.layout.to_le_bytes());
    bytes.extend([identity.element as u8, 0]);
    for word in [identity.rank.0, to, identity.nodes, identity.channels, channel] {
        bytes.extend(word.to_le_bytes());
    }
    bytes
}

/// The reason for which the peer is lost; no other event may come before.
pub(crate) async fn lost(fabric: &mut Fabric) -> LinkError {
    let event = next(fabric).await;
    let FabricEvent::Lost { peer: NodeId(0), error } = event else {
        panic!("the peer must be lost, not {event:?}")
    };
    error
}
