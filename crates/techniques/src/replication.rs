//! Replicas through the owner: copies that come and go, kept in step by the node that has the main copy (000 §2.2.3, §5.3.3).
//!
//! A *holder* has registered with the owner and has a copy: it reads it and adds to it as if it were its own, and sends what it
//! added, as a *delta*, to the owner, who merges it and tells the other holders.
//!
//! | who | has | hears | does |
//! | --- | --- | --- | --- |
//! | node | nothing | that it wants a copy | *ask* under a new generation → owner |
//! | owner | | *ask*, new generation | registers the holder; *set up* with the value → holder |
//! | owner | | *ask*, same generation | *refresh* with the value → holder |
//! | holder | updates, no delta in flight | that a round begins | *delta* with the next number → owner |
//! | owner | the holder's generation | *delta* with the next number | merges it; the holder knew the version before: *acknowledged*, without a value; else *refresh* |
//! | owner | another generation, or none | *delta* | ignores it: a ghost, see below |
//! | owner | holders that do not know its version | that a round begins | *refresh* → those |
//! | holder | | *set up*, *refresh* with a newer version | copy := value + own updates that it does not contain |
//! | holder | delta in flight | *acknowledged* | base := base + delta, by the owner's arithmetic: copies stay equal to the bit |
//! | holder | no updates, no delta in flight | that the copy is not wanted any more | *drop* → owner; goes on serving |
//! | owner | the holder's generation | *drop* | forgets the holder; *dropped* → holder |
//! | holder | no updates | *dropped*, its generation | gives up the copy |
//! | holder | updates since the drop, or somebody wants the copy again | | revives: *ask* under a new generation; answers to the old one mean nothing |
//!
//! **Exactly once.** A holder has one delta in flight per key, and numbers them within a generation. The owner merges the next number
//! of the generation that it knows and nothing else. Registrations (generation, last number) and the version move with the key.
//!
//! **Promotion.** The owner hands a key over to one of its holders: value := what was handed over + updates that were not sent +
//! the delta in flight, if the registrations say that it was not merged. The delta itself is still on its way, through old
//! owners to wherever the key is: a *ghost*. Its generation is over, so nobody merges it. A late *ask* may register a holder that is
//! none; it answers what it does not expect with a *drop*.
//!
//! **Sessions.** A worker that has no copy accesses the owner, and gets a copy afterwards; what it wrote and read must be in it.
//! So an owner that serves an access of a registered holder sends what the holder does not know before it answers.

use crate::role::is_newer;
use intendant_core::{Element, NodeId};

/// Where a holder's registration stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Asked for; there is no value yet.
    Asking,
    /// The owner knows of it.
    Held,
    /// The owner has been told that it ends. The copy still serves.
    Dropping,
    /// It ended, or is about to, and is asked for anew. The copy still serves.
    Reviving,
}

/// A holder's record of its copy. The copy itself (value) is in the store: base + delta in flight + updates since.
#[derive(Debug)]
pub struct Replica<E> {
    generation: u32,
    stage: Stage,
    /// Of `base`.
    version: u32,
    /// Number of the last delta sent within the generation.
    seq: u32,
    /// What the main copy was at `version`; empty before there is a value.
    base: Box<[E]>,
    /// The delta in flight, if there is one, or what the last one was, for its memory; empty before the first.
    sent: Box<[E]>,
    /// Whether a delta is in flight.
    sending: bool,
}

/// What a holder does about *dropped*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// Gives up the copy.
    Gone,
    /// Nothing: this is about an earlier registration.
    Stale,
    /// Calls [`Replica::revive`]: the copy has updates that the owner does not have.
    Updated,
}

impl<E: Element> Replica<E> {
    /// A copy that is being asked for under `generation`, which this node has not used for the key, as far as anybody remembers.
    #[must_use]
    pub fn ask(generation: u32) -> Self {
        let (base, sent) = (Box::default(), Box::default());
        Self { generation, stage: Stage::Asking, version: 0, seq: 0, base, sent, sending: false }
    }

    /// The generation of the registration.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Where the registration stands.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The version of the main copy that this copy is based on.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The main copy at that version; empty before there is a value.
    pub fn base(&self) -> &[E] {
        &self.base
    }

    /// Whether a delta is in flight.
    pub fn is_sending(&self) -> bool {
        self.sending
    }

