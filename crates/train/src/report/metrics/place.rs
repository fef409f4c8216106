//! Where the nodes of a run serve their metrics.

use serde::{Deserialize, Serialize};

/// Where a node serves its metrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Host and port.
    pub(crate) address: String,
    /// The machine on which alone the address leads there.
    pub(crate) only_on: Option<String>,
}

impl Place {
    /// The address, if it leads to the node from the machine `host`.
    pub(crate) fn reached_from(&self, host: &str) -> Option<String> {
        let reaches = self.only_on.as_ref().is_none_or(|only| only == host);
        reaches.then(|| self.address.clone())
    }
}
