//! The start of items: nodes meet, declare what they produce and consume, and map each other's memory.

use crate::error::Error;
use crate::members::Members;
use crate::process::Process;
use crate::rdma;
use crate::way::{AnyWindow, Way};
use intendant_control::{Control, Introduction};
use intendant_core::NodeId;
use intendant_lapser::{Declaration, Directory, Pace, Settings, Variant};
use intendant_launch::Rendezvous;
use intendant_membership::{Aborter, Group, Membership};
use intendant_onesided::{HINTS, Host, MappedWindow, Name, Secret, Window};
use intendant_segment::Segment;
use intendant_transport::TOKEN_BYTES;
use std::sync::Arc;
use std::time::Duration;

/// How long mapping the memory of all nodes may take.
const CONNECT_DEADLINE: Duration = Duration::from_secs(20);

/// How soon a node looks again by itself. Windows lose no hint while both nodes live, so looks at pushed
/// items (`recheck_ns`) are only a precaution; a node that wakes in vain takes the processor from nodes that
/// compute. A node reads an item that is not pushed at once, and then at the pace of `reread_ns_min` and
/// `reread_ns_max`.
const PACE: Pace =
    Pace { reread_ns_min: 5_000, reread_ns_max: 1_000_000, recheck_ns: 20_000_000, torn_reads_max: 10_000 };

/// A node that has met the others and has no items yet. A node that is dropped without [`Lobby::start`] or
/// [`Lobby::leave`] is lost to the others.
pub struct Lobby {
    members: Members,
    /// The secret of the cluster, derived from its token.
    secret: Option<[u8; TOKEN_BYTES]>,
    /// Whether connections between hosts are encrypted.
    encrypts: bool,
}

/// The first byte of a node's message about RDMA: an address follows, or the reason why there is none.
const ADDRESS: u8 = 0;
const REASON: u8 = 1;

impl Lobby {
    /// Meets the other processes at `rendezvous`. `settings`, names and values, must be equal on all nodes.
    ///
    /// # Errors
    /// If the cluster refuses this node or is not complete in time; see [`Error::Join`].
    pub fn enter(rendezvous: Rendezvous, settings: Vec<(String, String)>) -> Result<Self, Error> {
        let (rank, nodes) = (rendezvous.rank(), rendezvous.nodes());
        let token = rendezvous.cluster_token().cloned();
        let encrypts = rendezvous.cluster_tls().is_some();
        let (local_rank, local_nodes) = rendezvous.local();
        tracing::info!(
            "node {rank} of {nodes}, {local_rank} of {local_nodes} on this machine, by {}; node 0 is at {}",
            rendezvous.launcher(),
            rendezvous.coordinator()
        );
        let introduction = Introduction {
            protocol: intendant_wire::PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            layout: 0,
            settings,
            // The nodes access each other's memory, and use gathers to find it.
            data: None,
        };
        let (control, roster) = Control::join(rendezvous, introduction)?;
        let secret = token.as_ref().map(|token| token.of_windows(roster.cluster));
        Ok(Self { members: Members::new(rank, nodes, Membership::Control(control)), secret, encrypts })
    }

    /// Makes nodes within this process, for one thread each, in rank order.
    ///
    /// # Errors
    /// If `nodes` is 0 or more than 65,536.
    pub fn local(nodes: usize) -> Result<Vec<Self>, Error> {
        if !(1..=1 << 16).contains(&nodes) {
            return Err(Error::Nodes { nodes });
        }
        let group = Group::new(nodes);
        let lobby = |rank: usize| {
            let rank = NodeId(rank as u16);
            let membership = Membership::Group { rank, group: Arc::clone(&group) };
            Self { members: Members::new(rank, nodes, membership), secret: None, encrypts: false }
        };
        Ok((0..nodes).map(lobby).collect())
    }

    /// This node.
    #[must_use]
    pub const fn rank(&self) -> NodeId {
        self.members.rank
    }

    /// Number of nodes.
    #[must_use]
    pub const fn nodes(&self) -> usize {
        self.members.nodes
    }

    /// Waits until every node has called this with the same name. Returns their payloads by rank.
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended.
    pub fn gather(&self, name: &str, payload: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.members.gather(name, payload)
    }

    /// A handle with which any thread can end the cluster.
    #[must_use]
    pub fn aborter(&self) -> Aborter {
        Aborter::new(&self.members.membership, &self.members.health)
    }

    /// Leaves instead of starting. All nodes must do so.
    ///
    /// # Errors
    /// [`Error::Failed`] if the cluster has ended otherwise.
    pub fn leave(self) -> Result<(), Error> {
        self.members.leave()
    }

