//! SIGINT, SIGTERM, SIGHUP and SIGUSR1: end the run for all nodes, after a last checkpoint if it makes some,
//! or this node alone if the others have copies, and say so in the exit code. A second signal ends the
//! process at once.

use crate::clock::now;
use crate::error::{TrainError, exit};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use intendant::launch::REPEATED_SIGNAL;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a run may take to end after a signal, beyond the time for a last checkpoint. Threads check the
/// cluster's state with every operation; the bound is for a thread that computes for longer.
const END_WITHIN: Duration = Duration::from_secs(2);

/// How long a run may continue after SIGTERM if it is about to end anyway. `mpirun` sends SIGTERM to all
/// ranks as soon as one has ended, and kills them a second later: the error should name the lost node, not
/// the signal.
const TERM_GRACE: Duration = Duration::from_millis(300);

/// How long the process may take to say that a signal ends it: who reads its words may have stopped.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Passes a signal to a run. Inactive unless [`listen`] was called.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    inner: Option<Inner>,
}

#[derive(Clone, Debug)]
struct Inner {
    run: Arc<Claim>,
    signals: Receiver<i32>,
}

/// What the thread that receives signals knows of the run.
#[derive(Debug, Default)]
struct Claim {
    /// Whether a run listens for signals.
    running: AtomicBool,
    /// Whether one has ever done so.
    has_run: AtomicBool,
    /// Milliseconds that it may take to end.
    grace: AtomicU64,
    /// The signal that a run has taken; 0 before.
    delivered: AtomicI32,
}

/// Says why the process ends.
type Tell = Arc<dyn Fn(&TrainError) + Send + Sync>;

/// While it lives, a signal is delivered to the run rather than ending the process.
pub(crate) struct Running(Option<Arc<Claim>>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(claim) = &self.0 {
            claim.running.store(false, Ordering::Release);
        }
    }
}

impl Interrupt {
    /// Claims the signals for a run, which may take as long as `grace` for a last checkpoint.
    pub(crate) fn claim(&self, grace: Duration) -> Running {
        let claim = self.inner.as_ref().map(|inner| {
            let grace = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
            inner.run.grace.store(grace, Ordering::Relaxed);
            // Release: pairs with the Acquire in `deliver`; a thread that sees the claim also finds a
            // receiver of the signal, and the grace.
            inner.run.running.store(true, Ordering::Release);
            inner.run.has_run.store(true, Ordering::Relaxed);
            Arc::clone(&inner.run)
        });
        Running(claim)
    }

    /// Whether a run has claimed the signals: it trains, or has trained.
    pub(crate) fn has_run(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.run.has_run.load(Ordering::Relaxed))
    }

    /// The signal that has been passed to a run, whether or not it has looked for it.
    pub(crate) fn delivered(&self) -> Option<i32> {
        let signal = self.inner.as_ref()?.run.delivered.load(Ordering::Relaxed);
        (signal != 0).then_some(signal)
    }

    /// Waits for a signal, or for `end` to be disconnected.
    pub(crate) fn wait(&self, end: &Receiver<()>) -> Option<i32> {
        match &self.inner {
            Some(inner) => crossbeam_channel::select! {
                recv(inner.signals) -> signal => signal.ok().filter(|signal| {
                    *signal != SIGTERM
                        || end.recv_timeout(TERM_GRACE) == Err(RecvTimeoutError::Timeout)
                }),
                recv(end) -> _ => None,
            },
            None => {
                let _ = end.recv();
                None
            }
        }
    }
}

/// Starts to listen for SIGINT, SIGTERM, SIGUSR1 and, unless it is ignored (`nohup`), SIGHUP in this process.
/// For the rest of its life: signals belong to the process, so only an application's `main` calls this.
/// `tell` says why the process ends if no run takes the signal: data are being read, or the run does not end.
pub(crate) fn listen(tell: impl Fn(&TrainError) + Send + Sync + 'static) -> Result<Interrupt, TrainError> {
    let refused = |source| TrainError::System { what: "listen for signals", source };
    let hang_up = (!intendant::launch::ignores_hang_up()).then_some(SIGHUP);
    let signals = [SIGINT, SIGTERM, SIGUSR1].into_iter().chain(hang_up);
    let mut incoming = signal_hook::iterator::Signals::new(signals).map_err(refused)?;
    let (sender, signals) = bounded(1);
    let run = Arc::<Claim>::default();
    let claimed = Arc::clone(&run);
    let tell: Tell = Arc::new(tell);
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let mut delivered = None;
            for signal in incoming.forever() {
                if ends_at_once(&mut delivered, now(), || deliver(signal, &claimed, &sender, &tell)) {
                    end_process(signal, &tell);
                }
            }
        })
        .map_err(refused)?;
    Ok(Interrupt { inner: Some(Inner { run, signals }) })
}

