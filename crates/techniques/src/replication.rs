//! Replicas through the owner: copies that are set up and dropped during the run, and that the node with the
//! main copy keeps in step [thesis §2.2.3, §5.3.3].
//!
//! A *holder* has registered with the owner and has a copy. It reads the copy and adds to it as if it were
//! its own, and sends its updates as a *delta* to the owner, which merges the delta and sends the new value
//! to the other holders.
//!
//! | node | has | event | does |
//! | --- | --- | --- | --- |
//! | node | nothing | a copy is wanted | *ask* with a new generation → owner |
//! | owner | | *ask*, new generation | registers the holder; *set-up* → holder |
//! | owner | | *ask*, same generation | *refresh* → holder |
//! | holder | updates, no delta in flight | a round begins | *delta* with the next number → owner |
//! | owner | same generation, holder up to date | next *delta* | merges it; *acknowledged* → holder |
//! | owner | same generation, holder behind | next *delta* | merges it; *refresh* → holder |
//! | owner | another generation, or none | *delta* | ignores it: a ghost, see below |
//! | owner | holders that are behind | a round begins | *refresh* → these, but see below |
//! | holder | | *set-up*, *refresh*, newer version | copy := value + own updates that the value lacks |
//! | holder | delta in flight | *acknowledged* | base := base + delta, by the owner's arithmetic |
//! | holder | no updates, no delta in flight | the copy is unwanted | *drop* → owner; continues to serve |
//! | owner | same generation | *drop* | forgets the holder; *dropped* → holder |
//! | holder | no updates | *dropped*, its generation | drops the copy |
//! | holder | updates since the drop | *dropped*, its generation | revives: *ask* with a new generation |
//! | holder | has sent *drop* | the copy is wanted again | revives: *ask* with a new generation |
//!
//! Set-up and refresh carry the value. Holders use the owner's arithmetic, so copies stay bitwise equal. A
//! holder that has revived ignores answers to earlier generations.
//!
//! **Rounded elements.** With [`Precision::Bf16`], deltas and values travel as bfloat16. The main copy stays
//! exact. A holder's base is then the rounded value plus its deltas, so its copy differs from the main copy
//! by the rounding error, and the owner remembers which holders have such a base. The *remainder* is what the
//! rounding of a delta has left out: it stays in the copy and is part of the next delta. A remainder alone is
//! no reason for a delta. Nothing is rounded in two cases, for which the table has three more rows:
//!
//! | node | has | event | does |
//! | --- | --- | --- | --- |
//! | holder | a remainder or updates | the copy is to end | exact *delta* → owner |
//! | holder | a remainder or updates | the cluster comes to rest | exact *delta* → owner |
//! | owner | holders with a rounded base | the cluster comes to rest | a new version; exact *refresh* |
//!
//! So a copy ends without a remainder, and at rest all copies are bitwise equal and contain all updates.
//!
//! **Once per round.** A holder that sends a delta in each round gets the value in each answer. After such an
//! answer, the next round of the owner leaves this holder out: otherwise the holder would get every value
//! twice, while it sends its own updates once. If the holder stops sending, it gets the next change one round
//! later.
//!
//! **Exactly once.** A holder has one delta per key in flight, and numbers deltas within a generation. The
//! owner merges the delta with the next number of the generation that it knows, and no other. Registrations
//! (generation, last number) and the version move with the key.
//!
//! **Promotion.** The owner may hand a key over to one of its holders. The new main copy is the value of the
//! hand-over, plus the updates that the holder has not sent, plus the delta in flight if the registrations
//! say that it was not merged. That delta itself is still in flight, via old owners, to the key: a *ghost*.
//! Its generation is over, so no owner merges it. A late *ask* may register a node that holds no replica;
//! that node answers the update that it does not expect with a *drop*.
//!
//! **Sessions.** A worker on a node without a copy accesses the owner, and its node may get a copy
//! afterwards, which must contain the worker's writes and reads. So an owner that serves an access of a
//! registered holder first sends the changes that the holder lacks, and then the answer.

use crate::combine::{self, Known};
use crate::role::is_newer;
use intendant_core::{Element, NodeId, Precision, Updates};
use smallvec::SmallVec;

/// The stage of a holder's registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The holder has asked, and has no value yet.
    Asking,
    /// The owner has registered the holder.
    Held,
    /// The holder has given the registration up. The copy still serves.
    Dropping,
    /// The holder has given the registration up and asked again. The copy still serves.
    Reviving,
}

