//! What the tests of this crate share: clusters over real sockets, and frames whose content tells where they
//! belong.

use bytes::Bytes;
use intendant_core::{ElementType, NodeId, random};
use intendant_transport::tcp::{Identity, Listener, Mesh};
use intendant_transport::{Fabric, FabricBuilder, FabricEvent, Token, TransportError, local};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::JoinSet;

/// A safety net: nothing here takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

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

/// A complete cluster over loopback, every node's mesh by rank.
pub(crate) async fn cluster(nodes: u16, channels: u16) -> (Vec<Mesh>, Vec<SocketAddr>) {
    let listeners: Vec<Listener> =
        (0..nodes).map(|_| Listener::bind(LOOPBACK).expect("a free port")).collect();
    let roster: Vec<SocketAddr> = listeners.iter().map(Listener::local_addr).collect();
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
    (meshes.into_iter().map(|(_, mesh)| mesh).collect(), roster)
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Flavour {
    Local,
    Tcp,
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
        Flavour::Tcp => {
            let (mut meshes, _) = cluster(nodes, channels).await;
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

/// A dialler with this identity that knows the cluster's addresses; it fails, and this is how.
pub(crate) async fn stranger(identity: Identity, roster: &[SocketAddr], within: Duration) -> TransportError {
    let listener = Listener::bind(LOOPBACK).expect("a free port");
    listener.mesh(&identity, roster, within).await.expect_err("a stranger must not get in")
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

/// The next event, or a failed test in place of a hang.
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

/// A hello as the documentation of the protocol has it, written down independently of the code that ships.
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
