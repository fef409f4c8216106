//! The flags that all applications share, as the user typed them.
//!
//! Each flag can also be given as an environment variable (`INTENDANT_` and its name in capitals) and as a
//! key of the `--config` file. [`crate::settings`] adds both layers to all flags.

use crate::error::TrainError;
use crate::intents::IntentArgs;
use crate::parse;
use crate::replication::ReplicationArgs;
use crate::sampling::SamplingArgs;
use crate::tls::TlsArgs;
use clap::ArgAction;
use clap::builder::RangedU64ValueParser;
use intendant::lapser::Variant;
use intendant::{Location, Order, Packing, Storage, Transport};
use intendant_core::{ElementType, KeyOrder, UnknownName, by_name, limits};
use std::fmt;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;

/// The source of the training data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataSource {
    /// A data set that is built into the application, by name.
    Builtin(String),
    /// A file or folder.
    Path(PathBuf),
}

/// The source of test or validation data, if it is not part of the data set.
#[derive(Clone, Debug, PartialEq)]
pub enum TestSource {
    /// This part of the training data is held out; greater than 0, less than 1.
    Fraction(f64),
    /// A file.
    File(PathBuf),
}

impl FromStr for TestSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse::test(text)
    }
}

/// Who manages the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Technique {
    /// Plain memory that the workers of one process share; no parameter server.
    Single,
    /// A parameter server.
    Server(intendant::Technique),
    /// No parameter server: the nodes of a [`Program`](crate::Program) exchange what they compute.
    Exchange(Exchange),
}

/// How the nodes of a [`Program`](crate::Program) exchange what they compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// Lapser: a node writes each value to the nodes that need it [Lapser §3.2.2.A].
    LapserPush,
    /// Lapser: a node reads a value when its copy is too old [Lapser §3.2.2.B].
    LapserPull,
    /// Lapser: a node writes a value to those nodes whose copy would be too old for their slack.
    LapserPushBySlack,
    /// A node writes each value to the nodes that need it, and all nodes meet after each step [Lapser Tab.
    /// 5.2, GPI and MPI Put].
    OneSided,
    /// A node writes all values of a step to all nodes at once, and all nodes meet.
    AllGather,
    /// A node writes each value to all nodes, and all nodes meet [Lapser Tab. 5.2, MPI Bcast].
    Broadcast,
}

impl Exchange {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::LapserPush,
        Self::LapserPull,
        Self::LapserPushBySlack,
        Self::OneSided,
        Self::AllGather,
        Self::Broadcast,
    ];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LapserPush => "lapser-push",
            Self::LapserPull => "lapser-pull",
            Self::LapserPushBySlack => "lapser-push-by-slack",
            Self::OneSided => "one-sided",
            Self::AllGather => "all-gather",
            Self::Broadcast => "broadcast",
        }
    }

    /// The variant of Lapser that carries the values. Those to compare with push them.
    #[must_use]
    pub const fn variant(self) -> Variant {
        match self {
            Self::LapserPull => Variant::Pull,
            Self::LapserPushBySlack => Variant::PushBySlack,
            Self::LapserPush | Self::OneSided | Self::AllGather | Self::Broadcast => Variant::Push,
        }
    }

    /// Whether nodes may use values that are older than those of this step.
    #[must_use]
    pub const fn has_slack(self) -> bool {
        matches!(self, Self::LapserPush | Self::LapserPull | Self::LapserPushBySlack)
    }
}

impl Technique {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Server(technique) => technique.policy().name,
            Self::Exchange(exchange) => exchange.name(),
        }
    }
}

/// How workers access values that their node holds [thesis §3.2.3, §3.3.2].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalAccess {
    /// In shared memory.
    Shared,
    /// Through the queue of a channel's thread in the same process.
    Queue,
    /// Through messages to another process. Only simulated: workers and channels of a real node share a
    /// process.
    Ipc,
}

impl LocalAccess {
    /// How the engine accesses the values.
    pub(crate) const fn of_engine(self) -> intendant::LocalAccess {
        match self {
            Self::Shared => intendant::LocalAccess::Shared,
            Self::Queue | Self::Ipc => intendant::LocalAccess::Queue,
        }
    }
}

impl fmt::Display for LocalAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared => "shared",
            Self::Queue => "queue",
            Self::Ipc => "ipc",
        })
    }
}

