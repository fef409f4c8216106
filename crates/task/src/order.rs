//! The order of examples.

use intendant_core::random::{Permutation, stream};

/// The global permutation of the examples in an epoch: a function of seed and epoch, the same on every node.
#[derive(Clone, Copy, Debug)]
pub struct EpochOrder {
    permutation: Permutation,
    examples: u64,
    batch: u64,
}

impl EpochOrder {
    /// The order of `examples` examples in batches of `batch`.
    ///
    /// # Panics
    /// If `batch` is 0.
    #[must_use]
    pub fn new(seed: u64, epoch: u32, examples: u64, batch: u64) -> Self {
        assert!(batch > 0, "batches need at least one example");
        Self { permutation: Permutation::new(examples, stream(seed, &[u64::from(epoch)])), examples, batch }
    }

    /// Number of batches; the last one may be shorter.
    #[must_use]
    pub fn batches(&self) -> u64 {
        self.examples.div_ceil(self.batch)
    }

    /// The examples of a batch.
    pub fn batch(&self, index: u64) -> impl Iterator<Item = u64> + use<> {
        let (permutation, start) = (self.permutation, index * self.batch);
        (start..(start + self.batch).min(self.examples)).map(move |at| permutation.apply(at))
    }
}
