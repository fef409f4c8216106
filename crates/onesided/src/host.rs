//! Connecting the processes of one host.
//!
//! Each process listens at a random name in the abstract namespace of Unix sockets, and the names reach all
//! nodes by other means. None of this is in a file system, so a killed process leaves nothing behind. A
//! socket in this namespace has no permissions: any process of the network namespace can dial it. So before
//! they send memory, both sides check that the process at the other end belongs to their user, and compare a
//! secret.
//!
//! The node of the lower number dials. A connection has three packets, each an introduction: the dialler's;
//! the acceptor's, with memory; the dialler's, with memory. A node does not guess which nodes are on its
//! host: another node is on it if its name can be dialled there. It also dials the names of lower numbers,
//! and hangs up, to learn whether to expect a call from them.

use crate::link::Link;
use crate::mailbox::{self, Mailbox};
use crate::mapped::{Peer, check_nodes};
use crate::packet::{Introduction, Packet, Secret};
use crate::{ConnectError, MappedWindow};
use intendant_segment::{Segment, View};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::geteuid;
use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// The most calls that may wait for an answer: a node may be late, and every other node dials it.
const BACKLOG: i32 = 4096;
/// How long a node waits for others before it asks its caller whether to go on.
const LOOK: Duration = Duration::from_millis(100);
/// The most callers that have not introduced themselves. When one more calls, the node hangs up on the first
/// of them.
const STRANGERS_MAX: usize = 128;

/// The name at which a process listens. As text, it has 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name(u128);

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

impl FromStr for Name {
    type Err = ConnectError;

    fn from_str(text: &str) -> Result<Self, ConnectError> {
        let digits = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = digits.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        number.map(Self).ok_or_else(|| ConnectError::Name { text: text.to_owned() })
    }
}

impl Name {
    fn address(self) -> Result<SocketAddrUnix, ConnectError> {
        SocketAddrUnix::new_abstract_name(format!("intendant-window-{self}").as_bytes())
            .map_err(system("naming a Unix socket"))
    }
}

/// A process that listens for the other nodes of its host.
#[derive(Debug)]
pub struct Host {
    name: Name,
    listener: OwnedFd,
}

/// A connection that is not complete.
struct Call {
    socket: OwnedFd,
    with: With,
}

#[derive(Clone, Copy)]
enum With {
    /// A caller that has not introduced itself.
    Stranger,
    /// A caller that has introduced itself; its memory has not come yet.
    Caller(usize),
    /// A node that this node has called; its introduction and its memory have not come yet.
    Called(usize),
}

impl Host {
    /// Listens at a random name.
    ///
    /// # Errors
    /// If the operating system refuses a socket.
    pub fn listen() -> Result<Self, ConnectError> {
        let mut number = [0; 16];
        getrandom::fill(&mut number).map_err(|error| ConnectError::System {
            action: "drawing a random name",
            source: io::Error::other(error.to_string()),
        })?;
        let name = Name(u128::from_le_bytes(number));
        let listener = socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        rustix::net::bind(&listener, &name.address()?).map_err(system("binding a Unix socket"))?;
        rustix::net::listen(&listener, BACKLOG).map_err(system("listening at a Unix socket"))?;
        Ok(Self { name, listener })
    }

    /// The name, which all nodes need before they connect.
    #[must_use]
    pub fn name(&self) -> Name {
        self.name
    }

    /// Connects to all nodes of this host: those whose names this node can dial. `names` are the names of all
    /// nodes, this node's at `rank`; all nodes must listen already. `segment` is the memory of this node
    /// ([`Segment::shared`]), which the others will read and write. Nodes may have segments of different
    /// lengths.
    ///
    /// Nodes of other hosts, and nodes that have ended, cause no error: the window refuses operations with
    /// them ([`crate::WindowError::Elsewhere`]).
    ///
    /// # Errors
    /// If numbers and names do not fit together, if the segment is not shared, if another user's process
    /// listens at a name, if a node of this host does not know `secret`, sends no proper memory, ends before
    /// it is connected, or is not connected after `timeout`, and if the operating system refuses a call.
    pub fn connect(
        self,
        segment: Segment,
        rank: usize,
        names: &[Name],
        secret: Secret,
        timeout: Duration,
    ) -> Result<MappedWindow, ConnectError> {
        self.connect_while(segment, rank, names, secret, timeout, &|| true)
    }

