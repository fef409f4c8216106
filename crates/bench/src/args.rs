//! The command line, as it is typed. [`crate::settings`] interprets it.

use clap::{Parser, ValueEnum};
use intendant::{ElementType, Technique, Transport};
use std::path::PathBuf;

/// Measures operations of the parameter server beside the limit of the machine.
#[derive(Debug, Parser)]
#[command(name = "intendant-bench", version)]
pub(crate) struct Args {
    /// What to measure.
    pub(crate) mode: Mode,
    /// Operation; both if not given (local, remote, window).
    #[arg(long)]
    pub(crate) op: Option<Op>,
    /// Elements per value [default: 128; memory and window: 16].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) len: Option<u32>,
    /// Keys per call [default: 128].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) batch: Option<u32>,
    /// Threads that operate at the same time (local, sample) [default: 1].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: Option<u32>,
    /// Keys of the model [default: 100000; memory: 4000000; window: 128].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub(crate) keys: Option<u64>,
    /// Distribution of the keys that are accessed [default: uniform].
    #[arg(long)]
    pub(crate) dist: Option<Dist>,
    /// What accesses are measured beside (local) [default: plain].
    #[arg(long)]
    pub(crate) limit: Option<Limit>,
    /// How the worker accesses the values (local): in shared memory, through the queue of a channel's thread,
    /// or through messages to another process that holds all of them, one call at a time [default: shared].
    #[arg(long, value_name = "KIND")]
    pub(crate) local_access: Option<Access>,
    /// Parameter management technique [default: classic; relocate and sample: lapse; sync: full-replication;
    /// intent and idle: adaptive].
    #[arg(long)]
    pub(crate) technique: Option<Technique>,
    /// Element type, f32 or f64.
    #[arg(long, default_value = "f32")]
    pub(crate) float: ElementType,
    /// Calls under way at the same time (remote, relocate) [default: 8; remote with --batch 1: 1, which is
    /// synchronous calls].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) in_flight: Option<u32>,
    /// Connections between the two node processes, and of the limit: auto and shm (rings in shared
    /// memory on one host; the limit is a Unix socket), unix (Unix sockets on one host), tcp, or, if built
    /// with the feature verbs, verbs (RDMA; the limit is TCP) (remote, relocate, sync, intent, idle, local
    /// with ipc) [default: auto].
    #[arg(long)]
    pub(crate) transport: Option<Transport>,
    /// Read values in the memory of the other process, where they are (remote).
    #[arg(long)]
    pub(crate) windows: bool,
    /// On which cores the two node processes run (remote, relocate, sync, intent, idle, window, local with
    /// ipc).
    #[arg(long, default_value = "apart")]
    pub(crate) cores: Cores,
    /// Time to spend per row, in seconds.
    #[arg(long, default_value_t = 5.0, value_parser = positive)]
    pub(crate) seconds: f64,
    /// Rounds in which the limit and the measurement take turns; medians are over rounds.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Also write the rows as JSON, one array.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Set by mode memory for the processes that it measures: hold a model of that many keys and say how much
    /// is resident.
    #[arg(long, hide = true, value_name = "KEYS")]
    pub(crate) resident: Option<u64>,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        // At most a day. Less than a microsecond measures nothing.
        Ok(seconds) if (1e-6..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds above 0, at most 86400".to_owned()),
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Accesses to parameters that this node owns, beside a plain gather or add over a flat array.
    Local,
    /// Accesses to parameters that another process owns, beside a plain connection between the same
    /// processes.
    Remote,
    /// Parameters that move between two processes, beside a plain exchange of the same bytes.
    Relocate,
    /// Static replicas that two processes bring in step, beside a plain exchange of the same bytes and a
    /// plain add.
    Sync,
    /// Announcements of intents, beside appending the keys to a list; and what the node does about them.
    Intent,
    /// CPU time of two processes that have nothing to do.
    Idle,
    /// Resident bytes per key, beside the values alone.
    Memory,
    /// Samples by each scheme, beside a plain draw and gather.
    Sample,
    /// Reads of values in the memory of another process, beside a plain copy.
    Window,
}

impl Mode {
    /// The name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Remote => "remote",
            Self::Relocate => "relocate",
            Self::Sync => "sync",
            Self::Intent => "intent",
            Self::Idle => "idle",
            Self::Memory => "memory",
            Self::Sample => "sample",
            Self::Window => "window",
        }
    }
}

/// The limit next to which accesses to parameters of this node are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Limit {
    /// A flat array for each thread.
    Plain,
    /// One array for all threads, with a latch for each row: what hot keys cost the threads that share them.
    Latched,
}

/// How a worker accesses the values that it trains on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Access {
    /// In shared memory, as in Lapse.
    Shared,
    /// Through the queue of a thread of the same process, as in Petuum.
    Queue,
    /// Through messages to another process of the same host, as in PS-Lite.
    Ipc,
}

impl Access {
    /// The name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Queue => "queue",
            Self::Ipc => "ipc",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Op {
    /// Read.
    Pull,
    /// Add.
    Push,
}

impl Op {
    /// The name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "push",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dist {
    /// All keys alike.
    Uniform,
    /// Zipf with exponent 1.1, hot keys spread over the key space.
    Zipf,
}

impl Dist {
    /// The name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Cores {
    /// Each process on one core of its own, as far as there are enough.
    Apart,
    /// Both processes on the same core.
    Together,
    /// Wherever the operating system puts them.
    Any,
}
