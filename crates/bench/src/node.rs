//! The node that is measured.

use crate::args::{Access, Mode};
use crate::error::BenchError;
use crate::settings::Settings;
use crate::sync;
use intendant::{Element, Layout, LocalAccess, Node, NodeConfig};
use std::sync::Arc;

/// Its configuration: all values are ones.
pub(crate) fn config<E: Element>(settings: &Settings) -> Result<NodeConfig<E>, BenchError> {
    let layout = Layout::builder().range("value", settings.keys, settings.len).build()?;
    let mut config = NodeConfig::<E>::new(layout, Arc::new(|_, value| value.fill(E::ONE)));
    config.cluster.technique = settings.technique;
    config.workers = settings.threads;
    if settings.access == Access::Queue {
        config.cluster.access = LocalAccess::Queue;
    }
    config.transport = settings.transport;
    config.windows = settings.windows;
    if settings.mode == Mode::Sync {
        sync::configure(&mut config);
    }
    Ok(config)
}

/// A cluster of that node alone.
pub(crate) fn alone<E: Element>(settings: &Settings) -> Result<Node<E>, BenchError> {
    Ok(Node::start_alone(config(settings)?)?)
}
