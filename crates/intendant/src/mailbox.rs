//! A queue of messages to a worker from other threads, in order.
//!
//! The queue is behind a mutex. A worker sleeps while its queue is empty, and senders wake it only if it
//! sleeps. The worker neither checks the queue again before it sleeps nor yields its core: if it shared the
//! core with the channel for which it waits, the two would take turns for every part of every call. If a
//! worker yields once before it sleeps, remote accesses take one and a half times as long (`intendant-bench
//! remote`), and a worker that waits for a single key gains nothing.

use crate::awake::Awake;
use intendant_core::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

#[derive(Debug)]
struct Mailbox<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
    /// The number of receivers that are awake, this one included.
    awake: Awake,
}

#[derive(Debug)]
struct State<T> {
    queue: VecDeque<T>,
    /// Whether the receiver sleeps, or is about to.
    asleep: bool,
    senders: usize,
    /// Whether there is a receiver.
    read: bool,
}

/// The senders' end.
#[derive(Debug)]
pub(crate) struct MailSender<T>(Arc<Mailbox<T>>);

/// The receiver's end.
#[derive(Debug)]
pub(crate) struct MailReceiver<T>(Arc<Mailbox<T>>);

/// All senders were dropped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SendersGone;

/// A mailbox, with one sender. Its receiver counts as awake except while it waits here.
pub(crate) fn mailbox<T>(awake: &Awake) -> (MailSender<T>, MailReceiver<T>) {
    let state = State { queue: VecDeque::new(), asleep: false, senders: 1, read: true };
    awake.begin();
    let mailbox =
        Arc::new(Mailbox { state: Mutex::new(state), arrived: Condvar::new(), awake: awake.clone() });
    (MailSender(Arc::clone(&mailbox)), MailReceiver(mailbox))
}

impl<T> MailSender<T> {
    /// Hands over a message. The message is dropped if the receiver was dropped.
    pub(crate) fn send(&self, what: T) {
        let mut state = lock(&self.0.state);
        if !state.read {
            return;
        }
        state.queue.push_back(what);
        self.wake(state);
    }

    fn wake(&self, mut state: std::sync::MutexGuard<'_, State<T>>) {
        let asleep = std::mem::take(&mut state.asleep);
        if asleep {
            self.0.awake.begin();
        }
        drop(state);
        if asleep {
            self.0.arrived.notify_one();
        }
    }
}

impl<T> Clone for MailSender<T> {
    fn clone(&self) -> Self {
        lock(&self.0.state).senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for MailSender<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.senders -= 1;
        if state.senders == 0 {
            self.wake(state);
        }
    }
}

impl<T> MailReceiver<T> {
    /// The oldest message, if there is one.
    pub(crate) fn try_next(&mut self) -> Option<T> {
        lock(&self.0.state).queue.pop_front()
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// If there is no message, and no sender any more.
    pub(crate) fn next(&mut self) -> Result<T, SendersGone> {
        let mut state = lock(&self.0.state);
        loop {
            if let Some(what) = state.queue.pop_front() {
                return Ok(what);
            }
            if state.senders == 0 {
                return Err(SendersGone);
            }
            state.asleep = true;
            self.0.awake.end();
            state = self.0.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
            // A wait may end although no sender has woken this thread.
            if std::mem::take(&mut state.asleep) {
                self.0.awake.begin();
            }
        }
    }
}

impl<T> Drop for MailReceiver<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.read = false;
        // Messages that were not received are dropped after the lock.
        let rest = std::mem::take(&mut state.queue);
        drop(state);
        drop(rest);
        self.0.awake.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Returns when the receiver sleeps.
    fn falls_asleep<T>(sender: &MailSender<T>) {
        // The loop takes seconds if no other thread needs the core.
        for _ in 0..10_000_000 {
            if lock(&sender.0.state).asleep {
                return;
            }
            thread::yield_now();
        }
        panic!("the receiver does not fall asleep");
    }

    #[test]
    fn everything_arrives_in_the_order_of_its_sender() {
        const EACH: usize = 20_000;
        let (sender, mut receiver) = mailbox(&Awake::default());
        thread::scope(|scope| {
            for number in 0..3 {
                let sender = sender.clone();
                scope.spawn(move || {
                    for at in 0..EACH {
                        sender.send((number, at));
                        if at % 97 == 0 {
                            // The receiver falls asleep now and then.
                            (0..50).for_each(|_| thread::yield_now());
                        }
                    }
                });
            }
            drop(sender);
            let mut next = [0; 3];
            while let Ok((number, at)) = receiver.next() {
                assert_eq!(at, next[number]);
                next[number] += 1;
            }
            assert_eq!(next, [EACH; 3]);
        });
    }

    #[test]
    fn who_sleeps_is_woken_by_what_arrives_and_by_the_end() {
        let awake = Awake::default();
        let (sender, mut receiver) = mailbox(&awake);
        assert!(!awake.is_none());
        let sleeper = thread::spawn(move || (receiver.next(), receiver.next()));
        falls_asleep(&sender);
        assert!(awake.is_none());
        sender.send(7);
        falls_asleep(&sender);
        drop(sender);
        assert_eq!(sleeper.join().expect("it ends"), (Ok(7), Err(SendersGone)));
    }

    /// The receiver counts before it has a core. Otherwise a channel on the same core could keep the core.
    #[test]
    fn who_is_woken_counts_as_awake_at_once() {
        let awake = Awake::default();
        let (sender, receiver) = mailbox(&awake);
        lock(&sender.0.state).asleep = true;
        awake.end();
        sender.send(7);
        assert!(!awake.is_none());
        sender.send(8);
        drop(receiver);
        assert!(awake.is_none(), "it counts once, and no more when its receiver is gone");
    }

    /// A wait may end although no sender has woken the receiver. Here, the test ends the wait.
    #[test]
    fn who_wakes_by_itself_counts_as_awake() {
        let awake = Awake::default();
        let (sender, mut receiver) = mailbox(&awake);
        let sleeper = thread::spawn(move || (receiver.next(), receiver));
        falls_asleep(&sender);
        let mut state = lock(&sender.0.state);
        state.queue.push_back(7);
        sender.0.arrived.notify_one();
        drop(state);
        let (next, receiver) = sleeper.join().expect("it ends");
        assert_eq!(next, Ok(7));
        assert!(!awake.is_none(), "it goes on");
        drop(receiver);
        assert!(awake.is_none(), "its receiver is gone");
    }

    #[test]
    fn items_without_a_receiver_are_dropped() {
        let (sender, receiver) = mailbox(&Awake::default());
        let thing = Arc::new(());
        sender.send(Arc::clone(&thing));
        assert_eq!(Arc::strong_count(&thing), 2);
        drop(receiver);
        assert_eq!(Arc::strong_count(&thing), 1, "it was there when the receiver went");
        sender.send(Arc::clone(&thing));
        assert_eq!(Arc::strong_count(&thing), 1, "it came later");
    }
}
