//! Intents: a node counts exactly its workers' active intents, requests the keys with active intent, and
//! releases them afterwards. Homes know exactly what was reported to them.
//!
//! The account follows from calls alone: from the signalled intents and the workers' clocks at each of a
//! channel's intent rounds. When a channel runs a round and how far ahead it looks is not checked here
//! ([`intendant_intent`] tests that); the intents that are active after the round are.

use hashbrown::HashMap;
use intendant_core::{Key, NodeId};
use intendant_sim::Finding;
use intendant_techniques::{Choice, Decider, Role};
use std::ops::Range;

/// The clock of a worker that has finished.
pub(crate) const FINISHED: u32 = u32::MAX;

/// An intent: keys that a worker will access while its clock is in `start..end`.
struct Intent {
    keys: Vec<Key>,
    start: u32,
    end: u32,
}

/// The intents of a worker for keys of one channel of its node.
#[derive(Default)]
struct Worker {
    /// Signalled since the last round.
    signalled: Vec<Intent>,
    /// Seen in a round, and not active yet.
    ahead: Vec<Intent>,
    /// Active.
    begun: Vec<Intent>,
}

/// What a channel's intent round changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IntentRound {
    /// Intents that began with their worker's clock at, before and after their start.
    pub(crate) on_time: usize,
    pub(crate) early: usize,
    pub(crate) late: usize,
    /// Keys of these intents for which the node already had active intent.
    pub(crate) extended: usize,
    /// Intents that ended before the round, intents with an empty window, and active intents that ended.
    pub(crate) past: usize,
    pub(crate) empty: usize,
    pub(crate) ended: usize,
}

/// The account of all nodes' intents.
pub(crate) struct Intents {
    policy: intendant_techniques::IntentPolicy,
    workers_per_node: usize,
    /// By worker of all nodes.
    clocks: Vec<u32>,
    /// By station, then worker of the node.
    workers: Vec<Vec<Worker>>,
    /// By station: the number of active intents per key, and the number of rounds.
    active: Vec<HashMap<Key, u32, foldhash::fast::FixedState>>,
    rounds: Vec<u64>,
    /// Active intents that other nodes have reported to homes.
    reported: HashMap<(Key, NodeId), u32, foldhash::fast::FixedState>,
}