    /// Connects as [`Self::connect`] does, for as long as `goes_on` returns true: this method calls it
    /// several times per second while nodes are missing.
    ///
    /// # Errors
    /// As [`Self::connect`], and [`ConnectError::GivenUp`] when `goes_on` returns false.
    pub fn connect_while(
        self,
        segment: Segment,
        rank: usize,
        names: &[Name],
        secret: Secret,
        timeout: Duration,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<MappedWindow, ConnectError> {
        let own = |source| ConnectError::Memory { node: rank, source };
        let mailbox = Segment::shared(mailbox::WORDS).map_err(own)?;
        let names: Vec<_> = names.iter().copied().map(Some).collect();
        let memory = [&segment, &mailbox];
        let peers =
            self.meet(memory, rank, &names, secret, (timeout, goes_on), |node, [segment, mailbox]| {
                let open = |fd| Segment::open(fd).map_err(|source| ConnectError::Memory { node, source });
                let (segment, mailbox) = (open(segment)?, open(mailbox)?);
                if mailbox.words() < mailbox::WORDS {
                    let (found, expected) = (mailbox.words(), mailbox::WORDS);
                    let what = format!("its mailbox has {found} words instead of {expected}");
                    return Err(ConnectError::Introduction { node, what });
                }
                Ok((segment, Mailbox::new(mailbox)))
            })?;
        let peer = |((segment, mailbox), socket)| Peer { segment, mailbox, link: Some(Link::Socket(socket)) };
        let peers = peers.into_iter().map(|connected| connected.map(peer)).collect();
        MappedWindow::new(rank, segment.clone(), Mailbox::new(mailbox.clone()), peers, None)
    }

    /// Exchanges memory for reading with all nodes of this host: the others can read `segment`
    /// ([`Segment::published`]), and this node can read the segments that the method returns, by number of
    /// node. A node without a name in `names` takes no part. Otherwise the method works as
    /// [`Host::connect_while`], but leaves no connection.
    ///
    /// # Errors
    /// As [`Host::connect_while`].
    pub fn share(
        self,
        segment: &Segment,
        rank: usize,
        names: &[Option<Name>],
        secret: Secret,
        timeout: Duration,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Vec<Option<View>>, ConnectError> {
        let peers = self.meet([segment], rank, names, secret, (timeout, goes_on), |node, [segment]| {
            View::open(segment).map_err(|source| ConnectError::Memory { node, source })
        })?;
        Ok(peers.into_iter().map(|connected| connected.map(|(view, _)| view)).collect())
    }

    /// Exchanges `N` segments with the other nodes of this host. `open` maps those of a node. Returns, for
    /// each node, the result of `open` and the socket.
    fn meet<T, const N: usize>(
        &self,
        memory: [&Segment; N],
        rank: usize,
        names: &[Option<Name>],
        secret: Secret,
        (timeout, goes_on): (Duration, &dyn Fn() -> bool),
        open: impl Fn(usize, [OwnedFd; N]) -> Result<T, ConnectError>,
    ) -> Result<Vec<Option<(T, OwnedFd)>>, ConnectError> {
        let nodes = names.len();
        check_nodes(nodes)?;
        match names.get(rank) {
            None => return Err(ConnectError::Rank { rank, nodes }),
            Some(name) if *name != Some(self.name) => return Err(ConnectError::OwnName { rank }),
            Some(_) => {}
        }
        let memory = memory.map(|segment| segment.fd().ok_or(ConnectError::NotShared));
        let meeting = Meeting {
            rank,
            introduction: Introduction { secret, rank: rank as u32, nodes: nodes as u32 },
            memory: memory.into_iter().collect::<Result<_, _>>()?,
            open,
            deadline: Deadline::after(timeout),
            goes_on,
            expected: vec![false; nodes],
            calls: Vec::new(),
            peers: (0..nodes).map(|_| None).collect(),
        };
        meeting.run(&self.listener, names)
    }
}

/// The state of [`Host::meet`].
struct Meeting<'a, T, O, const N: usize> {
    rank: usize,
    introduction: Introduction,
    /// Segments of this node.
    memory: Vec<BorrowedFd<'a>>,
    /// Maps the segments of a node.
    open: O,
    deadline: Deadline,
    goes_on: &'a dyn Fn() -> bool,
    /// The other nodes of this host, by number.
    expected: Vec<bool>,
    calls: Vec<Call>,
    /// Nodes that are connected, by number.
    peers: Vec<Option<(T, OwnedFd)>>,
}

impl<T, O, const N: usize> Meeting<'_, T, O, N>
where
    O: Fn(usize, [OwnedFd; N]) -> Result<T, ConnectError>,
{
    fn run(
        mut self,
        listener: &OwnedFd,
        names: &[Option<Name>],
    ) -> Result<Vec<Option<(T, OwnedFd)>>, ConnectError> {
        for (node, name) in names.iter().enumerate().filter(|(node, _)| *node != self.rank) {
            let Some(name) = name else { continue };
            let Some(socket) = self.dial(node, *name)? else { continue };
            self.expected[node] = true;
            if node > self.rank {
                self.introduction.send(&socket, &[]).map_err(|error| sending(node, error))?;
                self.calls.push(Call { socket, with: With::Called(node) });
            }
        }
        while let Some(missing) = self.missing() {
            self.wait(listener, missing)?;
            self.accept(listener)?;
            for call in std::mem::take(&mut self.calls) {
                if let Some(call) = self.answer(call)? {
                    self.calls.push(call);
                }
            }
        }
        Ok(self.peers)
    }

    /// The time that is left to wait for `node`.
    fn left(&self, node: usize) -> Result<Duration, ConnectError> {
        if !(self.goes_on)() {
            return Err(ConnectError::GivenUp { node });
        }
        self.deadline.left().ok_or_else(|| self.deadline.missed(node))
    }

    /// An expected node that has not connected yet.
    fn missing(&self) -> Option<usize> {
        (0..self.peers.len()).find(|node| self.expected[*node] && self.peers[*node].is_none())
    }

    /// Dials a node; `None` if no process listens at this name here.
    fn dial(&self, node: usize, name: Name) -> Result<Option<OwnedFd>, ConnectError> {
        let socket = socket(SocketFlags::CLOEXEC)?;
        // Bounds the time for which a full queue of callers delays this node.
        set_socket_timeout(&socket, Timeout::Send, Some(LOOK)).map_err(system("setting a timeout"))?;
        loop {
            self.left(node)?;
            match rustix::net::connect(&socket, &name.address()?) {
                Ok(()) => break,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(Errno::CONNREFUSED) => return Ok(None),
                Err(error) => return Err(system("dialling a Unix socket")(error)),
            }
        }
        match other_user(&socket).map_err(system("asking for the user of a process"))? {
            Some((ours, theirs)) => Err(ConnectError::User { node, ours, theirs }),
            None => Ok(Some(socket)),
        }
    }

    /// Waits for a caller or a packet.
    fn wait(&self, listener: &OwnedFd, missing: usize) -> Result<(), ConnectError> {
        let left = self.left(missing)?.min(LOOK);
        let sockets = std::iter::once(listener).chain(self.calls.iter().map(|call| &call.socket));
        let mut watched: Vec<_> = sockets.map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        match poll(&mut watched, left.try_into().ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(system("waiting for nodes (poll)")(error)),
        }
    }

    /// Accepts callers of this user.
    fn accept(&mut self, listener: &OwnedFd) -> Result<(), ConnectError> {
        loop {
            let socket = match rustix::net::accept_with(listener, SocketFlags::CLOEXEC) {
                Ok(socket) => socket,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(system("accepting a connection")(error)),
            };
            if !matches!(other_user(&socket), Ok(None)) {
                continue;
            }
            let mut strangers =
                self.calls.iter().enumerate().filter(|(_, call)| matches!(call.with, With::Stranger));
            let first = strangers.next().map(|(at, _)| at);
            if strangers.count() + 1 >= STRANGERS_MAX
                && let Some(first) = first
            {
                self.calls.remove(first);
            }
            self.calls.push(Call { socket, with: With::Stranger });
        }
    }

    /// Takes the next packet of a call, if there is one. Returns the call if it goes on.
    fn answer(&mut self, call: Call) -> Result<Option<Call>, ConnectError> {
        let received = Packet::receive(&call.socket);
        match call.with {
            With::Stranger => match received {
                Ok(None) => Ok(Some(call)),
                // A process that does not know the secret has nothing to do with this run.
                Ok(Some(packet)) => match self.introduction.rank_of(packet.bytes()) {
                    Ok(None) => Ok(None),
                    Ok(Some(node)) => self.welcome(call.socket, node).map(Some),
                    Err(what) => Err(ConnectError::Mixed { what }),
                },
                Err(_) => Ok(None),
            },
            With::Caller(node) | With::Called(node) => {
                let packet = match received {
                    Ok(None) => return Ok(Some(call)),
                    Ok(Some(packet)) if !packet.bytes().is_empty() => packet,
                    Ok(Some(_)) | Err(Errno::CONNRESET) => return Err(ConnectError::Ended { node }),
                    Err(error) => return Err(system("receiving from a node")(error)),
                };
                let called = matches!(call.with, With::Called(_));
                self.connected(call.socket, node, packet, called)?;
                Ok(None)
            }
        }
    }

    /// Answers a caller that has introduced itself: sends it this node's memory.
    fn welcome(&self, socket: OwnedFd, node: usize) -> Result<Call, ConnectError> {
        if node >= self.rank {
            let what = format!("it has no lower number than this one, {}: {node}", self.rank);
            return Err(ConnectError::Mixed { what });
        }
        let known = |call: &Call| matches!(call.with, With::Caller(other) if other == node);
        if self.peers[node].is_some() || self.calls.iter().any(known) {
            return Err(ConnectError::Mixed { what: format!("node {node} has called before") });
        }
        self.introduction.send(&socket, &self.memory).map_err(|error| sending(node, error))?;
        Ok(Call { socket, with: With::Caller(node) })
    }

    /// Handles the packet with the memory of a node.
    fn connected(
        &mut self,
        socket: OwnedFd,
        node: usize,
        packet: Packet,
        called: bool,
    ) -> Result<(), ConnectError> {
        let wrong = |what: String| ConnectError::Introduction { node, what };
        match self.introduction.rank_of(packet.bytes()).map_err(wrong)? {
            None => return Err(wrong("it does not know the secret of this run".to_owned())),
            Some(rank) if rank != node => return Err(wrong(format!("it says that it is node {rank}"))),
            Some(_) => {}
        }
        if packet.truncated {
            let what = "its descriptors have not arrived: this process may have too many (ulimit -n)";
            return Err(wrong(what.to_owned()));
        }
        let segments = <[OwnedFd; N]>::try_from(packet.descriptors)
            .map_err(|sent| wrong(format!("it has sent {} descriptors instead of {N}", sent.len())))?;
        let opened = (self.open)(node, segments)?;
        if called {
            self.introduction.send(&socket, &self.memory).map_err(|error| sending(node, error))?;
        }
        self.peers[node] = Some((opened, socket));
        Ok(())
    }
}

/// The end of a wait, and the length of the wait.
struct Deadline {
    end: Option<Instant>,
    timeout: Duration,
}

impl Deadline {
    fn after(timeout: Duration) -> Self {
        Self { end: now().checked_add(timeout), timeout }
    }