    /// Starts over the memory of this host. This method draws the incarnation of `declared`.
    ///
    /// # Errors
    /// If the declarations of the nodes do not match each other, if the memory does not fit into this
    /// machine, or if a node is on another host ([`Error::Elsewhere`]). Then the run has ended on all nodes.
    pub fn start(self, variant: Variant, declared: Declaration) -> Result<Process<MappedWindow>, Error> {
        self.start_over(variant, declared, Self::map)
    }

    /// Starts over the memory of this host or over RDMA, as `way` says. Nodes with [`Way::Auto`] follow the
    /// others.
    ///
    /// # Errors
    /// As [`Lobby::start`]; if nodes have different ways ([`Error::Ways`]), or if a node cannot use RDMA and
    /// the others cannot do without it ([`Error::NoRdma`]). Then the run has ended on all nodes.
    pub fn start_by(
        self,
        way: Way,
        variant: Variant,
        declared: Declaration,
    ) -> Result<Process<AnyWindow>, Error> {
        self.start_over(variant, declared, |lobby, directory| lobby.reach(way, directory))
    }

    /// Starts over a window that `connect` makes. Its segment must have as many words as the directory
    /// requires ([`Directory::words`]).
    ///
    /// # Errors
    /// As [`Lobby::start`], and those of `connect`.
    pub fn start_over<W: Window>(
        self,
        variant: Variant,
        declared: Declaration,
        connect: impl FnOnce(&Self, &Directory) -> Result<W, Error>,
    ) -> Result<Process<W>, Error> {
        let started = (|| {
            let directory = self.direct(variant, declared)?;
            let window = connect(&self, &directory)?;
            let node = intendant_lapser::Node::new(&directory, self.rank().index(), window.local(), PACE);
            Ok((directory, window, node.map_err(Error::from)?))
        })();
        let started = match started {
            Ok((directory, window, node)) => {
                // From here on, other nodes may write to this node's memory.
                self.gather("intendant:items", &[]).map(|_| (directory, window, node))
            }
            Err(error) => Err(error),
        };
        match started {
            Ok((directory, window, node)) => Ok(Process::new(self.members, directory, window, node)),
            Err(error) if error.is_known_to_all() => {
                self.leave()?;
                Err(error)
            }
            Err(error) => {
                self.members.give_up(&error);
                Err(error)
            }
        }
    }

    /// The layout of all items, from the declarations of all nodes.
    fn direct(&self, variant: Variant, declared: Declaration) -> Result<Directory, Error> {
        let declared = Declaration { incarnation: random()?, ..declared };
        let all = self.gather("intendant:declarations", &declared.to_bytes())?;
        let all = all.iter().enumerate().map(|(node, bytes)| {
            Declaration::from_bytes(bytes).map_err(|source| Error::Declaration { node, source })
        });
        let all = all.collect::<Result<Vec<_>, _>>()?;
        let settings = Settings { hints: HINTS, ..Settings::new(variant) };
        Directory::new(settings, &all).map_err(Error::from)
    }

    /// Makes a window, by the way on which the nodes agree.
    fn reach(&self, way: Way, directory: &Directory) -> Result<AnyWindow, Error> {
        let told = self.gather("intendant:ways", &[&[way as u8], &random()?.to_le_bytes()[..]].concat())?;
        // Nodes of the same version send only messages that this node understands.
        let told: Vec<(Way, u64)> = told
            .iter()
            .map(|bytes| {
                let (way, run) = bytes.split_first().unwrap_or((&0, &[]));
                (Way::of_byte(*way).unwrap_or_default(), run.try_into().map_or(0, u64::from_le_bytes))
            })
            .collect();
        let ways: Vec<Way> = told.iter().map(|(way, _)| *way).collect();
        let run = told.first().map_or(0, |(_, run)| *run);
        let agreed = Way::of_all(&ways).map_err(|nodes| {
            let [one, other] = nodes.map(|node| NodeId(node as u16));
            Error::Ways { one, other, ways: nodes.map(|node| ways[node]) }
        })?;
        match agreed {
            Way::Shm => Ok(Box::new(self.map(directory)?)),
            Way::Verbs => self.over_rdma(directory, run, None),
            Way::Auto => match self.map(directory) {
                Ok(window) => Ok(Box::new(window)),
                Err(Error::Elsewhere { from, to }) => self.over_rdma(directory, run, Some((from, to))),
                Err(error) => Err(error),
            },
        }
    }

