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

/// The expected number of batches that contain something, if `uses` of the examples contain it: the average
/// over all orders of `examples` examples, divided into batches like those of [`EpochOrder`].
///
/// # Panics
/// If `batch` is 0, or there are more uses than examples.
#[must_use]
pub fn expected_batches(examples: u64, batch: u64, uses: u64) -> f64 {
    assert!(batch > 0, "batches need at least one example");
    assert!(uses <= examples, "{uses} uses in {examples} examples");
    if uses <= 1 {
        return uses as f64;
    }
    // A batch of `size` is a random choice of the examples. The probability that it misses all uses equals
    // the probability that `uses` random examples miss the batch. The shorter product is computed.
    let hit = |size: u64| {
        let (few, many) = (uses.min(size), uses.max(size));
        // By logarithms, because the probability of a hit may be too small to subtract it from one.
        let missed = |i: u64| (-(many as f64) / (examples - i) as f64).max(-1.0).ln_1p();
        -(0..few).map(missed).sum::<f64>().exp_m1()
    };
    let rest = hit(examples % batch);
    if examples < batch { rest } else { (examples / batch) as f64 * hit(batch) + rest }
}
