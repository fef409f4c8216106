//! Where one key is, event by event.

use intendant_core::NodeId;
use intendant_trace::What;
use serde::Serialize;

/// Where the main copy of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "place")]
pub enum Place {
    /// Not known: the run's header does not determine homes, and no event of the key has happened yet.
    Unknown,
    /// A node owns it.
    At {
        /// The node.
        node: u16,
    },
    /// It is on its way.
    Moving {
        /// The previous owner.
        from: u16,
        /// The next owner.
        to: u16,
    },
}

impl Place {
    /// The node that owns the key; `None` if it is on its way or not known.
    #[must_use]
    pub fn owner(self) -> Option<u16> {
        match self {
            Self::At { node } => Some(node),
            Self::Unknown | Self::Moving { .. } => None,
        }
    }
}

/// Events that contradict what was known, by kind of contradiction. The analysis believes the event and goes
/// on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Inconsistencies {
    /// Arrivals that precede their departure, because the clocks are not exact enough.
    pub early_arrivals: u64,
    /// Departures from nodes that did not own the key.
    pub departures: u64,
    /// Arrivals of keys that were elsewhere, or on their way to another node.
    pub arrivals: u64,
    /// Replicas set up twice, or dropped without having been set up.
    pub replicas: u64,
    /// Intents that begin twice, or end without having begun.
    pub intents: u64,
}

impl Inconsistencies {
    /// The number of contradictions which show that other events are missing, or that the places of keys are
    /// not certain.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.departures.saturating_add(self.arrivals).saturating_add(self.replicas)
    }
}

/// A set of nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes(Vec<u64>);

impl Nodes {
    fn set(&mut self, node: u16, is_in: bool) -> bool {
        let (word, bit) = (usize::from(node) / 64, 1 << (node % 64));
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        let was_in = self.0[word] & bit != 0;
        if is_in {
            self.0[word] |= bit;
        } else {
            self.0[word] &= !bit;
        }
        was_in
    }

    pub(crate) fn clear(&mut self) {
        self.0.fill(0);
    }
}

/// What an event changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) place: Option<Place>,
    pub(crate) replica: Option<(u16, bool)>,
    pub(crate) intent: Option<(u16, bool)>,
}

/// What is known about a key.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) place: Place,
    replicas: Nodes,
    intents: Nodes,
    pub(crate) inconsistencies: Inconsistencies,
    /// A departure (from, to) that must still come, because its arrival came first.
    late: Option<(u16, u16)>,
}

impl Replay {
    pub(crate) fn new(home: Option<u16>) -> Self {
        let mut replay = Self {
            place: Place::Unknown,
            replicas: Nodes::default(),
            intents: Nodes::default(),
            inconsistencies: Inconsistencies::default(),
            late: None,
        };
        replay.start(home);
        replay
    }

    /// Begins with another key. Inconsistencies of all keys add up.
    pub(crate) fn start(&mut self, home: Option<u16>) {
        self.place = home.map_or(Place::Unknown, |node| Place::At { node });
        self.replicas.clear();
        self.intents.clear();
        self.late = None;
    }

    /// Applies an event of the key at a node. Returns what the event changes.
    pub(crate) fn hear(&mut self, node: u16, what: &What) -> Change {
        let mut change = Change::default();
        #[expect(clippy::wildcard_enum_match_arm, reason = "other events do not move keys")]
        match what {
            What::Left { to: NodeId(to), .. } => change.place = self.left(node, *to),
            What::Arrived { from: NodeId(from), .. } => {
                change.place = self.arrived(*from, node);
                // A replica ends when it becomes the main copy.
                change.replica = self.replicas.set(node, false).then_some((node, false));
            }
            What::ReplicaSetUp => {
                let twice = self.replicas.set(node, true);
                self.inconsistencies.replicas += u64::from(twice);
                change.replica = (!twice).then_some((node, true));
            }
            What::ReplicaDropped => {
                let known = self.replicas.set(node, false);
                self.inconsistencies.replicas += u64::from(!known);
                change.replica = known.then_some((node, false));
            }
            What::IntentBegan => {
                let twice = self.intents.set(node, true);
                self.inconsistencies.intents += u64::from(twice);
                change.intent = (!twice).then_some((node, true));
            }
            What::IntentEnded => {
                let known = self.intents.set(node, false);
                self.inconsistencies.intents += u64::from(!known);
                change.intent = known.then_some((node, false));
            }
            _ => {}
        }
        if let Some(place) = change.place {
            self.place = place;
        }
        change
    }

    fn left(&mut self, from: u16, to: u16) -> Option<Place> {
        if self.late == Some((from, to)) && self.place != (Place::At { node: from }) {
            self.late = None;
            return None;
        }
        let is_expected = match self.place {
            Place::At { node } => node == from,
            Place::Unknown => true,
            Place::Moving { .. } => false,
        };
        self.inconsistencies.departures += u64::from(!is_expected);
        Some(Place::Moving { from, to })
    }

    fn arrived(&mut self, from: u16, to: u16) -> Option<Place> {
        match self.place {
            Place::Unknown => {}
            Place::Moving { from: before, to: next } => {
                self.inconsistencies.arrivals += u64::from((before, next) != (from, to));
            }
            Place::At { node } if node == from && from != to => {
                self.inconsistencies.early_arrivals += 1;
                self.late = Some((from, to));
            }
            Place::At { .. } => self.inconsistencies.arrivals += 1,
        }
        Some(Place::At { node: to })
    }
}
