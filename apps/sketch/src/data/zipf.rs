//! A generated stream with known counts: items that follow Zipf's law, in a random order.

use intendant_core::random::{Permutation, stream};

/// A stream of the integers from 0 on; the frequency of the `r`-th is proportional to `(r + 1)^-exponent`.
/// The same specification gives the same stream: it is a data set, and independent of the seed of a run.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// Where the occurrences of each integer end, if all items are sorted.
    ends: Vec<u64>,
    order: Permutation,
    exponent: f64,
}

/// The default numbers of items and of distinct items, and the default exponent.
const DEFAULT: (u64, u64, f64) = (1_000_000, 50_000, 1.1);

/// Maximum number of items: their number times the sum of the law is exact enough.
const ITEMS_MAX: u64 = 1 << 40;

/// Maximum number of distinct items, which are in memory.
const DISTINCT_MAX: u64 = 1 << 27;

/// The stream of random numbers of the order.
const ORDER: u64 = 0x7a69_7066_2d73_6b65;

impl Zipf {
    /// The stream with this name: `zipf`, `zipf:ITEMSxDISTINCT` or `zipf:ITEMSxDISTINCTxEXPONENT`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        if name == "zipf" {
            return Some(Self::new(DEFAULT.0, DEFAULT.1, DEFAULT.2));
        }
        let mut numbers = name.strip_prefix("zipf:")?.split('x');
        let items = numbers.next()?.parse().ok().filter(|items| (1..=ITEMS_MAX).contains(items))?;
        let distinct = numbers.next()?.parse().ok().filter(|all| (1..=DISTINCT_MAX).contains(all))?;
        let exponent = numbers.next().map_or(Some(DEFAULT.2), |text| text.parse().ok());
        let exponent = exponent.filter(|exponent| (0.0..=10.0).contains(exponent))?;
        numbers.next().is_none().then(|| Self::new(items, distinct, exponent))
    }

    fn new(items: u64, distinct: u64, exponent: f64) -> Self {
        let weight = |rank: u64| ((rank + 1) as f64).powf(-exponent);
        let all: f64 = (0..distinct).map(weight).sum();
        let mut sum = 0.0;
        let ends = (0..distinct).map(|rank| {
            sum += weight(rank);
            // Counts are differences of rounded partial sums, so that they add up to the total.
            if rank + 1 == distinct {
                items
            } else {
                ((items as f64 * (sum / all)).round() as u64).min(items)
            }
        });
        let ends = ends.collect();
        Self { ends, order: Permutation::new(items, stream(ORDER, &[items, distinct])), exponent }
    }

    /// Items of the stream.
    #[must_use]
    pub fn items(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The item at a position.
    #[must_use]
    pub fn item(&self, at: u64) -> u64 {
        let sorted = self.order.apply(at);
        self.ends.partition_point(|end| *end <= sorted) as u64
    }

    /// How often each integer occurs, 0 included.
    pub fn counts(&self) -> impl Iterator<Item = u64> + '_ {
        let mut start = 0;
        self.ends.iter().map(move |end| end - std::mem::replace(&mut start, *end))
    }

    pub(super) fn digest(&self) -> u64 {
        stream(ORDER, &[self.items(), self.ends.len() as u64, self.exponent.to_bits()])
    }
}
