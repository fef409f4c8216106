//! How a node wakes another node, and how it notices that the other node has ended.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The only message between connected nodes: look into the mailbox.
const WAKE: u8 = 1;
/// The most wake-ups that one call takes. Those that are left wake the node again.
const WAKES_MAX: usize = 64;
/// The most events of one wait. Those that are left come with the next wait.
const READY_MAX: usize = 64;
/// The key of this node's bell in the wait; the key of a link is the number of its node.
const BELL: u64 = u64::MAX;

/// The life of a node, as other nodes of its process see it, and the bell with which they wake it.
#[derive(Debug)]
pub(crate) struct Life {
    ended: AtomicBool,
    bell: OwnedFd,
}

impl Life {
    pub(crate) fn begin() -> io::Result<Arc<Self>> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Self { ended: AtomicBool::new(false), bell }))
    }

    /// Ends the life: every node that looks from now on sees that this node has ended, and everything that it
    /// has written.
    pub(crate) fn end(&self) {
        // Release: pairs with the Acquire in `Link::has_ended`.
        self.ended.store(true, Ordering::Release);
    }

    fn ring(&self) {
        // A full counter wakes as well.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

/// The link to another node.
#[derive(Debug)]
pub(crate) enum Link {
    /// A node of this process.
    Life(Arc<Life>),
    /// A process of this host, at the other end of a socket of packets.
    Socket(OwnedFd),
}

impl Link {
    /// Wakes the node. The call does not wait: a full socket holds wake-ups that the node has not seen yet.
    pub(crate) fn wake(&self) {
        match self {
            Self::Life(life) => life.ring(),
            Self::Socket(socket) => {
                // `has_ended` notices a node that has ended.
                let _ = rustix::net::send(socket, &[WAKE], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            }
        }
    }

    /// Whether the node has ended. The call takes wake-ups that the node has sent.
    pub(crate) fn has_ended(&self) -> bool {
        match self {
            // Acquire: pairs with the Release in `Life::end`.
            Self::Life(life) => life.ended.load(Ordering::Acquire),
            Self::Socket(socket) => (0..WAKES_MAX)
                .find_map(|_| {
                    let mut packet = [0];
                    match rustix::net::recv(socket, &mut packet, RecvFlags::DONTWAIT) {
                        Ok((_, 1)) if packet == [WAKE] => None,
                        Err(Errno::AGAIN | Errno::INTR) => Some(false),
                        // The end of the stream, an error, or a message that no node sends.
                        Ok(_) | Err(_) => Some(true),
                    }
                })
                .unwrap_or(false),
        }
    }
}

/// Waits for any of several links.
#[derive(Debug)]
pub(crate) struct Waker {
    epoll: OwnedFd,
    /// The life of this node, if other nodes of its process ring its bell.
    life: Option<Arc<Life>>,
}

impl Waker {
    pub(crate) fn new(life: Option<Arc<Life>>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        if let Some(life) = &life {
            epoll::add(&epoll, &life.bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
        }
        Ok(Self { epoll, life })
    }

    pub(crate) fn add(&self, node: usize, link: &Link) -> io::Result<()> {
        match link {
            // A node of this process rings the bell.
            Link::Life(_) => Ok(()),
            Link::Socket(socket) => {
                let data = epoll::EventData::new_u64(node as u64);
                Ok(epoll::add(&self.epoll, socket, data, epoll::EventFlags::IN)?)
            }
        }
    }

    /// Waits at most for `timeout` until a node has woken this one or has ended. Returns whether one has.
    pub(crate) fn wait(&self, timeout: Duration) -> io::Result<bool> {
        // `epoll_wait` counts in milliseconds, but nodes pause for microseconds. A timeout that is longer
        // than the system can count means no limit.
        let timeout = timeout.try_into().ok();
        match poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let (mut ready, at_once) = ([MaybeUninit::uninit(); READY_MAX], Timespec::default());
        let ready: &[epoll::Event] = match epoll::wait(&self.epoll, &mut ready, Some(&at_once)) {
            Ok((ready, _)) => ready,
            Err(Errno::INTR) => &[],
            Err(error) => return Err(error.into()),
        };
        if let Some(life) = &self.life
            && ready.iter().any(|event| event.data.u64() == BELL)
        {
            let mut rung = [0; 8];
            // The bell is now silent until it rings again; if it was silent already, nothing is lost.
            let _ = rustix::io::read(&life.bell, &mut rung);
        }
        Ok(!ready.is_empty())
    }
}
