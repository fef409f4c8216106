//! What nodes want by their workers' intents, what they ask for, and what is left of it.
//!
//! An account that is kept from calls alone: what workers announced and their clocks, as a channel finds them
//! when it looks. When the channel looks, and how far ahead, is its own affair ([`intendant_intent`] has the
//! tests of that); what is active then is not.

use super::Finding;
use hashbrown::HashMap;
use intendant_core::{Key, NodeId};
use intendant_techniques::{Choice, Decider, Role};
use std::ops::Range;

/// The clock of a worker that is finished.
pub(crate) const FINISHED: u32 = u32::MAX;

/// Keys that a worker will use.
struct Intent {
    keys: Vec<Key>,
    start: u32,
    end: u32,
}

/// A worker, as one channel of its node sees it.
#[derive(Default)]
struct Worker {
    announced: Vec<Intent>,
    ahead: Vec<Intent>,
    begun: Vec<Intent>,
}

/// What came of a look at clocks and announcements.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    /// Intents that began when their worker was there, before, and after that.
    pub(crate) on_time: usize,
    pub(crate) early: usize,
    pub(crate) late: usize,
    /// Of these, intents for keys that the node had active intent for.
    pub(crate) extended: usize,
    /// Intents that were over before anybody looked, and those for no clock at all.
    pub(crate) past: usize,
    pub(crate) empty: usize,
    pub(crate) ended: usize,
}

/// The account of all nodes.
pub(crate) struct Intents {
    policy: intendant_techniques::Intents,
    workers_per_node: usize,
    /// By worker of all nodes.
    clocks: Vec<u32>,
    /// By channel of all nodes, then worker of the node.
    workers: Vec<Vec<Worker>>,
    /// By channel of all nodes: how many intents are active for keys, and looks so far.
    active: Vec<HashMap<Key, u32, foldhash::fast::FixedState>>,
    looks: Vec<u64>,
    /// What homes have been told by other nodes of intents that are active.
    told: HashMap<(Key, NodeId), u32, foldhash::fast::FixedState>,
}

impl Intents {
    pub(crate) fn new(
        policy: intendant_techniques::Intents,
        nodes: usize,
        channels: usize,
        workers_per_node: usize,
    ) -> Self {
        let stations = nodes * channels;
        Self {
            policy,
            workers_per_node,
            clocks: vec![0; nodes * workers_per_node],
            workers: (0..stations)
                .map(|_| (0..workers_per_node).map(|_| Worker::default()).collect())
                .collect(),
            active: (0..stations).map(|_| HashMap::default()).collect(),
            looks: vec![0; stations],
            told: HashMap::default(),
        }
    }

    pub(crate) fn choice(&self) -> Choice {
        self.policy.choice
    }

    pub(crate) fn decider(&self) -> Decider {
        self.policy.decider
    }

    /// A home has heard of intents of `node`.
    pub(crate) fn heard(&mut self, node: NodeId, key: Key, active: bool) {
        let count = self.told.entry((key, node)).or_default();
        *count = match self.policy.decider {
            Decider::HomeOfEach if active => *count + 1,
            Decider::HomeOfEach => count.saturating_sub(1),
            Decider::Home | Decider::Owner => u32::from(active),
        };
    }

    /// What the home of `key` knows is what it was told, and what it has itself, the channel `station`.
    pub(crate) fn knows(
        &self,
        station: usize,
        home: NodeId,
        key: Key,
        mut known: Vec<NodeId>,
    ) -> Result<(), Finding> {
        let nodes = self.clocks.len() / self.workers_per_node;
        let others = (0..nodes as u16).map(NodeId).filter(|node| *node != home);
        let mut wanted: Vec<NodeId> = others
            .filter(|node| self.told.get(&(key, *node)).is_some_and(|count| *count > 0))
            .chain((self.active(station, key) > 0).then_some(home))
            .collect();
        wanted.sort_unstable();
        known.sort_unstable();
        if known == wanted {
            return Ok(());
        }
        let knows = format!("{home:?}, home of {key:?}, knows of intents of {known:?}");
        Err(("intents", format!("{knows}, and was told of {wanted:?}")))
    }

