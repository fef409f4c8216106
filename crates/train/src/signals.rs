//! SIGINT and SIGTERM: end the run for all nodes, quickly, and say so in the exit code.

use crate::error::{TrainError, exit};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a run may take to end after a signal. Threads check the cluster's state with every operation; the
/// bound is for a thread that computes for longer.
const END_WITHIN: Duration = Duration::from_secs(2);

/// How long a run may continue after SIGTERM if it is about to end anyway. `mpirun` sends SIGTERM to all
/// ranks as soon as one has ended, and kills them a second later: the error should name the lost node, not
/// the signal.
const TERM_GRACE: Duration = Duration::from_millis(300);

/// Passes a signal to a run. Inactive unless [`listen`] was called.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    inner: Option<Inner>,
}

#[derive(Clone, Debug)]
struct Inner {
    /// Whether a run listens to `signals`.
    running: Arc<AtomicBool>,
    signals: Receiver<i32>,
}

/// While it lives, a signal is delivered to the run rather than ending the process.
pub(crate) struct Running(Option<Arc<AtomicBool>>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(running) = &self.0 {
            running.store(false, Ordering::Release);
        }
    }
}

impl Interrupt {
    /// Claims the signals for a run.
    pub(crate) fn claim(&self) -> Running {
        let running = self.inner.as_ref().map(|inner| {
            // Release: pairs with the Acquire in `deliver`; a thread that sees the claim also finds a
            // receiver of the signal.
            inner.running.store(true, Ordering::Release);
            Arc::clone(&inner.running)
        });
        Running(running)
    }

    /// Waits for a signal, or for `end` to be disconnected.
    pub(crate) fn wait(&self, end: &Receiver<()>) -> Option<i32> {
        match &self.inner {
            Some(inner) => crossbeam_channel::select! {
                recv(inner.signals) -> signal => signal.ok().filter(|signal| {
                    *signal != signal_hook::consts::SIGTERM
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

/// Starts to listen for SIGINT and SIGTERM in this process. For the rest of its life: signals belong to the
/// process, so only an application's `main` calls this.
pub(crate) fn listen() -> Result<Interrupt, TrainError> {
    let refused = |source| TrainError::System { what: "listen for signals", source };
    let handled = [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];
    let mut incoming = signal_hook::iterator::Signals::new(handled).map_err(refused)?;
    let (sender, signals) = bounded(1);
    let running = Arc::new(AtomicBool::new(false));
    let claimed = Arc::clone(&running);
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            if let Some(signal) = incoming.forever().next() {
                deliver(signal, &claimed, &sender);
            }
        })
        .map_err(refused)?;
    Ok(Interrupt { inner: Some(Inner { running, signals }) })
}

fn deliver(signal: i32, running: &AtomicBool, sender: &Sender<i32>) {
    if running.load(Ordering::Acquire) && sender.try_send(signal).is_ok() {
        // `main` returns as soon as the run has ended; if it does not come to that in time, this thread ends
        // the process.
        let (_keep, never) = bounded::<()>(0);
        let _ = never.recv_timeout(END_WITHIN);
    }
    std::process::exit(i32::from(exit::SIGNAL) + signal);
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::consts::{SIGINT, SIGTERM};

    /// The signal that a run receives; with `ends`, the run ends by itself after the signal.
    fn told(signal: i32, ends: bool) -> Option<i32> {
        let (sender, signals) = bounded(1);
        let interrupt = Interrupt { inner: Some(Inner { running: Arc::default(), signals }) };
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
    fn a_run_that_ends_anyway_is_not_ended_by_sigterm() {
        assert_eq!(told(SIGTERM, true), None);
        assert_eq!(told(SIGTERM, false), Some(SIGTERM));
        assert_eq!(told(SIGINT, false), Some(SIGINT));
    }
}
