//! From a listening socket to a connection per channel and peer.

use super::accept::{Arrival, Doors, Gate};
use super::address::{Address, Transport, UnixName};
use super::arrivals::Arrivals;
use super::dial::{Trouble, Ways, reach};
use super::fabric::Builder;
use super::hello::{Identity, check_identity};
use super::rdma::{Plane, Port};
use super::rings;
use super::stream::{Parked, Stream};
use super::unix;
use crate::error::Missing;
use crate::{HandshakeError, Tls, TransportError};
use intendant_core::lock;
use intendant_core::{ChannelId, NodeId};
use std::io;
use std::net::{self, SocketAddr};
use std::os::unix::net as std_unix;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout_at};

/// The most attempts to connect at the same time: enough to hide round trips, and few enough for any
/// acceptor.
const ATTEMPTS_MAX: usize = 64;

/// The sockets that peers can dial already, before this node knows who they are.
#[derive(Debug)]
pub struct Listener {
    tcp: net::TcpListener,
    unix: Option<std_unix::UnixListener>,
    address: Address,
    transport: Transport,
    tls: Option<Tls>,
    /// The network card, with [`Transport::Verbs`].
    port: Option<Port>,
}

/// The connections of one node. The gate for latecomers stays open for as long as this value lives; dropping
/// it does not touch the connections.
#[derive(Debug)]
pub struct Mesh {
    builders: Vec<Builder>,
    arrivals: Arc<Arrivals>,
    links: Links,
    gate: AbortHandle,
}

/// The connections of a node, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// Over TCP.
    pub tcp: usize,
    /// Over Unix sockets, to nodes of the same host.
    pub unix: usize,
    /// Over rings in shared memory, to nodes of the same host.
    pub shm: usize,
    /// Over RDMA.
    pub rdma: usize,
}

impl Links {
    fn count(&mut self, link: &Parked) {
        let count = if link.has_rings() {
            &mut self.shm
        } else if link.is_rdma() {
            &mut self.rdma
        } else if link.is_unix() {
            &mut self.unix
        } else {
            &mut self.tcp
        };
        *count += 1;
    }
}

impl Listener {
    /// Listens on `address`; port 0 lets the system choose. It listens on a Unix socket as well if the system
    /// has such sockets, unless `transport` is [`Transport::Tcp`] or [`Transport::Verbs`].
    ///
    /// # Errors
    /// If the node cannot listen on the address; the error names it. With [`Transport::Verbs`], also if there
    /// is no network card; the error says what was looked for.
    pub fn bind(address: SocketAddr, transport: Transport) -> Result<Self, TransportError> {
        // The Unix socket opens before the TCP socket: a peer that reaches the TCP socket finds the Unix
        // socket too.
        let (name, unix) = if transport.is_local() { listen_on_unix().unzip() } else { (None, None) };
        let port = (transport == Transport::Verbs).then(|| Port::find(address.ip())).transpose()?;
        let bind = || {
            let tcp = net::TcpListener::bind(address)?;
            tcp.set_nonblocking(true)?;
            let address = Address { tcp: tcp.local_addr()?, unix: name };
            Ok(Self { tcp, unix, address, transport, tls: None, port })
        };
        bind().map_err(|error| TransportError::Bind { address, error })
    }

    /// Lets TCP connections use TLS. Either all nodes of a cluster use it, or none. Unix sockets stay plain.
    #[must_use]
    pub fn with_tls(mut self, tls: Option<Tls>) -> Self {
        self.tls = tls;
        self
    }

    /// The address at which peers reach this node, with the port that the system chose.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Registers the sockets with the runtime that this is called in.
    pub(crate) fn open(self) -> io::Result<Doors> {
        let unix = self.unix.map(UnixListener::from_std).transpose()?;
        Ok(Doors { tcp: TcpListener::from_std(self.tcp)?, unix })
    }

    /// Connects to every other node of `roster` (by rank) once per channel: it dials higher ranks and waits
    /// for lower ranks. It retries peers that are not there yet until the time `within` is over.
    ///
    /// The gate runs as a task of the runtime that this is called in; drive that runtime for as long as
    /// latecomers should get an answer. The connections do not depend on it.
    ///
    /// # Errors
    /// If `identity` or `roster` contradict themselves, the cluster has no token and the address is not a
    /// loopback address, a peer refuses this node, or a peer is missing when the time is over. With
    /// [`Transport::Verbs`], also if the process may not lock the memory of the connections, or the cluster
    /// uses TLS.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time enabled.
    pub async fn mesh(
        mut self,
        identity: &Identity,
        roster: &[Address],
        within: Duration,
    ) -> Result<Mesh, TransportError> {
        let deadline = Instant::now() + within;
        check_identity(identity).map_err(|reason| TransportError::Identity { reason })?;
        if roster.len() != usize::from(identity.nodes) {
            return Err(TransportError::Roster { addresses: roster.len(), nodes: identity.nodes });
        }
        if identity.token.is_open() && !self.address.tcp.ip().is_loopback() {
            return Err(TransportError::OpenBeyondLoopback { address: self.address.tcp });
        }
        let rdma = match self.port.take() {
            Some(_) if self.tls.is_some() => return Err(TransportError::Unencrypted),
            Some(port) => Some(Plane::new(port, identity.rank, roster.len(), identity.channels)?),
            None => None,
        };
        let rdma = rdma.map(Arc::new);
        let (arrived, arrivals) = unbounded_channel();
        // The number of connections as if all peers were on this host.
        let connections = roster.len().saturating_sub(1) * usize::from(identity.channels);
        let rings = self.transport.has_rings().then(|| rings::capacity(connections)).flatten();
        let gate = Arc::new(Gate::new(identity.clone(), self.tls.clone(), (rings, rdma.clone()), arrived));
        let (local, tls) = (self.transport.is_local(), self.tls.clone());
        let ways = Ways { local, rings: rings.is_some(), rdma, tls };
        let task = tokio::spawn(Arc::clone(&gate).run(self.open()?));
        let counts = Arc::new(Arrivals::new(roster.len()));
        let mut mesh = Mesh {
            builders: Vec::new(),
            arrivals: counts,
            links: Links::default(),
            gate: task.abort_handle(),
        };

        let mut setup = Setup::new(identity, roster, ways);
        let complete = async {
            tokio::select! {
                done = setup.complete(arrivals) => done,
                source = gate.deaf() => Err(TransportError::Deaf { source }),
            }
        };
        match timeout_at(deadline, complete).await {
            Ok(done) => done?,
            Err(_) => return Err(TransportError::Incomplete { within, missing: setup.missing() }),
        }
        for links in setup.links {
            let parked = links.into_iter().map(|link| link.map(Stream::park).transpose());
            let parked: Vec<_> = parked.collect::<Result<_, _>>()?;
            for link in parked.iter().flatten() {
                mesh.links.count(link);
            }
            let arrivals = Arc::clone(&mesh.arrivals);
            mesh.builders.push(Builder::new(identity.rank, parked, arrivals));
        }
        Ok(mesh)
    }
}

