//! Latent Dirichlet allocation as a training task: the keys of a batch, and how its tokens get topics.
//!
//! A batch is some documents. Its tokens are visited one after the other, in place: the row of a word is lent
//! for its tokens in a document. The totals are copied when the batch begins, and their changes are added
//! when it ends. All changes are whole numbers that are added, so that counts are exact everywhere.

use crate::batch::{Batch, TOTALS};
use crate::config::Config;
use crate::course::{batches, documents, of_worker};
use crate::data::Corpus;
use crate::evaluate::{Found, Mixtures, Quality};
use crate::frequency::frequencies;
use crate::layout::{BLOCK, Layout};
use crate::sampler::{Counts, Priors};
use crate::summary::Summary;
use intendant_core::random::stream;
use intendant_core::{Element, ElementType, Initialiser, Key, lock};
use intendant_formats::NameIndex;
use intendant_sampling::Sampler;
use intendant_task::{
    BatchAt, Better, Cost, Criterion, Evaluation, Frequency, Model, Partition, Prepared, Ranking, Rows,
    Split, StepReport, Subepoch, Task, equal_share,
};
use intendant_train::SettingError;
use pulp::{Arch, Simd, WithSimd};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::sync::{Arc, Mutex};

/// Why documents cannot be trained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LdaError {
    /// A hyperparameter is out of its limits.
    #[error("--{0}")]
    Setting(#[from] SettingError),
    /// Counts would not be exact.
    #[error(
        "there are {tokens} tokens, but {float} counts exactly up to {} only; use --float f64",
        counts_max(*float)
    )]
    Tokens {
        /// Tokens of the training documents.
        tokens: u64,
        /// The element type.
        float: ElementType,
    },
}

/// The largest number up to which this type represents all whole numbers.
const fn counts_max(float: ElementType) -> u64 {
    match float {
        ElementType::F32 => 1 << f32::MANTISSA_DIGITS,
        ElementType::F64 => 1 << f64::MANTISSA_DIGITS,
    }
}

/// The counts of a trained model: for each word, its tokens in each topic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WordCounts(pub Vec<f64>);

/// Latent Dirichlet allocation by collapsed Gibbs sampling.
pub struct Lda<E> {
    corpus: Arc<Corpus>,
    config: Config,
    layout: Arc<Layout>,
    model: Model<E>,
    /// Hashes of the training documents.
    digests: Vec<u64>,
    /// Finds the words of batches.
    ranking: Ranking,
    priors: Priors<E>,
    found: Arc<Mutex<Found>>,
    /// Whether the caller asks for the topics of the test documents.
    mixes: bool,
}

/// A worker's buffers.
#[derive(Clone, Debug)]
pub struct Scratch<E> {
    arch: Arch,
    counts: Counts<E>,
    /// The totals as they were when the batch began.
    before: Vec<E>,
    /// The topics of the document's tokens, now and before.
    topics: Vec<u32>,
    old: Vec<u32>,
}

/// Names of the uses of the seed.
const ORDER: u64 = 1;
const DRAWS: u64 = 2;

impl<E: Element> Lda<E> {
    /// A task that trains on `corpus`; if it has nothing to train on, a task that tests the model with these
    /// counts.
    ///
    /// # Errors
    /// If a hyperparameter is out of its limits, or there are more tokens than the element type can count.
    ///
    /// # Panics
    /// If the numbers of counts, words and topics do not match.
    pub fn new(corpus: Arc<Corpus>, config: Config, counts: Option<WordCounts>) -> Result<Self, LdaError> {
        config.check()?;
        let (training, words, topics) = (corpus.training(), corpus.words().len(), config.topics);
        let tokens = training.tokens();
        if tokens > counts_max(E::TYPE) {
            return Err(LdaError::Tokens { tokens, float: E::TYPE });
        }
        let layout = Arc::new(Layout::new(words, topics, training));
        let init: Initialiser<E> = match counts {
            None => Arc::new(|_, value| value.fill(E::ZERO)),
            Some(WordCounts(counts)) => {
                assert_eq!(counts.len(), words * topics, "a count for each word and topic");
                let mut totals = vec![0.0; topics];
                counts.chunks_exact(topics).for_each(|of_word| {
                    totals.iter_mut().zip(of_word).for_each(|(total, count)| *total += count);
                });
                let all = [counts, totals].concat();
                Arc::new(move |key, value| {
                    let counts = &all[key.index() * topics..][..topics];
                    value.iter_mut().zip(counts).for_each(|(x, count)| *x = E::from_f64(*count));
                })
            }
        };
        let model = Model { ranges: layout.ranges(), init, sampler: Sampler::default() };
        let digests = (0..training.len()).map(|document| training.digest_of(document)).collect();
        let priors = Priors::new(config.alpha, config.eta, words);
        let ranking = Ranking::new(words);
        let (found, mixes) = (Arc::default(), false);
        Ok(Self { corpus, config, layout, model, digests, ranking, priors, found, mixes })
    }