    /// Words of the memory of this node. It has some even if the node has no items.
    fn words(&self, directory: &Directory) -> usize {
        directory.words(self.rank().index()).unwrap_or(0).max(1)
    }

    /// Connects the nodes over RDMA. `run` is a number that they share, and `elsewhere` is the reason for
    /// trying RDMA.
    fn over_rdma(
        &self,
        directory: &Directory,
        run: u64,
        elsewhere: Option<(NodeId, NodeId)>,
    ) -> Result<AnyWindow, Error> {
        let words = self.words(directory);
        let mut prepared =
            Err("connections between hosts are encrypted (TLS), which RDMA is not; --memory verbs uses it \
             nevertheless"
                .to_owned());
        if !self.encrypts || elsewhere.is_none() {
            prepared = rdma::prepare(words, (self.rank(), self.nodes()), run);
        }
        // All nodes send a message, including those that cannot use RDMA, so all of them know why there is no
        // window.
        let told = match &prepared {
            Ok((_, address)) => [&[ADDRESS], &address[..]].concat(),
            Err(reason) => [&[REASON], reason.as_bytes()].concat(),
        };
        let told = self.gather("intendant:rdma", &told)?;
        let reason = |bytes: &Vec<u8>| match bytes.split_first() {
            Some((&ADDRESS, _)) => None,
            Some((_, reason)) => Some(String::from_utf8_lossy(reason).into_owned()),
            None => Some("it does not say why".to_owned()),
        };
        // This node's own reason comes first: its user can do something about it here.
        let own = std::iter::once(self.rank().index());
        let refused = own.chain(0..self.nodes()).find_map(|node| Some((node, reason(told.get(node)?)?)));
        match (prepared, refused) {
            (Ok((endpoint, _)), None) => {
                let addresses: Vec<&[u8]> = told.iter().map(|bytes| &bytes[1..]).collect();
                let window = rdma::connect(endpoint, &addresses);
                // If a node has ended, that is the cause of an error here.
                self.members.check()?;
                Ok(window?)
            }
            (_, Some((node, what))) => Err(Error::NoRdma { node: NodeId(node as u16), what, elsewhere }),
            (Err(what), None) => Err(Error::NoRdma { node: self.rank(), what, elsewhere }),
        }
    }

    /// Maps the memory of all nodes.
    fn map(&self, directory: &Directory) -> Result<MappedWindow, Error> {
        let rank = self.rank().index();
        let words = self.words(directory);
        let segment = Segment::shared(words).map_err(Error::from)?;
        let host = Host::listen().map_err(Error::from)?;
        let names = self.gather("intendant:hosts", host.name().to_string().as_bytes())?;
        let names = names.iter().enumerate().map(|(node, name)| {
            let name = String::from_utf8_lossy(name).parse::<Name>();
            name.map_err(|source| Error::Name { node, source })
        });
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let secret = Secret::new(self.secret()?);
        let goes_on = || self.members.check().is_ok();
        let connected = host.connect_while(segment, rank, &names, secret, CONNECT_DEADLINE, &goes_on);
        // If a node has ended, that is the cause of an error here, and the coordinator knows it.
        self.members.check()?;
        let window = connected.map_err(Error::from)?;
        let unmapped: Vec<u8> = (0..self.nodes() as u16)
            .filter(|node| *node != self.rank().0 && window.mapped(usize::from(*node)).is_none())
            .flat_map(u16::to_le_bytes)
            .collect();
        for (from, unmapped) in (0..).zip(self.gather("intendant:unmapped", &unmapped)?) {
            if let Some(to) = unmapped.first_chunk() {
                let (from, to) = (NodeId(from), NodeId(u16::from_le_bytes(*to)));
                return Err(Error::Elsewhere { from, to });
            }
        }
        Ok(window)
    }

    /// A secret that only processes of this cluster know: derived from the cluster's token or, without a
    /// token, drawn by node 0. A cluster without a token is open to all processes of the host anyway.
    fn secret(&self) -> Result<[u8; TOKEN_BYTES], Error> {
        if let Some(secret) = self.secret {
            return Ok(secret);
        }
        let mut drawn = [0; TOKEN_BYTES];
        getrandom::fill(&mut drawn).map_err(|error| Error::Random(error.to_string()))?;
        let all = self.gather("intendant:secret", &drawn)?;
        Ok(all.first().and_then(|first| first.as_slice().try_into().ok()).unwrap_or(drawn))
    }
}

fn random() -> Result<u64, Error> {
    getrandom::u64().map_err(|error| Error::Random(error.to_string()))
}
