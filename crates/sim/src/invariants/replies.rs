//! Every deferred key of every operation is answered exactly once, to the worker that asked for it.

use super::Finding;
use intendant_core::Key;
use intendant_wire::OpId;

/// What one channel owes to one operation of a worker of its node.
struct Debt {
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

/// The debts of all channels of all nodes.
pub(crate) struct Replies {
    stations: Vec<Vec<Debt>>,
}

impl Replies {
    pub(crate) fn new(stations: usize) -> Self {
        Self { stations: (0..stations).map(|_| Vec::new()).collect() }
    }

    /// A worker submitted a part of an operation to a channel.
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
        self.stations[station].push(Debt { worker, op, keys, positions, answered, left, handled: false });
    }

    /// Appends the keys at `positions` of an operation, as far as they are known.
    pub(crate) fn keys(
        &self,
        station: usize,
        worker: usize,
        op: OpId,
        positions: &[u32],
        keys: &mut Vec<Key>,
    ) {
        for debt in self.stations[station].iter().filter(|d| d.worker == worker && d.op == op) {
            let at = positions.iter().filter_map(|position| debt.positions.binary_search(position).ok());
            keys.extend(at.map(|at| debt.keys[at]));
        }
    }

    /// The channel took the submission.
    pub(crate) fn handled(&mut self, station: usize, worker: usize, op: OpId) {
        for debt in self.stations[station].iter_mut().filter(|d| d.worker == worker && d.op == op) {
            debt.handled = true;
        }
    }

    /// The channel answers positions of an operation.
    pub(crate) fn answered(
        &mut self,
        station: usize,
        worker: usize,
        op: OpId,
        positions: &[u32],
    ) -> Result<(), Finding> {
        let finding = |what: String| Err(("replies", format!("{op:?} of worker {worker}: {what}")));
        let debts = &mut self.stations[station];
        let Some(at) = debts.iter().position(|d| d.worker == worker && d.op == op) else {
            return finding("answered without being outstanding".to_owned());
        };
        let debt = &mut debts[at];
        for position in positions {
            match debt.positions.binary_search(position) {
                Ok(at) if !debt.answered[at] => debt.answered[at] = true,
                Ok(_) => return finding(format!("position {position} answered twice")),
                Err(_) => return finding(format!("position {position} answered, which was served at once")),
            }
        }
        debt.left -= positions.len();
        if debt.left == 0 {
            debts.swap_remove(at);
        }
        Ok(())
    }

    /// Operations that the channel has taken and not answered completely.
    pub(crate) fn waiting(&self, station: usize) -> usize {
        self.stations[station].iter().filter(|d| d.handled).count()
    }

    /// The first debt, in words.
    pub(crate) fn open(&self) -> Option<String> {
        let debt = self.stations.iter().flatten().next()?;
        let Debt { worker, op, left, .. } = debt;
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