impl FromStr for LocalAccess {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        by_name("a way to local values", name, [Self::Shared, Self::Queue, Self::Ipc])
    }
}

// How messages are shortened. (Not a documentation comment: it would become the description of the program.)
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(crate) struct PackingArgs {
    /// Key caching: connections remember lists of keys, and name a list that they carry again by a number.
    /// It pays where batches access the same keys in every epoch, and values are short
    #[arg(long, help_heading = CLUSTER)]
    pub(crate) key_caching: bool,

    /// Compress messages of 4 KiB or more. It pays where values are small whole numbers or mostly zero, and
    /// the network is slow
    #[arg(long, help_heading = CLUSTER)]
    pub(crate) compress: bool,
}

impl PackingArgs {
    /// What the flags mean. `technique` must have messages for them.
    pub(crate) fn packing(self, technique: Technique) -> Result<Packing, TrainError> {
        let Self { key_caching, compress } = self;
        let given = [("--key-caching", key_caching), ("--compress", compress)];
        if let (Technique::Single, Some((flag, _))) = (technique, given.iter().find(|(_, given)| *given)) {
            return Err(TrainError::usage(format!(
                "{flag} shortens messages, and technique single has none: leave it out"
            )));
        }
        Ok(Packing { key_lists: key_caching, compress })
    }
}

/// Which checkpoints are kept, and which model of the run is tested and exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Keep {
    /// The newest ones; the last model.
    #[default]
    Last,
    /// Also the one with the best model; that model.
    Best,
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Last => "last",
            Self::Best => "best",
        })
    }
}

impl FromStr for Keep {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        by_name("a model to keep", name, [Self::Last, Self::Best])
    }
}

