//! The limit of whatever sends messages: a plain TCP connection between the two node processes, used by the
//! same threads that otherwise call the parameter server.

use crate::error::BenchError;
use crate::measure::{micros, now};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// What one write of a copy hands over. More gains nothing, and less costs system calls.
const PIECE_BYTES: usize = 128 << 10;

/// A peer that says nothing for so long is gone or stopped.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// First byte of a message: another one follows.
const MORE: u8 = 1;
/// First byte of a message: it is the last.
const LAST: u8 = 0;

/// One end of the connection.
#[derive(Debug)]
pub(crate) struct Raw {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// Where one node waits for the other to connect.
#[derive(Debug)]
pub(crate) struct Door(TcpListener);

impl Door {
    /// On the address at which the nodes met.
    pub(crate) fn open(host: &str) -> Result<Self, BenchError> {
        TcpListener::bind((host, 0)).map(Self).map_err(BenchError::plain("cannot listen"))
    }

    /// What the other node has to know.
    pub(crate) fn address(&self) -> Result<SocketAddr, BenchError> {
        self.0.local_addr().map_err(BenchError::plain("has no address"))
    }

    /// The connection of the node that calls from `peer`, which has connected already; strangers are hung up
    /// on.
    pub(crate) fn accept(self, peer: SocketAddr) -> Result<Raw, BenchError> {
        loop {
            let (stream, from) = self.0.accept().map_err(BenchError::plain("cannot accept"))?;
            if from == peer {
                return Raw::new(stream);
            }
        }
    }
}

impl Raw {
    /// Connects to the other node's door.
    pub(crate) fn connect(address: SocketAddr) -> Result<Self, BenchError> {
        let stream = TcpStream::connect_timeout(&address, SILENCE_MAX);
        Self::new(stream.map_err(BenchError::plain("cannot connect"))?)
    }

    fn new(stream: TcpStream) -> Result<Self, BenchError> {
        let set = || {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(SILENCE_MAX))?;
            stream.set_write_timeout(Some(SILENCE_MAX))
        };
        set().map_err(BenchError::plain("cannot set its options"))?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// This end's address.
    pub(crate) fn address(&self) -> Result<SocketAddr, BenchError> {
        self.stream.local_addr().map_err(BenchError::plain("has no address"))
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

    /// Sends `request` bytes and waits for `response` bytes, again and again until `time` is over. Times in
    /// microseconds go to `times`; returns how many there were. The other end calls [`Raw::answer`].
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

    /// Writes one stream until `time` is over and all of it was read; returns how many bytes it was. The
    /// other end calls [`Raw::drain`].
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

    /// Sends `send` bytes and receives `receive` bytes at the same time. The other end calls it with the
    /// numbers exchanged.
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
