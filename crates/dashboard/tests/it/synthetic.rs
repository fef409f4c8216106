//! A generated run, and a simple model of what happens in it.

use intendant_core::{ChannelId, Key, Layout, NodeId, Tick};
use intendant_trace::{Access, Cause, Event, Header, Mark, What, Writer};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;

pub(crate) const NODES: u16 = 4;
pub(crate) const KEYS: u64 = 60;

/// A run: what happened at which node. Times are distinct.
pub(crate) struct Synthetic {
    pub(crate) header: Header,
    pub(crate) events: Vec<(u16, Event)>,
}

/// Where a key is.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) owner: Option<u16>,
    pub(crate) replicas: BTreeSet<u16>,
    pub(crate) intents: BTreeSet<u16>,
    /// The nodes between which it is on its way: from and to.
    to: Option<(u16, u16)>,
}

impl Synthetic {
    /// Generates random events.
    pub(crate) fn new(seed: u64, count: usize) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let layout =
            Layout::builder().range("word", KEYS / 2, 8).range("<script>alert(1)</script>", KEYS / 2, 4);
        let layout = layout.nodes(NODES.into()).channels(1).shards(1).build().unwrap();
        let header = Header {
            run: seed,
            technique: "adaptive".to_owned(),
            task: "<img src=x onerror=alert(1)>".to_owned(),
            filter: "all".to_owned(),
            ..Header::default()
        };
        let header = header.of_layout(&layout);
        let start = |key| State { owner: Some(layout.home(Key(key)).0), ..State::default() };
        let mut states: Vec<State> = (0..KEYS).map(start).collect();
        let (mut events, mut at) = (Vec::new(), 1000);
        while events.len() < count {
            at += random.random_range(1..40);
            let key = random.random_range(0..KEYS);
            let node = random.random_range(0..NODES);
            let choice = random.random_range(0..11);
            let Some((node, what)) = act(&mut states[key as usize], node, choice, &mut random) else {
                continue;
            };
            let key = key_of(&what, key);
            events.push((node, Event { at: Tick(at), channel: ChannelId(0), key, what }));
        }
        let what = What::Marked { mark: Mark::Epoch, number: 1 };
        events.push((0, Event { at: Tick(at + 1), channel: ChannelId(0), key: None, what }));
        Self { header, events }
    }

    /// The file of a node.
    pub(crate) fn file(&self, node: u16) -> Vec<u8> {
        let mut file = Vec::new();
        let mut writer = Writer::start(&mut file, &Header { node, ..self.header.clone() }).unwrap();
        let own: Vec<Event> =
            self.events.iter().filter(|(at, _)| *at == node).map(|(_, event)| *event).collect();
        writer.write(&own, 0).unwrap();
        file
    }

    /// Writes all files.
    pub(crate) fn write(&self, folder: &Path) {
        for node in 0..NODES {
            fs::write(folder.join(format!("node-{node}.trace")), self.file(node)).unwrap();
        }
    }

    /// The states of all keys after the events up to a time, computed event by event.
    pub(crate) fn states(&self, at: u64) -> Vec<State> {
        let layout = self.header.layout().unwrap();
        let start = |key| State { owner: Some(layout.home(Key(key)).0), ..State::default() };
        let mut states: Vec<State> = (0..KEYS).map(start).collect();
        for (node, event) in self.events.iter().take_while(|(_, event)| event.at.0 <= at) {
            let Some(key) = event.key else { continue };
            let state = &mut states[key.0 as usize];
            #[expect(clippy::wildcard_enum_match_arm, reason = "other events change no state")]
            match event.what {
                What::Left { .. } => state.owner = None,
                What::Arrived { .. } => {
                    state.owner = Some(*node);
                    state.replicas.remove(node);
                }
                What::ReplicaSetUp => drop(state.replicas.insert(*node)),
                What::ReplicaDropped => drop(state.replicas.remove(node)),
                What::IntentBegan => drop(state.intents.insert(*node)),
                What::IntentEnded => drop(state.intents.remove(node)),
                _ => {}
            }
        }
        states
    }

    /// The states of a key, each with its beginning and its end.
    pub(crate) fn history(&self, key: u64) -> Vec<(u64, u64, State)> {
        let own = self.events.iter().filter(|(_, event)| event.key == Some(Key(key)));
        let mut times: Vec<u64> = std::iter::once(0).chain(own.map(|(_, event)| event.at.0)).collect();
        times.push(self.span().1);
        let state = |pair: &[u64]| (pair[0], pair[1], self.states(pair[0]).swap_remove(key as usize));
        times.windows(2).map(state).collect()
    }

    /// When the first and the last event happened.
    pub(crate) fn span(&self) -> (u64, u64) {
        let at = |event: Option<&(u16, Event)>| event.map_or(0, |(_, event)| event.at.0);
        (at(self.events.first()), at(self.events.last()))
    }

    /// The number of events that satisfy `is_so`.
    pub(crate) fn count(&self, is_so: impl Fn(u16, &Event) -> bool) -> u64 {
        self.events.iter().filter(|(node, event)| is_so(*node, event)).count() as u64
    }
}