    /// Requests the proportions of topics in the test documents: [`Lda::take_mixtures`]. The first worker
    /// then evaluates all of them.
    #[must_use]
    pub fn mixing(mut self) -> Self {
        self.mixes = true;
        self
    }

    /// The documents.
    pub fn corpus(&self) -> &Corpus {
        &self.corpus
    }

    /// The hyperparameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The topics after the training. `None` before the last evaluation, and in processes without the first
    /// worker.
    pub fn take_summary(&self) -> Option<Summary> {
        lock(&self.found).summary.take()
    }

    /// The proportions of topics in the test documents after the training, if they were requested. `None` as
    /// in [`Lda::take_summary`].
    pub fn take_mixtures(&self) -> Option<Mixtures> {
        lock(&self.found).mixtures.take()
    }

    #[cfg(test)]
    pub(crate) fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }
}

impl<E: Element> Task for Lda<E> {
    type Element = E;
    type Batch = Batch;
    type Scratch = Scratch<E>;

    /// Workers that do not see each other's first assignments find few topics likely, so that the loss of the
    /// first batches is too low.
    fn loss_falls(&self) -> bool {
        false
    }

    fn name(&self) -> &'static str {
        "lda"
    }

    fn model(&self) -> &Model<E> {
        &self.model
    }

    fn digest(&self) -> u64 {
        self.corpus.digest()
    }

    fn batches(&self, _subepoch: Subepoch, partition: Partition) -> u64 {
        batches(&of_worker(self.corpus.training(), partition), self.config.batch)
    }

    fn prepare(&self, at: BatchAt) -> Prepared<Batch> {
        let epoch = at.subepoch.epoch;
        let own = of_worker(self.corpus.training(), at.partition);
        let order = (stream(self.config.seed, &[ORDER]), epoch);
        let chosen: Vec<u32> = documents(&own, self.config.batch, order, at.index).collect();
        let digest = chosen.iter().map(|document| stream(self.digests[*document as usize], &[epoch.into()]));
        let digest = digest.fold(0u64, u64::wrapping_add);
        let (batch, keys) = Batch::new(self.corpus.training(), &self.layout, &self.ranking, &chosen, epoch);
        // Assignments are at this node, and all nodes want the totals, so only words are localized.
        let near = keys.iter().copied().filter(|key| *key < self.layout.totals()).collect();
        Prepared { batch, keys, near, samples: Vec::new(), handles: Vec::new(), digest }
    }

    fn residents(&self, partition: Partition) -> Vec<Key> {
        let own = of_worker(self.corpus.training(), partition);
        own.flat_map(|document| self.layout.blocks(document)).map(Key).collect()
    }

    fn keys_named(&self, name: &str) -> Vec<Key> {
        let words = self.corpus.words();
        let word = NameIndex::of(words).find(words, name).map(|word| self.layout.word(word));
        word.into_iter().collect()
    }

    fn frequencies(&self, partition: Partition) -> Option<Vec<Frequency>> {
        Some(frequencies(self.corpus.training(), &self.layout, self.config.batch, partition))
    }

    fn scratch(&self) -> Scratch<E> {
        Scratch {
            arch: Arch::new(),
            counts: Counts::new(self.priors, self.config.topics),
            before: vec![E::ZERO; self.config.topics],
            topics: Vec::new(),
            old: Vec::new(),
        }
    }

    fn trains_in_place(&self) -> bool {
        true
    }

    fn train(
        &self,
        scratch: &mut Scratch<E>,
        batch: &Batch,
        _keys: &[Key],
        rows: &mut dyn Rows<E>,
    ) -> StepReport {
        let arch = scratch.arch;
        let (loss, tokens) = arch.dispatch(Step { task: self, batch, rows, scratch });
        // An addition and a multiplication per topic, and the sum of the weights.
        StepReport { loss, examples: tokens, cost: Cost(2 * tokens * self.config.topics as u64) }
    }

    fn criterion(&self) -> Option<Criterion> {
        let is_tested = self.corpus.test().tokens() > 0;
        is_tested.then_some(Criterion { metric: "ln perplexity", better: Better::Lower })
    }

    fn evaluation(&self, split: Split, partition: Partition) -> Option<Box<dyn Evaluation<E>>> {
        let is_test = split == Split::Test;
        let documents = self.corpus.test().len() as u64;
        if documents == 0 && !is_test {
            return None;
        }
        let mixes = is_test && self.mixes;
        let own = match (mixes, partition.worker) {
            (false, worker) => equal_share(documents, worker.into(), partition.workers.into()),
            (true, 0) => 0..documents,
            (true, _) => 0..0,
        };
        let own = own.start as usize..own.end as usize;
        let found = (is_test && partition.worker == 0).then(|| Arc::clone(&self.found));
        let of_model = (Arc::clone(&self.corpus), Arc::clone(&self.layout), self.config.clone());
        Some(Box::new(Quality::new(of_model, own, found, mixes)))
    }
}

