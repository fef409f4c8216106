//! A connection keeps order. Protocols rely on it, so the simulator checks itself.

use super::Finding;

/// Frames are numbered per connection.
pub(crate) struct Fifo {
    sent: Vec<u64>,
    arrived: Vec<u64>,
}

impl Fifo {
    pub(crate) fn new(links: usize) -> Self {
        Self { sent: vec![0; links], arrived: vec![0; links] }
    }

    /// The number of the next frame of a connection.
    pub(crate) fn sent(&mut self, link: usize) -> u64 {
        self.sent[link] += 1;
        self.sent[link]
    }

    /// A frame arrives.
    pub(crate) fn arrived(&mut self, link: usize, number: u64) -> Result<(), Finding> {
        self.arrived[link] += 1;
        let expected = self.arrived[link];
        if number == expected {
            return Ok(());
        }
        Err(("fifo", format!("frame {number} of connection {link} arrives as number {expected}")))
    }
}
