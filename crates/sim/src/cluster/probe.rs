//! Probes: observers of a cluster, which see what its channels and workers do.

use super::station::Station;
use super::worker::WorkerState;
use crate::invariants::Finding;
use crate::reach::Reach;
use intendant_core::{ChannelId, Element, Key};
use intendant_engine::{AccessStats, Action, Channel, Input, Inspection, Shared, Submission};
use std::ops::Range;
use std::sync::Arc;

/// An observer of a cluster. The cluster tells it what happens, and shows it the state of the nodes. The
/// observer may object: a [`Finding`] ends the run as a [`Violation`](crate::Violation).
///
/// A probe has no access to the events to come, nor to the random numbers, and it cannot change nodes. Runs
/// with the same configuration therefore have the same hash, whatever their probe. A method that a probe does
/// not implement does nothing. The probe `()` implements none, so a cluster that has it spends no time on
/// observers.
///
/// Stations are channels of nodes: that of channel `c` of node `n` has number `n * channels + c`. Workers are
/// numbered node by node.
pub trait Probe<E: Element> {
    /// An event is about to happen, at [`Cluster::now_ns`](crate::cluster::Cluster::now_ns).
    ///
    /// # Errors
    /// If the nodes are not in a state in which they may be between two events.
    fn event(&mut self, seen: &mut Seen<'_, E>) -> Result<(), Finding> {
        let _ = seen;
        Ok(())
    }

    /// A worker has begun a call. The keys that were not served at once are in the submissions of the call,
    /// which the worker is about to send to the channels of its node.
    fn called(&mut self, seen: &mut Seen<'_, E>, call: Call<'_>) {
        let _ = (seen, call);
    }

    /// A worker or its loader has signalled that the worker will access `keys` while its clock is in
    /// `window`.
    fn signalled(&mut self, worker: usize, keys: &[Key], window: Range<u32>) {
        let _ = (worker, keys, window);
    }

    /// A worker has advanced its clock to `clock`.
    fn advanced(&mut self, worker: usize, clock: u32) {
        let _ = (worker, clock);
    }

    /// A worker has finished: all its intents end.
    fn finished(&mut self, worker: usize) {
        let _ = worker;
    }

    /// The engine of a station is about to handle `input`.
    fn before_input(&mut self, seen: &mut Seen<'_, E>, station: usize, input: &Input) {
        let _ = (seen, station, input);
    }

    /// The engine of a station has handled the input of the last [`Probe::before_input`]. `actions` are what
    /// follows from it, in order: the messages that the channel sends, and the parts of operations that it
    /// answers. None of them has been executed yet.
    ///
    /// # Errors
    /// If the engine should not have done that.
    fn after_input(
        &mut self,
        seen: &mut Seen<'_, E>,
        station: usize,
        actions: &[Action],
    ) -> Result<(), Finding> {
        let _ = (seen, station, actions);
        Ok(())
    }

    /// The cluster has reported that it is quiescent, and nothing is in flight.
    ///
    /// # Errors
    /// If the nodes are not in a state in which they may rest.
    fn at_rest(&mut self, seen: &mut Seen<'_, E>) -> Result<(), Finding> {
        let _ = seen;
        Ok(())
    }
}

/// Observes nothing.
impl<E: Element> Probe<E> for () {}

/// A call of a worker.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The worker.
    pub worker: usize,
    /// What it calls: `pull`, `push`, `set`, `localize` or `synchronize`.
    pub name: &'static str,
    /// The keys of the call.
    pub keys: &'a [Key],
    /// What the channels of the worker's node are to do.
    pub submissions: &'a [(ChannelId, Submission)],
}

/// The nodes of a cluster, as observers see them.
pub struct Nodes<'a, E>(&'a [Arc<Shared<E>>]);

impl<E> Clone for Nodes<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Nodes<'_, E> {}

impl<'a, E: Element> Nodes<'a, E> {
    pub(super) fn new(nodes: &'a [Arc<Shared<E>>]) -> Self {
        Self(nodes)
    }

    /// A node.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn at(self, node: usize) -> Inspection<'a, E> {
        self.0[node].inspect()
    }

    /// All nodes, in order.
    pub fn iter(self) -> impl Iterator<Item = Inspection<'a, E>> {
        self.0.iter().map(|node| node.inspect())
    }

    /// Number of nodes.
    pub fn count(self) -> usize {
        self.0.len()
    }
}

/// What a probe sees of a cluster.
pub struct Seen<'a, E> {
    /// The nodes.
    pub nodes: Nodes<'a, E>,
    /// The situations that the run has reached, to which a probe may add.
    pub reach: &'a mut Reach,
    /// Whether the cluster is quiescent and no worker has continued since. [`Probe::at_rest`] comes before.
    pub rests: bool,
    pub(super) stations: &'a [Station<E>],
    pub(super) workers: &'a [WorkerState<E>],
}

impl<'a, E: Element> Seen<'a, E> {
    /// The engine of a station.
    pub fn engine(&self, station: usize) -> &'a Channel<E> {
        &self.stations[station].engine
    }

    /// The engines of all stations.
    pub fn engines(&self) -> impl Iterator<Item = &'a Channel<E>> {
        self.stations.iter().map(|station| &station.engine)
    }

    /// The access counters of the workers.
    pub fn accesses(&self) -> impl Iterator<Item = AccessStats> {
        self.workers.iter().map(|worker| worker.local.stats())
    }
}
