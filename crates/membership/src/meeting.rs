//! Named meetings with payloads: of the workers of one node, and of the nodes of one process.
//!
//! A meeting is over when all participants have entered it; each then gets the payloads of all, in order. The
//! same name can be used again at once: a newcomer to a meeting that is over waits until all have left it.

use crate::health::Health;
use intendant_control::Failure;
use intendant_core::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Names of Intendant's own meetings start with this prefix; names of applications' meetings must not.
pub const OWN: &str = "intendant:";

/// Payloads of all participants, in order.
pub type Payloads = Arc<Vec<Vec<u8>>>;

/// A thread that waits for a meeting this long writes a line to the log, then again after twice as long, and
/// so on.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Meeting {
    /// The name that the first participant gave it.
    label: String,
    payloads: Vec<Option<Vec<u8>>>,
    arrived: usize,
    /// Set when all participants have entered and the closing act, if the meeting has one, is over.
    result: Option<Payloads>,
    left: usize,
}

#[derive(Default)]
struct State {
    meetings: BTreeMap<String, Meeting>,
    /// Participants that will not enter any meeting again.
    departed: BTreeSet<usize>,
}

/// Meetings among a fixed number of participants, each a thread.
pub struct Meetings {
    participants: usize,
    /// Makes the failure of a meeting of this name that this participant will not enter.
    missed: fn(usize, &str) -> Failure,
    health: Arc<Health>,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Meetings {
    /// Meetings of `participants` participants. `missed` makes the failure of a participant that waits for a
    /// departed one, from the number of the departed participant and the name of the meeting.
    #[must_use]
    pub fn new(participants: usize, missed: fn(usize, &str) -> Failure, health: Arc<Health>) -> Self {
        let state = Arc::new((Mutex::new(State::default()), Condvar::new()));
        let woken = Arc::clone(&state);
        health.on_failure(move |_| {
            // The lock orders this wake-up after the check of a thread that is about to wait.
            drop(lock(&woken.0));
            woken.1.notify_all();
        });
        Self { participants, missed, health, state }
    }

    /// The number of participants.
    #[must_use]
    pub const fn participants(&self) -> usize {
        self.participants
    }

    /// Notes that participant `index` will not enter any meeting again. Returns the name of a meeting that
    /// waits for it, if there is one.
    pub fn depart(&self, index: usize) -> Option<String> {
        let mut state = lock(&self.state.0);
        state.departed.insert(index);
        let waits = |meeting: &Meeting| {
            meeting.result.is_none() && meeting.payloads.get(index).is_some_and(Option::is_none)
        };
        state.meetings.values().find(|meeting| waits(meeting)).map(|meeting| meeting.label.clone())
    }

    /// Enters the meeting called `name` (`label` in messages) as participant `index` and waits for all
    /// others. The last participant to enter runs `close` on all payloads, without any lock, and all
    /// participants get its result.
    ///
    /// # Errors
    /// If the cluster has failed, or fails during the wait, or if a participant has departed.
    pub fn meet(
        &self,
        name: &str,
        label: &str,
        index: usize,
        payload: Vec<u8>,
        close: impl FnOnce(Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, Failure>,
    ) -> Result<Payloads, Failure> {
        let (mutex, condvar) = &*self.state;
        let mut state = lock(mutex);
        let mut patience = PATIENCE;
        let mut wait = |state| {
            let (state, timeout) =
                condvar.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() {
                tracing::warn!(
                    "'{label}' has been waiting for {} s for the others to come",
                    patience.as_secs()
                );
                patience *= 2;
            }
            state
        };
        // Some participants may not have left a previous meeting of this name yet.
        while state.meetings.get(name).is_some_and(|m| m.result.is_some()) {
            self.health.check()?;
            state = wait(state);
        }
        self.health.check()?;
        if let Some(gone) = state.departed.first() {
            return Err((self.missed)(*gone, label));
        }
        let meeting = state.meetings.entry(name.to_owned()).or_default();
        if meeting.arrived == 0 {
            meeting.label = label.to_owned();
        }
        meeting.payloads.resize(self.participants, None);
        intendant_core::strict_assert!(
            meeting.payloads[index].is_none(),
            "participant {index} comes to '{name}' twice"
        );
        meeting.payloads[index] = Some(payload);
        meeting.arrived += 1;
        if meeting.arrived == self.participants {
            let payloads = std::mem::take(&mut meeting.payloads).into_iter().flatten().collect();
            drop(state);
            // If this fails, the cluster has failed, and the failure wakes the others.
            let result = Arc::new(close(payloads)?);
            state = lock(mutex);
            if let Some(meeting) = state.meetings.get_mut(name) {
                meeting.result = Some(result);
            }
            condvar.notify_all();
        }
        loop {
            if let Some(meeting) = state.meetings.get_mut(name)
                && let Some(result) = &meeting.result
            {
                let result = Arc::clone(result);
                meeting.left += 1;
                if meeting.left == self.participants {
                    state.meetings.remove(name);
                    condvar.notify_all();
                }
                return Ok(result);
            }
            self.health.check()?;
            state = wait(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_core::NodeId;

    fn missed(index: usize, name: &str) -> Failure {
        Failure::misuse(format!("{index} will not come to '{name}'"))
    }

    #[test]
    fn all_get_all_payloads_in_order_again_and_again() {
        let meetings = Meetings::new(3, missed, Arc::new(Health::default()));
        std::thread::scope(|scope| {
            for index in 0..3u8 {
                let meetings = &meetings;
                scope.spawn(move || {
                    for round in 0..500u32 {
                        let mut payload = vec![index];
                        payload.extend(round.to_le_bytes());
                        let all = meetings.meet("round", "round", index.into(), payload, Ok).unwrap();
                        let expected: Vec<Vec<u8>> =
                            (0..3).map(|i| [&[i][..], &round.to_le_bytes()].concat()).collect();
                        assert_eq!(*all, expected);
                    }
                });
            }
        });
    }

    #[test]
    fn a_failure_ends_the_waiting() {
        let health = Arc::new(Health::default());
        let meetings = Meetings::new(2, missed, Arc::clone(&health));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| meetings.meet("never", "never", 0, vec![], Ok));
            health.fail(Failure::lost(NodeId(1), "is gone"));
            assert_eq!(waiting.join().unwrap().unwrap_err().node, Some(NodeId(1)));
        });
        assert!(meetings.meet("later", "later", 0, vec![], Ok).is_err());
    }

    #[test]
    fn no_thread_waits_for_a_participant_that_is_gone() {
        let health = Arc::new(Health::default());
        let meetings = Meetings::new(2, missed, Arc::clone(&health));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| meetings.meet("open", "open", 0, vec![], Ok));
            // Participant 1 may depart before or after the other has entered: either way, one of the two gets
            // the failure.
            if let Some(name) = meetings.depart(1) {
                assert_eq!(name, "open");
                health.fail(Failure::aborted(NodeId(0), "a participant left"));
            }
            assert!(waiting.join().unwrap().is_err());
        });
    }
}
