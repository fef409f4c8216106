//! Which links of a fabric have something to do.
//!
//! A fabric of a large cluster must not poll every link for every frame. Each link has a waker of its own
//! that notes the link in a set and wakes the fabric; the fabric polls noted links only.

use intendant_core::lock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

/// The noted links of one fabric, and the waker of its task.
#[derive(Debug)]
pub(crate) struct Ready {
    words: Box<[AtomicU64]>,
    fabric: Mutex<Option<Waker>>,
}

struct Note {
    ready: Arc<Ready>,
    link: usize,
}

impl Ready {
    /// A set for `links` links, with a waker for each.
    pub(crate) fn new(links: usize) -> (Arc<Self>, Vec<Waker>) {
        let words = (0..links.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let ready = Arc::new(Self { words, fabric: Mutex::new(None) });
        let wakers =
            (0..links).map(|link| Waker::from(Arc::new(Note { ready: ready.clone(), link }))).collect();
        (ready, wakers)
    }

    /// Registers the waker of the task. A link that is noted after this call wakes it; [`Ready::take`] finds
    /// a link that was noted before.
    pub(crate) fn register(&self, waker: &Waker) {
        let mut fabric = lock(&self.fabric);
        match &mut *fabric {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// Empties the set and calls `found` with each link that was in it, in ascending order.
    pub(crate) fn take(&self, mut found: impl FnMut(usize)) {
        for (index, word) in self.words.iter().enumerate() {
            // Acquire: pairs with the Release in `wake_by_ref`; what made the link ready is visible before it
            // is looked at.
            let mut bits = match word.load(Ordering::Relaxed) {
                0 => continue,
                _ => word.swap(0, Ordering::Acquire),
            };
            while bits != 0 {
                found(64 * index + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release: pairs with the Acquire in `take`.
        self.ready.words[self.link / 64].fetch_or(1 << (self.link % 64), Ordering::Release);
        let fabric = lock(&self.ready.fabric);
        if let Some(waker) = &*fabric {
            waker.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn noted_links_are_found_once_and_wake_the_fabric() {
        let (ready, wakers) = Ready::new(130);
        let take = || {
            let mut found = Vec::new();
            ready.take(|link| found.push(link));
            found
        };
        wakers[129].wake_by_ref();
        let count = Arc::new(Count(AtomicUsize::new(0)));
        ready.register(&Waker::from(count.clone()));
        for link in [64, 0, 63, 64] {
            wakers[link].wake_by_ref();
        }
        assert_eq!(take(), [0, 63, 64, 129]);
        assert_eq!(take(), [] as [usize; 0]);
        assert_eq!(count.0.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn a_link_noted_while_others_look_is_not_forgotten() {
        let (ready, wakers) = Ready::new(8);
        let (seen, rounds) = (AtomicUsize::new(0), 20_000);
        std::thread::scope(|scope| {
            // Each thread waits until its last note is found: if a note were lost, the loops would not end.
            for (link, waker) in wakers.iter().enumerate() {
                let seen = &seen;
                scope.spawn(move || {
                    for _ in 0..rounds / 8 {
                        waker.wake_by_ref();
                        while seen.load(Ordering::Acquire) >> link & 1 == 0 {
                            std::thread::yield_now();
                        }
                        seen.fetch_and(!(1 << link), Ordering::AcqRel);
                    }
                });
            }
            let mut found = 0;
            while found < rounds {
                ready.take(|link| {
                    found += 1;
                    seen.fetch_or(1 << link, Ordering::AcqRel);
                });
                std::thread::yield_now();
            }
        });
    }
}
