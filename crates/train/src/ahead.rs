//! The way of batches from a loader to its worker, which is as long as the loader may be ahead.
//!
//! The loader counts what it has sent; the worker tells what it has taken, a part of the way at a time, so that a loader that
//! waits is woken once for many batches: to wake a thread costs as much as some batches do.

use crossbeam_channel::{Receiver, Sender, unbounded};
use intendant_task::{LookAhead, Prepared};

/// The worker tells what it has taken so many times on the way from the farthest that the loader may be ahead to nothing.
const PARTS: usize = 4;

/// The loader's end.
pub(crate) struct Outbox<B> {
    batches: Sender<Prepared<B>>,
    told: Receiver<LookAhead>,
    /// How far the loader may be ahead.
    limit: LookAhead,
    /// How far it is, as far as it knows.
    ahead: LookAhead,
}

/// The worker's end.
pub(crate) struct Inbox<B> {
    batches: Receiver<Prepared<B>>,
    tells: Sender<LookAhead>,
    part: LookAhead,
    /// Taken, and not told.
    taken: LookAhead,
}

/// The loader, or the worker, is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

/// A way on which there is room for what reaches `limit`, one batch at least.
pub(crate) fn way<B>(limit: LookAhead) -> (Outbox<B>, Inbox<B>) {
    // The loader's count bounds both.
    let ((sender, batches), (tells, told)) = (unbounded(), unbounded());
    let limit = LookAhead { batches: limit.batches.max(1), ..limit };
    let part = LookAhead { batches: limit.batches.div_ceil(PARTS), keys: limit.keys / PARTS };
    (
        Outbox { batches: sender, told, limit, ahead: LookAhead::default() },
        Inbox { batches, tells, part, taken: LookAhead::default() },
    )
}

impl<B> Outbox<B> {
    /// Sends a batch once the loader may be so far ahead.
    pub(crate) fn send(&mut self, prepared: Prepared<B>) -> Result<(), Gone> {
        while let Ok(taken) = self.told.try_recv() {
            self.ahead = self.ahead.without(taken);
        }
        // When the worker has taken all that there is, it has told more than enough: `limit` is some parts.
        while self.ahead.reaches(self.limit) {
            let taken = self.told.recv().map_err(|_| Gone)?;
            self.ahead = self.ahead.without(taken);
        }
        self.ahead = self.ahead.and(LookAhead::of(&prepared));
        self.batches.send(prepared).map_err(|_| Gone)
    }
}

impl<B> Inbox<B> {
    /// Waits for the next batch.
    pub(crate) fn recv(&mut self) -> Result<Prepared<B>, Gone> {
        let prepared = self.batches.recv().map_err(|_| Gone)?;
        self.taken = self.taken.and(LookAhead::of(&prepared));
        if self.taken.reaches(self.part) {
            // A loader that is done does not listen.
            let _ = self.tells.send(std::mem::take(&mut self.taken));
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
        /// Whatever the limits and the sizes of batches, everything arrives in order, and the loader is never farther ahead than
        /// it may be by more than a batch.
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
    fn who_is_gone_is_not_waited_for() {
        let (mut outbox, inbox) = way(LookAhead { batches: 1, keys: 0 });
        outbox.send(batch(0, 1)).expect("there is room");
        drop(inbox);
        assert_eq!(outbox.send(batch(1, 1)), Err(Gone));
        let (outbox, mut inbox) = way::<usize>(LookAhead { batches: 1, keys: 0 });
        drop(outbox);
        assert_eq!(inbox.recv().map(drop), Err(Gone));
    }
}
