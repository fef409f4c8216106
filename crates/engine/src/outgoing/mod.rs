//! Messages of one turn, grouped: one frame per destination and kind, split when a frame would grow too long.
//!
//! Mechanisms add single keys; [`Outgoing::flush`] turns the groups into messages at the end of the turn, in
//! an order on which receivers rely.

pub(crate) mod buffers;
pub(crate) mod groups;
pub(crate) mod location;
pub(crate) mod relocation;
pub(crate) mod replication;
pub(crate) mod replies;
pub(crate) mod requests;

use crate::input::Action;
use location::LocationMessages;
use relocation::RelocationMessages;
use replication::ReplicationMessages;
use replies::Replies;
use requests::Requests;

/// What the current turn sends.
#[derive(Default)]
pub(crate) struct Outgoing {
    pub(crate) requests: Requests,
    pub(crate) replies: Replies,
    pub(crate) relocation: RelocationMessages,
    pub(crate) location: LocationMessages,
    pub(crate) replication: ReplicationMessages,
}

impl Outgoing {
    /// Sends the messages of relocation, then those about locations and requests: a message that follows a
    /// key must leave after the key's hand-over. The channel sends replies, the messages of replication, and
    /// broadcasts itself.
    pub(crate) fn flush(&mut self, actions: &mut Vec<Action>) {
        self.relocation.flush(actions);
        self.location.flush(actions);
        self.requests.flush(actions);
    }
}
