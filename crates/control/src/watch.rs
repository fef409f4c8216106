//! Detects peers that have been silent for too long. Both sides of a seat use this: the coordinator for every
//! node, a node for the coordinator.
//!
//! A kernel acknowledges for a process that is stopped, so only bytes that the process itself sent count:
//! messages of the control plane, and data. A process that was stopped or starved must not report the others
//! as lost: a gap in its own turns excuses each peer once, until the peer sends again. (Without this limit, a
//! machine that is always starved would wait for ever.)
//!
//! Every function takes the time as an argument.

use intendant_core::Tick;

/// Time between two beats.
pub(super) const BEAT_US: u64 = 1_000_000;

/// Time between two checks of the clock. Silence is noticed at most this much late.
pub(super) const TURN_US: u64 = 250_000;

/// Silence after which a peer counts as lost: four beats may be late or lost in a busy machine's queues.
pub(super) const SILENCE_US_MAX: u64 = 5_000_000;

/// A gap between two of our own turns beyond which we blame ourselves. It is ten turns: far longer than a
/// loaded machine delays a thread that sleeps most of the time, and half of the silence that peers are
/// allowed.
pub(super) const GAP_US_MAX: u64 = 2_500_000;

/// The time of a peer's last message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    heard: Tick,
    excused: bool,
}

impl Watch {
    pub(super) fn new(now: Tick) -> Self {
        Self { heard: now, excused: false }
    }

    /// A message of the peer arrived.
    pub(super) fn heard(&mut self, now: Tick) {
        *self = Self::new(now);
    }

    /// This process could not listen: silence counts from now.
    pub(super) fn excuse(&mut self, now: Tick) {
        if !self.excused {
            *self = Self { heard: now, excused: true };
        }
    }

    /// Microseconds of silence.
    pub(super) fn silence_us(&self, now: Tick) -> u64 {
        now.0.saturating_sub(self.heard.0)
    }

    /// If the peer is lost, the rest of the sentence that starts with its name.
    pub(super) fn overdue(&self, now: Tick) -> Option<String> {
        let silence = self.silence_us(now);
        (silence > SILENCE_US_MAX).then(|| format!("stopped answering for {:.1} s", silence as f64 / 1e6))
    }
}

/// This process's own turns: says when to send a heartbeat, and whether the process was stopped.
#[derive(Clone, Copy, Debug)]
pub(super) struct BeatTimer {
    last: Tick,
    beat_due: Tick,
}

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// Whether this process was stopped or starved, so that the peers are to be excused.
    pub(super) away: bool,
    /// Whether a beat is to be sent.
    pub(super) beat: bool,
}

impl BeatTimer {
    pub(super) fn new(now: Tick) -> Self {
        Self { last: now, beat_due: now.after(BEAT_US) }
    }

    pub(super) fn turn(&mut self, now: Tick) -> Turn {
        let away = now.0.saturating_sub(self.last.0) > GAP_US_MAX;
        let beat = now >= self.beat_due;
        self.last = now;
        if beat {
            self.beat_due = now.after(BEAT_US);
        }
        Turn { away, beat }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn silence_beyond_five_seconds_is_a_loss() {
        let watch = Watch::new(Tick(0));
        assert_eq!(watch.overdue(Tick(5 * SECOND)), None);
        assert_eq!(watch.overdue(Tick(5 * SECOND + 1)).as_deref(), Some("stopped answering for 5.0 s"));
    }

    #[test]
    fn an_excuse_counts_once_until_the_peer_is_heard() {
        let mut watch = Watch::new(Tick(0));
        watch.excuse(Tick(20 * SECOND));
        assert_eq!(watch.overdue(Tick(25 * SECOND)), None);
        watch.excuse(Tick(24 * SECOND));
        assert!(watch.overdue(Tick(26 * SECOND)).is_some());
        watch.heard(Tick(27 * SECOND));
        watch.excuse(Tick(40 * SECOND));
        assert_eq!(watch.overdue(Tick(44 * SECOND)), None);
    }

    #[test]
    fn a_gap_in_our_own_turns_is_noticed_and_beats_keep_their_timer() {
        let mut timer = BeatTimer::new(Tick(0));
        let mut beats = 0;
        for turn in 1..=40 {
            let turn = timer.turn(Tick(turn * TURN_US));
            assert!(!turn.away);
            beats += u32::from(turn.beat);
        }
        assert_eq!(beats, 10);
        assert_eq!(timer.turn(Tick(40 * TURN_US + GAP_US_MAX + 1)), Turn { away: true, beat: true });
        assert!(!timer.turn(Tick(41 * TURN_US + GAP_US_MAX + 1)).away);
    }
}
