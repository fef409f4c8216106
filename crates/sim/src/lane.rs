//! A queue between two parties that keeps order: connections, inboxes, completion queues.

use std::collections::VecDeque;

/// Things under way from one party to another. What was sent first arrives first, however the delays fall.
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
    /// Sends `item`, to arrive at `at_ns` or right after what was sent before. Returns when it arrives.
    pub(crate) fn send(&mut self, item: T, at_ns: u64) -> u64 {
        self.items.push_back(item);
        self.last_due_ns = self.last_due_ns.max(at_ns);
        self.last_due_ns
    }

    /// When the last item sent so far arrives.
    pub(crate) fn last_due_ns(&self) -> u64 {
        self.last_due_ns
    }

    /// The item that arrives now.
    pub(crate) fn arrive(&mut self) -> Option<T> {
        self.items.pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }
}
