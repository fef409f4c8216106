//! The queue of batches from a loader to its worker. Its length is how far the loader may be ahead.
//!
//! The loader counts the batches that it sends. The worker acknowledges several batches at once, so that a
//! waiting loader is woken once for many batches: waking a thread takes as long as some batches do.

use crossbeam_channel::{Receiver, Sender, unbounded};
use intendant_task::{LookAhead, Prepared};

/// Acknowledgements while the worker takes all batches of a full queue.
const PARTS: usize = 4;

/// The loader's end.
pub(crate) struct Outbox<B> {
    batches: Sender<Prepared<B>>,
    acknowledged: Receiver<LookAhead>,
    /// How far the loader may be ahead.
    limit: LookAhead,
    /// How far it is ahead, according to the acknowledgements so far.
    ahead: LookAhead,
}

/// The worker's end.
pub(crate) struct Inbox<B> {
    batches: Receiver<Prepared<B>>,
    acknowledges: Sender<LookAhead>,
    part: LookAhead,
    /// Taken and not acknowledged.
    taken: LookAhead,
}

/// The loader, or the worker, has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

/// A queue with room for batches up to `limit`, for one batch at least.
pub(crate) fn way<B>(limit: LookAhead) -> (Outbox<B>, Inbox<B>) {
    // The loader's count bounds both channels.
    let ((sender, batches), (acknowledges, acknowledged)) = (unbounded(), unbounded());
    let limit = LookAhead { batches: limit.batches.max(1), ..limit };
    let part = LookAhead { batches: limit.batches.div_ceil(PARTS), keys: limit.keys / PARTS };
    (
        Outbox { batches: sender, acknowledged, limit, ahead: LookAhead::default() },
        Inbox { batches, acknowledges, part, taken: LookAhead::default() },
    )
}

impl<B> Outbox<B> {
    /// Sends a batch once the loader may be so far ahead.
    pub(crate) fn send(&mut self, prepared: Prepared<B>) -> Result<(), Gone> {
        while let Ok(taken) = self.acknowledged.try_recv() {
            self.ahead = self.ahead.without(taken);
        }
        // A worker that has taken all batches has acknowledged enough of them: `limit` is several parts.
        while self.ahead.reaches(self.limit) {
            let taken = self.acknowledged.recv().map_err(|_| Gone)?;
            self.ahead = self.ahead.without(taken);
        }
        self.ahead = self.ahead.and(LookAhead::of(&prepared));
        self.batches.send(prepared).map_err(|_| Gone)
    }
}

impl<B> Inbox<B> {
    /// Batches that wait here.
    pub(crate) fn len(&self) -> usize {
        self.batches.len()
    }

    /// Waits for the next batch.
    pub(crate) fn recv(&mut self) -> Result<Prepared<B>, Gone> {
        let prepared = self.batches.recv().map_err(|_| Gone)?;
        self.taken = self.taken.and(LookAhead::of(&prepared));
        if self.taken.reaches(self.part) {
            // A loader that has ended does not receive.
            let _ = self.acknowledges.send(std::mem::take(&mut self.taken));
        }
        Ok(prepared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_core::Key;
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn batch(number: usize, keys: usize) -> Prepared<usize> {
        let keys = (0..keys as u64).map(Key).collect();
        Prepared {
            batch: number,
            keys,
            near: Vec::new(),
            samples: Vec::new(),
            handles: Vec::new(),
            digest: 0,
        }
    }

    proptest! {
        /// With any limits and sizes of batches, all batches arrive in order, and the loader exceeds its
        /// limit by one batch at most.
        #[test]
        fn all_batches_arrive_and_none_too_early(
            batches in 0usize..9,
            keys in 0usize..60,
            sizes in proptest::collection::vec(0usize..20, 0..80),
        ) {
            let limit = LookAhead { batches, keys };
            let (mut outbox, mut inbox) = way(limit);
            let sent = &AtomicUsize::new(0);
            let sizes = &sizes;
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    for (number, size) in sizes.iter().enumerate() {
                        outbox.send(batch(number, *size)).expect("the worker is there");
                        sent.fetch_add(1, Ordering::SeqCst);
                    }
                });
                for number in 0..sizes.len() {
                    let prepared = inbox.recv().expect("the loader is there");
                    assert_eq!(prepared.batch, number);
                    let ahead = sent.load(Ordering::SeqCst).saturating_sub(number + 1);
                    let names: usize = sizes[number + 1..][..ahead].iter().sum();
                    let before_last = names - sizes[number + 1..][..ahead].last().unwrap_or(&0);
                    assert!(
                        ahead <= batches.max(1) || before_last < keys,
                        "{ahead} batches and {names} keys ahead of {limit:?}"
                    );
                }
                assert!(inbox.recv().is_err());
            });
        }
    }

    #[test]
    fn neither_end_waits_for_one_that_has_ended() {
        let (mut outbox, inbox) = way(LookAhead { batches: 1, keys: 0 });
        outbox.send(batch(0, 1)).expect("there is room");
        drop(inbox);
        assert_eq!(outbox.send(batch(1, 1)), Err(Gone));
        let (outbox, mut inbox) = way::<usize>(LookAhead { batches: 1, keys: 0 });
        drop(outbox);
        assert_eq!(inbox.recv().map(drop), Err(Gone));
    }
}