/// A holder's record of its copy. The copy itself is in the store: base + delta in flight + updates since.
#[derive(Debug)]
pub struct Replica<E> {
    generation: u32,
    stage: Stage,
    /// Version of `base`.
    version: u32,
    /// Number of the last delta sent within the generation.
    seq: u32,
    /// The main copy at `version`; empty before there is a value.
    base: Box<[E]>,
    /// The delta in flight, or else the last one, whose memory the next one reuses; empty before the first.
    sent: Box<[E]>,
    /// Whether a delta is in flight.
    sending: bool,
    /// Whether the copy has what rounding has left out of its deltas.
    remains: bool,
}

/// What a holder does about *dropped*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// Gives up the copy.
    Gone,
    /// Nothing: the message is about an earlier registration.
    Stale,
    /// Calls [`Replica::revive`]: the copy has updates that the owner does not have.
    Updated,
}

/// The updates of a copy that were not in flight.
#[derive(Clone, Copy, Debug)]
pub struct Collected<'a, E> {
    /// By how much they change the copy: see [`combine::change`].
    pub change: f64,
    /// Number and elements of the delta; `None` if there are no updates.
    pub delta: Option<(u32, &'a [E])>,
}

impl<E: Element> Replica<E> {
    /// A copy that the node asks for with `generation`. No node remembers an earlier use of this generation
    /// by the node for the key.
    #[must_use]
    pub fn ask(generation: u32) -> Self {
        let (base, sent) = (Box::default(), Box::default());
        let (version, seq) = (0, 0);
        Self { generation, stage: Stage::Asking, version, seq, base, sent, sending: false, remains: false }
    }

    /// The generation of the registration.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// The stage of the registration.
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

    /// Whether the copy has a remainder: what rounding has left out of its deltas.
    pub fn has_remainder(&self) -> bool {
        self.remains
    }

    /// By how much the updates in `value` that are not in flight change it: see [`combine::change`].
    pub fn change(&self, updates: Updates<'_>, value: &[E]) -> f64 {
        combine::change(updates, value, &self.base)
    }

    /// Gives the copy memory for deltas, as long as a delta and with any contents, if it has none. Without
    /// it, the first delta allocates.
    pub fn reserve(&mut self, memory: impl FnOnce() -> Box<[E]>) {
        if self.sent.is_empty() {
            self.sent = memory();
        }
    }

    /// The memory that the copy has: for the main copy and for deltas. Either may be empty.
    pub fn into_memory(self) -> [Box<[E]>; 2] {
        [self.base, self.sent]
    }

