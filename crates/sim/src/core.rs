//! A core on which the threads of one or several nodes take turns.
//!
//! A piece of work is a worker's call or step, or a batch of a loader. Pieces take the core in the order in
//! which they begin, and are not interrupted by other pieces. Channels interrupt them at once, as threads do
//! that wake on a busy core, and what a channel does delays the next piece. Channels of several nodes take
//! turns in the order of their inputs. Every nanosecond of work occupies the core once; waking a channel is
//! work.

/// A core.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Core {
    /// Time at which the work so far is done, that of channels included.
    free_ns: u64,
    /// Time at which the work of channels so far is done.
    channels_free_ns: u64,
}

impl Core {
    /// A worker or a loader works for `work_ns`, not before `from_ns`. Returns when it is done.
    pub(crate) fn work(&mut self, from_ns: u64, work_ns: u64) -> u64 {
        self.free_ns = self.free_ns.max(from_ns) + work_ns;
        self.free_ns
    }

    /// The time from which a channel that may begin at `from_ns` has the core.
    pub(crate) fn channel_from(&self, from_ns: u64) -> u64 {
        self.channels_free_ns.max(from_ns)
    }

    /// A channel works for `work_ns`, until `end_ns`.
    pub(crate) fn channel_worked(&mut self, work_ns: u64, end_ns: u64) {
        self.channels_free_ns = self.channels_free_ns.max(end_ns);
        self.free_ns = self.free_ns.max(end_ns.saturating_sub(work_ns)) + work_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_occupies_the_core_once() {
        let mut core = Core::default();
        assert_eq!(core.work(100, 50), 150);
        assert_eq!(core.work(120, 50), 200, "after the piece that began before it");
        // A channel interrupts; the next piece is late by its work.
        assert_eq!(core.channel_from(130), 130);
        core.channel_worked(10, 140);
        assert_eq!(core.work(200, 50), 260);
        // Another channel waits for the first one, not for workers.
        assert_eq!(core.channel_from(135), 140);
        core.channel_worked(20, 160);
        assert_eq!(core.work(0, 0), 280);
        // An idle core is at once available.
        core.channel_worked(5, 1_005);
        assert_eq!(core.work(1_000, 10), 1_015);
    }
}
