//! What a node is to a key.

use intendant_core::NodeId;

/// What this node is to a key, right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Role {
    /// The value is elsewhere.
    #[default]
    Absent,
    /// The main copy is here: every access is served at once.
    Owner,
    /// The main copy is on its way here: accesses queue until it has arrived.
    Arriving,
    /// The main copy is on its way here, and will leave for the next owner as soon as what is queued has been served: accesses
    /// that come now go where it will be.
    Leaving,
    /// The main copy is here, and other nodes have replicas of it: every access is served at once, changes are noted.
    Hub,
    /// A replica, in step with the main copy through its owner ([`crate::replication`]): pulls and pushes are served at once,
    /// changes are noted.
    Replica,
    /// A static replica: every node has one, all the time ([`crate::allreduce`]). Every access is served at once, changes are
    /// noted.
    Static,
}

impl Role {
    /// Whether the main copy is here.
    #[inline]
    #[must_use]
    pub const fn is_owner(self) -> bool {
        matches!(self, Self::Owner | Self::Hub)
    }

    /// Whether there is a copy here, of whatever kind.
    #[inline]
    #[must_use]
    pub const fn is_copy(self) -> bool {
        matches!(self, Self::Owner | Self::Hub | Self::Replica | Self::Static)
    }
}

/// The state in a key's slot. With the place of the value a slot is 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SlotState {
    /// What this node is to the key.
    pub role: Role,
    flags: u8,
    /// Where the key was when this node last heard of it. At the key's home: the owner, once all relocations that the home
    /// has ordered are through.
    hint: NodeId,
    /// The relocation counter that the role or the hint belongs to; older knowledge never overwrites newer.
    pub counter: u32,
    /// Of a replica under bounded staleness: the clock up to which it has every update. Of a static replica: its index among
    /// those of its channel.
    pub side: u32,
}

// The store adds a place of 4 bytes.
const _: () = assert!(size_of::<SlotState>() == 12);

/// `hint` means something.
const HINTED: u8 = 1;
/// A worker of this node has asked for the key.
const LOCALIZED: u8 = 2;
/// The key is in the list of those whose slot may be given up.
const LISTED: u8 = 4;
/// The value has changed since its channel last looked; the key has been noted for it.
const DIRTY: u8 = 8;
/// The replica is about to be given up: accesses wait for that.
const CLOSED: u8 = 16;

/// Whether `counter` is newer than `other`. Counters wrap: what is compared must lie less than 2³¹ apart. Counters of one key do
/// (relocations, versions, deltas); who compares others (generations, which a channel counts over all its keys) has to see to it.
#[inline]
#[must_use]
pub fn is_newer(counter: u32, other: u32) -> bool {
    counter.wrapping_sub(other).cast_signed() > 0
}

impl SlotState {
    /// The state of a key that is owned here and never moved.
    #[must_use]
    pub const fn owner() -> Self {
        Self { role: Role::Owner, flags: 0, hint: NodeId(0), counter: 0, side: 0 }
    }

    /// The state of static replica number `index` of its channel.
    #[must_use]
    pub const fn static_replica(index: u32) -> Self {
        Self { role: Role::Static, flags: 0, hint: NodeId(0), counter: 0, side: index }
    }

    /// Whether the value has changed since the channel last looked.
    #[inline]
    pub fn is_dirty(&self) -> bool {
        self.flags & DIRTY != 0
    }

    /// Notes whether it has.
    #[inline]
    pub fn set_dirty(&mut self, dirty: bool) {
        self.flags = if dirty { self.flags | DIRTY } else { self.flags & !DIRTY };
    }

    /// Whether accesses to the replica must wait until it is gone.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.flags & CLOSED != 0
    }

    /// Notes whether they must.
    pub fn set_closed(&mut self, closed: bool) {
        self.flags = if closed { self.flags | CLOSED } else { self.flags & !CLOSED };
    }

    /// The hint, if there is one.
    #[inline]
    pub fn hint(&self) -> Option<NodeId> {
        (self.flags & HINTED != 0).then_some(self.hint)
    }

    /// Whether a worker of this node has asked for the key at some time.
    #[inline]
    pub fn is_localized(&self) -> bool {
        self.flags & LOCALIZED != 0
    }

    /// Notes that a worker of this node asks for the key.
    #[inline]
    pub fn set_localized(&mut self) {
        self.flags |= LOCALIZED;
    }

    /// Whether the key is in its channel's list of slots that may be given up.
    pub fn is_listed(&self) -> bool {
        self.flags & LISTED != 0
    }

    /// Notes whether it is.
    pub fn set_listed(&mut self, listed: bool) {
        self.flags = if listed { self.flags | LISTED } else { self.flags & !LISTED };
    }

    /// Notes where the key is when its counter is `counter`, whatever was known before.
    pub(crate) fn point(&mut self, node: NodeId, counter: u32) {
        self.flags |= HINTED;
        (self.hint, self.counter) = (node, counter);
    }

    /// Notes that the key is here with this counter: hints are void.
    pub(crate) fn own(&mut self, counter: u32) {
        self.flags &= !HINTED;
        self.counter = counter;
    }

    /// Remembers that the key was at `node` when its relocation counter was `counter`. Older knowledge is ignored.
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
