//! A FIFO queue with delays between two parties: connections, inboxes, completion queues.

use std::collections::VecDeque;

/// Items in flight from one party to another. Items arrive in the order in which they were sent, even if a
/// later item draws a shorter delay.
#[derive(Debug)]
pub(crate) struct Lane<T> {
    items: VecDeque<T>,
    last_due_ns: u64,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self { items: VecDeque::new(), last_due_ns: 0 }
    }
}

impl<T> Lane<T> {
    /// Sends `item`. It arrives at `at_ns`, or with the item before it if that arrives later. Returns the
    /// arrival time.
    pub(crate) fn send(&mut self, item: T, at_ns: u64) -> u64 {
        self.items.push_back(item);
        self.last_due_ns = self.last_due_ns.max(at_ns);
        self.last_due_ns
    }

    /// Arrival time of the last item sent so far.
    pub(crate) fn last_due_ns(&self) -> u64 {
        self.last_due_ns
    }

    /// Removes the item that arrives now.
    pub(crate) fn arrive(&mut self) -> Option<T> {
        self.items.pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }
}
