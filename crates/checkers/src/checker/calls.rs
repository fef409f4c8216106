//! Checks that calls of workers are answered, and that messages find their way.

use super::Checker;
use intendant_core::Element;
use intendant_engine::Action;
use intendant_sim::Finding;
use intendant_sim::cluster::{Call, Seen};
use intendant_sim::reach::{Marker, Reach};
use intendant_wire::{Message, ReplicaRequestKind};

impl Checker {
    /// Records a call and its submissions, and marks what was reached.
    pub(super) fn record_call(&mut self, reach: &mut Reach, call: Call<'_>) {
        let Call { worker, name, keys, submissions } = call;
        let node = worker / self.workers_per_node;
        let mut deferred = 0;
        let mut owners = 0u64;
        for (channel, submission) in submissions {
            let station = node * self.layout.channels() + channel.index();
            let keys = submission.keys();
            self.invariants.replies.submitted(station, worker, submission.op, keys, submission.positions());
            deferred += keys.len();
            let short = &keys[..keys.len().min(16)];
            for (at, key) in short.iter().enumerate() {
                owners |= 1 << (self.layout.home(*key).index() % 64);
                if short[..at].contains(key) {
                    reach.mark(Marker::DuplicateKey);
                }
            }
        }
        let marks = [
            (deferred == 0, Marker::LocalServed),
            (deferred > 0 && deferred < keys.len(), Marker::MixedCall),
            (owners.count_ones() > 1, Marker::SeveralOwners),
            (submissions.len() > 1, Marker::SeveralChannels),
            (
                keys.windows(2).any(|pair| self.layout.len(pair[0]) != self.layout.len(pair[1])),
                Marker::SeveralLengths,
            ),
        ];
        let access = !matches!(name, "localize" | "synchronize");
        let reached = marks.into_iter().filter(|(reached, _)| *reached && access);
        reached.for_each(|(_, marker)| reach.mark(marker));
    }

    /// Checks a message that a channel sends, or an answer.
    pub(super) fn check_action<E: Element>(
        &mut self,
        seen: &Seen<'_, E>,
        station: usize,
        action: &Action,
    ) -> Result<(), Finding> {
        let here = station / self.layout.channels();
        match action {
            Action::Send { message, .. } => self.check_hops(seen, here, message),
            Action::Complete { worker, completion } => {
                let worker = here * self.workers_per_node + worker.index();
                self.invariants.replies.answered(station, worker, completion.op, &completion.positions)
            }
            Action::CompleteSnapshot { .. } => Ok(()),
        }
    }

    /// Checks how often a message that leaves a node has been forwarded.
    fn check_hops<E: Element>(
        &mut self,
        seen: &Seen<'_, E>,
        from: usize,
        message: &Message,
    ) -> Result<(), Finding> {
        let node = seen.nodes.at(from);
        let by_homes = self.policy.homes_decide();
        let ledger = &self.invariants.ledger;
        if let Message::Request(request) = message {
            self.invariants.hops.sent(request, ledger, |key| node.slot(key).counter)?;
        }
        if let Message::ReplicaRequest(request) = message {
            // A request that goes over the home is bounded by what the home knows.
            let hops = &mut self.invariants.hops;
            return if by_homes && request.kind == ReplicaRequestKind::Ask {
                let home = |key| seen.nodes.at(self.layout.home(key).index());
                hops.replica_request_sent(request, ledger, 1, |key| home(key).slot(key).counter)
            } else {
                hops.replica_request_sent(request, ledger, 0, |key| node.slot(key).counter)
            };
        }
        Ok(())
    }

    /// Checks what a channel reports as outstanding, when it has handled an input.
    pub(super) fn check_outstanding<E: Element>(
        &self,
        seen: &Seen<'_, E>,
        station: usize,
    ) -> Result<(), Finding> {
        let engine = seen.engine(station);
        let waiting = self.invariants.replies.waiting(station);
        let awaited = self.invariants.ledger.awaited_by(station);
        self.invariants.bounded.handled(station, engine.report(), waiting, (engine.arriving(), awaited))
    }

    /// Checks at rest that all operations have been answered.
    pub(super) fn check_all_answered(&self) -> Result<(), Finding> {
        match self.invariants.replies.open() {
            None => Ok(()),
            Some(open) => Err(("quiet", format!("the channels report quiescence, and {open}"))),
        }
    }
}
