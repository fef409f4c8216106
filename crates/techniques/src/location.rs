//! How a node finds the main copy of a key that is elsewhere: the strategies of [thesis §3.2.3, §3.2.5].
//!
//! With N nodes and K keys, if no relocation is in flight, and requester, home and owner are three different
//! nodes:
//!
//! | [`Location`](crate::Location) | locations per node | messages of an access | of a relocation |
//! | --- | --- | --- | --- |
//! | static partition (keys do not move) | 0 | 2 | |
//! | broadcast operations | 0 | N | N |
//! | broadcast relocations | K | 2 | N |
//! | home, without caches | K/N | 3 | 3 |
//! | home, with caches | K/N, and the cached ones | 2 if the cache is correct, 4 if not | 3 |
//! | location request | K/N | 4 | 3 |
//!
//! **Home** and **location request**: [`crate::relocation`] has the table of relocations, which homes order.
//! With *location request*, a node asks the home for the owner (*locate*), and the home answers with the
//! present or the next owner (*located*). The request then goes there. If the key has left meanwhile, the
//! node forwards the request as one with a stale cache: to the home, which forwards it to the owner.
//!
//! **Broadcast relocations.** The owner hands a key over as soon as a localize reaches it. The new owner
//! tells all nodes but the old one (*moved*). So a node learns of an owner only after the key has arrived
//! there. An old owner remembers to which node it handed the key, so requests and localizes that come too
//! late follow the key. Each forward uses newer knowledge than the one before it, so no message is forwarded
//! in circles. A node that waits for a key queues the accesses of its own workers only. If it queued those of
//! others too, two nodes might each wait for the key with the other one's localize in its queue.
//!
//! **Broadcast operations.** Accesses and localizes (*operations*) go to all other nodes. The owner executes
//! them, and the others ignore them. An operation may reach both the old and the new owner of a key that
//! moves, or neither. Nodes therefore number the broadcasts of each node ([`Broadcasts`]), in the order in
//! which they arrive, which is that of the sender. A key has been through the first d broadcasts of a node if
//! its present and past owners have *decided* all of them: each has been executed, or is void, or does not
//! name the key. A hand-over carries this number per node.
//!
//! | node | event | does |
//! | --- | --- | --- |
//! | owner | broadcast number n of C, n ≤ d | ignores it: an earlier owner has decided it |
//! | owner | broadcast number n of C, n > d | executes it; d = n |
//! | old owner | hands the key over | sends d with it, per node: at least what it has received |
//! | new owner | has received s > d from C | tells C that those in (d, s] are *void*; d = s |
//! | C | broadcasts in (d, s] are void | starts its operations among these on the key again |
//!
//! Exactly one node owns the key or receives it, so exactly one node decides each broadcast, once. It is
//! executed, and C gets the answer; or it is void, and C sends it again. If nothing is in flight when a key
//! moves, all nodes have received the same broadcasts, and there is nothing to tell. Numbers wrap; those that
//! are compared must be less than 2³¹ apart.

use crate::is_newer;
use hashbrown::HashMap;
use intendant_core::{Key, NodeId};

/// The broadcasts that a channel of a node has sent and received.
#[derive(Clone, Debug)]
pub struct Broadcasts {
    node: NodeId,
    /// Per node, the number of its broadcasts that have arrived here; of this node, those that it has sent.
    seen: Vec<u32>,
    /// Per node, the keys owned here, or owned here once, that have been through more of its broadcasts than
    /// have arrived here.
    ahead: Vec<Ahead>,
}

/// Keys that have been through broadcasts which have not arrived yet.
#[derive(Clone, Debug, Default)]
struct Ahead {
    decided: HashMap<Key, u32, foldhash::fast::FixedState>,
    /// The largest number in `decided`.
    max: u32,
}

/// Broadcasts of `node` that no owner has executed or will execute: those after number `after`, up to number
/// `upto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Void {
    /// The node that sent them.
    pub node: NodeId,
    /// The number of the last one that was decided before.
    pub after: u32,
    /// The number of the last one that is void.
    pub upto: u32,
}

impl Void {
    /// Whether broadcast `number` is void.
    #[must_use]
    pub fn contains(&self, number: u32) -> bool {
        is_newer(number, self.after) && !is_newer(number, self.upto)
    }
}

impl Broadcasts {
    /// No broadcasts yet of any of `nodes` nodes.
    #[must_use]
    pub fn new(node: NodeId, nodes: usize) -> Self {
        Self { node, seen: vec![0; nodes], ahead: vec![Ahead::default(); nodes] }
    }

    /// The number of the next broadcast of this node, which it is about to send.
    pub fn send(&mut self) -> u32 {
        self.next(self.node)
    }

