//! Word vectors as a training task: the keys of a batch, and the updates of their values.
//!
//! Keys: the words' input vectors from 0, then their output vectors, each with the most frequent word first.

use crate::batch::Batch;
use crate::config::Config;
use crate::course::{Course, of_worker, parts};
use crate::data::Corpus;
use crate::draw::{Drawn, Keep};
use crate::evaluate::{HeldOut, Quality, Tests};
use crate::frequency::frequencies;
use crate::model::{Optimizer, Stepper, initialise};
use crate::train::Scratch;
use intendant_core::random::stream;
use intendant_core::{Combine, Element, Key, lock};
use intendant_sampling::{Conformity, Distribution, DistributionId, Sampler};
use intendant_task::{
    BatchAt, Better, Cost, Criterion, Evaluation, Frequency, Model, ModelRange, Partition, Prepared, Rows,
    SampleRequest, Split, StepReport, Subepoch, Task,
};
use intendant_train::SettingError;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, OnceLock};

/// Skip-gram with negative sampling.
pub struct Word2vec<E> {
    corpus: Arc<Corpus>,
    config: Config,
    tests: Tests,
    model: Model<E>,
    negatives: DistributionId,
    /// The distribution of the negatives, for the evaluation.
    distribution: Distribution,
    keep: Keep,
    /// Batches of an epoch, of all workers together.
    batches: u64,
    /// The courses of the latest epochs, because a loader may already be in the next epoch.
    courses: Mutex<BTreeMap<u32, Arc<Course>>>,
    /// The draws of the block that each worker trains; the batches of a block follow each other.
    blocks: Mutex<BTreeMap<u32, DrawnBlock>>,
    /// Pairs of all held-out blocks.
    held_out_pairs: OnceLock<u64>,
}

/// A block, the epoch, and the draws.
struct DrawnBlock {
    epoch: u32,
    block: u32,
    drawn: Arc<Drawn>,
}

/// Names of the uses of the seed.
const INITIAL: u64 = 1;
const ORDER: u64 = 2;
const DRAWS: u64 = 3;
const NEGATIVES: u64 = 4;

/// The draws of held-out text do not depend on the seed of a run, so that runs can be compared.
const HELD_OUT: u64 = 0x7465_7374_2074_6578;

/// Number of courses that are kept: workers of one process are at most one epoch apart, and so are their
/// loaders.
const COURSES_MAX: usize = 3;

impl<E: Element> Word2vec<E> {
    /// The task of learning the word vectors of `corpus`, and of testing them.
    ///
    /// # Errors
    /// If a hyperparameter is out of its limits.
    pub fn new(corpus: Arc<Corpus>, config: Config, tests: Tests) -> Result<Self, SettingError> {
        config.check()?;
        let vocabulary = corpus.vocabulary();
        let words = vocabulary.len() as u64;
        let distribution = Distribution::unigram(Key(words), vocabulary.counts(), config.power);
        let distribution = distribution.map_err(|error| {
            let allowed = format!("one that gives the words of this text weights: {error}");
            SettingError::new("power", config.power, allowed)
        })?;
        let mut sampler = Sampler::builder();
        let negatives = sampler.register(distribution.clone(), Conformity::Overall);
        let shape = config.shape();
        let (seed, dim) = (stream(config.seed, &[INITIAL]), config.dim);
        let model = Model {
            ranges: ["input", "output"].map(|name| ModelRange::new(name, words, shape.len())).to_vec(),
            init: Arc::new(move |key, value: &mut [E]| initialise(seed, key, words, dim, value)),
            sampler: sampler.build(),
        };
        let keep = Keep::new(vocabulary.counts().iter().map(|count| config.kept(*count, vocabulary.total())));
        let of_block = |block: &u32| parts(corpus.block_words(*block), config.batch_words);
        let batches = corpus.training().iter().map(of_block).sum();
        Ok(Self {
            tests,
            model,
            negatives,
            distribution,
            keep,
            batches,
            courses: Mutex::default(),
            blocks: Mutex::default(),
            held_out_pairs: OnceLock::new(),
            config,
            corpus,
        })
    }

    /// The text.
    pub fn corpus(&self) -> &Corpus {
        &self.corpus
    }

    /// The hyperparameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether any pair is trained in the first epoch. Reads the text up to the first pair.
    pub fn has_pairs(&self) -> bool {
        self.corpus.training().iter().any(|block| {
            let drawn = self.drawn_of(0, *block);
            drawn.kept().iter().any(|kept| kept.context().len() > 1)
        })
    }

