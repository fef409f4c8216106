//! The board on which workers signal intents and advance clocks, and which channels read.
//!
//! Signalling an intent costs an append under a lock that no thread holds for long. Advancing a clock costs a
//! store, and a load per channel.
//!
//! A channel that goes to sleep first stores at which clock of a worker it must be woken ([`Board::sleep`]),
//! and then checks clocks and signals once more. A worker first stores its clock or appends its signal, and
//! then checks whether a channel must be woken. With sequentially consistent fences between the two steps on
//! both sides, at least one side sees the first step of the other.
//!
//! While the cluster rests, channels are *held* ([`Board::hold`]): signals wait until a worker continues.

use crate::schedule::Signalled;
use crate::sync::{AtomicBool, AtomicU8, AtomicU32, Mutex, Ordering, fence};
use intendant_core::{ChannelId, Key};
use std::ops::Range;
use std::sync::PoisonError;

/// The clock of a worker that has finished: all of its intents are over.
pub const FINISHED: u32 = u32::MAX;

/// The channel need not be woken by this worker's clock.
const NEVER: u32 = u32::MAX;

/// The states of a channel.
const AWAKE: u8 = 0;
/// It must be woken when a worker signals an intent, or when a clock reaches the one for which it waits.
const ASLEEP: u8 = 1;
/// It must be woken when a worker continues.
const HELD: u8 = 2;

/// What one worker and one channel share.
struct Signals {
    intents: Mutex<Signalled>,
    /// Whether there are intents: a hint that avoids taking the lock.
    any: AtomicBool,
    /// The clock at which the channel must be woken.
    wake: AtomicU32,
}

/// The clocks of a node's workers, and the intents that they have signalled.
pub struct Board {
    workers: Box<[AtomicU32]>,
    /// By channel, then by worker.
    signals: Box<[Signals]>,
    /// By channel: whether it sleeps, and what wakes it.
    states: Box<[AtomicU8]>,
}

impl Board {
    /// All clocks are 0, and all channels are awake.
    #[must_use]
    pub fn new(workers: usize, channels: usize) -> Self {
        let signals = || Signals {
            intents: Mutex::new(Signalled::default()),
            any: AtomicBool::new(false),
            wake: AtomicU32::new(NEVER),
        };
        Self {
            workers: (0..workers).map(|_| AtomicU32::new(0)).collect(),
            signals: (0..workers * channels).map(|_| signals()).collect(),
            states: (0..channels).map(|_| AtomicU8::new(AWAKE)).collect(),
        }
    }