impl Intents {
    pub(crate) fn new(
        policy: intendant_techniques::IntentPolicy,
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
            rounds: vec![0; stations],
            reported: HashMap::default(),
        }
    }

    pub(crate) fn choice(&self) -> Choice {
        self.policy.choice
    }

    pub(crate) fn decider(&self) -> Decider {
        self.policy.decider
    }

    /// A home receives a report about intents of `node`.
    pub(crate) fn report_received(&mut self, node: NodeId, key: Key, active: bool) {
        let count = self.reported.entry((key, node)).or_default();
        *count = match self.policy.decider {
            Decider::HomeOfEach if active => *count + 1,
            Decider::HomeOfEach => count.saturating_sub(1),
            Decider::Home | Decider::Owner => u32::from(active),
        };
    }

    /// Checks that the home of `key` knows exactly the nodes whose active intents were reported to it, and
    /// its own (of the channel `station`).
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
            .filter(|node| self.reported.get(&(key, *node)).is_some_and(|count| *count > 0))
            .chain((self.active(station, key) > 0).then_some(home))
            .collect();
        wanted.sort_unstable();
        known.sort_unstable();
        if known == wanted {
            return Ok(());
        }
        let knows = format!("{home:?}, home of {key:?}, knows of active intents at {known:?}");
        Err(("intents", format!("{knows}; reported were {wanted:?}")))
    }

    /// A worker or its loader signals an intent; `keys` belong to one channel.
    pub(crate) fn signalled(&mut self, station: usize, worker: usize, keys: Vec<Key>, window: Range<u32>) {
        let Range { start, end } = window;
        self.workers[station][worker % self.workers_per_node].signalled.push(Intent { keys, start, end });
    }

    /// A worker advances its clock to `clock`.
    pub(crate) fn advanced(&mut self, worker: usize, clock: u32) {
        self.clocks[worker] = self.clocks[worker].max(clock);
    }

    /// Whether the worker has finished.
    pub(crate) fn is_finished(&self, worker: usize) -> bool {
        self.clocks[worker] == FINISHED
    }

    /// Number of rounds of a channel that this account has followed.
    pub(crate) fn rounds(&self, station: usize) -> u64 {
        self.rounds[station]
    }

    /// Follows an intent round of a channel of `node`, in which intents begin whose start is before
    /// `horizon(worker)`.
    pub(crate) fn round(
        &mut self,
        station: usize,
        node: usize,
        horizon: impl Fn(usize) -> u32,
    ) -> IntentRound {
        self.rounds[station] += 1;
        let (active, mut round) = (&mut self.active[station], IntentRound::default());
        for (at, worker) in self.workers[station].iter_mut().enumerate() {
            let (clock, horizon) = (self.clocks[node * self.workers_per_node + at], horizon(at));
            let waiting: Vec<Intent> = worker.ahead.drain(..).chain(worker.signalled.drain(..)).collect();
            for intent in waiting {
                let Intent { ref keys, start, end } = intent;
                if end <= start {
                    round.empty += 1;
                } else if end <= clock {
                    round.past += 1;
                } else if start <= clock || start < horizon {
                    round.on_time += usize::from(start == clock);
                    round.early += usize::from(start > clock);
                    round.late += usize::from(start < clock);
                    for key in keys {
                        let count = active.entry(*key).or_default();
                        round.extended += usize::from(*count > 0);
                        *count += 1;
                    }
                    worker.begun.push(intent);
                } else {
                    worker.ahead.push(intent);
                }
            }
            let (over, left) = worker.begun.drain(..).partition(|intent: &Intent| intent.end <= clock);
            worker.begun = left;
            round.ended += over.len();
            for key in over.iter().flat_map(|intent| &intent.keys) {
                *active.get_mut(key).expect("it began") -= 1;
            }
        }
        round
    }

    /// Checks, when no event is left and no channel is held, that no channel has missed a signalled, begun or
    /// ended intent.
    pub(crate) fn settled(&self) -> Result<(), Finding> {
        for (station, workers) in self.workers.iter().enumerate() {
            let node = station / (self.workers.len() * self.workers_per_node / self.clocks.len());
            for (at, worker) in workers.iter().enumerate() {
                let clock = self.clocks[node * self.workers_per_node + at];
                let wrong = |what: &str| {
                    let who = format!("channel {station} is idle, worker {at} is at clock {clock}");
                    Err(("intents", format!("{who}, and {what}")))
                };
                if !worker.signalled.is_empty() {
                    return wrong("has signalled an intent that the channel has not seen");
                }
                if worker.ahead.iter().any(|intent| intent.start <= clock) {
                    return wrong("has reached the start of an intent that has not begun");
                }
                if worker.begun.iter().any(|intent| intent.end <= clock) {
                    return wrong("has passed the end of an intent that has not ended");
                }
            }
        }
        Ok(())
    }

    /// Number of active intents of the channel's node for `key`.
    pub(crate) fn active(&self, station: usize, key: Key) -> u32 {
        let standing = self.policy.choice == Choice::Everywhere && self.rounds[station] > 0;
        self.active[station].get(&key).copied().unwrap_or(0) + u32::from(standing)
    }

    /// Checks a channel that has handled an input: the number of active intents that it counts for `key`, and
    /// what it does about them. `wants` is `None` without a replica or a request for one; otherwise, whether
    /// the node still wants it.
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
            let seen = format!("{node:?} has role {role:?} for {key:?}, counts {counted} active intents");
            Err(("intents", format!("{seen} of {active}, wants its replica: {wants:?}; {what}")))
        };
        if counted != active {
            return wrong("the count is wrong");
        }
        match role {
            Role::Owner | Role::Hub if wants.is_some() => wrong("it owns the key"),
            Role::Owner | Role::Hub => Ok(()),
            _ if active == 0 && wants == Some(true) => wrong("it has no active intent"),
            // With `Choice::Relocate`, a key may leave a node with active intent, which then does not ask for
            // it again.
            _ if active > 0 && wants != Some(true) && self.policy.choice != Choice::Relocate => {
                wrong("it does not ask for the key")
            }
            Role::Replica if wants.is_none() => wrong("its channel does not know of the replica"),
            Role::Absent | Role::Replica | Role::Arriving | Role::Leaving | Role::Static => Ok(()),
        }
    }
}

