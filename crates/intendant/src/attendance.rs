//! Which workers and nodes take part in synchronisations of static replicas. They do not involve the control
//! plane, so they are not meetings of [`intendant_membership::Meetings`]. Therefore this file detects waits
//! that cannot end: among the workers of a node ([`Attendance`]), and among nodes ([`Calls`]).

use intendant_core::lock;
use intendant_techniques::{Policy, StaticReplicaPace};
use intendant_wire::Message;
use std::sync::Mutex;

/// A worker, as the others of its node know it.
#[derive(Clone, Copy, Default)]
struct Seat {
    /// Number of synchronisations that it has entered.
    came: u64,
    /// Whether it waits in the last one.
    waits: bool,
    /// Whether it was dropped.
    gone: bool,
}

/// Synchronisations of the workers of a node: each begins when all have entered it.
pub(crate) struct Attendance(Mutex<Vec<Seat>>);

impl Attendance {
    pub(crate) fn new(workers: usize) -> Self {
        Self(Mutex::new(vec![Seat::default(); workers]))
    }

    /// A worker enters its next synchronisation.
    ///
    /// # Errors
    /// The number of another worker, which was dropped before it entered that synchronisation.
    pub(crate) fn come(&self, worker: usize) -> Result<(), usize> {
        let mut seats = lock(&self.0);
        let came = seats[worker].came + 1;
        if let Some(missing) = seats.iter().position(|seat| seat.gone && seat.came < came) {
            return Err(missing);
        }
        (seats[worker].came, seats[worker].waits) = (came, true);
        Ok(())
    }

    /// The synchronisation is over for a worker.
    pub(crate) fn go(&self, worker: usize) {
        lock(&self.0)[worker].waits = false;
    }

    /// A worker is dropped. Returns whether another worker waits in a synchronisation that this one has not
    /// entered.
    pub(crate) fn depart(&self, worker: usize) -> bool {
        let mut seats = lock(&self.0);
        seats[worker].gone = true;
        let came = seats[worker].came;
        seats.iter().any(|seat| seat.waits && seat.came > came)
    }
}

/// Calls of other nodes to synchronise static replicas, on one channel, if a synchronisation waits for all
/// workers of all nodes ([`StaticReplicaPace::Asked`]).
#[derive(Debug)]
pub(crate) struct Calls {
    watched: bool,
    /// The last round of which another node has sent a message.
    latest: Option<u32>,
    /// Whether a worker of this node was dropped.
    departed: bool,
}

impl Calls {
    pub(crate) fn new(policy: &Policy, pace: StaticReplicaPace) -> Self {
        Self {
            watched: policy.static_replicas.is_some() && pace == StaticReplicaPace::Asked,
            latest: None,
            departed: false,
        }
    }

    /// A message has arrived.
    pub(crate) fn hear(&mut self, message: &Message) {
        if let Message::Reduce(reduce) = message
            && self.watched
            && self.latest.is_none_or(|latest| reduce.round.wrapping_sub(latest) as i32 > 0)
        {
            self.latest = Some(reduce.round);
        }
    }

    /// A worker of this node is dropped.
    pub(crate) fn depart(&mut self) {
        self.departed = true;
    }

    /// Whether other nodes wait in a round that this node, which has completed `completed` rounds, will never
    /// complete. The rounds that its workers began together were complete before one of the workers was
    /// dropped, and the workers can begin no further round.
    pub(crate) fn are_hopeless(&self, completed: u64) -> bool {
        // Rounds are numbered from 0, and wrap.
        self.departed && self.latest.is_some_and(|latest| latest.wrapping_sub(completed as u32) as i32 >= 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_techniques::Technique;
    use intendant_wire::Reduce;

    #[test]
    fn only_workers_that_wait_for_a_departed_worker_get_an_error() {
        let workers = Attendance::new(2);
        assert_eq!(workers.come(0), Ok(()));
        assert_eq!(workers.come(1), Ok(()));
        // Both workers have entered, so the synchronisation will end, although worker 0 has not noticed yet.
        workers.go(1);
        assert!(!workers.depart(1));
        workers.go(0);
        assert_eq!(workers.come(0), Err(1));
        let workers = Attendance::new(3);
        assert_eq!(workers.come(2), Ok(()));
        assert!(workers.depart(0));
        assert_eq!(workers.come(1), Err(0));
    }

    #[test]
    fn a_call_to_a_round_that_was_completed_hopes_for_nothing() {
        let call = |round| {
            let (indices, values) = (Vec::new(), Default::default());
            Message::Reduce(Reduce { round, step: 0, last: true, indices, values })
        };
        let full = Technique::FullReplication.policy();
        let mut calls = Calls::new(&full, StaticReplicaPace::Asked);
        calls.hear(&call(u32::MAX));
        calls.hear(&call(0));
        calls.hear(&call(u32::MAX));
        assert!(!calls.are_hopeless(1 << 32), "all are here");
        calls.depart();
        assert!(calls.are_hopeless(1 << 32));
        assert!(!calls.are_hopeless((1 << 32) + 1));
        let mut paced = Calls::new(&full, StaticReplicaPace::DEFAULT);
        paced.hear(&call(0));
        paced.depart();
        assert!(!paced.are_hopeless(0), "nodes go round without their workers");
    }
}
