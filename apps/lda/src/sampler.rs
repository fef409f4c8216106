//! The arithmetic of collapsed Gibbs sampling: one token gets a topic, given the topics of all others.
//!
//! Topic k is drawn in proportion to (n_dk + α) (n_wk + η) / (n_k + V η), with the counts of document d, word
//! w and all words, without the token itself [Griffiths 2004]. The *factor* of a topic is this expression
//! without the counts of the word. Factors change for two topics per token, so that a token costs an addition
//! and a multiplication per topic.
//!
//! If several workers train, counts of words and totals may be outdated: a count below zero is treated as
//! zero.

use intendant_core::Element;

/// Number of topics whose weights are added up together. The order of sums does not depend on the processor.
const CHUNK: usize = 16;

/// Concentrations, in the element type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Priors<E> {
    alpha: E,
    eta: E,
    /// η times the number of words.
    eta_words: E,
}

impl<E: Element> Priors<E> {
    pub(crate) fn new(alpha: f64, eta: f64, words: usize) -> Self {
        let eta_words = E::from_f64(eta * words as f64);
        Self { alpha: E::from_f64(alpha), eta: E::from_f64(eta), eta_words }
    }

    /// The factor of a topic, from the counts of the document and of all words.
    #[inline(always)]
    fn factor(&self, of_document: E, total: E) -> E {
        (of_document + self.alpha) / (positive(total) + self.eta_words)
    }
}

#[inline(always)]
fn positive<E: Element>(count: E) -> E {
    if count > E::ZERO { count } else { E::ZERO }
}

/// The counts that a worker holds while it samples.
#[derive(Clone, Debug)]
pub(crate) struct Counts<E> {
    priors: Priors<E>,
    /// Tokens of each topic: as they were when the batch began, plus this worker's changes since.
    totals: Vec<E>,
    /// Tokens of the current document in each topic.
    document: Vec<E>,
    factors: Vec<E>,
    weights: Vec<E>,
    /// Cumulative sums of the weights up to the end of each chunk.
    sums: Vec<f64>,
}

impl<E: Element> Counts<E> {
    pub(crate) fn new(priors: Priors<E>, topics: usize) -> Self {
        let zeros = vec![E::ZERO; topics];
        Self {
            priors,
            totals: zeros.clone(),
            document: zeros.clone(),
            factors: zeros.clone(),
            weights: zeros,
            sums: vec![0.0; topics.div_ceil(CHUNK)],
        }
    }

    /// The tokens of each topic.
    pub(crate) fn totals(&self) -> &[E] {
        &self.totals
    }

    /// The same, to set them when a batch begins.
    pub(crate) fn totals_mut(&mut self) -> &mut [E] {
        &mut self.totals
    }

    /// Begins a document whose tokens have these topics (from 1; 0 means none).
    #[inline(always)]
    pub(crate) fn begin(&mut self, topics: &[u32]) {
        self.document.fill(E::ZERO);
        for topic in topics.iter().filter_map(|topic| topic.checked_sub(1)) {
            self.document[topic as usize] += E::ONE;
        }
        let counts = self.document.iter().zip(&self.totals);
        for (factor, (of_document, total)) in self.factors.iter_mut().zip(counts) {
            *factor = self.priors.factor(*of_document, *total);
        }
    }

    #[inline(always)]
    fn change(&mut self, topic: usize, row: &mut [E], by: E) {
        row[topic] += by;
        self.document[topic] += by;
        self.totals[topic] += by;
        self.factors[topic] = self.priors.factor(self.document[topic], self.totals[topic]);
    }

    /// Draws the topic of a token of the current document: `row` has the counts of its word, which change
    /// accordingly, and `unit` is a number from 0 to below 1. Returns the topic, and the sum of all weights:
    /// n_d + K α times the probability of the word, given all other tokens.
    ///
    /// Topics are numbered from 1. A token without a topic (0) gets a uniformly random one, whatever the
    /// counts: if first topics were drawn from few counts, workers that do not see each other's counts would
    /// begin with different topics.
    ///
    /// # Panics
    /// If there is no such topic, or the row has the wrong number of topics.
    #[inline(always)]
    pub(crate) fn draw(&mut self, row: &mut [E], topic: u32, unit: f64) -> (u32, f64) {
        assert_eq!(row.len(), self.totals.len(), "topics of a row");
        let old = topic.checked_sub(1);
        if let Some(old) = old {
            self.change(old as usize, row, -E::ONE);
        }
        let sum = self.weigh(row);
        let new = match old {
            Some(_) => self.choose(unit * sum),
            None => (unit * row.len() as f64) as usize,
        };
        self.change(new, row, E::ONE);
        (new as u32 + 1, sum)
    }

