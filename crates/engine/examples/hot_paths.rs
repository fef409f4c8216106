//! The paths that accesses take through the engine, over and over: `hot_paths PATH NODES CALLS`. Everything
//! is in one thread, the same in each run, and what nodes send goes through frames, so that the instructions
//! of a call can be counted: those of two runs with different numbers of calls, subtracted. `cargo xtask
//! instructions` does that.

use intendant_core::random::stream;
use intendant_core::{ChannelId, Clock, Key, KeyOrder, Layout, NodeId, Tick, WorkerId};
use intendant_engine::{
    Action, Channel, Input, Local, LocalAccess, ReplicationConfig, Shared, SharedConfig, Started, Storage,
};
use intendant_techniques::{Order, Policy, Replicas, Technique};
use intendant_wire::Message;
use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;

const KEYS: u64 = 10_000;
const LEN: usize = 16;
/// Keys of a call.
const BATCH: usize = 128;

type Done = Result<(), Box<dyn Error>>;

/// A node with one channel and one worker.
struct Node {
    shared: Arc<Shared<f32>>,
    channel: Channel<f32>,
    local: Local<f32>,
}

struct Cluster {
    nodes: Vec<Node>,
    now: Tick,
    /// To whom, from whom.
    frames: VecDeque<(usize, NodeId, Message)>,
    actions: Vec<Action>,
    values: Vec<f32>,
}

impl Cluster {
    fn new(nodes: usize, policy: &Policy) -> Result<Self, Box<dyn Error>> {
        let layout = Layout::builder().range("k", KEYS, LEN).nodes(nodes).order(KeyOrder::Range).build()?;
        let layout = Arc::new(layout);
        let node = |node: usize| {
            let shared = Arc::new(Shared::new(SharedConfig {
                node: NodeId(node as u16),
                layout: Arc::clone(&layout),
                init: Arc::new(|_, value: &mut [f32]| value.fill(1.0)),
                storage: Storage::Dense,
                access: LocalAccess::Shared,
                policy: *policy,
                replication: ReplicationConfig::default(),
                workers: 1,
            }));
            let channel = Channel::new(ChannelId(0), Arc::clone(&shared));
            Node { channel, local: Local::new(WorkerId(0), &layout), shared }
        };
        Ok(Self {
            nodes: (0..nodes).map(node).collect(),
            now: Tick(1),
            frames: VecDeque::new(),
            actions: Vec::new(),
            values: Vec::new(),
        })
    }

    /// The first of those keys whose home is the last node.
    fn there(&self) -> u64 {
        KEYS - KEYS / self.nodes.len() as u64
    }

    /// Keys of the call with this number, all different, at home on the last node.
    fn keys(&self, call: u64, count: usize) -> Vec<Key> {
        let (first, start) = (self.there(), stream(7, &[call]));
        (0..count as u64).map(|at| Key(first + (start % KEYS + at * 37) % (KEYS - first))).collect()
    }

    /// What a channel does about an input, and all channels about what comes of that.
    fn handle(&mut self, node: usize, input: Input) -> Done {
        self.now = self.now.after(1);
        self.step(node, input)?;
        while let Some((to, from, message)) = self.frames.pop_front() {
            self.step(to, Input::Message { from, message })?;
        }
        Ok(())
    }

    fn step(&mut self, at: usize, input: Input) -> Done {
        let Node { channel, local, shared } = &mut self.nodes[at];
        channel.handle(self.now, input, &mut self.actions).map_err(|violation| violation.what)?;
        for action in self.actions.drain(..) {
            match action {
                Action::Send { to, message } => {
                    let message = Message::decode(message.encode())?;
                    self.frames.push_back((to.index(), shared.node(), message));
                }
                Action::Complete { completion, .. } => {
                    let sink = Some((completion.op, &mut self.values[..]));
                    local.complete(completion, shared.layout(), sink);
                }
                Action::CompleteSnapshot { .. } => return Err("no worker takes a snapshot".into()),
            }
        }
        Ok(())
    }

    /// Goes on with a call until it is done.
    fn finish(&mut self, node: usize, started: Started) -> Done {
        for (_, submission) in started.submissions {
            self.handle(node, Input::Submit(submission))?;
        }
        if started.op.is_some_and(|op| !self.nodes[node].local.is_done(op)) {
            return Err("a call was not completed".into());
        }
        Ok(())
    }

    fn pull(&mut self, node: usize, keys: &[Key]) -> Done {
        self.values.resize(keys.len() * LEN, 0.0);
        let Node { shared, local, .. } = &mut self.nodes[node];
        let started = shared.pull(local, keys, &mut self.values)?;
        self.finish(node, started)
    }

