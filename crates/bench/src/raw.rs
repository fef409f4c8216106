//! The limit of all operations that send messages: a plain connection between the two node processes. It is
//! of the same kind as the connections of the parameter server, and the same threads use it that otherwise
//! call the parameter server.

use crate::error::BenchError;
use crate::measure::{micros, now};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// Bytes of one write of a copy. Larger writes gain nothing, and smaller ones cost system calls.
const PIECE_BYTES: usize = 128 << 10;

/// A peer that is silent for this long is gone or stopped.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// First byte of a message that is followed by another one.
const MORE: u8 = 1;
/// First byte of the last message.
const LAST: u8 = 0;

/// A number that both nodes know and strangers do not know. A connection begins with it.
type Key = [u8; 8];

/// How long a connection may take to show the key.
const INTRODUCTION_MAX: Duration = Duration::from_secs(1);

/// A connection of either kind.
#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// One end of the connection.
#[derive(Debug)]
pub(crate) struct Raw {
    stream: Stream,
    buffer: Vec<u8>,
}

/// The socket at which one node waits for the other to connect.
#[derive(Debug)]
pub(crate) struct Door {
    socket: Socket,
    /// The address and the key, as the other node needs them.
    text: String,
    key: Key,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Door {
    /// Opens a door on the address at which the nodes met, or, if the nodes use Unix sockets, on a Unix
    /// socket.
    pub(crate) fn open(host: &str, unix: bool) -> Result<Self, BenchError> {
        let key = RandomState::new().build_hasher().finish();
        let open = || {
            if unix {
                let name = format!("intendant-bench-{}", std::process::id());
                return Ok((Socket::Unix(listen(&name)?), format!("unix {name} {key}")));
            }
            let socket = TcpListener::bind((host, 0))?;
            let address = socket.local_addr()?;
            Ok((Socket::Tcp(socket), format!("tcp {address} {key}")))
        };
        let (socket, text) = open().map_err(BenchError::plain("cannot listen"))?;
        Ok(Self { socket, text, key: key.to_le_bytes() })
    }

    /// The address and the key, as the other node needs them.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the connection of the other node, which has already connected. Connections of strangers are
    /// closed.
    pub(crate) fn accept(self) -> Result<Raw, BenchError> {
        loop {
            let accepted = match &self.socket {
                Socket::Tcp(socket) => socket.accept().map(|(stream, _)| Stream::Tcp(stream)),
                Socket::Unix(socket) => socket.accept().map(|(stream, _)| Stream::Unix(stream)),
            };
            let stream = accepted.map_err(BenchError::plain("cannot accept"))?;
            let mut raw = Raw::new(stream, INTRODUCTION_MAX)?;
            let mut key = Key::default();
            if raw.stream.read_exact(&mut key).is_ok() && key == self.key {
                raw.stream.set_patience(SILENCE_MAX).map_err(BenchError::plain("cannot set its options"))?;
                return Ok(raw);
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn address(name: &str) -> io::Result<std::os::unix::net::SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    std::os::unix::net::SocketAddr::from_abstract_name(name)
}

/// Other systems have no abstract names of sockets; there, nodes use TCP.
#[cfg(not(target_os = "linux"))]
fn address(_: &str) -> io::Result<std::os::unix::net::SocketAddr> {
    Err(ErrorKind::Unsupported.into())
}

fn listen(name: &str) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&address(name)?)
}

impl Raw {
    /// Connects to the other node's door, by its text.
    pub(crate) fn connect(door: &str) -> Result<Self, BenchError> {
        let mut words = door.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let (kind, place, key) = (word(), word(), word());
        let unusable = || BenchError::Other(format!("the other node's address is '{door}', which is none"));
        let key: u64 = key.parse().map_err(|_| unusable())?;
        let stream = match kind {
            "unix" => address(place).and_then(|place| UnixStream::connect_addr(&place)).map(Stream::Unix),
            _ => {
                let place = place.parse().map_err(|_| unusable())?;
                TcpStream::connect_timeout(&place, SILENCE_MAX).map(Stream::Tcp)
            }
        };
        let mut raw = Self::new(stream.map_err(BenchError::plain("cannot connect"))?, SILENCE_MAX)?;
        raw.stream.write_all(&key.to_le_bytes()).map_err(BenchError::plain("cannot write"))?;
        Ok(raw)
    }

    fn new(stream: Stream, patience: Duration) -> Result<Self, BenchError> {
        let set = || {
            if let Stream::Tcp(stream) = &stream {
                stream.set_nodelay(true)?;
            }
            stream.set_patience(patience)
        };
        set().map_err(BenchError::plain("cannot set its options"))?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// The name of a limit: `what` over a connection of this kind.
    pub(crate) fn limit(&self, what: &str) -> String {
        let kind = match self.stream {
            Stream::Tcp(_) => "TCP",
            Stream::Unix(_) => "Unix-socket",
        };
        format!("a raw {kind} {what}")
    }

    fn write(&mut self, first: u8, bytes: usize) -> Result<(), BenchError> {
        self.reserve(bytes);
        self.buffer[0] = first;
        self.stream.write_all(&self.buffer[..bytes]).map_err(BenchError::plain("cannot write"))
    }

    /// Returns the first byte.
    fn read(&mut self, bytes: usize) -> Result<u8, BenchError> {
        self.reserve(bytes);
        self.stream.read_exact(&mut self.buffer[..bytes]).map_err(BenchError::plain("cannot read"))?;
        Ok(self.buffer[0])
    }

    fn reserve(&mut self, bytes: usize) {
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
    }

    /// Sends `request` bytes and waits for `response` bytes, again and again until `time` is over. Appends
    /// the times in microseconds to `times`, and returns their number. The other end calls [`Raw::answer`].
    pub(crate) fn ask(
        &mut self,
        request: usize,
        response: usize,
        time: Duration,
        times: &mut Vec<f64>,
    ) -> Result<u64, BenchError> {
        let (request, response, begun) = (request.max(1), response.max(1), now());
        let mut asked = 0;
        loop {
            let start = now();
            let first = if start.duration_since(begun) < time { MORE } else { LAST };
            self.write(first, request)?;
            self.read(response)?;
            times.push(micros(start.elapsed()));
            asked += 1;
            if first == LAST {
                return Ok(asked);
            }
        }
    }

    /// The other end of [`Raw::ask`].
    pub(crate) fn answer(&mut self, request: usize, response: usize) -> Result<u64, BenchError> {
        let mut answered = 0;
        loop {
            let first = self.read(request.max(1))?;
            self.write(MORE, response.max(1))?;
            answered += 1;
            if first == LAST {
                return Ok(answered);
            }
        }
    }

    /// Writes one stream until `time` is over, and waits until all of it was read. Returns its number of
    /// bytes. The other end calls [`Raw::drain`].
    pub(crate) fn pour(&mut self, time: Duration) -> Result<u64, BenchError> {
        let (begun, mut pieces) = (now(), 0);
        loop {
            let first = if begun.elapsed() < time { MORE } else { LAST };
            self.write(first, PIECE_BYTES)?;
            pieces += 1;
            if first == LAST {
                self.read(1)?;
                return Ok(pieces * PIECE_BYTES as u64);
            }
        }
    }

    /// The other end of [`Raw::pour`].
    pub(crate) fn drain(&mut self) -> Result<u64, BenchError> {
        let mut pieces = 0;
        loop {
            let first = self.read(PIECE_BYTES)?;
            pieces += 1;
            if first == LAST {
                self.write(LAST, 1)?;
                return Ok(pieces * PIECE_BYTES as u64);
            }
        }
    }

    /// Sends `send` bytes and receives `receive` bytes at the same time. The other end calls it with the two
    /// numbers swapped.
    pub(crate) fn exchange(&mut self, send: usize, receive: usize) -> Result<(), BenchError> {
        self.reserve(PIECE_BYTES);
        self.stream.set_nonblocking(true).map_err(BenchError::plain("cannot set its options"))?;
        let exchanged = self.exchange_without_blocking(send, receive);
        self.stream.set_nonblocking(false).map_err(BenchError::plain("cannot set its options"))?;
        exchanged
    }

    fn exchange_without_blocking(&mut self, mut send: usize, mut receive: usize) -> Result<(), BenchError> {
        let broken = BenchError::plain;
        while send > 0 || receive > 0 {
            let mut moved = false;
            if send > 0 {
                match self.stream.write(&self.buffer[..send.min(PIECE_BYTES)]) {
                    Ok(bytes) => (send, moved) = (send - bytes, true),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(broken("cannot write")(error)),
                }
            }
            if receive > 0 {
                match self.stream.read(&mut self.buffer[..receive.min(PIECE_BYTES)]) {
                    Ok(0) => return Err(broken("cannot read")(ErrorKind::UnexpectedEof.into())),
                    Ok(bytes) => (receive, moved) = (receive - bytes, true),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(broken("cannot read")(error)),
                }
            }
            if !moved {
                let mut awaited = PollFlags::empty();
                awaited.set(PollFlags::IN, receive > 0);
                awaited.set(PollFlags::OUT, send > 0);
                let patience = Timespec { tv_sec: SILENCE_MAX.as_secs() as i64, tv_nsec: 0 };
                match poll(&mut [PollFd::new(&self.stream, awaited)], Some(&patience)) {
                    Ok(0) => return Err(broken("the other end is silent")(ErrorKind::TimedOut.into())),
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(broken("cannot wait")(error.into())),
                }
            }
        }
        Ok(())
    }
}

impl Stream {
    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))
            }
        }
    }

    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nonblocking(nonblocking),
            Self::Unix(stream) => stream.set_nonblocking(nonblocking),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(bytes),
            Self::Unix(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}