    /// The updates in `value` that are not in flight yet become the delta in flight. Returns its number and elements; `None` if
    /// there is nothing to send, or this is not the time to.
    pub fn collect(&mut self, value: &mut [E]) -> Option<(u32, &[E])> {
        if self.stage != Stage::Held || self.sending {
            return None;
        }
        if self.sent.is_empty() {
            self.sent = vec![E::ZERO; self.base.len()].into();
        }
        for ((value, base), sent) in value.iter_mut().zip(&self.base).zip(&mut self.sent) {
            *sent = *value - *base;
            // What the owner will have, and what later updates are measured against: the same to the last bit.
            *value = *base + *sent;
        }
        if self.sent.iter().all(|s| *s == E::ZERO) {
            value.copy_from_slice(&self.base);
            return None;
        }
        (self.seq, self.sending) = (self.seq.wrapping_add(1), true);
        Some((self.seq, &self.sent))
    }

    /// The main copy was `news` at `version` and contained this holder's deltas up to number `merged`. `value` becomes that and
    /// what it does not contain; `updated` says whether `value` has updates since the last delta. False if this is old news.
    pub fn news(&mut self, version: u32, merged: u32, news: &[E], value: &mut [E], updated: bool) -> bool {
        match self.stage {
            Stage::Asking => {
                value.copy_from_slice(news);
                (self.stage, self.version, self.base) = (Stage::Held, version, news.into());
                return true;
            }
            Stage::Reviving => self.stage = Stage::Held,
            Stage::Held | Stage::Dropping if !is_newer(version, self.version) => return false,
            Stage::Held | Stage::Dropping => {}
        }
        self.rebase(merged, news, value, updated);
        self.sending &= self.seq != merged;
        self.version = version;
        self.base.copy_from_slice(news);
        true
    }

    /// `value` := `news` + the delta in flight, if `news` does not contain it, + the updates since.
    fn rebase(&self, merged: u32, news: &[E], value: &mut [E], updated: bool) {
        let all = value.iter_mut().zip(news).zip(&self.base);
        let sending = all.zip(&self.sent);
        // A loop without branches for each case.
        match (self.sending, self.seq != merged, updated) {
            (false, _, false) | (true, false, false) => value.copy_from_slice(news),
            (false, _, true) => {
                value.iter_mut().zip(news).zip(&self.base).for_each(|((v, n), b)| *v = *n + (*v - *b));
            }
            (true, false, true) => sending.for_each(|(((v, n), b), s)| *v = *n + (*v - (*b + *s))),
            (true, true, false) => sending.for_each(|(((v, n), _), s)| *v = *n + *s),
            (true, true, true) => sending.for_each(|(((v, n), b), s)| *v = (*n + *s) + (*v - (*b + *s))),
        }
    }

    /// The owner has merged delta number `merged` into the version that this copy is based on, which gave `version`. False if
    /// this is old news.
    pub fn acknowledged(&mut self, version: u32, merged: u32) -> bool {
        if self.seq != merged || version != self.version.wrapping_add(1) {
            return false;
        }
        if !std::mem::take(&mut self.sending) {
            return false;
        }
        for (base, sent) in self.base.iter_mut().zip(&self.sent) {
            *base += *sent;
        }
        self.version = version;
        true
    }

    /// The copy is not wanted any more. True if the owner is to be told now: nothing is in flight, and the caller has nothing
    /// to send.
    pub fn drop_out(&mut self) -> bool {
        let now = self.stage == Stage::Held && !self.sending;
        if now {
            self.stage = Stage::Dropping;
        }
        now
    }

    /// The owner has forgotten the registration `generation`.
    pub fn dropped(&self, generation: u32, updated: bool) -> Dropped {
        match self.stage {
            Stage::Dropping if generation == self.generation && updated => Dropped::Updated,
            Stage::Dropping if generation == self.generation => Dropped::Gone,
            Stage::Asking | Stage::Held | Stage::Dropping | Stage::Reviving => Dropped::Stale,
        }
    }

    /// A copy that was being dropped is asked for under a new generation, which must be newer: the owner may know the old one still,
    /// and answers none that is older.
    pub fn revive(&mut self, generation: u32) {
        intendant_core::strict_assert!(self.stage == Stage::Dropping && !self.sending);
        (self.generation, self.stage, self.seq) = (generation, Stage::Reviving, 0);
    }

    /// The main copy has come here, and contains this holder's deltas up to number `merged` of `generation` (`None`: the owner knew
    /// nothing of it). `copy` becomes the main copy: `main` and what it does not contain.
    pub fn promote(self, merged: Option<(u32, u32)>, main: &[E], copy: &mut [E], updated: bool) {
        if self.stage == Stage::Asking {
            copy.copy_from_slice(main);
            return;
        }
        let merged = merged.filter(|(generation, _)| *generation == self.generation).map(|(_, seq)| seq);
        // A delta is in flight only under a generation that the owner knew; were it unknown, it was not merged.
        let merged = merged.unwrap_or(self.seq.wrapping_sub(1));
        self.rebase(merged, main, copy, updated);
    }
}

