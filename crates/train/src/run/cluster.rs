//! Workers of a cluster: the facade crate behind the interface of [`crate::run::parameters`].

use super::parameters::{NodeHandle, Parameters, Part, Train};
use crate::error::TrainError;
use crate::report::metrics::Observe;
use crate::settings::Plan;
use intendant::{AccessStats, ClusterSettings, NetworkStats};
use intendant::{
    Explanation, Failure, Lobby, ManagementStats, Mark, Node, NodeConfig, Observer, Preparer, TraceConfig,
    Work, Worker,
};
use intendant_core::{Element, Initialiser, Key, Layout, WorkerId};
use intendant_sampling::{Handle, SampleError, Sampler, SamplingStats};
use intendant_task::{Announcement, Row, Rows, SampleRequest};
use std::ops::Range;
use std::sync::Arc;

/// A worker has a training thread and a loader thread.
pub(crate) const THREADS_PER_WORKER: usize = 2;

/// This process's node of the cluster.
pub(crate) struct ClusterNode<E: Element> {
    node: Node<E>,
    preparer: Preparer<E>,
}

/// Says how the values begin. `None` is no lobby: the node is alone.
type Begin<'a, E> = dyn FnMut(Option<&Lobby<E>>) -> Result<Initialiser<E>, TrainError> + 'a;

/// Joins the cluster, or starts one of a single node. `begin` says how the values begin, and exchanges words
/// with the other nodes for that; its errors are those of all nodes.
#[inline(never)]
pub(crate) fn start<E: Element>(
    (layout, init): (Layout, Initialiser<E>),
    plan: &Plan,
    cluster: ClusterSettings,
    sampler: &Sampler,
    (settings, trace): (Vec<(String, String)>, Option<TraceConfig>),
    begin: &mut Begin<'_, E>,
) -> Result<ClusterNode<E>, TrainError> {
    let mut config = NodeConfig::new(layout, init);
    config.sampler = sampler.clone();
    config.seed = plan.seed;
    config.cluster = cluster;
    config.workers = plan.workers;
    config.settings = settings;
    config.threads_per_worker = THREADS_PER_WORKER;
    config.transport = plan.transport;
    config.trace = trace;
    let node = match &plan.rendezvous {
        Some(rendezvous) => {
            let mut lobby = Lobby::enter(config, rendezvous.clone())?;
            match begin(Some(&lobby)) {
                Ok(init) => lobby.initialise(init),
                // The others lose this node, and go on without it or with it.
                Err(error) if error.loses_node() => return Err(error),
                Err(error) => {
                    // If the cluster has failed, the error says so.
                    let _ = lobby.leave();
                    return Err(error);
                }
            }
            lobby.start()?
        }
        None => {
            config.init = begin(None)?;
            Node::start_alone(config)?
        }
    };
    Ok(ClusterNode { preparer: node.preparer(), node })
}

impl<E: Element> ClusterNode<E> {
    pub(crate) fn rank(&self) -> u16 {
        self.node.rank().0
    }

    /// The workers; once.
    #[inline(never)]
    pub(crate) fn workers(&mut self) -> Vec<ClusterWorker<E>> {
        self.node.workers().into_iter().map(ClusterWorker).collect()
    }

    /// Leaves, together with the others. The inner error is one of the trace: the node has left nevertheless.
    #[inline(never)]
    pub(crate) fn shutdown(self) -> Result<Result<(), TrainError>, TrainError> {
        match self.node.shutdown() {
            Err(error @ intendant::Error::Trace(_)) => Ok(Err(error.into())),
            left => Ok(Ok(left?)),
        }
    }
}

impl<E: Element> NodeHandle for ClusterNode<E> {
    fn abort(&self, reason: &str) {
        self.node.abort(reason);
    }

    fn drop_out(&self, reason: &str) {
        self.node.drop_out(reason);
    }

    fn mark(&self, mark: Mark, number: u64) {
        self.node.mark(mark, number);
    }

    fn give_way(&self, work: Work) {
        self.node.give_way(work);
    }

    fn traffic(&self) -> NetworkStats {
        self.node.network()
    }

    fn management(&self) -> ManagementStats {
        // Every call of a worker returns an error of the cluster, too.
        self.node.management().unwrap_or_default()
    }

    fn sampling(&self) -> SamplingStats {
        self.node.sampling()
    }

