//! Generated histories. They are valid, and the place of each key at each moment is known.

use intendant_analysis::{Place, Run};
use intendant_core::{ChannelId, Key, Layout, NodeId, Tick};
use intendant_trace::{Access, Cause, Event, Header, Mark, Trace, What, Writer};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

pub(crate) const NODES: u16 = 3;
pub(crate) const KEYS: u64 = 6;

pub(crate) fn layout() -> Layout {
    Layout::builder().range("word", KEYS - 2, 8).range("context", 2, 4).nodes(NODES.into()).build().unwrap()
}

pub(crate) fn header(node: u16) -> Header {
    let (filter, technique, task) = ("all".to_owned(), "adaptive".to_owned(), "kge".to_owned());
    Header { node, run: 7, filter, technique, task, ..Header::default() }.of_layout(&layout())
}

/// Something that may happen. An act that is impossible in the current state has no effect.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// The key moves to the node, or, if it is on its way, arrives.
    Move { key: u64, to: u16 },
    /// The node sets up a replica, or drops it.
    Replica { key: u64, node: u16 },
    /// An intent begins or ends.
    Intent { key: u64, node: u16 },
    /// An access is served elsewhere.
    Remote { key: u64, node: u16, after: u64 },
    /// All nodes meet.
    Meet,
    /// A node sends bytes.
    Send { node: u16, to: u16, bytes: u64 },
    /// An epoch ends.
    Epoch,
}

pub(crate) fn act() -> impl Strategy<Value = Act> {
    let (key, node) = (0..KEYS, 0..NODES);
    prop_oneof![
        6 => (key.clone(), node.clone()).prop_map(|(key, to)| Act::Move { key, to }),
        3 => (key.clone(), node.clone()).prop_map(|(key, node)| Act::Replica { key, node }),
        2 => (key.clone(), node.clone()).prop_map(|(key, node)| Act::Intent { key, node }),
        1 => (key, node.clone(), 0..40u64).prop_map(|(key, node, after)| Act::Remote { key, node, after }),
        1 => Just(Act::Meet),
        1 => (node.clone(), node, 1..1000u64).prop_map(|(node, to, bytes)| Act::Send { node, to, bytes }),
        1 => Just(Act::Epoch),
    ]
}

/// Acts, and how many microseconds pass before each: at least one.
pub(crate) fn acts(most: usize) -> impl Strategy<Value = Vec<(u64, Act)>> {
    proptest::collection::vec((1..30u64, act()), 1..most)
}

/// Where a key is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    pub(crate) place: Place,
    pub(crate) replicas: BTreeSet<u16>,
    pub(crate) intents: BTreeSet<u16>,
}

/// What happened, and where the keys were.
pub(crate) struct History {
    /// True times, nodes and what happened there.
    pub(crate) events: Vec<(u64, u16, Option<u64>, What)>,
    /// By key, its states and when each of them begins.
    pub(crate) states: Vec<Vec<(u64, State)>>,
    pub(crate) end: u64,
}

impl History {
    /// `start` is the time before the first act.
    pub(crate) fn of(acts: &[(u64, Act)], start: u64) -> Self {
        let layout = layout();
        let state = |key: u64| State {
            place: Place::At { node: layout.home(Key(key)).0 },
            replicas: BTreeSet::new(),
            intents: BTreeSet::new(),
        };
        let states = (0..KEYS).map(|key| vec![(0, state(key))]).collect();
        let mut history = Self { events: Vec::new(), states, end: start };
        let (mut meetings, mut epochs) = (0, 0);
        for (after, act) in acts {
            history.end += after;
            let now = history.end;
            match *act {
                Act::Move { key, to } => history.go(now, key, to),
                Act::Replica { key, node } => history.replicate(now, key, node),
                Act::Intent { key, node } => history.intend(now, key, node),
                Act::Remote { key, node, after } => {
                    let by = NodeId((node + 1) % NODES);
                    let what = What::Remote { access: Access::Pull, by, after: after.min(now) };
                    history.events.push((now, node, Some(key), what));
                }
                Act::Meet => {
                    meetings += 1;
                    for node in 0..NODES {
                        let what = What::Came { meeting: meetings };
                        history.events.push((now + u64::from(node * 7 % 5), node, None, what));
                    }
                    history.end += 6;
                    for node in 0..NODES {
                        let what = What::WentOn { meeting: meetings };
                        history.events.push((history.end + u64::from(node), node, None, what));
                    }
                    history.end += 3;
                }
                Act::Send { node, to, bytes } => {
                    history.events.push((now, node, None, What::Sent { to: NodeId(to), bytes }));
                }
                Act::Epoch => {
                    epochs += 1;
                    for node in 0..NODES {
                        let what = What::Marked { mark: Mark::Epoch, number: epochs };
                        history.events.push((now, node, None, what));
                    }
                }
            }
        }
        history
    }

