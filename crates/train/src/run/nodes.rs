//! What cuts need of the nodes of a run.

use super::parameters::{Parameters, Part};
use crate::error::TrainError;
use intendant_core::Element;

/// The nodes, as one of their workers sees them.
pub(crate) trait Nodes<E: Element> {
    /// Whether a worker can change what another node copies. If not, it goes on when its own node has copied.
    const SHARES: bool;

    /// Waits for all workers; returns the payloads of all of them, in the order of (rank, worker).
    fn gather(&mut self, name: &str, payload: Vec<u8>) -> Result<Vec<Vec<u8>>, TrainError>;

    /// Waits for all workers, until no change of a value is in flight.
    fn rest(&mut self) -> Result<(), TrainError>;

    /// Streams the values that this node owns.
    fn copy(&mut self, part: &mut Part<'_, E>) -> Result<(), TrainError>;
}

impl<E: Element, P: Parameters<E>> Nodes<E> for P {
    const SHARES: bool = true;

    fn gather(&mut self, name: &str, payload: Vec<u8>) -> Result<Vec<Vec<u8>>, TrainError> {
        Parameters::gather(self, name, payload)
    }

    fn rest(&mut self) -> Result<(), TrainError> {
        self.flush()?;
        self.quiesce()
    }

    fn copy(&mut self, part: &mut Part<'_, E>) -> Result<(), TrainError> {
        self.snapshot_of_node(part)
    }
}