    /// Something was announced on behalf of a worker: its keys of one channel.
    pub(crate) fn announced(&mut self, station: usize, worker: usize, keys: Vec<Key>, window: Range<u32>) {
        let Range { start, end } = window;
        self.workers[station][worker % self.workers_per_node].announced.push(Intent { keys, start, end });
    }

    /// A worker's clock is `clock`.
    pub(crate) fn advanced(&mut self, worker: usize, clock: u32) {
        self.clocks[worker] = self.clocks[worker].max(clock);
    }

    /// Whether the worker has finished.
    pub(crate) fn is_finished(&self, worker: usize) -> bool {
        self.clocks[worker] == FINISHED
    }

    /// How many looks a channel has had, as far as is known here.
    pub(crate) fn looks(&self, station: usize) -> u64 {
        self.looks[station]
    }

    /// A channel of `node` has looked; intents of the node's workers begin up to `horizon(worker)`.
    pub(crate) fn looked(&mut self, station: usize, node: usize, horizon: impl Fn(usize) -> u32) -> Look {
        self.looks[station] += 1;
        let (active, mut look) = (&mut self.active[station], Look::default());
        for (at, worker) in self.workers[station].iter_mut().enumerate() {
            let (clock, horizon) = (self.clocks[node * self.workers_per_node + at], horizon(at));
            let waiting: Vec<Intent> = worker.ahead.drain(..).chain(worker.announced.drain(..)).collect();
            for intent in waiting {
                let Intent { ref keys, start, end } = intent;
                if end <= start {
                    look.empty += 1;
                } else if end <= clock {
                    look.past += 1;
                } else if start <= clock || start < horizon {
                    look.on_time += usize::from(start == clock);
                    look.early += usize::from(start > clock);
                    look.late += usize::from(start < clock);
                    for key in keys {
                        let count = active.entry(*key).or_default();
                        look.extended += usize::from(*count > 0);
                        *count += 1;
                    }
                    worker.begun.push(intent);
                } else {
                    worker.ahead.push(intent);
                }
            }
            let (over, left) = worker.begun.drain(..).partition(|intent: &Intent| intent.end <= clock);
            worker.begun = left;
            look.ended += over.len();
            for key in over.iter().flat_map(|intent| &intent.keys) {
                *active.get_mut(key).expect("it began") -= 1;
            }
        }
        look
    }

    /// Nothing is left to happen, and no channel is held: nothing is left that a channel should have looked
    /// at.
    pub(crate) fn settled(&self) -> Result<(), Finding> {
        for (station, workers) in self.workers.iter().enumerate() {
            let node = station / (self.workers.len() * self.workers_per_node / self.clocks.len());
            for (at, worker) in workers.iter().enumerate() {
                let clock = self.clocks[node * self.workers_per_node + at];
                let wrong = |what: &str| {
                    let who = format!("channel {station} does nothing any more, worker {at} is at {clock}");
                    Err(("intents", format!("{who}, and {what}")))
                };
                if !worker.announced.is_empty() {
                    return wrong("has announced intents that no channel has looked at");
                }
                if worker.ahead.iter().any(|intent| intent.start <= clock) {
                    return wrong("has come to an intent that has not begun");
                }
                if worker.begun.iter().any(|intent| intent.end <= clock) {
                    return wrong("has an intent behind it that has not ended");
                }
            }
        }
        Ok(())
    }

    /// How many intents of the channel's node for `key` are active.
    pub(crate) fn active(&self, station: usize, key: Key) -> u32 {
        let standing = self.policy.choice == Choice::Everywhere && self.looks[station] > 0;
        self.active[station].get(&key).copied().unwrap_or(0) + u32::from(standing)
    }

