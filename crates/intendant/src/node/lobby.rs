//! The way into a cluster of processes: a node meets the others, connects to them, and starts.

use super::windows;
use super::{MeshGuard, Node, check_fits, distribute};
use crate::config::{self, NodeConfig};
use crate::error::Error;
use intendant_control::standby::{ScaleError, Standby};
use intendant_control::{Control, DataPlane, FailureKind, Introduction, JoinError};
use intendant_core::{Element, Initialiser, Layout, NodeId};
use intendant_launch::Rendezvous;
use intendant_membership::Membership;
use intendant_membership::OWN;
use intendant_transport::socket::{self, Links};
use intendant_transport::{FabricBuilder, TOKEN_BYTES, Tls, Token};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// How long connecting may take once all nodes have been introduced to each other.
const MESH_DEADLINE: Duration = Duration::from_secs(20);

/// A node of a cluster of processes that is connected to all others and has no values yet.
///
/// A lobby is for nodes that agree on their initial values: [`Lobby::gather`] sends a message to the others,
/// and [`Lobby::initialise`] sets the initial values. All nodes must make the same calls of
/// [`Lobby::gather`], and either all of them [start](Lobby::start) or all of them [leave](Lobby::leave). A
/// node that is dropped without either is lost to the others.
pub struct Lobby<E: Element> {
    config: NodeConfig<E>,
    layout: Arc<Layout>,
    rank: NodeId,
    control: Control,
    fabrics: Vec<FabricBuilder>,
    guard: MeshGuard,
    nodes_here: usize,
    /// The secret of windows, if the cluster has one of its own.
    secret: Option<[u8; TOKEN_BYTES]>,
}

/// The address of this machine that the coordinator's machine reaches, with the data plane's port; 0 lets the
/// operating system choose.
fn data_address(rendezvous: &Rendezvous) -> Result<SocketAddr, Error> {
    let port = rendezvous.own_data_port()?;
    let here = || {
        let address = coordinator_address(rendezvous)?;
        if address.ip().is_loopback() {
            return Ok(SocketAddr::new(address.ip(), port));
        }
        // Connecting a datagram socket sends nothing: it only asks for the route.
        let any: IpAddr =
            if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(address)?;
        Ok(SocketAddr::new(socket.local_addr()?.ip(), port))
    };
    here().map_err(|error: io::Error| {
        let coordinator = rendezvous.coordinator();
        Error::Config(format!(
            "there is no way to the machine of node 0 at {coordinator} (MASTER_ADDR, MASTER_PORT): {error}"
        ))
    })
}

fn coordinator_address(rendezvous: &Rendezvous) -> io::Result<SocketAddr> {
    let coordinator = rendezvous.coordinator();
    let mut addresses = (coordinator.host.as_str(), coordinator.port).to_socket_addrs()?;
    addresses.next().ok_or_else(|| io::Error::other("it has no address"))
}

/// Opens the [`Standby`] of a process, for a run whose nodes may change: the socket that the process keeps
/// open for the others. It is on the address at which they reach the process's data plane. `settings` is a
/// digest of the settings that all processes of the run have in common.
///
/// # Errors
/// If there is no way to the machine of node 0, or the operating system refuses a socket.
pub fn open_standby(rendezvous: &Rendezvous, settings: u64) -> Result<Standby, Error> {
    let host = data_address(rendezvous)?.ip();
    let (token, tls) = (rendezvous.cluster_token().cloned(), rendezvous.cluster_tls().cloned());
    let standby = Standby::open(host, (intendant_wire::PROTOCOL, settings), token, tls);
    standby.map_err(|source| Error::Start { what: "a socket for the nodes of later views", source })
}

/// Asks the run that has a process at `address` ("host:port") to go on with `nodes` nodes. Returns the number
/// of nodes that the run has now. Blocks for a few seconds at most.
///
/// # Errors
/// See [`ScaleError`].
pub fn scale(address: &str, nodes: u16, token: Option<&Token>, tls: Option<&Tls>) -> Result<u16, ScaleError> {
    intendant_control::standby::scale(address, nodes, intendant_wire::PROTOCOL, token, tls)
}