/// Checks a key at rest. `nodes` are the roles of all nodes with their numbers of active intents. A node with
/// a replica has active intent. A node with active intent owns the key or, if the technique replicates, has a
/// replica.
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
            format!(
                "the cluster rests, and node {only}, the only one with intent for {key:?}, has role {role:?}"
            ),
        ));
    }
    for (at, (role, active)) in nodes.into_iter().enumerate() {
        let wrong = |what: &str| {
            let of = format!("the cluster rests, and node {at} has role {role:?} for {key:?}");
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
    const ADAPTIVE: intendant_techniques::IntentPolicy = intendant_techniques::IntentPolicy {
        choice: Choice::Adaptive,
        action: Act::InTime,
        decider: Decider::Owner,
    };

    #[test]
    fn intents_begin_overlap_and_end() {
        let mut intents = Intents::new(ADAPTIVE, 1, 1, 2);
        for (worker, window) in [(0, 2..5), (0, 4..9), (1, 1..2), (1, 3..3), (1, 0..1), (0, 100..101)] {
            intents.signalled(0, worker, vec![K], window);
        }
        let round = intents.round(0, 0, |_| 3);
        assert_eq!((round.early, round.on_time, round.late, round.empty, round.extended), (2, 1, 0, 1, 2));
        assert_eq!(intents.active(0, K), 3);
        intents.advanced(0, 4);
        intents.advanced(1, 2);
        let round = intents.round(0, 0, |_| 5);
        assert_eq!((round.on_time, round.ended, intents.active(0, K)), (1, 2, 2));
        intents.signalled(0, 0, vec![K], 1..6);
        intents.signalled(0, 0, vec![K], 1..4);
        let round = intents.round(0, 0, |_| 5);
        assert_eq!((round.late, round.past, intents.active(0, K)), (1, 1, 3));
        intents.advanced(0, FINISHED);
        assert_eq!((intents.round(0, 0, |_| FINISHED).ended, intents.active(0, K)), (3, 0));
        assert!(intents.is_finished(0) && !intents.is_finished(1));
        assert_eq!(intents.settled(), Ok(()));
        intents.signalled(0, 1, vec![K], 5..6);
        assert!(intents.settled().is_err(), "no channel has looked");
        intents.round(0, 0, |_| 3);
        assert_eq!(intents.settled(), Ok(()), "it is not time yet");
        intents.advanced(1, 5);
        assert!(intents.settled().is_err(), "now it is");
        intents.round(0, 0, |_| 6);
        intents.advanced(1, 6);
        assert!(intents.settled().is_err(), "it is over");
    }

    #[test]
    fn homes_know_what_was_reported() {
        for (decider, left) in [(Decider::Home, 0), (Decider::HomeOfEach, 1)] {
            let mut intents =
                Intents::new(intendant_techniques::IntentPolicy { decider, ..ADAPTIVE }, 2, 1, 1);
            let knows =
                |intents: &Intents, known: &[NodeId]| intents.knows(0, NodeId(0), K, known.to_vec()).is_ok();
            assert!(knows(&intents, &[]));
            intents.report_received(NodeId(1), K, true);
            intents.report_received(NodeId(1), K, true);
            assert!(knows(&intents, &[NodeId(1)]) && !knows(&intents, &[]));
            intents.report_received(NodeId(1), K, false);
            assert_eq!(knows(&intents, &[NodeId(1)]), left == 1);
            intents.report_received(NodeId(1), K, false);
            intents.signalled(0, 0, vec![K], 0..5);
            intents.round(0, 0, |_| 1);
            assert!(knows(&intents, &[NodeId(0)]) && !knows(&intents, &[NodeId(0), NodeId(1)]));
        }
    }

    #[test]
    fn the_only_node_with_intent_owns_the_key_at_rest() {
        let rests =
            |nodes: &[(Role, u32)]| at_rest(Choice::Adaptive, K, nodes.iter().copied(), |_| false).is_ok();
        assert!(
            rests(&[(Role::Owner, 0), (Role::Absent, 0)]) && rests(&[(Role::Absent, 0), (Role::Owner, 1)])
        );
        assert!(rests(&[(Role::Hub, 0), (Role::Replica, 1), (Role::Replica, 1)]));
        assert!(!rests(&[(Role::Hub, 0), (Role::Replica, 1)]));
    }

    #[test]
    fn a_channel_counts_intents_and_asks_for_their_keys() {
        let mut intents = Intents::new(ADAPTIVE, 1, 1, 1);
        let check = |intents: &Intents, role, counted, wants| {
            intents.handled(0, NodeId(0), K, role, counted, wants).is_ok()
        };
        assert!(check(&intents, Role::Absent, 0, None) && check(&intents, Role::Replica, 0, Some(false)));
        assert!(!check(&intents, Role::Absent, 1, Some(true)), "no worker signalled it");
        assert!(!check(&intents, Role::Replica, 0, Some(true)), "no intent is active any more");
        intents.signalled(0, 0, vec![K], 0..5);
        intents.round(0, 0, |_| 1);
        assert!(check(&intents, Role::Absent, 1, Some(true)) && check(&intents, Role::Hub, 1, None));
        assert!(!check(&intents, Role::Absent, 1, None), "it is not asked for");
        assert!(!check(&intents, Role::Replica, 1, Some(false)));
        assert!(!check(&intents, Role::Owner, 1, Some(true)), "it is here");
        assert!(!check(&intents, Role::Owner, 0, None), "miscounted");
        let policy = intendant_techniques::IntentPolicy { choice: Choice::Relocate, ..ADAPTIVE };
        let relocate = Intents { policy, ..intents };
        assert!(check(&relocate, Role::Absent, 1, None), "another node fetched it");
    }
}
