//! The loaders' half of the interpreter: batches are prepared, and their samples chosen, before they are
//! trained.

use super::{TaskRun, Waiting};
use crate::cluster::{Caller, Cluster, Probe};
use crate::shell::TaskFailure;
use intendant_core::{Element, Key, Tick};
use intendant_engine::Shared;
use intendant_sampling::{Locality, NearKeys, SampleError};
use intendant_task::{Announcement, Event, LoaderEvent, LoaderOp, LookAhead, Task};

/// Which keys are local to a node, for its sampling manager.
pub(super) struct NodeLocality<'a, E, P> {
    pub(super) cluster: &'a Cluster<E, P>,
    pub(super) node: usize,
}

impl<E: Element, P: Probe<E>> NodeLocality<'_, E, P> {
    fn here(&self) -> &Shared<E> {
        &self.cluster.nodes()[self.node]
    }
}

impl<E: Element, P: Probe<E>> Locality for NodeLocality<'_, E, P> {
    fn is_local(&self, key: Key) -> bool {
        self.here().is_local(key)
    }

    fn part(&self, key: Key) -> u32 {
        self.here().part(key)
    }

    fn find_parts(&self, keys: &[Key], parts: &mut [u32]) {
        let node = self.here();
        keys.iter().for_each(|key| node.prefetch_part(*key));
        keys.iter().zip(parts).for_each(|(key, part)| *part = node.part(*key));
    }

    fn near(&self) -> Option<&NearKeys> {
        self.here().near()
    }

    fn nodes(&self) -> u32 {
        self.cluster.nodes().len() as u32
    }

    fn now(&self) -> Tick {
        Tick(self.cluster.now_ns() / 1_000)
    }
}

impl<T: Task, P: Probe<T::Element>> TaskRun<'_, T, P> {
    pub(super) fn sample_error(worker: usize) -> impl Fn(SampleError) -> TaskFailure {
        move |source| TaskFailure::Sample { worker, source }
    }

    /// Runs the loader until it has prepared a batch. The batch is delivered after the preparation time.
    pub(super) fn load(&mut self, worker: usize, mut event: LoaderEvent) -> Result<(), TaskFailure> {
        loop {
            match self.workers[worker].loader.step(event) {
                LoaderOp::PrepareSample(request) => {
                    let locality = NodeLocality { cluster: self.cluster, node: worker / self.config.workers };
                    let handle = self.sampling[locality.node].prepare(
                        request.distribution,
                        request.samples,
                        request.stream,
                        &locality,
                    );
                    event = LoaderEvent::Prepared(handle.map_err(Self::sample_error(worker))?);
                }
                LoaderOp::Intend => {
                    let Announcement { keys, window } = self.workers[worker].loader.next_intent();
                    self.cluster.intend(worker, keys, window.clone(), Caller::Loader)?;
                    event = LoaderEvent::Done;
                }
                LoaderOp::Deliver => {
                    self.cluster.wake_loader(worker, self.config.delays.machine.prepare_ns);
                    return Ok(());
                }
                LoaderOp::Done => return Ok(()),
            }
        }
    }

    /// Passes the loader's batch to the worker, or blocks the loader while the queue is full.
    pub(super) fn deliver(&mut self, worker: usize) -> Result<(), TaskFailure> {
        let state = &mut self.workers[worker];
        if state.waiting == Waiting::Batch {
            let prepared = state.loader.take();
            self.resume_worker(worker, 0, Event::Batch(prepared));
        } else if state.batches.is_empty() || !state.ahead.reaches(self.config.look_ahead) {
            let prepared = state.loader.take();
            state.ahead = state.ahead.and(LookAhead::of(&prepared));
            state.batches.push_back(prepared);
        } else {
            state.loader_waits = true;
            return Ok(());
        }
        self.load(worker, LoaderEvent::Done)
    }
}