    pub(crate) fn now(&self, key: u64) -> &State {
        &self.states[key as usize].last().unwrap().1
    }

    /// The state of a key at a time.
    pub(crate) fn at(&self, key: u64, at: u64) -> &State {
        let states = &self.states[key as usize];
        &states.iter().rev().find(|(since, _)| *since <= at).unwrap().1
    }

    fn change(&mut self, now: u64, key: u64, change: impl FnOnce(&mut State)) {
        let mut state = self.now(key).clone();
        change(&mut state);
        self.states[key as usize].push((now, state));
    }

    fn go(&mut self, now: u64, key: u64, to: u16) {
        match self.now(key).place {
            Place::At { node } if node != to => {
                let what = What::Left { to: NodeId(to), cause: Cause::Asked };
                self.events.push((now, node, Some(key), what));
                self.change(now, key, |state| state.place = Place::Moving { from: node, to });
            }
            Place::Moving { from, to } => {
                let what = What::Arrived { from: NodeId(from), after: 5 };
                self.events.push((now, to, Some(key), what));
                self.change(now, key, |state| {
                    state.place = Place::At { node: to };
                    state.replicas.remove(&to);
                });
            }
            Place::At { .. } | Place::Unknown => {}
        }
    }

    fn replicate(&mut self, now: u64, key: u64, node: u16) {
        if self.now(key).place == (Place::At { node }) {
            return;
        }
        let held = self.now(key).replicas.contains(&node);
        let what = if held { What::ReplicaDropped } else { What::ReplicaSetUp };
        self.events.push((now, node, Some(key), what));
        self.change(now, key, |state| {
            if !state.replicas.remove(&node) {
                state.replicas.insert(node);
            }
        });
    }

    fn intend(&mut self, now: u64, key: u64, node: u16) {
        let active = self.now(key).intents.contains(&node);
        let what = if active { What::IntentEnded } else { What::IntentBegan };
        self.events.push((now, node, Some(key), what));
        self.change(now, key, |state| {
            if !state.intents.remove(&node) {
                state.intents.insert(node);
            }
        });
    }

    /// The traces of the nodes; the clock of node `i` is `offsets[i]` behind the true time.
    pub(crate) fn traces(&self, offsets: &[u64; NODES as usize], epoch_us: u64) -> Vec<Trace> {
        let trace = |node: u16| {
            let offset = offsets[usize::from(node)];
            let event = |(at, _, key, what): &(u64, u16, Option<u64>, What)| Event {
                at: Tick(at - offset),
                channel: ChannelId(0),
                key: key.map(Key),
                what: *what,
            };
            // Threads of a node write one after the other: here, events without a key come first.
            let own = |of_key: bool| {
                self.events
                    .iter()
                    .filter(move |(_, at, key, _)| *at == node && key.is_some() == of_key)
                    .map(event)
            };
            Trace {
                header: Header { epoch_us, ..header(node) },
                events: own(false).chain(own(true)).collect(),
                dropped: 0,
                unknown: 0,
                lost_bytes: 0,
                damaged_bytes: 0,
            }
        };
        (0..NODES).map(trace).collect()
    }

    /// The run with equal clocks.
    pub(crate) fn run(&self) -> Run {
        Run::of_traces(self.traces(&[0; NODES as usize], 0)).unwrap()
    }
}

/// Writes the file of a trace into a folder.
pub(crate) fn write(folder: &Path, trace: &Trace) {
    let file = File::create(folder.join(format!("node-{}.trace", trace.header.node))).unwrap();
    Writer::start(file, &trace.header).unwrap().write(&trace.events, trace.dropped).unwrap();
}