impl<E: Element> Lobby<E> {
    /// Meets the others at `rendezvous`, then connects to them. Returns when this node is connected to all.
    ///
    /// # Errors
    /// If the cluster refuses this node or is not complete in time; see [`Error::Join`].
    #[inline(never)]
    pub fn enter(mut config: NodeConfig<E>, rendezvous: Rendezvous) -> Result<Self, Error> {
        let layout = distribute(&config, rendezvous.nodes())?;
        // No node of this machine has allocated its part of the model yet, because none starts before all
        // have joined.
        check_fits(&config, &layout, 1, rendezvous.local().1)?;
        let rank = rendezvous.rank();
        let within = MESH_DEADLINE.min(rendezvous.join_deadline());
        let own_token = rendezvous.cluster_token().cloned();
        let token = own_token.clone().unwrap_or_else(Token::open);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("intendant-accept")
            .enable_all()
            .build()
            .map_err(|source| Error::Start { what: "the data plane's runtime", source })?;
        let address = data_address(&rendezvous)?;
        if !address.ip().is_loopback() && rendezvous.cluster_token().is_none() {
            // Node 0 will refuse to serve, so the others do not wait for it.
            let address = coordinator_address(&rendezvous).unwrap_or(address);
            return Err(Error::Join(JoinError::Open { address }));
        }
        let (local_rank, local_nodes) = rendezvous.local();
        tracing::info!(
            "node {rank} of {}, {local_rank} of {local_nodes} on this machine, by {}; node 0 is at {}",
            rendezvous.nodes(),
            rendezvous.launcher(),
            rendezvous.coordinator()
        );
        let listener =
            socket::Listener::bind(address, config.transport)?.with_tls(rendezvous.cluster_tls().cloned());
        let over_tcp = if rendezvous.cluster_tls().is_some() { "TCP with TLS" } else { "TCP" };
        let settings = config.agreement(&layout);
        let digest = config::digest(layout.digest(), &settings);
        let introduction = Introduction {
            protocol: intendant_wire::PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            layout: digest,
            settings,
            data: Some(DataPlane {
                element: E::TYPE,
                channels: layout.channels() as u16,
                address: listener.address(),
            }),
        };
        let (control, roster) = Control::join(rendezvous, introduction)?;
        let secret = own_token.map(|token| token.of_windows(roster.cluster));
        let identity = socket::Identity {
            protocol: intendant_wire::PROTOCOL,
            cluster: roster.cluster,
            token,
            layout: digest,
            element: E::TYPE,
            rank,
            nodes: layout.nodes() as u16,
            channels: layout.channels() as u16,
        };
        let (fail, failed) = tokio::sync::oneshot::channel();
        control.on_failure(move |failure| {
            // The receiver is dropped once the mesh is complete.
            let _ = fail.send(failure.clone());
        });
        let meshed = runtime.block_on(async {
            tokio::select! {
                meshed = listener.mesh(&identity, &roster.nodes, within) => {
                    meshed.map_err(Error::from)
                }
                // Otherwise this node would dial a node that has ended, in vain, until the deadline.
                Ok(failure) = failed => Err(failure.into()),
            }
        });
        let mut mesh = match meshed {
            Ok(mesh) => mesh,
            Err(error) => {
                control.abort(&error.to_string());
                // The coordinator may know better why a node could not be reached.
                let lost = control.failure().filter(|failure| failure.kind == FailureKind::PeerLost);
                return Err(lost.map_or(error, Error::from));
            }
        };
        let Links { tcp, unix, shm, rdma } = mesh.links();
        let over_shm = if shm > 0 { format!("{shm} over shared memory, ") } else { String::new() };
        let over_rdma = if rdma > 0 { format!("{rdma} over RDMA, ") } else { String::new() };
        tracing::info!(
            "connections to the other nodes: {over_shm}{over_rdma}{unix} over Unix sockets, {tcp} over {over_tcp}"
        );
        control.watch_arrivals(mesh.arrivals());
        let fabrics = mesh.take_builders().into_iter().map(FabricBuilder::from).collect();
        if let Some(trace) = config.trace.as_mut().filter(|trace| trace.run == 0) {
            trace.run = roster.cluster;
        }
        let here = roster.nodes.get(rank.index()).map(|node| node.tcp.ip());
        let nodes_here = roster.nodes.iter().filter(|node| Some(node.tcp.ip()) == here).count().max(1);
        let guard = MeshGuard { mesh, runtime: Some(runtime) };
        Ok(Self { config, layout, rank, control, fabrics, guard, nodes_here, secret })
    }

    /// This node.
    pub const fn rank(&self) -> NodeId {
        self.rank
    }

    /// Waits until every node has called this with the same name. Returns their payloads by rank. A payload
    /// has at most 16 MiB.
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended.
    pub fn gather(&self, name: &str, payload: Vec<u8>) -> Result<Vec<Vec<u8>>, Error> {
        Ok(self.control.gather(name, payload)?)
    }

    /// Replaces the initial values of the configuration.
    pub fn initialise(&mut self, init: Initialiser<E>) {
        self.config.init = init;
    }

    /// Leaves instead of starting. All nodes must do the same.
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended otherwise.
    #[inline(never)]
    pub fn leave(self) -> Result<(), Error> {
        Ok(self.control.leave()?)
    }

    /// Starts the node. Returns when all nodes are ready.
    ///
    /// # Errors
    /// If the operating system refuses a thread, or the cluster has ended.
    #[inline(never)]
    pub fn start(self) -> Result<Node<E>, Error> {
        let Self { config, layout, rank, control, fabrics, guard, nodes_here, secret } = self;
        let membership = Membership::Control(control);
        let guard = Some(guard);
        let secret = Some(windows::Secret(secret));
        let node = Node::start(config, layout, rank, membership, fabrics, guard, nodes_here, secret)?;
        node.inner.gather(&format!("{OWN}ready"), "ready", Vec::new())?;
        Ok(node)
    }
}

impl<E: Element> Node<E> {
    /// One node of a cluster of processes: meets the others at `rendezvous`, then connects to them. Returns
    /// when all nodes are ready. A [`Lobby`] does this in two steps.
    ///
    /// # Errors
    /// If the cluster refuses this node or is not complete in time; see [`Error::Join`].
    #[inline(never)]
    pub fn join(config: NodeConfig<E>, rendezvous: Rendezvous) -> Result<Self, Error> {
        Lobby::enter(config, rendezvous)?.start()
    }
}