    /// The average share of word occurrences that are not skipped.
    pub fn kept_part(&self) -> f64 {
        let vocabulary = self.corpus.vocabulary();
        let total = vocabulary.total();
        let kept = |count: &u64| *count as f64 / total as f64 * self.config.kept(*count, total);
        vocabulary.counts().iter().map(kept).sum()
    }

    /// The key of the first output vector.
    fn first_output(&self) -> u64 {
        self.corpus.vocabulary().len() as u64
    }

    fn course(&self, epoch: u32) -> Arc<Course> {
        let mut courses = lock(&self.courses);
        if let Some(course) = courses.get(&epoch) {
            return Arc::clone(course);
        }
        let of_block = |block| parts(self.corpus.block_words(block), self.config.batch_words);
        let seed = stream(self.config.seed, &[ORDER]);
        let course = Arc::new(Course::new(seed, epoch, self.corpus.training(), of_block));
        courses.insert(epoch, Arc::clone(&course));
        if courses.len() > COURSES_MAX {
            courses.pop_first();
        }
        course
    }

    /// The draws of a block in an epoch; empty if the block cannot be read.
    fn drawn(&self, epoch: u32, block: u32, worker: u32) -> Arc<Drawn> {
        let is_it = |at: &&DrawnBlock| (at.epoch, at.block) == (epoch, block);
        if let Some(at) = lock(&self.blocks).get(&worker).filter(is_it) {
            return Arc::clone(&at.drawn);
        }
        let drawn = Arc::new(self.drawn_of(epoch, block));
        lock(&self.blocks).insert(worker, DrawnBlock { epoch, block, drawn: Arc::clone(&drawn) });
        drawn
    }

    fn drawn_of(&self, epoch: u32, block: u32) -> Drawn {
        let words = self.corpus.read_or_fail(block);
        let stream = stream(self.config.seed, &[DRAWS, epoch.into(), block.into()]);
        Drawn::new(&words, &self.keep, self.config.window, stream)
    }

    /// The draws of a held-out block.
    fn drawn_held_out(&self, block: u32) -> Drawn {
        let words = self.corpus.read_or_fail(block);
        Drawn::new(&words, &self.keep, self.config.window, stream(HELD_OUT, &[DRAWS, block.into()]))
    }

    fn held_out_pairs(&self) -> u64 {
        let pairs = |block: &u32| {
            let drawn = self.drawn_held_out(*block);
            drawn.kept().iter().map(|kept| kept.context().len() as u64 - 1).sum::<u64>()
        };
        *self.held_out_pairs.get_or_init(|| self.corpus.held_out().iter().map(pairs).sum())
    }

    fn held_out(&self, partition: Partition) -> HeldOut {
        let blocks = self.corpus.held_out().iter();
        let own = blocks.skip(partition.worker as usize).step_by(partition.workers as usize);
        let drawn =
            own.map(|block| (self.drawn_held_out(*block), stream(HELD_OUT, &[NEGATIVES, (*block).into()])));
        HeldOut::new(
            drawn.collect(),
            (self.distribution.clone(), self.config.negatives),
            self.first_output(),
            self.held_out_pairs(),
        )
    }
}

impl<E: Element> Task for Word2vec<E> {
    type Element = E;
    type Batch = Batch;
    type Scratch = Scratch<E>;

