//! Queued accesses: an access that arrives before its key waits for the key. On arrival, the node answers all
//! waiting accesses up to the first departure, and none behind it.
//!
//! The order of the answers is checked by what pulls see (the history checker of `intendant-checkers`).

use hashbrown::HashMap;
use intendant_core::{Key, NodeId};
use intendant_engine::Action;
use intendant_sim::Finding;
use intendant_wire::{Message, Origin};
use std::collections::VecDeque;

/// An access: its operation, and its position in that operation's call.
pub(crate) type Access = (Origin, u32);

enum Waiting {
    Access(Access),
    Departure,
}

/// The queues of accesses that wait for keys.
#[derive(Default)]
pub(crate) struct Queued {
    queues: HashMap<(NodeId, Key), VecDeque<Waiting>, foldhash::fast::FixedState>,
    /// For the current input: accesses that the node must answer, and those that it must neither answer nor
    /// forward.
    due: Vec<Access>,
    early: Vec<Access>,
}

impl Queued {
    /// `node` handles an access to a key that is on its way there. `keep`: the access enters the key's queue
    /// at once; otherwise it waits for another operation of its worker first.
    pub(crate) fn access(&mut self, node: NodeId, key: Key, access: Access, keep: bool) {
        self.early.push(access);
        if keep {
            self.queues.entry((node, key)).or_default().push_back(Waiting::Access(access));
        }
    }

    /// `node` receives an order to hand over a key that is on its way there.
    pub(crate) fn departure(&mut self, node: NodeId, key: Key) {
        self.queues.entry((node, key)).or_default().push_back(Waiting::Departure);
    }

    /// `node` handles the arrival of a key.
    pub(crate) fn arrival(&mut self, node: NodeId, key: Key) {
        let Some(queue) = self.queues.get_mut(&(node, key)) else { return };
        while let Some(waiting) = queue.pop_front() {
            match waiting {
                Waiting::Access(access) => self.due.push(access),
                Waiting::Departure => break,
            }
        }
        let behind = queue.iter().filter_map(|waiting| match waiting {
            Waiting::Access(access) => Some(*access),
            Waiting::Departure => None,
        });
        self.early.extend(behind);
        if queue.is_empty() {
            self.queues.remove(&(node, key));
        }
    }

    /// Checks the actions that follow from the input that `node` has handled.
    pub(crate) fn handled(&mut self, node: NodeId, actions: &[Action]) -> Result<(), Finding> {
        if self.due.is_empty() && self.early.is_empty() {
            return Ok(());
        }
        let (mut answered, mut sent) = (Vec::new(), Vec::new());
        for action in actions {
            match action {
                Action::Send { to, message: Message::Response(response) } => {
                    let origin = Origin { node: *to, worker: response.worker, op: response.op };
                    answered.extend(response.positions.iter().map(|position| (origin, *position)));
                }
                Action::Complete { worker, completion } => {
                    let origin = Origin { node, worker: *worker, op: completion.op };
                    answered.extend(completion.positions.iter().map(|position| (origin, *position)));
                }
                Action::Send { message: Message::Request(request), .. } => {
                    sent.extend(request.positions.iter().map(|position| (request.origin, *position)));
                }
                Action::Send { .. } | Action::CompleteSnapshot { .. } => {}
            }
        }
        answered.sort_unstable();
        let wrong = |access: &Access, what: &str| {
            let ((origin, position), at) = (access, node);
            Err((
                "queued",
                format!("{origin:?}, position {position}, waits at node {at} for its key: {what}"),
            ))
        };
        for access in self.due.drain(..) {
            if answered.binary_search(&access).is_err() {
                return wrong(&access, "the key has arrived, and the access is not answered");
            }
        }
        for access in self.early.drain(..) {
            if answered.binary_search(&access).is_ok() {
                return wrong(&access, "it is answered before the key has arrived");
            }
            if sent.contains(&access) {
                return wrong(&access, "it is forwarded");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use intendant_core::WorkerId;
    use intendant_engine::Completion;
    use intendant_wire::OpId;

    const K: Key = Key(5);
    const HERE: NodeId = NodeId(2);

    fn access(op: u32) -> Access {
        (Origin { node: HERE, worker: WorkerId(0), op: OpId(op) }, 3)
    }

    fn answer(op: u32) -> Action {
        let completion = Completion { op: OpId(op), positions: vec![3], values: Bytes::new(), late: None };
        Action::Complete { worker: WorkerId(0), completion }
    }

    #[test]
    fn the_queue_is_served_up_to_the_departure() {
        let fill = || {
            let mut queued = Queued::default();
            queued.access(HERE, K, access(1), true);
            assert_eq!(queued.handled(HERE, &[]), Ok(()));
            queued.departure(HERE, K);
            queued.access(HERE, K, access(2), true);
            assert_eq!(queued.handled(HERE, &[]), Ok(()));
            queued.arrival(HERE, K);
            queued
        };
        let mut right = fill();
        assert_eq!(right.handled(HERE, &[answer(1)]), Ok(()));
        right.arrival(HERE, K);
        assert_eq!(right.handled(HERE, &[answer(2)]), Ok(()));
        assert!(right.queues.is_empty());
        assert!(fill().handled(HERE, &[]).is_err(), "1 is forgotten");
        assert!(fill().handled(HERE, &[answer(1), answer(2)]).is_err(), "2 comes after the departure");
        let mut early = Queued::default();
        early.access(HERE, K, access(1), true);
        assert!(early.handled(HERE, &[answer(1)]).is_err(), "the key is not there");
    }
}