    /// Makes the updates in `value` that are not in flight the delta in flight. `updates` says how they
    /// change the main copy, `precision` how the delta will be written. `None` if the holder may not send a
    /// delta now.
    pub fn collect(
        &mut self,
        updates: Updates<'_>,
        precision: Precision,
        value: &mut [E],
    ) -> Option<Collected<'_, E>> {
        if self.stage != Stage::Held || self.sending {
            return None;
        }
        if self.sent.is_empty() {
            self.sent = vec![E::ZERO; combine::delta_len(updates, self.base.len())].into();
        }
        let change = match precision {
            // The owner will compute the same value, and later updates are differences from it: all three
            // agree to the bit.
            Precision::Exact => {
                self.remains = false;
                combine::collect(updates, value, &self.base, &mut self.sent)
            }
            Precision::Bf16 => {
                let change;
                (change, self.remains) = combine::collect_rounded(updates, value, &self.base, &mut self.sent);
                change
            }
        };
        if combine::may_omit_zeros(updates) && self.sent.iter().all(|s| *s == E::ZERO) {
            if !self.remains {
                value.copy_from_slice(&self.base);
            }
            return Some(Collected { change, delta: None });
        }
        if precision == Precision::Bf16 && !self.remains {
            // Equal already, but for the signs of zeros.
            value.copy_from_slice(&self.base);
            combine::add(updates, value, &self.sent);
        }
        (self.seq, self.sending) = (self.seq.wrapping_add(1), true);
        Some(Collected { change, delta: Some((self.seq, &self.sent)) })
    }

    /// Takes the set-up that the copy has asked for: the main copy was `main` at `version`, and so is the
    /// copy now.
    pub fn set_up(&mut self, version: u32, main: Box<[E]>) {
        intendant_core::strict_assert!(self.stage == Stage::Asking);
        (self.stage, self.version, self.base) = (Stage::Held, version, main);
    }

    /// Takes a set-up or refresh of a copy that has a value: the main copy was `main` at `version` and
    /// contained this holder's deltas up to number `merged`. `value` becomes `main` plus the holder's updates
    /// that it lacks; `updated` says whether `value` has updates since the last delta, in addition to a
    /// remainder. Returns false, and changes nothing, if the version is not newer.
    pub fn refresh(
        &mut self,
        updates: Updates<'_>,
        (version, merged): (u32, u32),
        main: &[E],
        value: &mut [E],
        updated: bool,
    ) -> bool {
        match self.stage {
            Stage::Reviving => self.stage = Stage::Held,
            Stage::Held | Stage::Dropping if !is_newer(version, self.version) => return false,
            Stage::Held | Stage::Dropping => {}
            Stage::Asking => unreachable!("a copy without a value is set up first"),
        }
        self.rebase(updates, merged, main, value, updated);
        self.sending &= self.seq != merged;
        self.version = version;
        self.base.copy_from_slice(main);
        true
    }

    /// `value` := `main` + the delta in flight, if `main` lacks it, + the updates since, with the remainder.
    fn rebase(&self, updates: Updates<'_>, merged: u32, main: &[E], value: &mut [E], updated: bool) {
        let updated = updated || self.remains;
        let lacks = self.seq != merged;
        match updates {
            Updates::Combined(combine) if updated => {
                let sent = self.sending.then_some(&self.sent[..]);
                combine::rebase(combine, &Known { base: &self.base, sent, lacks }, main, value);
            }
            Updates::Combined(_) | Updates::Rule(_) => {
                self.rebase_by_rule(updates, lacks, main, value, updated);
            }
        }
    }

    /// As [`Replica::rebase`], for all kinds of updates. `lacks` says whether `main` lacks the delta in
    /// flight.
    fn rebase_by_rule(&self, updates: Updates<'_>, lacks: bool, main: &[E], value: &mut [E], updated: bool) {
        let mut since = Vec::new();
        if updated {
            let mut known = self.base.to_vec();
            if self.sending {
                combine::add(updates, &mut known, &self.sent);
            }
            since.resize(combine::delta_len(updates, value.len()), E::ZERO);
            combine::difference(updates, value, &known, &mut since);
        }
        value.copy_from_slice(main);
        if self.sending && lacks {
            combine::add(updates, value, &self.sent);
        }
        if updated {
            combine::add_unsent(updates, value, &since);
        }
    }

    /// Takes an acknowledgement: the owner has merged delta number `merged` into the version that this copy
    /// is based on, which gave `version`. Returns false, and changes nothing, if that is not the delta in
    /// flight and the next version.
    pub fn acknowledged(&mut self, updates: Updates<'_>, version: u32, merged: u32) -> bool {
        if self.seq != merged || version != self.version.wrapping_add(1) {
            return false;
        }
        if !std::mem::take(&mut self.sending) {
            return false;
        }
        combine::add(updates, &mut self.base, &self.sent);
        self.version = version;
        true
    }

    /// Notes that the node no longer wants the copy. Returns whether the caller sends *drop* now: no delta is
    /// in flight, there is no remainder, and the caller has no updates to send.
    pub fn drop_out(&mut self) -> bool {
        let now = self.stage == Stage::Held && !self.sending && !self.remains;
        if now {
            self.stage = Stage::Dropping;
        }
        now
    }

    /// Takes *dropped*: the owner has forgotten the registration `generation`. `updated` says whether the
    /// copy has updates.
    pub fn dropped(&self, generation: u32, updated: bool) -> Dropped {
        match self.stage {
            Stage::Dropping if generation == self.generation && updated => Dropped::Updated,
            Stage::Dropping if generation == self.generation => Dropped::Gone,
            Stage::Asking | Stage::Held | Stage::Dropping | Stage::Reviving => Dropped::Stale,
        }
    }

    /// Asks again for a copy that the holder has given up. The generation must be newer: the owner may still
    /// know the old one, and ignores older ones.
    pub fn revive(&mut self, generation: u32) {
        intendant_core::strict_assert!(self.stage == Stage::Dropping && !self.sending);
        (self.generation, self.stage, self.seq) = (generation, Stage::Reviving, 0);
    }

    /// Takes a hand-over of the key: `main` contains this holder's deltas up to the number in `merged` of the
    /// generation in it (`None`: the owner did not know the holder). `copy` becomes the main copy: `main`
    /// plus the updates that it lacks.
    pub fn promote(
        &self,
        updates: Updates<'_>,
        merged: Option<(u32, u32)>,
        main: &[E],
        copy: &mut [E],
        updated: bool,
    ) {
        if self.stage == Stage::Asking {
            copy.copy_from_slice(main);
            return;
        }
        let merged = merged.filter(|(generation, _)| *generation == self.generation).map(|(_, seq)| seq);
        // If the owner did not know the generation, it has not merged the delta in flight.
        let merged = merged.unwrap_or(self.seq.wrapping_sub(1));
        self.rebase(updates, merged, main, copy, updated);
        combine::promote(updates, copy);
    }
}

/// A holder, as the owner knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The node.
    pub node: NodeId,
    /// Whether the owner has answered a delta of the holder with the value, since the last round that found
    /// the holder behind.
    pub answered: bool,
    /// Generation of its registration.
    pub generation: u32,
    /// Number of its last merged delta.
    pub seq: u32,
    /// The version that this owner has sent to it, if any.
    pub known: Option<u32>,
    /// Whether that version, or the last one before it that was sent as a value, was rounded.
    pub rounded: bool,
}