    /// Computes all weights and their sums.
    #[inline(always)]
    fn weigh(&mut self, row: &[E]) -> f64 {
        let eta = self.priors.eta;
        let mut sum = 0.0;
        let whole = row.len() / CHUNK * CHUNK;
        let (rows, rest) = row.split_at(whole);
        let (factors, rest_factors) = self.factors.split_at(whole);
        let (weights, rest_weights) = self.weights.split_at_mut(whole);
        let chunks = rows.chunks_exact(CHUNK).zip(factors.chunks_exact(CHUNK));
        let places = weights.chunks_exact_mut(CHUNK).zip(&mut self.sums);
        for ((row, factors), (weights, place)) in chunks.zip(places) {
            for i in 0..CHUNK {
                weights[i] = (positive(row[i]) + eta) * factors[i];
            }
            // In pairs, so that the processor computes several sums at once.
            let mut sums = [E::ZERO; CHUNK / 2];
            for i in 0..CHUNK / 2 {
                sums[i] = weights[i] + weights[i + CHUNK / 2];
            }
            let mut half = CHUNK / 4;
            while half > 0 {
                for i in 0..half {
                    sums[i] += sums[i + half];
                }
                half /= 2;
            }
            sum += sums[0].to_f64();
            *place = sum;
        }
        if !rest.is_empty() {
            for ((weight, count), factor) in rest_weights.iter_mut().zip(rest).zip(rest_factors) {
                *weight = (positive(*count) + eta) * *factor;
                sum += weight.to_f64();
            }
            if let Some(last) = self.sums.last_mut() {
                *last = sum;
            }
        }
        sum
    }

    /// The topic whose weight contains `at`, if the weights are laid side by side from 0.
    #[inline(always)]
    fn choose(&self, at: f64) -> usize {
        let chunk = self.sums.iter().position(|sum| at < *sum).unwrap_or(self.sums.len() - 1);
        let start = chunk * CHUNK;
        let weights = &self.weights[start..(start + CHUNK).min(self.weights.len())];
        let mut left = at - chunk.checked_sub(1).map_or(0.0, |before| self.sums[before]);
        for (place, weight) in weights.iter().enumerate() {
            left -= weight.to_f64();
            if left < 0.0 {
                return start + place;
            }
        }
        // The sum of a chunk was rounded in a different order.
        start + weights.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The weights, by their formula.
    fn weights(
        row: &[f64],
        document: &[f64],
        totals: &[f64],
        (alpha, eta): (f64, f64),
        words: usize,
    ) -> Vec<f64> {
        let weight = |k: usize| {
            (document[k] + alpha) * (row[k].max(0.0) + eta) / (totals[k].max(0.0) + eta * words as f64)
        };
        (0..row.len()).map(weight).collect()
    }

    proptest! {
        /// Any number of topics, with counts of which some are outdated.
        #[test]
        fn a_topic_is_where_the_number_lies(
            counts in proptest::collection::vec((-2i32..40, 0u32..9, -3i32..500), 1..70),
            unit in 0.0f64..1.0,
            old in 0usize..70,
        ) {
            let topics = counts.len();
            let mut row: Vec<f64> = counts.iter().map(|c| f64::from(c.0)).collect();
            let mut totals: Vec<f64> = counts.iter().map(|c| f64::from(c.2)).collect();
            let of_topic = |(k, c): (u32, &(i32, u32, i32))| std::iter::repeat_n(k, c.1 as usize);
            let all: Vec<u32> = (1..).zip(&counts).flat_map(of_topic).collect();
            let mut document: Vec<f64> = counts.iter().map(|c| f64::from(c.1)).collect();
            let mut sampler = Counts::new(Priors::new(0.3, 0.02, 11), topics);
            sampler.totals_mut().copy_from_slice(&totals);
            sampler.begin(&all);
            // A topic of a token of the document, or none.
            let old = (old < topics && counts[old].1 > 0).then_some(old);
            let (mut changed, mark) = (row.clone(), old.map_or(0, |old| old as u32 + 1));
            let (new, sum) = sampler.draw(&mut changed, mark, unit);
            if let Some(old) = old {
                row[old] -= 1.0;
                totals[old] -= 1.0;
                document[old] -= 1.0;
            }
            let weights = weights(&row, &document, &totals, (0.3, 0.02), 11);
            let expected: f64 = weights.iter().sum();
            prop_assert!((sum / expected - 1.0).abs() < 1e-12, "{} and {}", sum, expected);
            let new = new as usize - 1;
            if old.is_some() {
                let before: f64 = weights[..new].iter().sum();
                let within = before - 1e-9 * expected..=before + weights[new] + 1e-9 * expected;
                prop_assert!(within.contains(&(unit * expected)));
            } else {
                prop_assert_eq!(new, (unit * topics as f64) as usize);
            }
            row[new] += 1.0;
            totals[new] += 1.0;
            prop_assert_eq!(changed, row);
            prop_assert_eq!(sampler.totals(), &totals[..]);
        }
    }
}
