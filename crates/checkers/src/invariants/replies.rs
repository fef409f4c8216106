//! Replies: every deferred key of every operation is answered exactly once, to the worker that issued it.

use intendant_core::Key;
use intendant_sim::Finding;
use intendant_wire::OpId;

/// The part of a worker's operation that one channel must answer.
struct PendingPart {
    worker: usize,
    op: OpId,
    /// Parallel to `positions`.
    keys: Vec<Key>,
    /// Ascending.
    positions: Vec<u32>,
    answered: Vec<bool>,
    left: usize,
    /// Whether the channel has taken the submission from its inbox.
    handled: bool,
}

/// The unanswered parts of all stations.
pub(crate) struct Replies {
    stations: Vec<Vec<PendingPart>>,
}

impl Replies {
    pub(crate) fn new(stations: usize) -> Self {
        Self { stations: (0..stations).map(|_| Vec::new()).collect() }
    }

    /// A worker submits a part of an operation to a channel.
    pub(crate) fn submitted(
        &mut self,
        station: usize,
        worker: usize,
        op: OpId,
        keys: &[Key],
        positions: &[u32],
    ) {
        let answered = vec![false; positions.len()];
        let (positions, left) = (positions.to_vec(), positions.len());
        let keys = keys.to_vec();
        self.stations[station].push(PendingPart {
            worker,
            op,
            keys,
            positions,
            answered,
            left,
            handled: false,
        });
    }

    /// Appends the keys at `positions` of an operation to `keys`, as far as the part is still pending.
    pub(crate) fn keys(
        &self,
        station: usize,
        worker: usize,
        op: OpId,
        positions: &[u32],
        keys: &mut Vec<Key>,
    ) {
        for part in self.stations[station].iter().filter(|d| d.worker == worker && d.op == op) {
            let at = positions.iter().filter_map(|position| part.positions.binary_search(position).ok());
            keys.extend(at.map(|at| part.keys[at]));
        }
    }

    /// The channel takes the submission from its inbox.
    pub(crate) fn handled(&mut self, station: usize, worker: usize, op: OpId) {
        for part in self.stations[station].iter_mut().filter(|d| d.worker == worker && d.op == op) {
            part.handled = true;
        }
    }

    /// Checks an answer of a channel to positions of an operation.
    pub(crate) fn answered(
        &mut self,
        station: usize,
        worker: usize,
        op: OpId,
        positions: &[u32],
    ) -> Result<(), Finding> {
        let finding = |what: String| Err(("replies", format!("{op:?} of worker {worker}: {what}")));
        let parts = &mut self.stations[station];
        let Some(at) = parts.iter().position(|d| d.worker == worker && d.op == op) else {
            return finding("answered, but not outstanding".to_owned());
        };
        let part = &mut parts[at];
        for position in positions {
            match part.positions.binary_search(position) {
                Ok(at) if !part.answered[at] => part.answered[at] = true,
                Ok(_) => return finding(format!("position {position} answered twice")),
                Err(_) => return finding(format!("position {position} answered, which was not deferred")),
            }
        }
        part.left -= positions.len();
        if part.left == 0 {
            parts.swap_remove(at);
        }
        Ok(())
    }

    /// Number of operations that the channel has taken and not completely answered.
    pub(crate) fn waiting(&self, station: usize) -> usize {
        self.stations[station].iter().filter(|d| d.handled).count()
    }

    /// A description of the first unanswered part.
    pub(crate) fn open(&self) -> Option<String> {
        let part = self.stations.iter().flatten().next()?;
        let PendingPart { worker, op, left, .. } = part;
        Some(format!("{op:?} of worker {worker} waits for {left} keys"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_once_and_by_the_right_worker() {
        let mut replies = Replies::new(1);
        replies.submitted(0, 3, OpId(7), &[Key(10), Key(12), Key(15)], &[0, 2, 5]);
        let mut keys = Vec::new();
        replies.keys(0, 3, OpId(7), &[2, 5], &mut keys);
        assert_eq!(keys, [Key(12), Key(15)]);
        assert_eq!(replies.waiting(0), 0);
        replies.handled(0, 3, OpId(7));
        assert_eq!(replies.waiting(0), 1);
        assert_eq!(replies.answered(0, 3, OpId(7), &[2]), Ok(()));
        assert!(replies.answered(0, 3, OpId(7), &[2]).is_err(), "twice");
        assert!(replies.answered(0, 3, OpId(7), &[1]).is_err(), "not asked for");
        assert!(replies.answered(0, 2, OpId(7), &[0]).is_err(), "another worker");
        assert!(replies.open().is_some());
        assert_eq!(replies.answered(0, 3, OpId(7), &[0, 5]), Ok(()));
        assert_eq!((replies.waiting(0), replies.open()), (0, None));
        assert!(replies.answered(0, 3, OpId(7), &[0]).is_err(), "after the end");
    }
}
