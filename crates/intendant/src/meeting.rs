//! Named meetings with payloads: of the workers of one node, and of the nodes of one process.
//!
//! A meeting is over when all have come; everybody then gets the payloads of all, in order. The same name can be used again
//! at once: a newcomer to a meeting that is over waits until all have left it.

use crate::control::Failure;
use crate::health::{Health, lock};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Payloads of all participants, in order.
pub(crate) type Payloads = Arc<Vec<Vec<u8>>>;

#[derive(Default)]
struct Meeting {
    payloads: Vec<Option<Vec<u8>>>,
    arrived: usize,
    /// Set when all have come and, for a meeting with a closing act, that is over.
    result: Option<Payloads>,
    left: usize,
}

/// Meetings among a fixed number of participants, each a thread.
pub(crate) struct Meetings {
    participants: usize,
    health: Arc<Health>,
    state: Arc<(Mutex<BTreeMap<String, Meeting>>, Condvar)>,
}

impl Meetings {
    pub(crate) fn new(participants: usize, health: Arc<Health>) -> Self {
        let state = Arc::new((Mutex::new(BTreeMap::new()), Condvar::new()));
        let woken = Arc::clone(&state);
        health.on_failure(move |_| {
            // The lock orders this wake-up after the check of whoever is about to wait.
            drop(lock(&woken.0));
            woken.1.notify_all();
        });
        Self { participants, health, state }
    }

    /// Comes to the meeting called `name` as participant `index` and waits for all others. The last one to come runs `close`
    /// on all payloads, without any lock, and everybody gets what it returns.
    ///
    /// # Errors
    /// If the cluster fails, also while waiting.
    pub(crate) fn meet(
        &self,
        name: &str,
        index: usize,
        payload: Vec<u8>,
        close: impl FnOnce(Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, Failure>,
    ) -> Result<Payloads, Failure> {
        let (mutex, condvar) = &*self.state;
        let mut meetings = lock(mutex);
        let wait = |meetings| condvar.wait(meetings).unwrap_or_else(PoisonError::into_inner);
        // A previous meeting of this name may not have been left by all.
        while meetings.get(name).is_some_and(|m| m.result.is_some()) {
            self.health.check()?;
            meetings = wait(meetings);
        }
        self.health.check()?;
        let meeting = meetings.entry(name.to_owned()).or_default();
        meeting.payloads.resize(self.participants, None);
        intendant_core::strict_assert!(
            meeting.payloads[index].is_none(),
            "participant {index} comes to '{name}' twice"
        );
        meeting.payloads[index] = Some(payload);
        meeting.arrived += 1;
        if meeting.arrived == self.participants {
            let payloads = std::mem::take(&mut meeting.payloads).into_iter().flatten().collect();
            drop(meetings);
            // If this fails, the cluster has failed: the others are woken by that.
            let result = Arc::new(close(payloads)?);
            meetings = lock(mutex);
            if let Some(meeting) = meetings.get_mut(name) {
                meeting.result = Some(result);
            }
            condvar.notify_all();
        }
        loop {
            if let Some(meeting) = meetings.get_mut(name)
                && let Some(result) = &meeting.result
            {
                let result = Arc::clone(result);
                meeting.left += 1;
                if meeting.left == self.participants {
                    meetings.remove(name);
                    condvar.notify_all();
                }
                return Ok(result);
            }
            self.health.check()?;
            meetings = wait(meetings);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_core::NodeId;

    #[test]
    fn everybody_gets_all_payloads_in_order_again_and_again() {
        let meetings = Meetings::new(3, Arc::new(Health::default()));
        std::thread::scope(|scope| {
            for index in 0..3u8 {
                let meetings = &meetings;
                scope.spawn(move || {
                    for round in 0..500u32 {
                        let mut payload = vec![index];
                        payload.extend(round.to_le_bytes());
                        let all = meetings.meet("round", index.into(), payload, Ok).unwrap();
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
        let meetings = Meetings::new(2, Arc::clone(&health));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| meetings.meet("never", 0, vec![], Ok));
            health.fail(Failure::lost(NodeId(1), "is gone"));
            assert_eq!(waiting.join().unwrap().unwrap_err().node, Some(NodeId(1)));
        });
        assert!(meetings.meet("later", 0, vec![], Ok).is_err());
    }
}