    /// Number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    fn signals(&self, worker: usize, channel: usize) -> &Signals {
        &self.signals[channel * self.workers.len() + worker]
    }

    /// The clock of a worker.
    ///
    /// # Panics
    /// If there is no such worker.
    #[must_use]
    pub fn clock(&self, worker: usize) -> u32 {
        // Acquire: a thread that acts on a clock sees what was signalled before. The lock of the intents
        // would suffice as well.
        self.workers[worker].load(Ordering::Acquire)
    }

    /// Wakes a channel if it is in state `state`. Returns false if it is not, or if another thread was
    /// faster.
    fn wake(&self, channel: usize, state: u8) -> bool {
        let current = &self.states[channel];
        current.load(Ordering::Relaxed) == state
            && current.compare_exchange(state, AWAKE, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// A worker signals that it will use `keys`, which belong to one channel, while its clock is in `window`.
    /// Returns true if the caller must wake the channel.
    ///
    /// # Panics
    /// If there is no such worker or channel.
    #[must_use]
    pub fn signal(
        &self,
        worker: usize,
        channel: usize,
        keys: impl Iterator<Item = Key>,
        window: Range<u32>,
    ) -> bool {
        let signals = self.signals(worker, channel);
        {
            let mut intents = signals.intents.lock().unwrap_or_else(PoisonError::into_inner);
            if !intents.push(keys, window.start, window.end) {
                return false;
            }
            // Relaxed: written under the lock only, so that the last value agrees with the list. The fence
            // orders it before the check of the sleeper.
            signals.any.store(true, Ordering::Relaxed);
        }
        // Pairs with the fence in `sleep`.
        fence(Ordering::SeqCst);
        self.wake(channel, ASLEEP)
    }

    /// A worker advances its clock. Clocks do not decrease. Returns the channels that the caller must wake.
    ///
    /// # Panics
    /// If there is no such worker.
    #[must_use]
    pub fn advance(&self, worker: usize, clock: u32) -> Vec<ChannelId> {
        let before = self.workers[worker].load(Ordering::Relaxed);
        // Release: see `clock`. Only the worker's own thread writes.
        self.workers[worker].store(before.max(clock), Ordering::Release);
        // Pairs with the fence in `sleep`.
        fence(Ordering::SeqCst);
        let mut woken = Vec::new();
        for channel in 0..self.states.len() {
            let wake = self.signals(worker, channel).wake.load(Ordering::Relaxed);
            let due = wake <= clock && wake != NEVER;
            if (due && self.wake(channel, ASLEEP)) || self.wake(channel, HELD) {
                woken.push(ChannelId(channel as u16));
            }
        }
        woken
    }

    /// The cluster no longer rests. Returns the channels that the caller must wake.
    #[must_use]
    pub fn resume(&self) -> Vec<ChannelId> {
        let held = (0..self.states.len()).filter(|channel| self.wake(*channel, HELD));
        held.map(|channel| ChannelId(channel as u16)).collect()
    }

    /// The cluster rests: the channel sleeps until a thread calls [`Board::resume`] or advances a clock.
    /// Signals do not wake it.
    ///
    /// # Panics
    /// If there is no such channel.
    pub fn hold(&self, channel: usize) {
        self.states[channel].store(HELD, Ordering::Relaxed);
    }

    /// Whether a channel is held.
    ///
    /// # Panics
    /// If there is no such channel.
    #[must_use]
    pub fn is_held(&self, channel: usize) -> bool {
        self.states[channel].load(Ordering::Relaxed) == HELD
    }

    /// Whether a channel sleeps, and no thread has woken it yet.
    ///
    /// # Panics
    /// If there is no such channel.
    #[must_use]
    pub fn is_asleep(&self, channel: usize) -> bool {
        self.states[channel].load(Ordering::Relaxed) != AWAKE
    }

    /// Moves the intents that a worker has signalled to `taken`, which must be empty: the board uses its
    /// memory for the next intents.
    ///
    /// # Panics
    /// If there is no such worker or channel.
    pub fn take(&self, worker: usize, channel: usize, taken: &mut Signalled) {
        debug_assert!(taken.is_empty(), "they would be signalled again");
        let signals = self.signals(worker, channel);
        // Relaxed: a missed signal is found in the next round, or by the check before the channel sleeps.
        if !signals.any.load(Ordering::Relaxed) {
            return;
        }
        let mut intents = signals.intents.lock().unwrap_or_else(PoisonError::into_inner);
        signals.any.store(false, Ordering::Relaxed);
        std::mem::swap(&mut *intents, taken);
    }

    /// A channel goes to sleep, until a worker signals an intent for its keys or a worker's clock reaches
    /// `wake(worker)`; `None` if the clock does not matter. Returns false if the channel must not sleep,
    /// because one of these has happened meanwhile.
    ///
    /// # Panics
    /// If there is no such channel.
    #[must_use]
    pub fn sleep(&self, channel: usize, wake: impl Fn(usize) -> Option<u32>) -> bool {
        for worker in 0..self.workers.len() {
            // Relaxed: the fence orders it.
            self.signals(worker, channel).wake.store(wake(worker).unwrap_or(NEVER), Ordering::Relaxed);
        }
        self.states[channel].store(ASLEEP, Ordering::Relaxed);
        // Pairs with the fences in `signal` and `advance`.
        fence(Ordering::SeqCst);
        let missed = (0..self.workers.len()).any(|worker| {
            let signals = self.signals(worker, channel);
            signals.any.load(Ordering::Relaxed)
                || wake(worker).is_some_and(|wake| self.workers[worker].load(Ordering::Relaxed) >= wake)
        });
        // If another thread has woken the channel meanwhile, its wake-up reaches the channel, which may sleep
        // until then.
        !missed || !self.wake(channel, ASLEEP)
    }
}