    fn push(&mut self, node: usize, keys: &[Key]) -> Done {
        self.values.resize(keys.len() * LEN, 0.5);
        let Node { shared, local, .. } = &mut self.nodes[node];
        let started = shared.push(local, keys, &self.values)?;
        self.finish(node, started)
    }

    fn localize(&mut self, node: usize, keys: &[Key]) -> Done {
        let Node { shared, local, .. } = &mut self.nodes[node];
        let started = shared.localize(local, keys, self.now)?;
        self.finish(node, started)
    }

    /// A worker signals intent for `keys` during one clock, and the channel acts on it.
    fn intend(&mut self, node: usize, keys: &[Key], clock: u32) -> Done {
        let shared = Arc::clone(&self.nodes[node].shared);
        let wake = shared.clocks().intend(WorkerId(0), keys, Clock(clock)..Clock(clock + 1))?;
        self.look(node, !wake.is_empty())?;
        if keys.last().is_some_and(|key| !shared.is_local(*key)) {
            return Err("an intent has not brought its keys here".into());
        }
        Ok(())
    }

    /// A worker advances its clock, and the channel acts on the intents that end.
    fn advance(&mut self, node: usize, clock: u32) -> Done {
        let Node { shared, local, .. } = &mut self.nodes[node];
        let advanced = shared.clocks().advance(local, Clock(clock));
        self.look(node, !advanced.wake.is_empty())
    }

    /// The channel has a round of intents, for which it is woken if it sleeps.
    fn look(&mut self, node: usize, wake: bool) -> Done {
        self.now = self.now.after(1_000_000);
        self.handle(node, if wake { Input::Wake } else { Input::Tick })
    }

    /// All nodes bring copies in step.
    fn round(&mut self) -> Done {
        self.now = self.now.after(1_000_000);
        (0..self.nodes.len()).try_for_each(|node| self.handle(node, Input::Tick))
    }
}

/// A policy, and what a call does.
type Path = (Policy, fn(&mut Cluster, u64) -> Done);

fn path(name: &str) -> Option<Path> {
    let (classic, lapse) = (Technique::Classic.policy(), Technique::Lapse.policy());
    let directed =
        Policy { order: Order::Chain, replicas: Some(Replicas::Directed { every: Tick(1_000) }), ..classic };
    let pull: fn(&mut Cluster, u64) -> Done = |cluster, call| cluster.pull(0, &cluster.keys(call, BATCH));
    let push: fn(&mut Cluster, u64) -> Done = |cluster, call| cluster.push(0, &cluster.keys(call, BATCH));
    let one_key: fn(&mut Cluster, u64) -> Done = |cluster, call| cluster.pull(0, &cluster.keys(call, 1));
    Some(match name {
        "pull" => (classic, pull),
        "push" => (classic, push),
        "pull-of-one-key" => (classic, one_key),
        // There and back.
        "relocation" => (lapse, |cluster, call| {
            let keys = cluster.keys(call, BATCH);
            (0..cluster.nodes.len()).try_for_each(|node| cluster.localize(node, &keys))
        }),
        // There and back, each time for the only node with intent.
        "moves" => (Technique::Adaptive.policy(), |cluster, call| {
            let (keys, clock) = (cluster.keys(call, BATCH), call as u32);
            (0..cluster.nodes.len()).try_for_each(|node| {
                cluster.intend(node, &keys, clock)?;
                cluster.advance(node, clock + 1)
            })
        }),
        // The owner has intent, too: the other node gets replicas, adds to them, and drops them.
        "set-ups" => (Technique::Adaptive.policy(), |cluster, call| {
            let (keys, clock) = (cluster.keys(call, BATCH), call as u32);
            (0..cluster.nodes.len()).rev().try_for_each(|node| cluster.intend(node, &keys, clock))?;
            cluster.push(0, &keys)?;
            (0..cluster.nodes.len()).try_for_each(|node| cluster.advance(node, clock + 1))
        }),
        // Both add to the same keys: updates go to the owner, new values to the holder.
        "copies" => (directed, |cluster, call| {
            if call == 0 && cluster.nodes.len() > 1 {
                let keys = (cluster.there()..KEYS).map(Key).collect();
                cluster.handle(0, Input::Replicate { keys })?;
            }
            let keys = cluster.keys(call, BATCH);
            (0..cluster.nodes.len()).try_for_each(|node| cluster.push(node, &keys))?;
            cluster.round()
        }),
        _ => return None,
    })
}

fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, nodes, calls] = &arguments[..] else {
        return Err("usage: hot_paths PATH NODES CALLS".into());
    };
    let (policy, call) = path(name).ok_or_else(|| format!("there is no path '{name}'"))?;
    let mut cluster = Cluster::new(nodes.parse()?, &policy)?;
    (0..calls.parse()?).try_for_each(|number| call(&mut cluster, number))
}