    /// The time that is left; `None` if no time is left.
    fn left(&self) -> Option<Duration> {
        let Some(end) = self.end else { return Some(self.timeout) };
        Some(end.saturating_duration_since(now())).filter(|left| !left.is_zero())
    }

    fn missed(&self, node: usize) -> ConnectError {
        ConnectError::Late { node, seconds: self.timeout.as_secs() }
    }
}

#[expect(clippy::disallowed_methods, reason = "the deadline of a connection; no protocol depends on it")]
fn now() -> Instant {
    Instant::now()
}

fn socket(flags: SocketFlags) -> Result<OwnedFd, ConnectError> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(system("making a Unix socket"))
}

/// The users of this process and of the process at the other end, if they differ.
fn other_user(socket: &OwnedFd) -> Result<Option<(u32, u32)>, Errno> {
    let (ours, theirs) = (geteuid().as_raw(), socket_peercred(socket)?.uid.as_raw());
    Ok((ours != theirs).then_some((ours, theirs)))
}

fn sending(node: usize, error: Errno) -> ConnectError {
    match error {
        Errno::PIPE | Errno::CONNRESET => ConnectError::Ended { node },
        error => system("sending to a node")(error),
    }
}

fn system(action: &'static str) -> impl Fn(Errno) -> ConnectError {
    move |error| ConnectError::System { action, source: error.into() }
}