/// A holder, as the owner knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The node.
    pub node: NodeId,
    /// Of its registration.
    pub generation: u32,
    /// Its last merged delta.
    pub seq: u32,
    /// The version that it has been told; `None` if this owner has told it nothing.
    pub known: Option<u32>,
}

/// An owner's record of a key that others hold replicas of.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Hub {
    version: u32,
    /// By node.
    holders: Vec<Holder>,
}

/// What an owner does about an *ask*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskOutcome {
    /// *Set up*.
    New,
    /// *Refresh*.
    Again,
    /// Nothing: a ghost of an earlier registration.
    Stale,
}

/// What an owner does about a *delta*. The version is the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Adds it; *acknowledged*.
    Acknowledge,
    /// Adds it; *refresh*.
    Refresh,
    /// Nothing: a ghost of an earlier registration, or merged already.
    Ghost,
    /// Nothing: deltas before it are missing. Who says so is wrong.
    Impossible,
}

impl Hub {
    /// The version of the main copy: it grows with every change that holders must hear of.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The holders, by node.
    pub fn holders(&self) -> &[Holder] {
        &self.holders
    }

    fn find(&self, node: NodeId) -> Result<usize, usize> {
        self.holders.binary_search_by_key(&node, |holder| holder.node)
    }

    /// `node` asks for a replica.
    pub fn ask(&mut self, node: NodeId, generation: u32) -> AskOutcome {
        let new = Holder { node, generation, seq: 0, known: None };
        match self.find(node) {
            Err(at) => {
                self.holders.insert(at, new);
                AskOutcome::New
            }
            Ok(at) if self.holders[at].generation == generation => AskOutcome::Again,
            Ok(at) if is_newer(generation, self.holders[at].generation) => {
                self.holders[at] = new;
                AskOutcome::New
            }
            Ok(_) => AskOutcome::Stale,
        }
    }

    /// `node` sends delta number `seq`.
    pub fn merge(&mut self, node: NodeId, generation: u32, seq: u32) -> Merge {
        let before = self.version;
        let holder = match self.find(node) {
            Ok(at) if self.holders[at].generation == generation => &mut self.holders[at],
            _ => return Merge::Ghost,
        };
        if !is_newer(seq, holder.seq) {
            return Merge::Ghost;
        }
        if seq != holder.seq.wrapping_add(1) {
            return Merge::Impossible;
        }
        holder.seq = seq;
        self.version = before.wrapping_add(1);
        if holder.known == Some(before) {
            // It knows what it sent.
            holder.known = Some(self.version);
            Merge::Acknowledge
        } else {
            Merge::Refresh
        }
    }

    /// The main copy has changed otherwise.
    pub fn touch(&mut self) {
        self.version = self.version.wrapping_add(1);
    }

    /// `node` gives its replica up. False if this is a ghost of an earlier registration.
    pub fn leave(&mut self, node: NodeId, generation: u32) -> bool {
        let found = self.find(node).ok().filter(|at| self.holders[*at].generation == generation);
        found.map(|at| self.holders.remove(at)).is_some()
    }

    /// Whether `node` holds a replica that lacks something.
    pub fn owes(&self, node: NodeId) -> bool {
        self.find(node).is_ok_and(|at| self.holders[at].known != Some(self.version))
    }

    /// `node` is sent the value now. Its registration.
    pub fn tell(&mut self, node: NodeId) -> Option<Holder> {
        let at = self.find(node).ok()?;
        self.holders[at].known = Some(self.version);
        Some(self.holders[at])
    }

    /// Holders that lack something.
    pub fn behind(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.holders.iter().filter(|holder| holder.known != Some(self.version)).map(|holder| holder.node)
    }

    /// The record of a key that was handed over to node `here`, whose holders were `holders` (any order) at `version`. Returns
    /// generation and last merged delta of `here`, if it was one of them: it is none any more.
    pub fn arrived(
        here: NodeId,
        version: u32,
        holders: impl IntoIterator<Item = (NodeId, u32, u32)>,
    ) -> (Self, Option<(u32, u32)>) {
        let (mut hub, mut own) = (Self { version: version.wrapping_add(1), holders: Vec::new() }, None);
        for (node, generation, seq) in holders {
            // What the old owner told them may still be under way.
            match hub.find(node) {
                _ if node == here => own = Some((generation, seq)),
                Err(at) => hub.holders.insert(at, Holder { node, generation, seq, known: None }),
                Ok(_) => {}
            }
        }
        (hub, own)
    }
}
