//! Measures the round trip of a small frame over a fabric and, for comparison, over bare sockets, between two
//! threads of this process: over TCP, TLS, Unix sockets and rings in shared memory. With more frames in
//! flight, it measures throughput, which the mean shows. The CPU time is that of both threads.
//!
//! `cargo run --release -p intendant-transport --example pingpong -- [ROUNDS] [BYTES] [IN-FLIGHT]`
#![allow(clippy::print_stdout, reason = "its output is what this program is for")]

use bytes::Bytes;
use intendant_apptest::{Authority, Certificate, NodeFiles};
use intendant_core::{ElementType, NodeId};
use intendant_transport::socket::{Builder, Identity, Listener};
use intendant_transport::{Fabric, FabricEvent, Tls, TlsFiles, Token, Transport, TransportError};
use std::collections::VecDeque;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let rounds = numbers.next().transpose()?.unwrap_or(20_000).max(1);
    let bytes = numbers.next().transpose()?.unwrap_or(64);
    let in_flight = numbers.next().transpose()?.unwrap_or(1).clamp(1, rounds);
    let folder = tempfile::tempdir()?;
    let NodeFiles { cert, key, ca } = Authority::new().issue(folder.path(), "node", Certificate::Good);
    let tls = Tls::load(&TlsFiles { cert, key, ca })?;
    let load = Load { rounds, bytes, in_flight };
    for _ in 0..2 {
        if in_flight == 1 {
            report("bare TCP", || bare_tcp(rounds, bytes))?;
            report("bare Unix", || bare_unix(rounds, bytes))?;
        }
        report("TCP", || fabric(Transport::Tcp, None, load, false))?;
        report("TLS", || fabric(Transport::Tcp, Some(&tls), load, false))?;
        report("Unix", || fabric(Transport::Unix, None, load, false))?;
        report("rings", || fabric(Transport::Shm, None, load, false))?;
        report("rings, looking", || fabric(Transport::Shm, None, load, true))?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Load {
    rounds: usize,
    bytes: usize,
    in_flight: usize,
}

/// How long a side that polls for frames polls before it sleeps.
const WHILE: Duration = Duration::from_micros(50);

/// CPU time of this process so far, to 10 ms.
fn cpu() -> Outcome<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks =
        |at: usize| Ok::<u64, Box<dyn Error + Send + Sync>>(fields.get(at).ok_or("a field")?.parse()?);
    Ok(Duration::from_millis(10 * (ticks(11)? + ticks(12)?)))
}

#[expect(clippy::disallowed_methods, reason = "measuring is what this program is for")]
fn now() -> Instant {
    Instant::now()
}

fn report(what: &str, measure: impl FnOnce() -> Outcome<Vec<Duration>>) -> Outcome<()> {
    let (cpu_before, start) = (cpu()?, now());
    let mut times = measure()?;
    let (wall, used, rounds) = (now() - start, cpu()?.saturating_sub(cpu_before), times.len() as f64);
    times.sort();
    let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
    let share = |share: f64| micros(times[(share * (times.len() - 1) as f64) as usize]);
    println!(
        "{what:>14}: p50 {:6.1} us, p90 {:6.1} us, p99 {:6.1} us, mean {:6.1} us, CPU {:6.1} us",
        share(0.5),
        share(0.9),
        share(0.99),
        micros(wall) / rounds,
        micros(used) / rounds,
    );
    Ok(())
}

/// The next event. If `looks` is set, the side polls for a while before it sleeps.
async fn next(fabric: &mut Fabric, looks: bool) -> FabricEvent {
    let start = now();
    while looks && now() - start < WHILE {
        if let Some(event) = fabric.try_next() {
            return event;
        }
        thread::yield_now();
        tokio::task::yield_now().await;
    }
    fabric.next().await
}

fn in_runtime<F: Future>(future: F) -> Outcome<F::Output> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future))
}

/// Runs `echo` on a thread and `ask` here.
fn beside<T: Send>(
    echo: impl FnOnce() -> Outcome<()> + Send,
    ask: impl FnOnce() -> Outcome<T>,
) -> Outcome<T> {
    thread::scope(|scope| {
        let echo = scope.spawn(echo);
        let answer = ask()?;
        echo.join().map_err(|_| "the other side panicked")??;
        Ok(answer)
    })
}