    fn name(&self) -> &'static str {
        "word2vec"
    }

    fn model(&self) -> &Model<E> {
        &self.model
    }

    fn combine(&self) -> Combine {
        match self.config.optimizer {
            Optimizer::Sgd => Combine::Sum,
            Optimizer::AdaGrad => Combine::AdaGrad,
        }
    }

    fn digest(&self) -> u64 {
        stream(self.corpus.digest(), &[self.tests.digest()])
    }

    fn batches(&self, _subepoch: Subepoch, partition: Partition) -> u64 {
        let own = of_worker(self.batches, partition);
        (own.end - own.start) * self.config.steps()
    }

    fn keys_named(&self, name: &str) -> Vec<Key> {
        let vocabulary = self.corpus.vocabulary();
        let word = vocabulary.find(name.as_bytes()).map(u64::from);
        word.into_iter().flat_map(|word| [Key(word), Key(vocabulary.len() as u64 + word)]).collect()
    }

    fn portions(&self) -> NonZeroU32 {
        // The steps of a word are one group if its pairs are trained one by one.
        u32::try_from(self.config.steps()).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN)
    }

    fn prepare(&self, at: BatchAt) -> Prepared<Batch> {
        let epoch = at.subepoch.epoch;
        let own = of_worker(self.batches, at.partition);
        let (index, step) = (at.index / self.config.steps(), at.index % self.config.steps());
        let part = self.course(epoch).batch(own.start + index);
        let drawn = self.drawn(epoch, part.block, at.partition.worker);
        if self.corpus.failure().is_some() {
            let (keys, near) = (Vec::new(), Vec::new());
            return Prepared {
                batch: Batch::failed(),
                keys,
                near,
                samples: Vec::new(),
                handles: Vec::new(),
                digest: 0,
            };
        }
        let words = part.words(self.corpus.block_words(part.block));
        let places = drawn.places(words.clone());
        let rate = self.config.rate(epoch, index as f64 / (own.end - own.start) as f64);
        let (first_output, length) = (self.first_output(), words.end - words.start);
        // With separate pairs, the first one counts the word, and names the keys of all pairs of the word for
        // localization.
        let is_first = step == 0;
        let has_pairs = drawn.kept()[places.clone()].iter().any(|kept| kept.context().len() > 1);
        let (batch, keys, near) = if self.config.separate {
            let near = || Batch::new(&drawn, places.clone(), first_output, length, rate).1;
            let near = if is_first { near() } else { Vec::new() };
            let length = if is_first { length } else { 0 };
            let (batch, keys) = Batch::of_pair(&drawn, places, step, first_output, length, rate);
            (batch, keys, near)
        } else {
            let (batch, keys) = Batch::new(&drawn, places, first_output, length, rate);
            (batch, keys.clone(), keys)
        };
        let name = [NEGATIVES, epoch.into(), part.block.into(), part.part];
        let stream_of_samples = stream(self.config.seed, &name);
        let samples = SampleRequest {
            distribution: self.negatives,
            samples: batch.pairs() * self.config.negatives,
            stream: stream_of_samples,
        };
        let digest = stream(stream_of_samples, &[samples.samples as u64, batch.digest(&keys), step]);
        let samples = if has_pairs { vec![samples] } else { Vec::new() };
        Prepared { batch, near, keys, samples, handles: Vec::new(), digest }
    }

    fn frequencies(&self, partition: Partition) -> Option<Vec<Frequency>> {
        let vocabulary = self.corpus.vocabulary();
        let kept = |word: u32| self.config.kept(vocabulary.counts()[word as usize], vocabulary.total());
        let mut negatives = Distribution::unigram_weights(vocabulary.counts(), self.config.power);
        let sum: f64 = negatives.iter().sum();
        negatives.iter_mut().for_each(|weight| *weight /= sum);
        Some(frequencies(&self.corpus, &self.config, kept, &negatives, (self.batches, partition.nodes)))
    }

    fn scratch(&self) -> Scratch<E> {
        Scratch::new(self.config.shape())
    }

    fn trains_in_place(&self) -> bool {
        true
    }

    fn train(
        &self,
        scratch: &mut Scratch<E>,
        batch: &Batch,
        keys: &[Key],
        rows: &mut dyn Rows<E>,
    ) -> StepReport {
        if batch.rate.is_nan() {
            // The run ends; the reported error is the failure of the corpus.
            return StepReport { loss: f64::NAN, examples: 0, cost: Cost(0) };
        }
        let shape = self.config.shape();
        let negatives = self.config.negatives;
        let loss = scratch.train(Stepper::new(shape, batch.rate), (batch, negatives), keys, rows);
        let predictions = (batch.pairs() * (1 + negatives)) as u64;
        StepReport { loss, examples: batch.words, cost: Cost(predictions * shape.cost()) }
    }

    fn criterion(&self) -> Option<Criterion> {
        Some(Criterion { metric: "heldout_loss", better: Better::Lower })
    }

    fn evaluation(&self, split: Split, partition: Partition) -> Option<Box<dyn Evaluation<E>>> {
        let held_out = self.held_out(partition);
        Some(Box::new(Quality::new(Some(held_out), &self.tests, self.config.shape(), split, partition)))
    }
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "frequency_tests.rs"]
mod frequency_tests;