/// An owner's record of a key of which other nodes hold replicas.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Hub {
    version: u32,
    /// Ascending by node. Most keys have one, which needs no memory of its own.
    holders: SmallVec<[Holder; 1]>,
}

/// What an owner does about an *ask*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskOutcome {
    /// Answers with *set-up*.
    New,
    /// Answers with *refresh*.
    Again,
    /// Ignores it: a ghost of an earlier registration.
    Stale,
}

/// What an owner does about a *delta*. The version is the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Adds it and answers with *acknowledged*.
    Acknowledge,
    /// Adds it and answers with *refresh*.
    Refresh,
    /// Ignores it: a ghost of an earlier registration, or merged already.
    Ghost,
    /// Refuses it: deltas before it are missing.
    Impossible,
}

impl Hub {
    /// The version of the main copy, which grows with every change that holders must receive.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The holders, ascending by node.
    pub fn holders(&self) -> &[Holder] {
        &self.holders
    }

    fn find(&self, node: NodeId) -> Result<usize, usize> {
        self.holders.binary_search_by_key(&node, |holder| holder.node)
    }

    /// Takes an *ask* of `node`.
    pub fn ask(&mut self, node: NodeId, generation: u32) -> AskOutcome {
        let new = Holder { node, answered: false, generation, seq: 0, known: None, rounded: false };
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

    /// Takes delta number `seq` of `node`.
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
            // The holder has its own delta.
            holder.known = Some(self.version);
            Merge::Acknowledge
        } else {
            holder.answered = true;
            Merge::Refresh
        }
    }

    /// Notes that the main copy has changed by an access.
    pub fn touch(&mut self) {
        self.version = self.version.wrapping_add(1);
    }

    /// Takes a *drop* of `node`. Returns false if it is a ghost of an earlier registration.
    pub fn leave(&mut self, node: NodeId, generation: u32) -> bool {
        let found = self.find(node).ok().filter(|at| self.holders[*at].generation == generation);
        found.map(|at| self.holders.remove(at)).is_some()
    }

    /// Whether `node` holds a replica that is behind the main copy.
    pub fn owes(&self, node: NodeId) -> bool {
        self.find(node).is_ok_and(|at| self.holders[at].known != Some(self.version))
    }

    /// Notes that the owner now sends the version to `node`: either its value, with a precision, or (`None`)
    /// the acknowledgement that it is the holder's last version plus the holder's delta. Returns the
    /// registration.
    pub fn tell(&mut self, node: NodeId, value: Option<Precision>) -> Option<Holder> {
        let at = self.find(node).ok()?;
        self.holders[at].known = Some(self.version);
        if let Some(precision) = value {
            self.holders[at].rounded = precision == Precision::Bf16;
        }
        Some(self.holders[at])
    }

    /// Whether a holder's last value was rounded.
    pub fn has_rounded(&self) -> bool {
        self.holders.iter().any(|holder| holder.rounded)
    }

    /// The holders whose replicas are behind the main copy.
    pub fn behind(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.holders.iter().filter(|holder| holder.known != Some(self.version)).map(|holder| holder.node)
    }

    /// Appends to `behind` the holders to which a round sends the value: those of [`Hub::behind`] that have
    /// not received it in an answer since the last such round. Returns whether other holders are behind,
    /// which the next round updates.
    pub fn behind_in_round(&mut self, behind: &mut Vec<NodeId>) -> bool {
        let mut others = false;
        for holder in self.holders.iter_mut().filter(|holder| holder.known != Some(self.version)) {
            if std::mem::take(&mut holder.answered) {
                others = true;
            } else {
                behind.push(holder.node);
            }
        }
        others
    }

    /// The record of a key that was handed over to node `here`, with `holders` (in any order) at `version`.
    /// Also returns the generation and the last merged delta of `here` if it was one of the holders, which it
    /// no longer is.
    pub fn arrived(
        here: NodeId,
        version: u32,
        holders: impl IntoIterator<Item = (NodeId, u32, u32)>,
    ) -> (Self, Option<(u32, u32)>) {
        let (mut hub, mut own) = (Self { version: version.wrapping_add(1), holders: SmallVec::new() }, None);
        for (node, generation, seq) in holders {
            // The last update of the old owner to a holder may still be under way.
            match hub.find(node) {
                _ if node == here => own = Some((generation, seq)),
                Err(at) => {
                    let (answered, known, rounded) = (false, None, false);
                    hub.holders.insert(at, Holder { node, answered, generation, seq, known, rounded });
                }
                Ok(_) => {}
            }
        }
        (hub, own)
    }
}