impl Mesh {
    /// The builders of the fabrics, one per channel, in order of channel. A second call yields none.
    pub fn take_builders(&mut self) -> Vec<Builder> {
        std::mem::take(&mut self.builders)
    }

    /// The connections of all fabrics of this mesh.
    pub fn links(&self) -> Links {
        self.links
    }

    /// Counts what arrives from each peer, on all fabrics of this mesh.
    pub fn arrivals(&self) -> Arc<Arrivals> {
        Arc::clone(&self.arrivals)
    }
}

fn listen_on_unix() -> Option<(UnixName, std_unix::UnixListener)> {
    match unix::listen() {
        Ok(listening) => Some(listening),
        Err(error) => {
            tracing::debug!("no Unix socket for nodes of this host: {error}");
            None
        }
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.gate.abort();
    }
}

/// A mesh that is not complete yet.
struct Setup<'a> {
    identity: &'a Identity,
    roster: &'a [Address],
    ways: Ways,
    /// Links by channel, then rank.
    links: Vec<Vec<Option<Stream>>>,
    /// By rank.
    troubles: Vec<Trouble>,
}

type Dialled = (NodeId, ChannelId, Result<Stream, HandshakeError>);

impl<'a> Setup<'a> {
    fn new(identity: &'a Identity, roster: &'a [Address], ways: Ways) -> Self {
        let links = (0..identity.channels).map(|_| roster.iter().map(|_| None).collect()).collect();
        let troubles = roster.iter().map(|_| Trouble::default()).collect();
        Self { identity, roster, ways, links, troubles }
    }

    /// Peers whose links are not complete, with the number of links that each has.
    fn incomplete(&self) -> impl Iterator<Item = (usize, usize)> {
        let count = |rank: usize| self.links.iter().filter(|links| links[rank].is_some()).count();
        let (own, channels) = (self.identity.rank.index(), self.links.len());
        (0..self.roster.len())
            .map(move |rank| (rank, count(rank)))
            .filter(move |(rank, n)| *rank != own && *n < channels)
    }

    fn missing(&self) -> Vec<Missing> {
        let missing = |(rank, links): (usize, usize)| {
            let trouble = lock(&self.troubles[rank]);
            let reason = match &*trouble {
                Some(trouble) => trouble.clone(),
                None if rank > self.identity.rank.index() => "no answer yet".to_owned(),
                None => format!("it has dialled for {links} of {} channels", self.links.len()),
            };
            Missing { peer: NodeId(rank as u16), address: self.roster[rank].tcp, reason }
        };
        self.incomplete().map(missing).collect()
    }

    /// Dials, and waits until every link exists.
    async fn complete(&mut self, mut arrivals: UnboundedReceiver<Arrival>) -> Result<(), TransportError> {
        let mut diallers = self.dial_all();
        while self.incomplete().next().is_some() {
            let (peer, channel, stream) = tokio::select! {
                Some((peer, channel, stream)) = arrivals.recv() => (peer, channel, Ok(stream)),
                Some(Ok(dialled)) = diallers.join_next() => dialled,
            };
            let address = self.roster[peer.index()].tcp;
            let stream = stream.map_err(|error| TransportError::Refused { peer, address, error })?;
            self.links[channel.index()][peer.index()] = Some(stream);
        }
        Ok(())
    }

    fn dial_all(&self) -> JoinSet<Dialled> {
        let (identity, attempts) = (Arc::new(self.identity.clone()), Arc::new(Semaphore::new(ATTEMPTS_MAX)));
        let mut diallers = JoinSet::new();
        for (rank, address) in self.roster.iter().enumerate().skip(self.identity.rank.index() + 1) {
            let peer = NodeId(rank as u16);
            for channel in (0..self.identity.channels).map(ChannelId) {
                let (ways, trouble) = (self.ways.clone(), self.troubles[rank].clone());
                let link = reach(identity.clone(), peer, channel, *address, ways, attempts.clone(), trouble);
                diallers.spawn(async move { (peer, channel, link.await) });
            }
        }
        diallers
    }
}