// The flags that all applications share. (Not a documentation comment: it would become the description of the
// program.)
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct CommonArgs {
    /// Training data
    #[arg(long, value_name = "PATH|builtin:NAME", value_parser = parse::data, help_heading = DATA)]
    pub(crate) data: Option<DataSource>,

    /// Test data: a file, or the fraction of the data to hold out
    #[arg(long, value_name = "FILE|FRACTION", help_heading = DATA)]
    pub(crate) test: Option<TestSource>,

    /// Passes over the training data; 0 evaluates the initial model
    #[arg(long, value_name = "E", default_value_t = 10, help_heading = TRAINING)]
    pub(crate) epochs: u32,

    /// Validate after every so many epochs; 0 means never
    #[arg(long, value_name = "E", default_value_t = 1, help_heading = TRAINING)]
    pub(crate) valid_every: u32,

    /// End the training when so many validations in a row were not better than the best one before them
    /// [default: never]
    #[arg(long, value_name = "N", help_heading = TRAINING)]
    pub(crate) patience: Option<NonZeroU32>,

    /// Seed of the initial model, the order of examples and all sampling
    #[arg(long, value_name = "S", default_value_t = 1, help_heading = TRAINING)]
    pub(crate) seed: u64,

    /// Element type of parameters: f32 or f64
    #[arg(long, value_name = "TYPE", default_value = "f32", help_heading = TRAINING)]
    pub(crate) float: ElementType,

    /// Node processes. Without a launcher, the program starts them on this machine, connected over loopback
    #[arg(
        long, value_name = "N", default_value = "1",
        value_parser = count(limits::NODES_MAX), help_heading = CLUSTER,
    )]
    pub(crate) nodes: usize,

    /// First port of the data plane, for firewalls; the k-th node of a machine uses PORT + k. Any free port
    /// by default
    #[arg(long, value_name = "PORT", value_parser = count(65_535), help_heading = CLUSTER)]
    pub(crate) data_port: Option<usize>,

    /// Connections between nodes of one host: auto (as shm), shm (rings in shared memory where both can map
    /// it, else as unix), unix (Unix sockets) or tcp; between hosts TCP. With verbs, in programs that are
    /// built with the feature verbs, all connections use RDMA
    #[arg(long, value_name = "KIND", default_value = "auto", help_heading = CLUSTER)]
    pub(crate) transport: Transport,

    #[command(flatten)]
    pub(crate) packing: PackingArgs,

    #[command(flatten)]
    pub(crate) tls: TlsArgs,

    /// Worker threads per node
    #[arg(
        long, value_name = "W", default_value = "1", value_parser = count(limits::WORKERS_MAX),
        help_heading = CLUSTER
    )]
    pub(crate) workers: usize,

    /// Parameter management technique: single (plain shared memory of one process, no server), classic
    /// (static allocation of parameters to nodes), lapse (parameters move to the node that is about to use
    /// them), full-replication (every node has a replica of every parameter), ssp, essp (replicas on demand,
    /// of bounded staleness), nups (frequent parameters are replicated, the others move), bips (the others
    /// stay), adaptive (loaders
    /// signal which parameters their batches will use, and the system moves or replicates these), or adaptive
    /// without one of its parts: replicate-on-intent, relocate-on-intent, immediate-action,
    /// replicate-everywhere, home-decides (the home of a parameter decides, not its owner), naive-intents (as
    /// home-decides, and the home receives every intent)
    #[arg(
        long, value_name = "NAME", default_value = "adaptive", value_parser = parse::technique,
        help_heading = CLUSTER
    )]
    pub(crate) technique: Technique,

    /// Channels per node: disjoint partitions of the keys, each with its own thread and connections
    #[arg(
        long, value_name = "C", default_value = "1", value_parser = count(limits::CHANNELS_MAX),
        help_heading = CLUSTER
    )]
    pub(crate) channels: usize,

    /// How keys are assigned to their home nodes: range, hash, random or ring [default: random; with --copies
    /// ring]
    #[arg(long, value_name = "ORDER", help_heading = CLUSTER)]
    pub(crate) key_order: Option<KeyOrder>,

    /// How a node stores its values: dense (an array over all keys) or sparse (a hash table)
    #[arg(long, value_name = "KIND", default_value = "dense", help_heading = CLUSTER)]
    pub(crate) storage: Storage,

    /// How workers access the values of their own node: shared (in shared memory), queue (through the queue
    /// of a channel's thread) or, with --simulate, ipc (as if each worker were a process that exchanges
    /// messages with its node)
    #[arg(long, value_name = "KIND", default_value = "shared", help_heading = CLUSTER)]
    pub(crate) local_access: LocalAccess,

    /// Order of a worker's operations on one key: fifo or chain [default: the technique's own]
    #[arg(long, value_name = "ORDER", help_heading = CLUSTER)]
    pub(crate) order: Option<Order>,

    /// Whether nodes cache the locations of parameters that they accessed [default: the technique's own]
    #[arg(long, value_name = "true|false", help_heading = CLUSTER)]
    pub(crate) caches: Option<bool>,

    /// How nodes find parameters that move on request (lapse, nups): home (the home of a parameter forwards
    /// accesses), home-cached (nodes remember locations), request (nodes ask the home first),
    /// broadcast-relocations (every node knows every location) or broadcast-operations (nodes ask all others)
    /// [default: home]
    #[arg(long, value_name = "NAME", conflicts_with = "caches", help_heading = CLUSTER)]
    pub(crate) location: Option<Location>,

    /// Batches that each worker's loader prepares ahead. With techniques that act on intents, the loader
    /// signals the keys of a batch when it has prepared it [default: 128 with such techniques, else 8]
    #[arg(long, value_name = "B", value_parser = count(1 << 20), help_heading = CLUSTER)]
    pub(crate) look_ahead: Option<usize>,

    /// Minimum number of keys that these batches name, with samples that are chosen ahead: loaders prepare
    /// more batches if batches are small [default: 131072 with techniques that act on intents, 8192 on one
    /// node, else 0; 0 with --look-ahead]
    #[arg(long, value_name = "K", value_parser = count_or_none(1 << 26), help_heading = CLUSTER)]
    pub(crate) look_ahead_keys: Option<usize>,

    /// Latency hiding: move the keys of a batch to its node so many batches before it is trained; 0 means
    /// never. It has no effect with techniques that do not move keys on request [default: 1 with lapse and
    /// nups on several nodes, else 0]
    #[arg(
        long, value_name = "B",
        value_parser = clap::value_parser!(u32).range(0..=4096), help_heading = CLUSTER,
    )]
    pub(crate) localize_ahead: Option<u32>,

    /// Wait for the push of each batch before the next batch
    #[arg(long, help_heading = CLUSTER)]
    pub(crate) synchronous: bool,

    #[command(flatten)]
    pub(crate) replication: ReplicationArgs,

    #[command(flatten)]
    pub(crate) intents: IntentArgs,

    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,

    /// Train in a simulated cluster: nodes and workers in virtual time, in this process, instead of processes
    /// and threads
    #[arg(long, help_heading = SIMULATION)]
    pub(crate) simulate: bool,

    /// Network of the simulated cluster: 10gbe, 100gib, 56gib, or a file with the same fields
    /// (docs/experiments.md) [default: 10gbe; 56gib for programs that access other nodes' memory]
    #[arg(long, value_name = "NAME|FILE.toml", help_heading = SIMULATION)]
    pub(crate) net: Option<String>,

    /// Machines of the simulated cluster: xeon-e5-2640v2, xeon-silver-4216, xeon-silver-4216-petuum,
    /// xeon-e5-36-cores, or a file with the same fields [default: the machines that the papers used with this
    /// network: xeon-silver-4216 with 100gib, xeon-e5-36-cores with 56gib, else xeon-e5-2640v2]
    #[arg(long, value_name = "NAME|FILE.toml", help_heading = SIMULATION)]
    pub(crate) machine: Option<String>,

    /// Charge for values as if they were FACTOR times as long: for bytes on the network and in memory, and
    /// for arithmetic [default: 1]
    #[arg(long, value_name = "FACTOR", help_heading = SIMULATION)]
    pub(crate) charge: Option<f64>,

    /// Charge FACTOR times for arithmetic [default: as --charge, which is right for models that are linear in
    /// the length of values]
    #[arg(long, value_name = "FACTOR", help_heading = SIMULATION)]
    pub(crate) charge_compute: Option<f64>,

    /// The arithmetic of a batch takes up to FACTOR times as long, at random [default: 1]
    #[arg(long, value_name = "FACTOR", help_heading = SIMULATION)]
    pub(crate) uneven: Option<f64>,

    /// Access the parameters of a batch that are at other nodes in operations of at most COUNT parameters,
    /// one after the other, as programs do that pull each parameter by itself [default: all in one operation]
    #[arg(long, value_name = "COUNT", help_heading = SIMULATION)]
    pub(crate) operation_keys: Option<NonZeroUsize>,

    /// Compute what a parameter manager that knows the future must send at least, beside what is sent
    /// (docs/report.md), if reads see the updates of other nodes at the end of each epoch (epoch), or also
    /// those that are older than MS milliseconds; several separated by commas, as in epoch,100
    #[arg(long, value_name = "epoch|MS", value_parser = parse::bounds, help_heading = SIMULATION)]
    pub(crate) bound: Option<crate::bound::Bounds>,

    /// Write checkpoints to this folder, from which --resume continues the run. All nodes must reach it. A
    /// program that is built with the feature s3 also takes s3://BUCKET/PREFIX
    #[arg(long, value_name = "DIR", conflicts_with = "simulate", help_heading = CHECKPOINTS)]
    pub(crate) checkpoint: Option<PathBuf>,

    /// Seconds between two checkpoints. There is one at the end of the training as well
    #[arg(
        long, value_name = "S", default_value_t = 60.0, value_parser = parse::seconds,
        help_heading = CHECKPOINTS
    )]
    pub(crate) checkpoint_seconds: f64,

    /// Continue from the newest checkpoint, if there is one. The number of nodes, that of workers and the
    /// technique may differ from those of the run that wrote it
    #[arg(long, requires = "checkpoint", help_heading = CHECKPOINTS)]
    pub(crate) resume: bool,

    /// The model that is tested and exported, and whose checkpoint is kept: that of the last epoch (last), or
    /// that of the best validation (best). Needs --checkpoint
    #[arg(
        long, value_name = "last|best", default_value = "last", conflicts_with = "simulate",
        help_heading = CHECKPOINTS
    )]
    pub(crate) keep: Keep,

    /// Begin with the parameters of a checkpoint of another run, instead of initial ones
    #[arg(long, value_name = "DIR", conflicts_with = "simulate", help_heading = CHECKPOINTS)]
    pub(crate) from: Option<PathBuf>,

    /// Start the nodes again, up to so many times in a row, when one was killed or lost: they continue from
    /// the newest checkpoint. Newer checkpoints make the count start anew. Needs --checkpoint
    #[arg(
        long, value_name = "K", default_value_t = 0, conflicts_with = "simulate", help_heading = CHECKPOINTS
    )]
    pub(crate) max_restarts: u32,

    /// Let so many other nodes hold a copy of what each node owns, as it was at the last cut
    /// (--checkpoint-seconds). When up to so many nodes are lost, the others go on from there; nodes can join
    /// (--join) and leave (`intendant scale`). It needs no --checkpoint
    #[arg(long, value_name = "K", default_value_t = 0, help_heading = CHECKPOINTS)]
    pub(crate) copies: usize,

    /// Simulate that this node dies after so many seconds; the others go on. With --simulate and --copies
    #[arg(long, value_name = "NODE@S", value_parser = parse::crash, help_heading = SIMULATION)]
    pub(crate) crash: Option<crate::simulation::Crash>,

    /// Join a run with --copies: the address that its node 0 has told, or that of any other node of it. The
    /// other flags are those of the run
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "simulate", help_heading = CHECKPOINTS)]
    pub(crate) join: Option<String>,

    /// Seconds to write a last checkpoint after Ctrl-C, SIGTERM, SIGHUP or SIGUSR1, before the run ends
    /// without. A second signal ends it at once
    #[arg(
        long, value_name = "S", default_value_t = 25.0, value_parser = parse::seconds,
        help_heading = CHECKPOINTS
    )]
    pub(crate) grace_seconds: f64,

    /// At the end, explain the locations of these parameters: owner, replicas, intents and the latest
    /// decisions, as each node sees them; names, key numbers and ranges of keys, as in virus,3,10..20
    #[arg(long, value_name = "KEYS", value_parser = parse::keys, help_heading = OUTPUT)]
    pub(crate) explain: Option<crate::explain::Keys>,

    /// Record what happens to parameters: each node writes a trace to this folder, which `intendant trace`
    /// and `intendant dashboard` read
    #[arg(long, value_name = "DIR", help_heading = OUTPUT)]
    pub(crate) trace: Option<PathBuf>,

    /// The parameters to trace: all, keys and ranges of keys, as in 7,100..200, or sample:1/N for one of N
    /// [default: all]
    #[arg(long, value_name = "KEYS", requires = "trace", help_heading = OUTPUT)]
    pub(crate) trace_keys: Option<intendant::Filter>,

    /// Write the report (docs/report.md) to this file, and the effective configuration next to it
    #[arg(long, value_name = "FILE.json", help_heading = OUTPUT)]
    pub(crate) report: Option<PathBuf>,

    /// Serve the numbers of each node while it trains (docs/metrics.md), for Prometheus at
    /// http://ADDR/metrics; the k-th node of a machine uses PORT + k, and 0 is any free port. A port alone is
    /// one of 127.0.0.1; addresses that other machines reach need a token
    #[arg(long, value_name = "PORT|HOST:PORT", conflicts_with = "simulate", help_heading = OUTPUT)]
    pub(crate) metrics: Option<intendant_metrics::Address>,

    /// Push the same numbers to this collector of OpenTelemetry, as in http://localhost:4318. Only a program
    /// that is built with the feature otlp does so
    #[arg(long, value_name = "URL", conflicts_with = "simulate", help_heading = OUTPUT)]
    pub(crate) otlp: Option<String>,

    /// Write the trained model to this folder, which is replaced as a whole
    #[arg(long, value_name = "DIR", help_heading = OUTPUT)]
    pub(crate) export: Option<PathBuf>,

    /// Show only the result: neither progress nor a line per epoch
    #[arg(short = 'q', long, help_heading = OUTPUT)]
    pub(crate) no_progress: bool,

    /// Log more; -vv for debugging, -vvv for everything. RUST_LOG, if set, decides instead
    #[arg(short = 'v', long, action = ArgAction::Count, help_heading = OUTPUT)]
    pub(crate) verbose: u8,

    /// Read flags from this file: TOML, with the flags' names as keys. The environment and the command line
    /// win over it
    #[arg(long, value_name = "FILE.toml", help_heading = OUTPUT)]
    pub(crate) config: Option<PathBuf>,
}

const DATA: &str = "Data";
const TRAINING: &str = "Training";
pub(crate) const CLUSTER: &str = "Cluster";
const SIMULATION: &str = "Simulation";
const CHECKPOINTS: &str = "Checkpoints";
const OUTPUT: &str = "Output and configuration";

fn count(max: usize) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=max as u64)
}

/// The same, or 0.
fn count_or_none(max: usize) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(0..=max as u64)
}