fn bare_tcp(rounds: usize, bytes: usize) -> Outcome<Vec<Duration>> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let asker = std::net::TcpStream::connect(listener.local_addr()?)?;
    let (echoer, _) = listener.accept()?;
    for stream in [&asker, &echoer] {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
    }
    bare(rounds, bytes, || TcpStream::from_std(asker), || TcpStream::from_std(echoer))
}

fn bare_unix(rounds: usize, bytes: usize) -> Outcome<Vec<Duration>> {
    let (asker, echoer) = std::os::unix::net::UnixStream::pair()?;
    for stream in [&asker, &echoer] {
        stream.set_nonblocking(true)?;
    }
    bare(rounds, bytes, || UnixStream::from_std(asker), || UnixStream::from_std(echoer))
}

/// The streams belong to the runtimes that they are made in.
fn bare<S: AsyncRead + AsyncWrite + Unpin>(
    rounds: usize,
    bytes: usize,
    asker: impl FnOnce() -> std::io::Result<S>,
    echoer: impl FnOnce() -> std::io::Result<S> + Send,
) -> Outcome<Vec<Duration>> {
    let echo = move || {
        in_runtime(async {
            let (mut stream, mut buffer) = (echoer()?, vec![0; bytes + 4]);
            for _ in 0..rounds {
                stream.read_exact(&mut buffer).await?;
                stream.write_all(&buffer).await?;
            }
            Ok(())
        })?
    };
    let ask = || {
        in_runtime(async {
            let (mut stream, mut buffer) = (asker()?, vec![0; bytes + 4]);
            let mut times = Vec::with_capacity(rounds);
            for _ in 0..rounds {
                let start = now();
                stream.write_all(&buffer).await?;
                stream.read_exact(&mut buffer).await?;
                times.push(now() - start);
            }
            Ok(times)
        })?
    };
    beside(echo, ask)
}

fn identity(rank: u16) -> Identity {
    let (protocol, cluster, token, layout) = (1, 1, Token::open(), 1);
    Identity {
        protocol,
        cluster,
        token,
        layout,
        element: ElementType::F32,
        rank: NodeId(rank),
        nodes: 2,
        channels: 1,
    }
}

fn fabric(transport: Transport, tls: Option<&Tls>, load: Load, looks: bool) -> Outcome<Vec<Duration>> {
    let Load { rounds, bytes, in_flight } = load;
    let (mut asker, mut echoer) = in_runtime(connect(transport, tls))??;
    let echo = move || {
        in_runtime(async {
            let mut fabric: Fabric = echoer.remove(0).finish()?.into();
            loop {
                match next(&mut fabric, looks).await {
                    FabricEvent::Frame { from, frame } => {
                        fabric.send(from, frame);
                        fabric.try_flush();
                    }
                    FabricEvent::Closed { .. } => fabric.close(),
                    FabricEvent::Lost { error, .. } => return Err(error.into()),
                    FabricEvent::Finished => return Ok(()),
                }
            }
        })?
    };
    let ask = || {
        in_runtime(async {
            let mut fabric: Fabric = asker.remove(0).finish()?.into();
            let (frame, mut times) = (Bytes::from(vec![0; bytes]), Vec::with_capacity(rounds));
            let (mut starts, mut sent) = (VecDeque::new(), 0);
            while times.len() < rounds {
                while sent < rounds && starts.len() < in_flight {
                    starts.push_back(now());
                    fabric.send(NodeId(1), frame.clone());
                    sent += 1;
                }
                fabric.try_flush();
                let event = next(&mut fabric, looks).await;
                times.extend(starts.pop_front().map(|start| now() - start));
                if !matches!(event, FabricEvent::Frame { .. }) {
                    return Err(format!("{event:?} in place of an answer").into());
                }
            }
            fabric.close();
            while !matches!(fabric.next().await, FabricEvent::Finished) {}
            Ok(times)
        })?
    };
    beside(echo, ask)
}

async fn connect(transport: Transport, tls: Option<&Tls>) -> Outcome<(Vec<Builder>, Vec<Builder>)> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let bind = || Ok::<_, TransportError>(Listener::bind(any, transport)?.with_tls(tls.cloned()));
    let (a, b) = (bind()?, bind()?);
    let (roster, within) = ([a.address(), b.address()], Duration::from_secs(10));
    let (first, second) = (identity(0), identity(1));
    let (a, b) = tokio::join!(a.mesh(&first, &roster, within), b.mesh(&second, &roster, within));
    Ok((a?.take_builders(), b?.take_builders()))
}
