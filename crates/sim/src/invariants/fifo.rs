//! Order of connections: frames arrive in the order in which they were sent. The protocol relies on it, so
//! this checks the simulator itself.

use super::finding::Finding;

/// Numbers of frames sent and arrived, per connection.
pub(crate) struct Fifo {
    sent: Vec<u64>,
    arrived: Vec<u64>,
}

impl Fifo {
    pub(crate) fn new(links: usize) -> Self {
        Self { sent: vec![0; links], arrived: vec![0; links] }
    }

    /// Assigns the number of the next frame of a connection.
    pub(crate) fn sent(&mut self, link: usize) -> u64 {
        self.sent[link] += 1;
        self.sent[link]
    }

    /// Checks the number of an arriving frame.
    pub(crate) fn arrived(&mut self, link: usize, number: u64) -> Result<(), Finding> {
        self.arrived[link] += 1;
        let expected = self.arrived[link];
        if number == expected {
            return Ok(());
        }
        Err(("fifo", format!("frame {number} of connection {link} arrives as number {expected}")))
    }
}