    /// A channel has handled an input: how many intents for `key` it counts, and what it does about it.
    /// `wants` says whether it wants a replica that it has or has asked for, if it has or has asked for one.
    pub(crate) fn handled(
        &self,
        station: usize,
        node: NodeId,
        key: Key,
        role: Role,
        counted: u32,
        wants: Option<bool>,
    ) -> Result<(), Finding> {
        let active = self.active(station, key);
        let wrong = |what: &str| {
            let seen = format!("{node:?} is {role:?} to {key:?}, counts {counted} active intents");
            Err(("intents", format!("{seen}, and has a replica that it wants: {wants:?}; {what} ({active})")))
        };
        if counted != active {
            return wrong("so many are");
        }
        match role {
            Role::Owner | Role::Hub if wants.is_some() => wrong("it owns the key"),
            Role::Owner | Role::Hub => Ok(()),
            _ if active == 0 && wants == Some(true) => wrong("it has no intent"),
            // A key may leave a node with active intent, which does not ask for it again.
            _ if active > 0 && wants != Some(true) && self.policy.choice != Choice::Relocate => {
                wrong("it asks for nothing")
            }
            Role::Replica if wants.is_none() => wrong("its channel does not know of the replica"),
            Role::Absent | Role::Replica | Role::Arriving | Role::Leaving | Role::Static => Ok(()),
        }
    }
}

