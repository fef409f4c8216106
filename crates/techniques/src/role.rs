//! The role of a node for a key, and the state in the key's slot.

use intendant_core::NodeId;

/// What this node is to a key right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Role {
    /// The value is on another node.
    #[default]
    Absent,
    /// The main copy is here: the node serves every access at once.
    Owner,
    /// The main copy is on its way here: accesses queue until it arrives.
    Arriving,
    /// The main copy is on its way here, and leaves for the next owner as soon as the node has served the
    /// queued accesses: accesses from now on go to the next owner.
    Leaving,
    /// The main copy is here, and other nodes have replicas of it: the node serves every access at once and
    /// notes changes.
    Hub,
    /// A replica, in step with the main copy through its owner ([`crate::replication`]): the node serves
    /// pulls and pushes at once and notes changes.
    Replica,
    /// A static replica, which every node has all the time ([`crate::allreduce`]): the node serves every
    /// access at once and notes changes.
    Static,
}

impl Role {
    /// Whether the main copy is here.
    #[inline]
    #[must_use]
    pub const fn is_owner(self) -> bool {
        matches!(self, Self::Owner | Self::Hub)
    }

    /// Whether this node has to tell others what its workers add to its copy.
    #[inline]
    #[must_use]
    pub const fn tells(self) -> bool {
        matches!(self, Self::Replica | Self::Static)
    }

    /// Whether a copy of any kind is here.
    #[inline]
    #[must_use]
    pub const fn is_copy(self) -> bool {
        matches!(self, Self::Owner | Self::Hub | Self::Replica | Self::Static)
    }
}

/// The state in a key's slot. With the place of the value, a slot has 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SlotState {
    /// What this node is to the key.
    pub role: Role,
    flags: u8,
    /// The owner of which this node learned last. At the key's home: the owner after all relocations that the
    /// home has ordered.
    hint: NodeId,
    /// The relocation counter that the role or the hint belongs to; older knowledge never overwrites newer.
    pub counter: u32,
    /// Of a replica under bounded staleness, the clock up to which it has every update. Of any other replica
    /// through the owner, its allowance: how many updates workers may make before a delta should be sent,
    /// in two's complement. Of a main copy with replicas elsewhere, their number. Of a static replica, its
    /// index among those of its channel.
    pub side: u32,
}

// The store adds a place of 4 bytes.
const _: () = assert!(size_of::<SlotState>() == 12);

/// The hint is valid.
const HINTED: u8 = 1;
/// A worker of this node has localized the key.
const LOCALIZED: u8 = 2;
/// The key is in its channel's list of slots to give up.
const LISTED: u8 = 4;
/// The value has changed since the channel last collected changes; the key is in the channel's list.
const DIRTY: u8 = 8;
/// The node is about to give up the replica: accesses wait for that.
const CLOSED: u8 = 16;

/// Of a main copy: it may be mirrored in the window of the node, so writes must update the mirror.
const PUBLISHED: u8 = 32;

/// Whether `counter` is newer than `other`. Counters wrap, so the two must be less than 2³¹ apart. This holds
/// for the counters of one key (relocations, versions, deltas). A channel counts generations over all its
/// keys, so a caller that compares generations must ensure it.
#[inline]
#[must_use]
pub fn is_newer(counter: u32, other: u32) -> bool {
    counter.wrapping_sub(other).cast_signed() > 0
}

impl SlotState {
    /// The state of a key that this node owns and that never moved.
    #[must_use]
    pub const fn owner() -> Self {
        Self { role: Role::Owner, flags: 0, hint: NodeId(0), counter: 0, side: 0 }
    }

    /// The state of static replica number `index` of its channel.
    #[must_use]
    pub const fn static_replica(index: u32) -> Self {
        Self { role: Role::Static, flags: 0, hint: NodeId(0), counter: 0, side: index }
    }

    /// Whether the value has changed since the channel last collected changes.
    #[inline]
    pub fn is_dirty(&self) -> bool {
        self.flags & DIRTY != 0
    }

    /// Notes whether the value has changed.
    #[inline]
    pub fn set_dirty(&mut self, dirty: bool) {
        self.flags = if dirty { self.flags | DIRTY } else { self.flags & !DIRTY };
    }

