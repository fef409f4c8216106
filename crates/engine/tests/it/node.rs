//! One engine with one channel and one worker.

use bytes::Bytes;
use intendant_core::{ChannelId, Key, KeyOrder, Layout, NodeId, Tick, WorkerId};
use intendant_engine::{
    Action, Channel, Input, Local, LocalAccess, ReplicationConfig, Shared, SharedConfig, Started, Storage,
    Violation,
};
use intendant_techniques::Policy;
use intendant_wire::Message;
use std::sync::Arc;

/// One channel, and `keys` keys of `len` elements. Each node is the home of a range of keys.
pub(crate) fn layout(nodes: usize, keys: u64, len: usize) -> Arc<Layout> {
    let layout = Layout::builder().range("k", keys, len).nodes(nodes).shards(4).order(KeyOrder::Range);
    Arc::new(layout.build().expect("a valid layout"))
}

/// The configuration of a node. Every element of an initial value is the number of the key.
pub(crate) fn config(node: u16, layout: &Arc<Layout>, policy: Policy) -> SharedConfig<f32> {
    SharedConfig {
        node: NodeId(node),
        layout: Arc::clone(layout),
        init: Arc::new(|key: Key, value: &mut [f32]| value.fill(key.0 as f32)),
        storage: Storage::Dense,
        access: LocalAccess::Shared,
        policy,
        replication: ReplicationConfig::default(),
        workers: 1,
    }
}

/// The elements as messages carry them.
pub(crate) fn bytes(values: &[f32]) -> Bytes {
    values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>().into()
}

pub(crate) struct Node {
    pub(crate) shared: Arc<Shared<f32>>,
    pub(crate) channel: Channel<f32>,
    pub(crate) worker: Local<f32>,
}

impl Node {
    pub(crate) fn new(config: SharedConfig<f32>) -> Self {
        Self::of(Shared::new(config))
    }

    pub(crate) fn of(shared: Shared<f32>) -> Self {
        let worker = Local::new(WorkerId(0), shared.layout());
        let shared = Arc::new(shared);
        Self { channel: Channel::new(ChannelId(0), Arc::clone(&shared)), worker, shared }
    }

    pub(crate) fn handle(&mut self, now: Tick, input: Input) -> Result<Vec<Action>, Violation> {
        let mut actions = Vec::new();
        self.channel.handle(now, input, &mut actions).map(|()| actions)
    }

    /// Handles an input that is valid.
    pub(crate) fn accept(&mut self, input: Input) -> Vec<Action> {
        self.handle(Tick(0), input).expect("a valid input")
    }

    /// Handles a message that is valid.
    pub(crate) fn receive(&mut self, from: NodeId, message: Message) -> Vec<Action> {
        self.accept(Input::Message { from, message })
    }

    /// Handles a message that is wrong. Returns the text of the violation, which names the sender.
    pub(crate) fn refuse(&mut self, from: NodeId, message: Message) -> String {
        let done = self.handle(Tick(0), Input::Message { from, message });
        let violation = done.expect_err("the message breaks the protocol");
        assert_eq!(violation.from, from);
        violation.what.to_string()
    }

    /// Submits the part of an operation that belongs to channel 0.
    pub(crate) fn submit(&mut self, started: Started) -> Vec<Action> {
        let own = started.submissions.into_iter().filter(|(channel, _)| *channel == ChannelId(0));
        own.flat_map(|(_, submission)| self.accept(Input::Submit(submission))).collect()
    }

    /// Pushes, and submits what the worker could not serve.
    pub(crate) fn push(&mut self, keys: &[Key], values: &[f32]) -> Vec<Action> {
        let started = self.shared.push(&mut self.worker, keys, values).expect("the keys exist");
        self.submit(started)
    }
}
