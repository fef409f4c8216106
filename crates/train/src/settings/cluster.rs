//! The nodes, their workers and the technique: the flags about them.

use super::flag;
use super::headings::CLUSTER;
use super::technique::{self, Technique};
use super::values::LocalAccess;
use crate::error::TrainError;
use clap::builder::RangedU64ValueParser;
use intendant::{ClusterSettings, Initiator, Location, Order, Packing, Storage, Transport};
use intendant_core::{KeyOrder, limits};
use intendant_task::LookAhead;

/// How far ahead loaders prepare batches, so that training does not wait for them.
const AHEAD: LookAhead = LookAhead { batches: 8, keys: 0 };
/// The same on a single node. Small batches are trained in microseconds, and waking a loader takes as long.
const ALONE_AHEAD: LookAhead = LookAhead { keys: 1 << 13, ..AHEAD };
/// The same if loaders signal intents: a tenth of a second of training or more, so that several rounds of
/// decisions and the answers to them fit in.
const FAR_AHEAD: LookAhead = LookAhead { batches: 128, keys: 1 << 17 };

/// Batches ahead at which keys are moved to the node that will train with them, if the user does not say.
const LOCALIZE_AHEAD: u32 = 1;

// How messages are shortened. (Not a documentation comment: it would become the description of the program.)
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(crate) struct PackingArgs {
    /// Key caching: connections remember lists of keys, and name a list that they carry again by a number.
    /// It pays where batches access the same keys in every epoch, and values are short
    #[arg(long, groups = [flag::OWN, flag::MESSAGES], help_heading = CLUSTER)]
    pub(crate) key_caching: bool,

    /// Compress messages of 4 KiB or more. It pays where values are small whole numbers or mostly zero, and
    /// the network is slow
    #[arg(long, groups = [flag::OWN, flag::MESSAGES], help_heading = CLUSTER)]
    pub(crate) compress: bool,
}

impl PackingArgs {
    /// What the flags mean.
    pub(super) const fn packing(self) -> Packing {
        Packing { key_lists: self.key_caching, compress: self.compress }
    }
}

// How many nodes there are. (Not a documentation comment: it would become the description of the program.)
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct NodeArgs {
    /// Node processes. Without a launcher, the program starts them on this machine, connected over loopback
    #[arg(
        long, group = flag::BASIC, value_name = "N", default_value = "1",
        value_parser = count(limits::NODES_MAX), help_heading = CLUSTER,
    )]
    pub(crate) nodes: usize,
}

// The flags of nodes that manage parameters, as the user typed them. (Not a documentation comment, as above.)
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ClusterArgs {
    /// First port of the data plane, for firewalls; the k-th node of a machine uses PORT + k. Any free port
    /// by default
    #[arg(
        long, group = flag::OWN, value_name = "PORT", value_parser = count(65_535),
        help_heading = CLUSTER,
    )]
    pub(crate) data_port: Option<usize>,

    /// Connections between nodes of one host: auto (as shm), shm (rings in shared memory where both can map
    /// it, else as unix), unix (Unix sockets) or tcp; between hosts TCP. With verbs, in programs that are
    /// built with the feature verbs, all connections use RDMA
    #[arg(long, group = flag::OWN, value_name = "KIND", default_value = "auto", help_heading = CLUSTER)]
    pub(crate) transport: Transport,

    #[command(flatten)]
    pub(crate) packing: PackingArgs,

    /// Worker threads per node
    #[arg(
        long, group = flag::BASIC, value_name = "W", default_value = "1",
        value_parser = count(limits::WORKERS_MAX),
        help_heading = CLUSTER
    )]
    pub(crate) workers: usize,

    #[arg(
        long, group = flag::BASIC, value_name = "NAME", default_value = "adaptive",
        value_parser = technique::parse,
        help = technique::help(), help_heading = CLUSTER
    )]
    pub(crate) technique: Technique,

    /// Channels per node: disjoint partitions of the keys, each with its own thread and connections
    #[arg(
        long, value_name = "C", default_value = "1",
        value_parser = count(limits::CHANNELS_MAX), help_heading = CLUSTER,
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

    /// How nodes find parameters that move on request: home (the home of a parameter forwards
    /// accesses), home-cached (nodes remember locations), request (nodes ask the home first),
    /// broadcast-relocations (every node knows every location) or broadcast-operations (nodes ask all others)
    /// [default: home]
    #[arg(long, value_name = "NAME", conflicts_with = "caches", help_heading = CLUSTER)]
    pub(crate) location: Option<Location>,

    /// Batches that each worker's loader prepares ahead. With techniques that act on intents, the loader
    /// signals the keys of a batch when it has prepared it [default: 128 with such techniques on several
    /// nodes, else 8]
    #[arg(
        long, group = flag::OWN, value_name = "B",
        value_parser = count(1 << 20), help_heading = CLUSTER,
    )]
    pub(crate) look_ahead: Option<usize>,

    /// Minimum number of keys that these batches name, with samples that are chosen ahead: loaders prepare
    /// more batches if batches are small [default: 131072 with techniques that act on intents on several
    /// nodes, 8192 on one node, else 0; 0 with --look-ahead]
    #[arg(
        long, group = flag::OWN, value_name = "K",
        value_parser = count_or_none(1 << 26), help_heading = CLUSTER,
    )]
    pub(crate) look_ahead_keys: Option<usize>,

    /// Latency hiding: move the keys of a batch to its node so many batches before it is trained; 0 means
    /// never. It has no effect with techniques that do not move keys on request [default: 1 with techniques
    /// that do, on several nodes, else 0]
    #[arg(
        long, value_name = "B",
        value_parser = clap::value_parser!(u32).range(0..=4096), help_heading = CLUSTER,
    )]
    pub(crate) localize_ahead: Option<u32>,

    /// Wait for the push of each batch before the next batch
    #[arg(long, help_heading = CLUSTER)]
    pub(crate) synchronous: bool,
}

