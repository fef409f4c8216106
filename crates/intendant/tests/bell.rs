//! The inbox and its bell under loom, which explores every interleaving, and every value that weak memory
//! orders let a thread read. This test compiles the source a second time, against loom's primitives, as the
//! tests of `intendant-store` do.

/// The items of `src/sync.rs`, made of loom's primitives and no stronger than the real ones.
mod sync {
    use loom::sync::atomic::AtomicUsize;
    use loom::sync::{Arc, Mutex};
    use std::collections::VecDeque;
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    pub(crate) use crossbeam_channel::TryRecvError;
    pub(crate) use loom::sync::atomic::{AtomicBool, Ordering, fence};

    /// A queue that promises only this: a reader that sees that an item was sent can take it. A reader may
    /// see an older state of the queue.
    #[derive(Debug)]
    struct Queue<T> {
        items: Mutex<VecDeque<T>>,
        sent: AtomicUsize,
        taken: AtomicUsize,
    }

    #[derive(Debug)]
    pub(crate) struct Sender<T>(Arc<Queue<T>>);
    #[derive(Debug)]
    pub(crate) struct Receiver<T>(Arc<Queue<T>>);

    pub(crate) fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
        let (items, sent, taken) = Default::default();
        let queue = Arc::new(Queue { items, sent, taken });
        (Sender(Arc::clone(&queue)), Receiver(queue))
    }

    impl<T> Clone for Sender<T> {
        fn clone(&self) -> Self {
            Self(Arc::clone(&self.0))
        }
    }

    impl<T> Sender<T> {
        pub(crate) fn send(&self, item: T) -> Result<(), T> {
            self.0.items.lock().expect("no panic").push_back(item);
            self.0.sent.fetch_add(1, Ordering::Release);
            Ok(())
        }

        pub(crate) fn len(&self) -> usize {
            self.0.items.lock().expect("no panic").len()
        }
    }

    impl<T> Receiver<T> {
        pub(crate) fn is_empty(&self) -> bool {
            self.0.sent.load(Ordering::Relaxed) == self.0.taken.load(Ordering::Relaxed)
        }

        pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
            if self.0.sent.load(Ordering::Acquire) == self.0.taken.load(Ordering::Relaxed) {
                return Err(TryRecvError::Empty);
            }
            self.0.taken.fetch_add(1, Ordering::Relaxed);
            let item = self.0.items.lock().expect("no panic").pop_front();
            Ok(item.expect("it was sent, and there is one receiver"))
        }
    }

    /// The part of tokio's `Notify` that the inbox uses: at most one permit, kept until a waiter takes it; a
    /// waiter that goes away takes none.
    #[derive(Debug, Default)]
    pub(crate) struct Notify(Mutex<(bool, Option<Waker>)>);

    impl Notify {
        pub(crate) fn notify_one(&self) {
            let mut state = self.0.lock().expect("no panic");
            state.0 = true;
            if let Some(waker) = state.1.take() {
                waker.wake();
            }
        }

        pub(crate) fn notified(&self) -> Notified<'_> {
            Notified(self)
        }
    }

    pub(crate) struct Notified<'a>(&'a Notify);

    impl Future for Notified<'_> {
        type Output = ();

        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            let mut state = self.0.0.lock().expect("no panic");
            if std::mem::take(&mut state.0) {
                return Poll::Ready(());
            }
            state.1 = Some(context.waker().clone());
            Poll::Pending
        }
    }

    impl Drop for Notified<'_> {
        fn drop(&mut self) {
            self.0.0.lock().expect("no panic").1 = None;
        }
    }
}

#[expect(dead_code, reason = "not everything that an inbox carries is sent here")]
#[path = "../src/inbox.rs"]
mod inbox;

use inbox::{Command, Inbox, InboxSender, inbox};
use loom::future::block_on;
use loom::thread;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Checks all executions with at most `preemptions` preemptions. Two were enough to find every error that the
/// flag and the fences can cause.
fn check(preemptions: usize, senders: usize, each: usize, receive: fn(Inbox, usize)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let (sender, inbox) = inbox();
        let threads: Vec<_> = (0..senders)
            .map(|_| {
                let sender: InboxSender = sender.clone();
                thread::spawn(move || (0..each).for_each(|_| assert!(sender.send(Command::Close))))
            })
            .collect();
        // If a wake-up is lost, `receive` sleeps for ever, which loom reports as a deadlock.
        receive(inbox, senders * each);
        threads.into_iter().for_each(|thread| thread.join().expect("the sender ends"));
    });
}

/// The next command, or `None` after a sleep.
fn next(inbox: &Inbox, sleep: impl FnOnce()) -> Option<Command> {
    let command = inbox.try_next();
    if command.is_none() {
        sleep();
    }
    command
}

/// Receives as a channel does that gets no messages from other nodes.
fn receive_all(inbox: Inbox, count: usize) {
    let mut received = 0;
    while received < count {
        received += usize::from(next(&inbox, || block_on(inbox.sleep())).is_some());
    }
    assert!(inbox.try_next().is_none());
}

/// Receives as a channel does whose first sleep ends because a message came from another node.
fn receive_all_after_a_sleep_that_was_cut_short(inbox: Inbox, count: usize) {
    let mut received = 0;
    let mut first = true;
    while received < count {
        let sleep = || {
            if std::mem::take(&mut first) {
                block_on(poll_fn(|context| {
                    let _ = pin!(inbox.sleep()).poll(context);
                    Poll::Ready(())
                }));
            } else {
                block_on(inbox.sleep());
            }
        };
        received += usize::from(next(&inbox, sleep).is_some());
    }
    assert!(inbox.try_next().is_none());
}

#[test]
fn no_wake_up_is_lost() {
    check(3, 1, 2, receive_all);
    check(3, 2, 1, receive_all);
}

#[test]
fn no_wake_up_is_lost_after_a_sleep_that_was_cut_short() {
    check(2, 1, 2, receive_all_after_a_sleep_that_was_cut_short);
    check(2, 2, 1, receive_all_after_a_sleep_that_was_cut_short);
}
