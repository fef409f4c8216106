//! The header of a trace, which describes the node and its run.

use intendant_core::{KeyOrder, KeyRange, Layout, LayoutBuilder, UnknownName};
use serde::{Deserialize, Serialize};

/// The version of the format.
pub const VERSION: u32 = 1;

/// The description of the node and the run of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// The node.
    pub node: u16,
    /// Number of nodes of the cluster.
    pub nodes: u16,
    /// A number that the files of one run share.
    pub run: u64,
    /// When the node's clock was 0, in microseconds since 1970; 0 if the run is simulated.
    pub epoch_us: u64,
    /// The keys, range by range, in the order of keys.
    pub ranges: Vec<NamedRange>,
    /// How keys are assigned to their homes, at which they start: the text of a [`intendant_core::KeyOrder`].
    pub key_order: String,
    /// Number of channels of a node.
    pub channels: u16,
    /// Number of shards of a node.
    pub shards: u16,
    /// The seed of the assignment to homes.
    pub layout_seed: u64,
    /// Ranges of keys with a replica at every node throughout the run, each as first key and end.
    pub static_replicas: Vec<[u64; 2]>,
    /// Which keys are traced, in the syntax of [`crate::Filter`].
    pub filter: String,
    /// The technique.
    pub technique: String,
    /// The task.
    pub task: String,
    /// Further settings of the run, for display.
    pub settings: Vec<(String, String)>,
}

/// A range of the keys of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedRange {
    /// Its name.
    pub name: String,
    /// Number of its keys.
    pub keys: u64,
    /// Number of elements of a value.
    pub len: u32,
}

impl Header {
    /// Copies the description of the keys from a layout.
    #[must_use]
    pub fn of_layout(self, layout: &Layout) -> Self {
        let named = |range: &KeyRange| NamedRange {
            name: range.name.clone(),
            keys: range.keys.end - range.keys.start,
            len: range.visible() as u32,
        };
        Self {
            nodes: layout.nodes() as u16,
            ranges: layout.ranges().iter().map(named).collect(),
            key_order: layout.order().to_string(),
            channels: layout.channels() as u16,
            shards: layout.shards() as u16,
            layout_seed: layout.seed(),
            ..self
        }
    }

    /// Returns the layout of the keys, which determines the home of each key.
    ///
    /// # Errors
    /// If the header does not describe a layout. The error text says why.
    pub fn layout(&self) -> Result<Layout, String> {
        let order: KeyOrder = self.key_order.parse().map_err(|error: UnknownName| error.to_string())?;
        let builder = Layout::builder()
            .nodes(self.nodes.into())
            .channels(self.channels.into())
            .shards(self.shards.into())
            .order(order)
            .seed(self.layout_seed);
        let add = |builder: LayoutBuilder, range: &NamedRange| {
            builder.range(&range.name, range.keys, range.len as usize)
        };
        self.ranges.iter().fold(builder, add).build().map_err(|error| error.to_string())
    }

    /// Number of keys of the model.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.ranges.iter().fold(0, |sum, range| sum.saturating_add(range.keys))
    }
}