/// Whether a signal ends the process at once: the run cannot take it, or has taken one before. `delivered` is
/// when that was.
fn ends_at_once(delivered: &mut Option<Instant>, now: Instant, deliver: impl FnOnce() -> bool) -> bool {
    match *delivered {
        Some(first) => now.saturating_duration_since(first) >= REPEATED_SIGNAL,
        None if deliver() => {
            *delivered = Some(now);
            false
        }
        None => true,
    }
}

/// Passes a signal to the run; `false` if there is none that can take it.
fn deliver(signal: i32, run: &Claim, sender: &Sender<i32>, tell: &Tell) -> bool {
    if !run.running.load(Ordering::Acquire) {
        return false;
    }
    // Before the run takes it: who takes it must find it here.
    let is_first = run.delivered.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if sender.try_send(signal).is_err() {
        if is_first {
            run.delivered.store(0, Ordering::Relaxed);
        }
        return false;
    }
    let within = END_WITHIN.saturating_add(Duration::from_millis(run.grace.load(Ordering::Relaxed)));
    // `main` returns as soon as the run has ended; if it does not come to that in time, this thread ends the
    // process.
    let tell = Arc::clone(tell);
    let limit = move || {
        let (_keep, never) = bounded::<()>(0);
        let _ = never.recv_timeout(within);
        end_process(signal, &tell)
    };
    std::thread::Builder::new().name("limit".to_owned()).spawn(limit).is_ok()
}

fn end_process(signal: i32, tell: &Tell) {
    let (said, is_said) = bounded::<()>(0);
    let tell = Arc::clone(tell);
    // In a thread: standard error may be locked, or full.
    let words = move || {
        tell(&TrainError::Interrupted(signal));
        drop(said);
    };
    if std::thread::Builder::new().name("last words".to_owned()).spawn(words).is_ok() {
        let _ = is_said.recv_timeout(LAST_WORDS);
    }
    std::process::exit(i32::from(exit::SIGNAL) + signal);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The signal that a run receives; with `ends`, the run ends by itself after the signal.
    fn told(signal: i32, ends: bool) -> Option<i32> {
        let (sender, signals) = bounded(1);
        let interrupt = Interrupt { inner: Some(Inner { run: Arc::default(), signals }) };
        let (run, ended) = bounded::<()>(0);
        sender.send(signal).expect("there is room");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| interrupt.wait(&ended));
            while !sender.is_empty() {
                std::thread::yield_now();
            }
            if ends {
                drop(run);
                return waiting.join().expect("no panic");
            }
            let told = waiting.join().expect("no panic");
            drop(run);
            told
        })
    }

    #[test]
    fn a_second_signal_ends_the_process_unless_it_is_the_first_one_again() {
        let start = now();
        let mut delivered = None;
        let mut ends = |after, runs| ends_at_once(&mut delivered, start + after, || runs);
        assert!(ends(Duration::ZERO, false), "no run can take it");
        assert!(!ends(Duration::ZERO, true));
        // Whether a run could take another one does not count.
        assert!(
            !ends(REPEATED_SIGNAL / 2, true) && !ends(REPEATED_SIGNAL / 2, false),
            "passed on by a launcher"
        );
        assert!(ends(REPEATED_SIGNAL, true) && ends(2 * REPEATED_SIGNAL, false));
    }

    #[test]
    fn a_run_that_ends_anyway_is_not_ended_by_sigterm() {
        assert_eq!(told(SIGTERM, true), None);
        assert_eq!(told(SIGTERM, false), Some(SIGTERM));
        assert_eq!(told(SIGINT, false), Some(SIGINT));
    }
}