    fn observer(&self) -> Arc<dyn Observe> {
        Arc::new(ClusterObserver(self.node.observer()))
    }

    fn prepare_sample(&self, request: &SampleRequest) -> Result<Handle, SampleError> {
        self.preparer.prepare_sample(request.distribution, request.samples, request.stream)
    }

    fn intend(&self, worker: usize, announcement: &Announcement) -> Result<(), TrainError> {
        let Announcement { keys, window } = announcement;
        Ok(self.preparer.intent(WorkerId(worker as u16), keys, window.clone())?)
    }
}

/// What other threads read of this process's node.
struct ClusterObserver<E>(Observer<E>);

impl<E: Element> Observe for ClusterObserver<E> {
    fn traffic(&self) -> NetworkStats {
        self.0.network()
    }

    fn management(&self) -> Option<ManagementStats> {
        self.0.management().ok()
    }

    fn sampling(&self) -> SamplingStats {
        self.0.sampling()
    }

    fn held(&self) -> usize {
        self.0.held()
    }

    fn inbox_commands(&self) -> usize {
        self.0.inbox_commands()
    }

    fn failure(&self) -> Option<Failure> {
        self.0.failure()
    }
}

/// A worker of this process's node.
pub(crate) struct ClusterWorker<E: Element>(Worker<E>);

/// Rows of a worker, for a task.
struct ClusterRows<'a, E: Element>(intendant::Rows<'a, E>);

impl<E: Element> Rows<E> for ClusterRows<'_, E> {
    fn row(&mut self, at: usize) -> Row<'_, E> {
        self.0.row(at)
    }

    fn sample(&mut self, at: usize) -> Option<Row<'_, E>> {
        self.0.sample(at)
    }

    fn prefetch(&self, at: usize) {
        self.0.prefetch(at);
    }
}

impl<E: Element> Parameters<E> for ClusterWorker<E> {
    fn pull(&mut self, keys: &[Key], values: &mut [E]) -> Result<(), TrainError> {
        Ok(self.0.pull(keys, values)?)
    }

    fn push(&mut self, keys: &[Key], values: &[E]) -> Result<(), TrainError> {
        // `flush` waits for all pushes, and the facade bounds how many bytes are in flight.
        let _ticket = self.0.push_async(keys, values)?;
        Ok(())
    }

    fn train(&mut self, keys: &[Key], act: &mut Train<'_, E>) -> Result<(), TrainError> {
        let mut rows = ClusterRows(self.0.rows(keys)?);
        if act(&mut rows) {
            rows.0.finish()?;
        }
        Ok(())
    }

    fn localize(&mut self, keys: &[Key], wait: bool) -> Result<(), TrainError> {
        if wait {
            return Ok(self.0.localize(keys)?);
        }
        // As for pushes.
        let _ticket = self.0.localize_async(keys)?;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), TrainError> {
        Ok(self.0.flush()?)
    }

    fn gather(&mut self, name: &str, payload: Vec<u8>) -> Result<Vec<Vec<u8>>, TrainError> {
        Ok(self.0.gather(name, payload)?)
    }

    fn quiesce(&mut self) -> Result<(), TrainError> {
        Ok(self.0.quiesce()?)
    }

    fn snapshot(&mut self, range: Range<u64>, part: &mut Part<'_, E>) -> Result<(), TrainError> {
        Ok(self.0.snapshot(range, part)?)
    }

    fn snapshot_of_node(&mut self, part: &mut Part<'_, E>) -> Result<(), TrainError> {
        Ok(self.0.snapshot_of_node(part)?)
    }

    fn advance_clock(&mut self) {
        self.0.advance_clock();
    }

    fn synchronize(&mut self) -> Result<(), TrainError> {
        Ok(self.0.synchronize()?)
    }

    fn draw(&mut self, handle: &mut Handle, samples: usize, keys: &mut Vec<Key>) -> Result<(), TrainError> {
        Ok(self.0.draw(handle, samples, keys)?)
    }

    fn count_sampled(&mut self, keys: usize) {
        self.0.count_sampled(keys);
    }

    fn explain(&self, key: Key) -> Result<Option<Explanation>, TrainError> {
        Ok(Some(self.0.explain(key)?))
    }

    fn accesses(&self) -> AccessStats {
        self.0.access()
    }

    fn outstanding(&self) -> (usize, usize) {
        self.0.outstanding()
    }
}
