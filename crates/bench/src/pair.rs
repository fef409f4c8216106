//! Two node processes, for the modes that measure between processes. They start, meet, work in turns, and
//! send each other the cost of each turn.

use crate::args::Mode;
use crate::error::BenchError;
use crate::measure::{now, process_cpu_ns, thread_cpu_ns};
use crate::pin;
use crate::raw::{Door, Raw};
use crate::settings::Settings;
use intendant::launch::Launch;
use intendant::{Element, Node, NodeConfig, NodeId, Rendezvous, Worker};
use std::time::Duration;

/// Number of nodes of such a cluster.
pub(crate) const NODES: usize = 2;

/// The first node, which decides how long a turn is, and prints.
const FIRST: NodeId = NodeId(0);

/// What this process is.
pub(crate) enum Part {
    /// The process that the user started. The nodes have ended, with this exit code.
    Launcher(u8),
    /// A node, which has yet to join.
    Node(Rendezvous),
}

/// Starts two copies of this process and waits for them, unless this process is such a copy itself, or a
/// launcher started it. A launcher must have started two processes.
pub(crate) fn part(mode: Mode) -> Result<Part, BenchError> {
    match Rendezvous::from_env()? {
        None => Ok(Part::Launcher(Launch::this_program(NODES)?.run()?)),
        Some(rendezvous) if rendezvous.nodes() == NODES => Ok(Part::Node(rendezvous)),
        Some(rendezvous) => Err(BenchError::Usage(format!(
            "mode {} measures {NODES} nodes, but the environment says {} (by {}); start {NODES}, or set INTENDANT_LAUNCHER=none and \
             this program starts them",
            mode.name(),
            rendezvous.nodes(),
            rendezvous.launcher()
        ))),
    }
}

/// The cost of a node's part of a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    /// Number of calls.
    pub(crate) calls: f64,
    /// Wall time until the node's own part was done.
    pub(crate) wall_ns: f64,
    /// CPU time of the whole process, until both nodes were done.
    pub(crate) cpu_ns: f64,
    /// CPU time of the worker's thread.
    pub(crate) worker_cpu_ns: f64,
    /// Bytes that the node sent, without the transport's own bytes.
    pub(crate) bytes: f64,
}

impl Load {
    fn to_bytes(self) -> Vec<u8> {
        let Self { calls, wall_ns, cpu_ns, worker_cpu_ns, bytes } = self;
        [calls, wall_ns, cpu_ns, worker_cpu_ns, bytes].into_iter().flat_map(f64::to_le_bytes).collect()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut numbers = bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().expect("8 bytes")));
        let mut next = || numbers.next();
        Some(Self {
            calls: next()?,
            wall_ns: next()?,
            cpu_ns: next()?,
            worker_cpu_ns: next()?,
            bytes: next()?,
        })
    }
}

/// The cost of both nodes' parts of a turn, by node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loads(pub(crate) [Load; NODES]);

impl Loads {
    /// CPU time of both processes.
    pub(crate) fn cpu_ns(&self) -> f64 {
        self.0[0].cpu_ns + self.0[1].cpu_ns
    }

    /// Wall time until the slower node was done.
    pub(crate) fn wall_ns(&self) -> f64 {
        self.0[0].wall_ns.max(self.0[1].wall_ns)
    }

    /// Adds the cost of other turns.
    pub(crate) fn add(&mut self, other: &Self) {
        for (load, more) in self.0.iter_mut().zip(&other.0) {
            load.calls += more.calls;
            load.wall_ns += more.wall_ns;
            load.cpu_ns += more.cpu_ns;
            load.worker_cpu_ns += more.worker_cpu_ns;
            load.bytes += more.bytes;
        }
    }

    /// Bytes that a node sent per call of the first node, rounded.
    pub(crate) fn bytes_per_call(&self, node: usize) -> usize {
        (self.0[node].bytes / self.0[0].calls.max(1.0)).round() as usize
    }
}