    /// Whether accesses to the replica must wait until the node has given it up.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.flags & CLOSED != 0
    }

    /// Notes whether accesses to the replica must wait.
    pub fn set_closed(&mut self, closed: bool) {
        self.flags = if closed { self.flags | CLOSED } else { self.flags & !CLOSED };
    }

    /// Whether the main copy may be mirrored in the window of this node.
    #[inline]
    pub fn is_published(&self) -> bool {
        self.flags & PUBLISHED != 0
    }

    /// Notes whether the main copy may be mirrored.
    #[inline]
    pub fn set_published(&mut self, published: bool) {
        self.flags = if published { self.flags | PUBLISHED } else { self.flags & !PUBLISHED };
    }

    /// Counts an update of a replica that has an allowance. Returns whether this update uses the allowance
    /// up.
    #[inline]
    pub fn count_down(&mut self) -> bool {
        self.side = self.side.wrapping_sub(1);
        self.side == 0
    }

    /// Lends the value to a worker that may change it, if nothing has to be noted for that: either no other
    /// node has to be told, or an earlier change has been noted already. Returns whether it did. Not for
    /// replicas with a bound on staleness: they count no updates.
    #[inline(always)]
    pub fn lend_again(&mut self) -> bool {
        match self.role {
            Role::Owner => self.flags & PUBLISHED == 0,
            Role::Hub | Role::Static => self.flags & DIRTY != 0,
            // The last update of an allowance makes the replica urgent.
            Role::Replica if self.flags & (DIRTY | CLOSED) == DIRTY && self.side != 1 => {
                self.side = self.side.wrapping_sub(1);
                true
            }
            Role::Absent | Role::Arriving | Role::Leaving | Role::Replica => false,
        }
    }

    /// Whether the replica's allowance is used up: a delta should be sent.
    pub fn is_urgent(&self) -> bool {
        self.side.cast_signed() <= 0
    }

    /// The hint, if there is one.
    #[inline]
    pub fn hint(&self) -> Option<NodeId> {
        (self.flags & HINTED != 0).then_some(self.hint)
    }

    /// Whether a worker of this node has ever localized the key.
    #[inline]
    pub fn is_localized(&self) -> bool {
        self.flags & LOCALIZED != 0
    }

    /// Notes that a worker of this node localizes the key.
    #[inline]
    pub fn set_localized(&mut self) {
        self.flags |= LOCALIZED;
    }

    /// Whether the key is in its channel's list of slots to give up.
    pub fn is_listed(&self) -> bool {
        self.flags & LISTED != 0
    }

    /// Notes whether the key is in that list.
    pub fn set_listed(&mut self, listed: bool) {
        self.flags = if listed { self.flags | LISTED } else { self.flags & !LISTED };
    }

    /// Notes that the key is at `node` with this counter, and discards earlier knowledge.
    pub(crate) fn point(&mut self, node: NodeId, counter: u32) {
        self.flags |= HINTED;
        (self.hint, self.counter) = (node, counter);
    }

    /// Notes that the key is here with this counter: a hint is not valid any more.
    pub(crate) fn own(&mut self, counter: u32) {
        self.flags &= !HINTED;
        self.counter = counter;
    }

    /// Remembers that the key was at `node` when its relocation counter was `counter`, unless this node has
    /// newer knowledge.
    pub fn learn(&mut self, node: NodeId, counter: u32) {
        if matches!(self.role, Role::Absent | Role::Replica)
            && (self.hint().is_none() || !is_newer(self.counter, counter))
        {
            self.point(node, counter);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLES: [Role; 7] =
        [Role::Absent, Role::Owner, Role::Arriving, Role::Leaving, Role::Hub, Role::Replica, Role::Static];

    #[test]
    fn older_location_knowledge_is_ignored() {
        let mut state = SlotState::default();
        assert_eq!(state.hint(), None);
        state.learn(NodeId(3), 5);
        state.learn(NodeId(4), 4);
        assert_eq!(state.hint(), Some(NodeId(3)));
        state.learn(NodeId(5), 6);
        assert_eq!(state.hint(), Some(NodeId(5)));
    }

    /// A value that is lent again need not be noted, does not become urgent, and has no mirror.
    #[test]
    fn only_what_needs_no_note_is_lent_again() {
        for role in ROLES {
            for (flags, side) in (0..64u8).flat_map(|flags| [0, 1, 2, u32::MAX].map(|side| (flags, side))) {
                let before = SlotState { role, flags, side, ..SlotState::default() };
                let mut state = before;
                let lent = state.lend_again();
                let mut counted = before;
                let expected = match role {
                    Role::Owner => !before.is_published(),
                    Role::Hub | Role::Static => before.is_dirty(),
                    Role::Replica => before.is_dirty() && !before.is_closed() && !counted.count_down(),
                    Role::Absent | Role::Arriving | Role::Leaving => false,
                };
                assert_eq!(lent, expected, "{before:?}");
                assert_eq!(state, if lent { counted } else { before });
            }
        }
    }

    #[test]
    fn flags_do_not_touch_each_other() {
        let flags = |state: &SlotState| {
            [
                state.is_dirty(),
                state.is_closed(),
                state.is_listed(),
                state.is_published(),
                state.is_localized(),
                state.hint().is_some(),
            ]
        };
        let set: [fn(&mut SlotState, bool); 4] =
            [SlotState::set_dirty, SlotState::set_closed, SlotState::set_listed, SlotState::set_published];
        let mut state = SlotState::default();
        assert_eq!(flags(&state), [false; 6]);
        for (at, set) in set.into_iter().enumerate() {
            set(&mut state, true);
            assert_eq!(flags(&state), std::array::from_fn(|flag| flag == at));
            set(&mut state, false);
            assert_eq!(flags(&state), [false; 6]);
        }
        state.set_localized();
        assert_eq!(flags(&state), [false, false, false, false, true, false]);
        state.point(NodeId(0), 1);
        set.into_iter().for_each(|set| set(&mut state, true));
        assert_eq!(flags(&state), [true; 6]);
        for (at, set) in set.into_iter().enumerate() {
            set(&mut state, false);
            assert_eq!(flags(&state), std::array::from_fn(|flag| flag > at));
        }
        state.own(2);
        assert_eq!((flags(&state), state.counter), ([false, false, false, false, true, false], 2));
    }

    #[test]
    fn a_node_with_a_copy_knows_it() {
        let copies = [Role::Owner, Role::Hub, Role::Replica, Role::Static];
        for role in [Role::Absent, Role::Arriving, Role::Leaving].into_iter().chain(copies) {
            assert_eq!(role.is_copy(), copies.contains(&role), "{role:?}");
            assert_eq!(role.is_owner(), [Role::Owner, Role::Hub].contains(&role), "{role:?}");
        }
    }

    #[test]
    fn a_replica_and_an_absent_key_learn_where_the_key_is_and_other_roles_do_not() {
        for role in ROLES {
            let mut state = SlotState { role, ..SlotState::default() };
            state.learn(NodeId(3), 1);
            assert_eq!(state.hint().is_some(), [Role::Absent, Role::Replica].contains(&role), "{role:?}");
        }
    }

    #[test]
    fn of_equal_counters_the_later_knowledge_holds() {
        let mut state = SlotState::default();
        state.learn(NodeId(3), 5);
        state.learn(NodeId(4), 5);
        assert_eq!(state.hint(), Some(NodeId(4)));
        assert!(!is_newer(5, 5) && is_newer(6, 5) && !is_newer(5, 6));
        assert!(is_newer(0, u32::MAX) && !is_newer(u32::MAX, 0));
        assert!(is_newer(1 << 30, 0) && !is_newer(0, 1 << 30));
    }

    #[test]
    fn counters_wrap() {
        let mut state = SlotState::default();
        state.learn(NodeId(3), u32::MAX);
        state.learn(NodeId(4), 0);
        assert_eq!(state.hint(), Some(NodeId(4)));
        state.learn(NodeId(5), u32::MAX - 1);
        assert_eq!(state.hint(), Some(NodeId(4)));
    }

    #[test]
    fn an_owner_needs_no_hint() {
        let mut state = SlotState::owner();
        state.learn(NodeId(3), 5);
        assert_eq!(state, SlotState::owner());
    }
}