/// At rest, `nodes` are the roles of all nodes for `key` with their numbers of active intents. A node with a
/// replica has active intent for the key. A node with active intent that does not own the key has a replica,
/// if the technique replicates.
pub(crate) fn at_rest(
    choice: Choice,
    key: Key,
    nodes: impl Iterator<Item = (Role, u32)>,
    finished: impl Fn(usize) -> bool,
) -> Result<(), Finding> {
    let nodes: Vec<(Role, u32)> = nodes.collect();
    let mut wanting = nodes.iter().enumerate().filter(|(_, (_, active))| *active > 0);
    if let (Choice::Adaptive, Some((only, (role, _))), None) = (choice, wanting.next(), wanting.next())
        && !role.is_owner()
    {
        return Err((
            "intents",
            format!("the cluster rests, only node {only} wants {key:?}, and is {role:?} to it"),
        ));
    }
    for (at, (role, active)) in nodes.into_iter().enumerate() {
        let wrong = |what: &str| {
            let of = format!("the cluster rests, and node {at} is {role:?} to {key:?}");
            Err(("intents", format!("{of} with {active} active intents: {what}")))
        };
        if active > 0 && choice != Choice::Everywhere && finished(at) {
            return wrong("all its workers have finished");
        }
        if role == Role::Replica && (active == 0 || choice == Choice::Relocate) {
            return wrong("its replica has not ended");
        }
        if role == Role::Absent && active > 0 && choice != Choice::Relocate {
            return wrong("it has no replica");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_techniques::Act;

    const K: Key = Key(3);
    const ADAPTIVE: intendant_techniques::Intents = intendant_techniques::Intents {
        choice: Choice::Adaptive,
        action: Act::InTime,
        decider: Decider::Owner,
    };

    #[test]
    fn intents_begin_overlap_and_end() {
        let mut intents = Intents::new(ADAPTIVE, 1, 1, 2);
        for (worker, window) in [(0, 2..5), (0, 4..9), (1, 1..2), (1, 3..3), (1, 0..1), (0, 100..101)] {
            intents.announced(0, worker, vec![K], window);
        }
        let look = intents.looked(0, 0, |_| 3);
        assert_eq!((look.early, look.on_time, look.late, look.empty, look.extended), (2, 1, 0, 1, 2));
        assert_eq!(intents.active(0, K), 3);
        intents.advanced(0, 4);
        intents.advanced(1, 2);
        let look = intents.looked(0, 0, |_| 5);
        assert_eq!((look.on_time, look.ended, intents.active(0, K)), (1, 2, 2));
        intents.announced(0, 0, vec![K], 1..6);
        intents.announced(0, 0, vec![K], 1..4);
        let look = intents.looked(0, 0, |_| 5);
        assert_eq!((look.late, look.past, intents.active(0, K)), (1, 1, 3));
        intents.advanced(0, FINISHED);
        assert_eq!((intents.looked(0, 0, |_| FINISHED).ended, intents.active(0, K)), (3, 0));
        assert!(intents.is_finished(0) && !intents.is_finished(1));
        assert_eq!(intents.settled(), Ok(()));
        intents.announced(0, 1, vec![K], 5..6);
        assert!(intents.settled().is_err(), "no channel has looked");
        intents.looked(0, 0, |_| 3);
        assert_eq!(intents.settled(), Ok(()), "it is not time yet");
        intents.advanced(1, 5);
        assert!(intents.settled().is_err(), "now it is");
        intents.looked(0, 0, |_| 6);
        intents.advanced(1, 6);
        assert!(intents.settled().is_err(), "it is over");
    }

    #[test]
    fn homes_know_what_they_were_told() {
        for (decider, left) in [(Decider::Home, 0), (Decider::HomeOfEach, 1)] {
            let mut intents = Intents::new(intendant_techniques::Intents { decider, ..ADAPTIVE }, 2, 1, 1);
            let knows =
                |intents: &Intents, known: &[NodeId]| intents.knows(0, NodeId(0), K, known.to_vec()).is_ok();
            assert!(knows(&intents, &[]));
            intents.heard(NodeId(1), K, true);
            intents.heard(NodeId(1), K, true);
            assert!(knows(&intents, &[NodeId(1)]) && !knows(&intents, &[]));
            intents.heard(NodeId(1), K, false);
            assert_eq!(knows(&intents, &[NodeId(1)]), left == 1);
            intents.heard(NodeId(1), K, false);
            intents.announced(0, 0, vec![K], 0..5);
            intents.looked(0, 0, |_| 1);
            assert!(knows(&intents, &[NodeId(0)]) && !knows(&intents, &[NodeId(0), NodeId(1)]));
        }
    }

    #[test]
    fn who_alone_wants_a_key_owns_it_in_the_end() {
        let rests =
            |nodes: &[(Role, u32)]| at_rest(Choice::Adaptive, K, nodes.iter().copied(), |_| false).is_ok();
        assert!(
            rests(&[(Role::Owner, 0), (Role::Absent, 0)]) && rests(&[(Role::Absent, 0), (Role::Owner, 1)])
        );
        assert!(rests(&[(Role::Hub, 0), (Role::Replica, 1), (Role::Replica, 1)]));
        assert!(!rests(&[(Role::Hub, 0), (Role::Replica, 1)]));
    }

    #[test]
    fn what_a_channel_does_must_fit() {
        let mut intents = Intents::new(ADAPTIVE, 1, 1, 1);
        let check = |intents: &Intents, role, counted, wants| {
            intents.handled(0, NodeId(0), K, role, counted, wants).is_ok()
        };
        assert!(check(&intents, Role::Absent, 0, None) && check(&intents, Role::Replica, 0, Some(false)));
        assert!(!check(&intents, Role::Absent, 1, Some(true)), "no worker announced it");
        assert!(!check(&intents, Role::Replica, 0, Some(true)), "it is not wanted any more");
        intents.announced(0, 0, vec![K], 0..5);
        intents.looked(0, 0, |_| 1);
        assert!(check(&intents, Role::Absent, 1, Some(true)) && check(&intents, Role::Hub, 1, None));
        assert!(!check(&intents, Role::Absent, 1, None), "it is not asked for");
        assert!(!check(&intents, Role::Replica, 1, Some(false)));
        assert!(!check(&intents, Role::Owner, 1, Some(true)), "it is here");
        assert!(!check(&intents, Role::Owner, 0, None), "miscounted");
        let policy = intendant_techniques::Intents { choice: Choice::Relocate, ..ADAPTIVE };
        let relocate = Intents { policy, ..intents };
        assert!(check(&relocate, Role::Absent, 1, None), "another node fetched it");
    }
}