/// Chooses something that can happen to a key in its state, and applies it to the state.
fn act(state: &mut State, node: u16, choice: u32, random: &mut Pcg64Mcg) -> Option<(u16, What)> {
    if let Some((from, to)) = state.to
        && choice < 5
    {
        state.to = None;
        state.owner = Some(to);
        state.replicas.remove(&to);
        return Some((to, What::Arrived { from: NodeId(from), after: 7 }));
    }
    match choice {
        0 | 1 => {
            let owner = state.owner.filter(|owner| *owner != node)?;
            (state.owner, state.to) = (None, Some((owner, node)));
            let causes =
                [Cause::Asked, Cause::Began(NodeId(node)), Cause::Ended(NodeId(owner)), Cause::Ordered];
            let cause = causes[random.random_range(0..causes.len())];
            Some((owner, What::Left { to: NodeId(node), cause }))
        }
        2 | 3 if state.owner == Some(node) => None,
        2 | 3 => {
            let what = if state.replicas.remove(&node) { What::ReplicaDropped } else { What::ReplicaSetUp };
            if what == What::ReplicaSetUp {
                state.replicas.insert(node);
            }
            Some((node, what))
        }
        4 | 5 => {
            let what = if state.intents.remove(&node) { What::IntentEnded } else { What::IntentBegan };
            if what == What::IntentBegan {
                state.intents.insert(node);
            }
            Some((node, what))
        }
        6 => {
            let after = random.random_range(5..5000);
            Some((node, What::Remote { access: Access::Pull, by: NodeId((node + 1) % NODES), after }))
        }
        7 => Some((node, What::Conflict)),
        9 => Some((node, What::Waited { access: Access::Push, after: random.random_range(5..500) })),
        8 => Some((node, What::Synced { values: random.random_range(1..100) })),
        _ => {
            Some((node, What::Sent { to: NodeId((node + 1) % NODES), bytes: random.random_range(1..10_000) }))
        }
    }
}

fn key_of(what: &What, key: u64) -> Option<Key> {
    (!matches!(what, What::Synced { .. } | What::Sent { .. })).then_some(Key(key))
}

/// Writes a run with very many events node by node, without keeping the events in memory.
pub(crate) fn write_large(folder: &Path, keys: u64, per_node: u64) {
    let layout =
        Layout::builder().range("word", keys, 8).nodes(NODES.into()).channels(1).shards(1).build().unwrap();
    let header = Header { filter: "all".to_owned(), ..Header::default() }.of_layout(&layout);
    for node in 0..NODES {
        let file = File::create(folder.join(format!("node-{node}.trace"))).unwrap();
        let mut writer = Writer::start(file, &Header { node, ..header.clone() }).unwrap();
        let mut random = Pcg64Mcg::seed_from_u64(node.into());
        let mut block = Vec::with_capacity(1 << 16);
        for number in 0..per_node {
            // A few keys have many events, as in real runs.
            let key = (random.random_range(0.0f64..1.0).powi(4) * keys as f64) as u64;
            let what = match number % 6 {
                0 => What::Arrived { from: NodeId((node + 1) % NODES), after: 20 },
                1 => What::Left { to: NodeId((node + 1) % NODES), cause: Cause::Asked },
                2 => What::ReplicaSetUp,
                3 => What::ReplicaDropped,
                4 => What::IntentBegan,
                _ => {
                    What::Remote { access: Access::Pull, by: NodeId((node + 1) % NODES), after: number % 900 }
                }
            };
            let at = Tick(number * 7 + u64::from(node));
            block.push(Event { at, channel: ChannelId(0), key: Some(Key(key)), what });
            if block.len() == 1 << 16 {
                writer.write(&block, 0).unwrap();
                block.clear();
            }
        }
        writer.write(&block, 0).unwrap();
    }
}
