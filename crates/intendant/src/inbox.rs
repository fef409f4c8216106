//! Commands to a channel's thread from other threads of its node.
//!
//! A queue and a bell. The bell rings only if the channel sleeps. The channel sets a flag before it sleeps,
//! and then checks the queue once more; a sender first queues, and then checks the flag. With sequentially
//! consistent fences between the two steps on both sides, at least one side sees the first step of the other.

use crate::sync::{AtomicBool, Notify, Ordering, Receiver, Sender, TryRecvError, fence, unbounded};
use crossbeam_channel::Sender as Reply;
use intendant_core::Key;
use intendant_engine::{ChannelReport, Explanation, Input, ManagementStats};
use std::sync::Arc;

/// A message to a channel's thread.
#[derive(Debug)]
pub(crate) enum Command {
    /// An input for the engine.
    Input(Input),
    /// Synchronises copies, then asks for the engine's report. All workers of this node wait for quiescence
    /// then.
    Report(Reply<ChannelReport>),
    /// Asks for the engine's counts.
    Management(Reply<ManagementStats>),
    /// Asks why a key is where it is.
    Explain(Key, Reply<Explanation>),
    /// A worker of this node will make no more calls.
    Departed,
    /// Leave in order: all workers are done, and all nodes know that.
    Close,
    /// The cluster has failed: leave at once.
    Stop,
}

#[derive(Debug, Default)]
struct Bell {
    asleep: AtomicBool,
    notify: Notify,
}

/// The senders' end.
#[derive(Clone, Debug)]
pub(crate) struct InboxSender {
    queue: Sender<Command>,
    bell: Arc<Bell>,
}

/// The channel thread's end.
#[derive(Debug)]
pub(crate) struct Inbox {
    queue: Receiver<Command>,
    bell: Arc<Bell>,
}

pub(crate) fn inbox() -> (InboxSender, Inbox) {
    // The queue needs no bound, because its senders have one: a worker's outstanding bytes bound what it can
    // queue.
    let (sender, receiver) = unbounded();
    let bell = Arc::new(Bell::default());
    (InboxSender { queue: sender, bell: Arc::clone(&bell) }, Inbox { queue: receiver, bell })
}

impl InboxSender {
    /// Queues a command; false if the channel's thread has ended.
    pub(crate) fn send(&self, command: Command) -> bool {
        if self.queue.send(command).is_err() {
            return false;
        }
        // Pairs with the fence in `Inbox::sleep`.
        fence(Ordering::SeqCst);
        if self.bell.asleep.load(Ordering::Relaxed) && self.bell.asleep.swap(false, Ordering::Relaxed) {
            self.bell.notify.notify_one();
        }
        true
    }

    /// Number of queued commands.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }
}

impl Inbox {
    /// The next command, if there is one.
    pub(crate) fn try_next(&self) -> Option<Command> {
        match self.queue.try_recv() {
            Ok(command) => Some(command),
            Err(TryRecvError::Empty) => None,
            // All senders were dropped, and the node with them.
            Err(TryRecvError::Disconnected) => Some(Command::Stop),
        }
    }

    /// Whether there is no command.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Waits until there may be a command.
    pub(crate) async fn sleep(&self) {
        // The exchanges of both sides have one order, so exactly one of the two is the later one.
        self.bell.asleep.swap(true, Ordering::Relaxed);
        // Pairs with the fence in `InboxSender::send`.
        fence(Ordering::SeqCst);
        if self.queue.is_empty() {
            // `Notify` keeps a ring that comes between the two steps, even if the future is dropped.
            self.bell.notify.notified().await;
        }
        self.bell.asleep.store(false, Ordering::Relaxed);
    }
}