/// One of the two nodes, with its worker and its end of the plain connection.
pub(crate) struct Pair<E: Element> {
    pub(crate) node: Node<E>,
    pub(crate) worker: Worker<E>,
    pub(crate) raw: Raw,
}

impl<E: Element> Pair<E> {
    /// Joins the cluster and connects to the other node.
    pub(crate) fn join(
        settings: &Settings,
        config: NodeConfig<E>,
        at: Rendezvous,
    ) -> Result<Self, BenchError> {
        // The process is pinned before it starts its first thread, because all threads inherit the setting.
        pin::pin(settings.cores, if at.local().1 > 1 { at.local().0 } else { 0 })?;
        let host = at.coordinator().host.clone();
        let mut node = Node::join(config, at)?;
        let mut worker = node.workers().pop().expect("a node has a worker");
        let raw = if node.rank() == FIRST {
            let door = Door::open(&host, node.links().unix + node.links().shm > 0)?;
            tell(&mut worker, door.text())?;
            // After this, the other node has connected, or the cluster has failed.
            tell(&mut worker, "")?;
            door.accept()?
        } else {
            let door = tell(&mut worker, "")?.remove(0);
            let raw = Raw::connect(&String::from_utf8_lossy(&door))?;
            tell(&mut worker, "")?;
            raw
        };
        Ok(Self { node, worker, raw })
    }

    /// Whether this is the first node.
    pub(crate) fn is_first(&self) -> bool {
        self.node.rank() == FIRST
    }

    /// Runs a turn: both nodes begin at the same time; each does its `work`, which returns the number of
    /// calls, and waits for the other.
    pub(crate) fn turn(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<u64, BenchError>,
    ) -> Result<Loads, BenchError> {
        // The other node may begin before this one has returned from the barrier.
        let sent = self.node.network().bytes;
        self.worker.barrier("begin")?;
        let (wall, cpu, worker_cpu) = (now(), process_cpu_ns(), thread_cpu_ns());
        let calls = work(self)? as f64;
        let wall_ns = wall.elapsed().as_nanos() as f64;
        let worker_cpu_ns = thread_cpu_ns() - worker_cpu;
        self.worker.barrier("done")?;
        let cpu_ns = process_cpu_ns() - cpu;
        let bytes = (self.node.network().bytes - sent) as f64;
        let own = Load { calls, wall_ns, cpu_ns, worker_cpu_ns, bytes };
        let all = self.worker.gather("what it took", own.to_bytes())?;
        match all.iter().map(|bytes| Load::from_bytes(bytes)).collect::<Option<Vec<_>>>().as_deref() {
            Some([first, second]) => Ok(Loads([*first, *second])),
            _ => Err(BenchError::Other("the other node told something else than what a turn took".into())),
        }
    }

    /// Runs turns until they have taken `time` together, by the first node's clock, so both nodes run equally
    /// many turns. `work` gets the number of the turn.
    pub(crate) fn turns(
        &mut self,
        time: Duration,
        mut work: impl FnMut(&mut Self, usize) -> Result<u64, BenchError>,
    ) -> Result<Loads, BenchError> {
        let mut all = Loads::default();
        let mut turns = 0;
        while turns == 0 || all.0[0].wall_ns < time.as_nanos() as f64 {
            all.add(&self.turn(|pair| work(pair, turns))?);
            turns += 1;
        }
        Ok(all)
    }

    /// Leaves, together with the other node.
    pub(crate) fn leave(self) -> Result<(), BenchError> {
        drop(self.worker);
        Ok(self.node.shutdown()?)
    }
}

/// Sends a text to the other node. Returns the texts of both nodes.
fn tell<E: Element>(worker: &mut Worker<E>, text: &str) -> Result<Vec<Vec<u8>>, BenchError> {
    Ok(worker.gather("address", text.as_bytes().to_vec())?)
}