impl ClusterArgs {
    /// Plain memory is that of one process.
    pub(super) fn check_technique(&self, nodes: usize) -> Result<(), TrainError> {
        if self.technique == Technique::Single && nodes > 1 {
            return Err(TrainError::usage(format!(
                "technique single is plain memory in one process, but there are {nodes} nodes; use another \
                 technique, or --nodes 1 with more --workers"
            )));
        }
        Ok(())
    }

    /// How the nodes manage parameters. What is replicated follows from the task.
    pub(super) fn settings(&self) -> ClusterSettings {
        let technique = match self.technique {
            // A node whose workers share its memory, if it is simulated.
            Technique::Single | Technique::Own(_) => intendant::Technique::Classic,
            Technique::Server(technique) => technique,
        };
        ClusterSettings {
            order: self.order,
            caches: self.caches,
            location: self.location,
            storage: self.storage,
            access: self.local_access.of_engine(),
            packing: self.packing.packing(),
            ..ClusterSettings::new(technique)
        }
    }

    /// How far ahead loaders prepare batches.
    pub(super) fn look_ahead(&self, nodes: usize, signals_intents: bool) -> LookAhead {
        let default = if signals_intents {
            FAR_AHEAD
        } else if nodes == 1 {
            ALONE_AHEAD
        } else {
            AHEAD
        };
        LookAhead {
            batches: self.look_ahead.unwrap_or(default.batches),
            // A user who gives a number of batches means exactly that.
            keys: self.look_ahead_keys.unwrap_or(if self.look_ahead.is_some() { 0 } else { default.keys }),
        }
    }

    /// How many batches before its training the keys of a batch move to its node.
    pub(super) fn localize_ahead(&self, nodes: usize) -> u32 {
        let moves_on_request =
            self.technique.policy().is_some_and(|policy| policy.relocation == Some(Initiator::Requester));
        self.localize_ahead.unwrap_or(if moves_on_request && nodes > 1 { LOCALIZE_AHEAD } else { 0 })
    }

    /// Replicas through the owner need chained operations, and only keys that requesters relocate have to be
    /// found.
    pub(super) fn refuse_routing_that_would_be_ignored(&self) -> Result<(), TrainError> {
        match self.technique {
            Technique::Server(technique)
                if self.order == Some(Order::Fifo) && technique.policy().replicas.is_some() =>
            {
                Err(TrainError::usage(format!(
                    "technique {technique} chains operations on a key; leave --order out"
                )))
            }
            Technique::Server(technique) => {
                let Some(location) = self.location else { return Ok(()) };
                if technique.policy().relocation != Some(Initiator::Requester) {
                    let others =
                        technique::named(|policy| policy.relocation == Some(Initiator::Requester), "or");
                    return Err(TrainError::usage(format!(
                        "technique {technique} does not relocate keys on request, so it has no --location; use {others}"
                    )));
                }
                let policy = technique.policy().located(Some(location));
                policy.check().map_err(|error| TrainError::usage(format!("--location: {error}")))
            }
            Technique::Single if self.location.is_some() => Err(TrainError::usage(
                "technique single has no nodes that look for keys; leave --location out".to_owned(),
            )),
            Technique::Single | Technique::Own(_) => Ok(()),
        }
    }

    /// Refuses kinds of connections that this program does not have.
    pub(super) fn check_transport(&self, is_encrypted: bool) -> Result<(), TrainError> {
        match (self.technique, self.transport) {
            (_, Transport::Verbs) if !cfg!(feature = "verbs") => Err(TrainError::usage(
                "--transport is verbs, but this program was built without the feature verbs: build it with --features verbs \
                 (docs/rdma.md), or use another transport",
            )),
            (Technique::Server(_), Transport::Verbs) if is_encrypted => Err(TrainError::usage(
                "--transport is verbs, but RDMA does not encrypt: leave it out, or the flags of TLS",
            )),
            _ => Ok(()),
        }
    }

    /// Workers and channels of a real node share a process, and technique single has no channels.
    pub(super) fn check_local_access(&self, is_simulated: bool) -> Result<(), TrainError> {
        let access = self.local_access;
        if access != LocalAccess::Shared && self.technique == Technique::Single {
            return Err(TrainError::usage(format!(
                "--local-access {access} is about nodes with channels, and technique single has none; use --technique classic"
            )));
        }
        if access == LocalAccess::Ipc && !is_simulated {
            return Err(TrainError::usage(
                "--local-access ipc is only simulated: add --simulate; intendant-bench measures it on this machine",
            ));
        }
        Ok(())
    }
}

fn count(max: usize) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=max as u64)
}

/// The same, or 0.
fn count_or_none(max: usize) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(0..=max as u64)
}