/// How many words ahead rows are prefetched.
const AHEAD: usize = 4;

/// The arithmetic of a batch, compiled for several generations of processors. Returns the sum of the losses,
/// and the number of tokens.
struct Step<'a, E> {
    task: &'a Lda<E>,
    batch: &'a Batch,
    rows: &'a mut dyn Rows<E>,
    scratch: &'a mut Scratch<E>,
}

impl<E: Element> WithSimd for Step<'_, E> {
    type Output = (f64, u64);

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> (f64, u64) {
        let Self { task, batch, rows, scratch } = self;
        let Scratch { counts, before, topics, old, .. } = scratch;
        let (training, config) = (task.corpus.training(), &task.config);
        before.copy_from_slice(&rows.row(TOTALS));
        counts.totals_mut().copy_from_slice(before);
        let (mut loss, mut tokens, mut at) = (0.0f64, 0, 0);
        batch.words.iter().take(AHEAD).for_each(|word| rows.prefetch(*word as usize));
        for part in &batch.parts {
            let document = part.document as usize;
            let length = training.tokens_of(document) as usize;
            topics.clear();
            for block in 0..length.div_ceil(BLOCK) {
                let row = rows.row(part.blocks as usize + block);
                topics.extend(
                    row[..BLOCK.min(length - topics.len())].iter().map(|topic| topic.to_f64() as u32),
                );
            }
            old.clone_from(topics);
            counts.begin(topics);
            let name = [DRAWS, batch.epoch.into(), document as u64];
            let mut random = Pcg64Mcg::seed_from_u64(stream(config.seed, &name));
            // Number of tokens of the document that have a topic.
            let mut assigned = topics.iter().filter(|topic| **topic > 0).count();
            let concentration = config.alpha * config.topics as f64;
            let mut token = 0;
            for entry in training.get(document) {
                if let Some(ahead) = batch.words.get(at + AHEAD) {
                    rows.prefetch(*ahead as usize);
                }
                let mut row = rows.row(batch.words[at] as usize);
                at += 1;
                for topic in &mut topics[token..token + entry.count as usize] {
                    assigned -= usize::from(*topic > 0);
                    let sum;
                    (*topic, sum) = counts.draw(&mut row, *topic, random.random());
                    loss -= (sum / (assigned as f64 + concentration)).ln();
                    assigned += 1;
                }
                token += entry.count as usize;
            }
            tokens += length as u64;
            for block in 0..length.div_ceil(BLOCK) {
                let start = block * BLOCK;
                let new = &topics[start..length.min(start + BLOCK)];
                let changes = new.iter().zip(&old[start..]);
                let mut row = rows.row(part.blocks as usize + block);
                for (x, (new, old)) in row.iter_mut().zip(changes) {
                    *x += E::from_f64(f64::from(*new) - f64::from(*old));
                }
            }
        }
        // Other workers may have changed the totals meanwhile.
        let changes = counts.totals().iter().zip(&*before);
        for (total, (now, before)) in rows.row(TOTALS).iter_mut().zip(changes) {
            *total += *now - *before;
        }
        (loss, tokens)
    }
}

#[cfg(test)]
#[path = "task_tests.rs"]
pub(crate) mod tests;