    /// The number of a broadcast of `from` that has arrived.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn receive(&mut self, from: NodeId) -> u32 {
        self.next(from)
    }

    fn next(&mut self, node: NodeId) -> u32 {
        let seen = &mut self.seen[node.index()];
        *seen = seen.wrapping_add(1);
        *seen
    }

    /// Whether an owner of `key` before this node has decided broadcast `number` of `from`.
    #[must_use]
    pub fn is_decided(&self, from: NodeId, key: Key, number: u32) -> bool {
        self.ahead[from.index()].decided.get(&key).is_some_and(|decided| !is_newer(number, *decided))
    }

    /// Forgets what this node knows of the broadcasts of `from` up to `number`, all of which it has handled.
    pub fn handled(&mut self, from: NodeId, number: u32) {
        let ahead = &mut self.ahead[from.index()];
        if !is_newer(ahead.max, number) {
            ahead.decided.clear();
        }
    }

    /// Per node, the number of its broadcasts that `key`, which is here, has been through.
    #[must_use]
    pub fn decided(&self, key: Key) -> Vec<u32> {
        let both = self.seen.iter().zip(&self.ahead);
        let newest = |seen, decided| if is_newer(decided, seen) { decided } else { seen };
        both.map(|(seen, ahead)| ahead.decided.get(&key).map_or(*seen, |decided| newest(*seen, *decided)))
            .collect()
    }

    /// Whether the key of a hand-over may have been through `decided` broadcasts of each node: there is a
    /// number per node, and this node has sent as many broadcasts as its own number says.
    #[must_use]
    pub fn is_plausible(&self, decided: &[u32]) -> bool {
        let own = self.node.index();
        decided.len() == self.seen.len() && !is_newer(decided[own], self.seen[own])
    }

    /// Notes that `key` has arrived, which has been through `decided` broadcasts of each node. Returns those
    /// that are void.
    ///
    /// # Panics
    /// If [`Broadcasts::is_plausible`] is false.
    pub fn arrive(&mut self, key: Key, decided: &[u32]) -> Vec<Void> {
        assert!(self.is_plausible(decided), "a hand-over is checked");
        let mut void = Vec::new();
        for (at, after) in decided.iter().copied().enumerate() {
            let (upto, ahead) = (self.seen[at], &mut self.ahead[at]);
            if is_newer(after, upto) {
                if ahead.decided.is_empty() || is_newer(after, ahead.max) {
                    ahead.max = after;
                }
                ahead.decided.insert(key, after);
            } else if is_newer(upto, after) {
                void.push(Void { node: NodeId(at as u16), after, upto });
            }
        }
        void
    }

    /// The number of entries that this channel keeps about single keys.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.ahead.iter().map(|ahead| ahead.decided.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: Key = Key(7);
    const A: NodeId = NodeId(0);
    const B: NodeId = NodeId(1);
    const C: NodeId = NodeId(2);

    #[test]
    fn numbers_wrap() {
        let (mut old, mut new) = (received(A, [0; 3]), received(B, [0; 3]));
        old.seen[2] = 1;
        new.seen[2] = u32::MAX;
        assert_eq!(new.arrive(K, &old.decided(K)), []);
        for decided in [true, true, false] {
            let number = new.receive(C);
            assert_eq!(new.is_decided(C, K, number), decided, "{number}");
        }
        let void = Void { node: C, after: u32::MAX, upto: 1 };
        assert_eq!([u32::MAX, 0, 1, 2].map(|number| void.contains(number)), [false, true, true, false]);
    }

    fn received(here: NodeId, counts: [u32; 3]) -> Broadcasts {
        let mut broadcasts = Broadcasts::new(here, 3);
        for (node, count) in [A, B, C].into_iter().zip(counts) {
            (0..count).for_each(|_| {
                broadcasts.receive(node);
            });
        }
        broadcasts
    }

    #[test]
    fn a_broadcast_that_the_old_owner_decided_is_ignored_at_the_new_one() {
        let old = received(A, [0, 1, 2]);
        let mut new = received(B, [0, 1, 0]);
        assert_eq!(new.arrive(K, &old.decided(K)), []);
        assert_eq!(new.decided(K), [0, 1, 2], "it may go on at once");
        for (expected, decided) in [(1, true), (2, true), (3, false)] {
            let number = new.receive(C);
            assert_eq!((number, new.is_decided(C, K, number)), (expected, decided));
            assert!(!new.is_decided(C, Key(8), number), "another key");
            new.handled(C, number);
            assert_eq!(new.entries(), usize::from(number < 2), "nothing is kept of what has passed");
        }
    }

    #[test]
    fn a_broadcast_that_arrives_between_two_owners_is_void() {
        let old = received(A, [0, 1, 2]);
        let mut new = received(B, [0, 1, 4]);
        let void = Void { node: C, after: 2, upto: 4 };
        assert_eq!(new.arrive(K, &old.decided(K)), [void]);
        assert_eq!([2, 3, 4, 5].map(|number| void.contains(number)), [false, true, true, false]);
        assert_eq!((new.decided(K), new.entries()), (vec![0, 1, 4], 0));
    }

    #[test]
    fn a_hand_over_knows_no_broadcasts_that_were_not_sent() {
        let new = received(B, [5, 1, 0]);
        assert!(new.is_plausible(&[0, 1, 9]) && !new.is_plausible(&[0, 2, 0]) && !new.is_plausible(&[0, 0]));
    }
}
