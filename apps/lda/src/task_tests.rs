//! The task by itself: exact counts although some are outdated, the distribution of assignments, keys,
//! digest.

use super::*;
use crate::data::{Documents, Entry, Generator, HeldOut, Source};
use intendant_formats::Names;
use intendant_task::{PlainRows, Reduction};
use proptest::prelude::*;
use statrs::distribution::{ChiSquared, ContinuousCDF};
use statrs::function::gamma::ln_gamma;
use std::collections::BTreeMap;

pub(crate) fn config(topics: usize) -> Config {
    Config { topics, alpha: 0.5, eta: 0.3, batch: 2, top_words: 3, seed: 1 }
}

/// Documents with these entries; none of them is a test document.
pub(crate) fn corpus(words: u32, documents: &[Vec<(u32, u32)>]) -> Arc<Corpus> {
    let mut training = Documents::default();
    for (name, entries) in (1..).zip(documents) {
        training
            .push(name, entries.iter().map(|(word, count)| Entry { word: *word, count: *count }).collect());
    }
    let mut names = Names::default();
    (0..words).for_each(|word| names.push(&format!("w{word}")));
    Arc::new(Corpus::new(names, training, Documents::default()))
}

pub(crate) fn initial<E: Element>(task: &Lda<E>) -> Vec<Vec<E>> {
    let model = task.model();
    let value = |key| {
        let mut value = vec![E::ONE; model.len(Key(key))];
        (model.init)(Key(key), &mut value);
        value
    };
    (0..model.keys()).map(value).collect()
}

/// Trains all batches of a worker in an epoch.
pub(crate) fn train<E: Element>(
    task: &Lda<E>,
    partition: Partition,
    epoch: u32,
    values: &mut [Vec<E>],
) -> StepReport {
    let subepoch = Subepoch { epoch, index: 0 };
    let (mut scratch, mut all) = (task.scratch(), StepReport::default());
    for index in 0..task.batches(subepoch, partition) {
        let prepared = task.prepare(BatchAt { subepoch, partition, index });
        let mut rows = PlainRows { keys: &prepared.keys, values };
        let report = task.train(&mut scratch, &prepared.batch, &prepared.keys, &mut rows);
        all.loss += report.loss;
        all.examples += report.examples;
    }
    all
}

fn partitions(workers: u32) -> impl Iterator<Item = Partition> {
    Partition { workers, nodes: workers, ..Partition::alone() }.all()
}

/// Compares the values with counts of the assignments.
fn check_counts<E: Element>(task: &Lda<E>, values: &[Vec<E>], is_assigned: bool) {
    let (training, layout) = (task.corpus().training(), task.layout());
    let mut counts = vec![vec![0.0; layout.topics()]; layout.words() + 1];
    for document in 0..training.len() {
        let mut topics =
            layout.blocks(document).flat_map(|key| values[key as usize].iter().map(|x| x.to_f64()));
        for entry in training.get(document) {
            for topic in topics.by_ref().take(entry.count as usize) {
                assert!(topic.fract() == 0.0 && topic <= layout.topics() as f64, "{topic}");
                if topic == 0.0 {
                    assert!(!is_assigned);
                    continue;
                }
                counts[entry.word as usize][topic as usize - 1] += 1.0;
                counts[layout.words()][topic as usize - 1] += 1.0;
            }
        }
        assert!(topics.all(|topic| topic == 0.0), "behind the last token");
    }
    for (key, counts) in counts.iter().enumerate() {
        let found: Vec<f64> = values[key].iter().map(|x| x.to_f64()).collect();
        assert_eq!(&found, counts, "key {key}");
    }
}

type Entries = Vec<Vec<(u32, u32)>>;

fn documents() -> impl Strategy<Value = Entries> {
    // Some documents have more than a block of tokens, some have none.
    proptest::collection::vec(proptest::collection::vec((0u32..9, 1u32..50), 0..6), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// In an epoch, every worker sees only its own changes: counts cannot be more outdated.
    #[test]
    fn counts_are_exact_whatever_workers_have_not_seen(
        entries in documents(), topics in 1usize..40, workers in 1u32..5, batch in 1u64..4,
    ) {
        let task = Lda::<f32>::new(corpus(9, &entries), Config { batch, ..config(topics) }, None).unwrap();
        let mut values = initial(&task);
        check_counts(&task, &values, false);
        for epoch in 0..3 {
            let before = values.clone();
            let mut examples = 0;
            for partition in partitions(workers) {
                let mut own = before.clone();
                examples += train(&task, partition, epoch, &mut own).examples;
                for ((value, own), before) in values.iter_mut().zip(&own).zip(&before) {
                    let changes = own.iter().zip(before).map(|(own, before)| own - before);
                    value.iter_mut().zip(changes).for_each(|(x, change)| *x += change);
                }
            }
            prop_assert_eq!(examples, task.corpus().training().tokens());
            check_counts(&task, &values, true);
        }
    }

    #[test]
    fn the_digest_depends_on_neither_workers_nor_batches(
        entries in documents(), workers in 1u32..6, batch in 1u64..5,
    ) {
        let digest = |workers, batch, epoch| {
            let task = Lda::<f32>::new(corpus(9, &entries), Config { batch, ..config(3) }, None).unwrap();
            let subepoch = Subepoch { epoch, index: 0 };
            let all = partitions(workers).flat_map(|partition| {
                let batches = 0..task.batches(subepoch, partition);
                let prepare = |index| task.prepare(BatchAt { subepoch, partition, index }).digest;
                batches.map(prepare).collect::<Vec<_>>()
            });
            all.fold(0u64, u64::wrapping_add)
        };
        prop_assert_eq!(digest(workers, batch, 0), digest(1, 1, 0));
        prop_assert_ne!(digest(1, 1, 1), digest(1, 1, 0), "epochs differ");
    }

    /// Keys are distinct, because a pull of a repeated key would make a copy for each of its positions.
    #[test]
    fn keys_are_those_of_the_documents(entries in documents(), workers in 1u32..6) {
        let task = Lda::<f32>::new(corpus(9, &entries), config(3), None).unwrap();
        let layout = task.layout();
        let subepoch = Subepoch { epoch: 1, index: 0 };
        for partition in partitions(workers) {
            let residents = task.residents(partition);
            for index in 0..task.batches(subepoch, partition) {
                let Prepared { batch, keys, near, .. } = task.prepare(BatchAt { subepoch, partition, index });
                let mut distinct = keys.clone();
                distinct.sort_unstable();
                distinct.dedup();
                prop_assert_eq!(distinct.len(), keys.len());
                prop_assert_eq!(keys[TOTALS], layout.totals());
                let mut words = batch.words.iter();
                for part in &batch.parts {
                    let document = part.document as usize;
                    for entry in task.corpus().training().get(document) {
                        prop_assert_eq!(keys[*words.next().unwrap() as usize], layout.word(entry.word));
                    }
                    for (place, key) in layout.blocks(document).enumerate() {
                        prop_assert_eq!(keys[part.blocks as usize + place], Key(key));
                        prop_assert!(residents.contains(&Key(key)));
                    }
                }
                prop_assert_eq!(words.next(), None);
                prop_assert!(near.iter().all(|key| key.0 < 9 && keys.contains(key)));
            }
        }
    }
}

/// Rows that other workers change: each time a row is lent again, it has another token in its first place.
struct Busy<'a> {
    rows: PlainRows<'a, f64>,
    lent: Vec<u64>,
}

impl Rows<f64> for Busy<'_> {
    fn row(&mut self, at: usize) -> intendant_task::Row<'_, f64> {
        let mut row = self.rows.row(at);
        row[0] += self.lent[at].min(1) as f64;
        self.lent[at] += 1;
        row
    }

    fn prefetch(&self, _at: usize) {}
}

#[test]
fn what_others_change_meanwhile_is_kept() {
    let task = Lda::<f64>::new(corpus(4, &[vec![(0, 9), (3, 1)], vec![(0, 2), (1, 1)]]), config(3), None);
    let task = task.unwrap();
    let mut values = initial(&task);
    let Prepared { batch, keys, .. } = task.prepare(BatchAt::alone(0, 0));
    let lent = vec![0; keys.len()];
    let mut rows = Busy { rows: PlainRows { keys: &keys, values: &mut values }, lent };
    task.train(&mut task.scratch(), &batch, &keys, &mut rows);
    let added: Vec<f64> = rows.lent.iter().map(|lent| lent.saturating_sub(1) as f64).collect();
    assert_eq!(added[TOTALS], 1.0, "lent at the beginning and at the end");
    for (key, added) in keys.iter().zip(added) {
        values[key.index()][0] -= added;
    }
    check_counts(&task, &values, true);
}

/// The logarithm of the joint probability of words and assignments, up to a constant
/// [Griffiths 2004].
fn ln_joint(config: &Config, words: usize, tokens: &[(usize, usize)], topics: &[usize]) -> f64 {
    let k = config.topics;
    let documents = tokens.iter().map(|token| token.0 + 1).max().unwrap_or(0);
    let (mut of_document, mut of_word, mut totals) =
        (vec![0.0; documents * k], vec![0.0; words * k], vec![0.0; k]);
    for ((document, word), topic) in tokens.iter().zip(topics) {
        of_document[document * k + topic] += 1.0;
        of_word[word * k + topic] += 1.0;
        totals[*topic] += 1.0;
    }
    let sum = |counts: &[f64], prior: f64| counts.iter().map(|count| ln_gamma(count + prior)).sum::<f64>();
    sum(&of_document, config.alpha) + sum(&of_word, config.eta) - sum(&totals, config.eta * words as f64)
}

/// Assignments are distributed by their posterior, which is known exactly if there are few tokens.
#[test]
fn assignments_have_their_exact_distribution() {
    const DRAWS: u32 = 20_000;
    /// Sweeps between two draws, enough that the draws hardly depend on each other.
    const APART: u32 = 8;
    let config = Config { seed: 5, ..config(2) };
    // Three documents with five tokens in total, and three words.
    let task =
        Lda::<f64>::new(corpus(3, &[vec![(0, 2)], vec![(0, 1), (1, 1)], vec![(2, 1)]]), config.clone(), None);
    let task = task.unwrap();
    let tokens = [(0, 0), (0, 0), (1, 0), (1, 1), (2, 2)];
    let states: Vec<Vec<usize>> =
        (0..1 << tokens.len()).map(|state| (0..tokens.len()).map(|at| state >> at & 1).collect()).collect();
    let weights: Vec<f64> = states.iter().map(|state| ln_joint(&config, 3, &tokens, state).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let mut values = initial(&task);
    let mut seen: BTreeMap<Vec<usize>, f64> = BTreeMap::new();
    let mut epoch = 0;
    for _ in 0..DRAWS {
        for _ in 0..APART {
            train(&task, Partition::alone(), epoch, &mut values);
            epoch += 1;
        }
        let topics = (0..3).flat_map(|document| task.layout().blocks(document)).flat_map(|key| {
            let topics = values[key as usize].iter().filter(|topic| **topic > 0.0);
            topics.map(|topic| *topic as usize - 1).collect::<Vec<_>>()
        });
        *seen.entry(topics.collect()).or_default() += 1.0;
    }
    let squares = states.iter().zip(&weights).map(|(state, weight)| {
        let expected = f64::from(DRAWS) * weight / sum;
        assert!(expected > 20.0, "enough of each: {expected}");
        (seen.get(state).copied().unwrap_or(0.0) - expected).powi(2) / expected
    });
    let statistic: f64 = squares.sum();
    let bound = ChiSquared::new(states.len() as f64 - 1.0).unwrap().inverse_cdf(0.999);
    assert!(statistic < bound, "{statistic} of {bound}");
}

/// The loss of a token is that of predicting its word from all other tokens.
#[test]
fn the_loss_is_that_of_predictions() {
    let config = config(1);
    let task = Lda::<f64>::new(corpus(4, &[vec![(0, 2), (3, 1)]]), config.clone(), None).unwrap();
    let mut values = initial(&task);
    let mut expected = 0.0;
    // With one topic, the count of a word among the tokens before predicts it.
    for (count, total) in [(0.0, 0.0), (1.0, 1.0), (0.0, 2.0f64)] {
        let probability: f64 = (count + config.eta) / (total + 4.0 * config.eta);
        expected -= probability.ln();
    }
    let report = train(&task, Partition::alone(), 0, &mut values);
    assert!((report.loss - expected).abs() < 1e-12, "{} and {expected}", report.loss);
    assert_eq!(report.examples, 3);
    // In later epochs, the count among all other tokens predicts it.
    let report = train(&task, Partition::alone(), 1, &mut values);
    let of = |count: f64| -((count + config.eta) / (2.0 + 4.0 * config.eta)).ln();
    assert!((report.loss - (2.0 * of(1.0) + of(0.0))).abs() < 1e-12);
}

#[test]
fn more_tokens_than_an_element_type_counts_are_refused() {
    let corpus = corpus(1, &[vec![(0, 1 << 24)], vec![(0, 1)]]);
    let error = Lda::<f32>::new(Arc::clone(&corpus), config(2), None).err().unwrap().to_string();
    let expected = "there are 16777217 tokens, but f32 counts exactly up to 16777216 only; use --float f64";
    assert_eq!(error, expected);
    assert!(Lda::<f64>::new(corpus, config(2), None).is_ok());
    let error = Lda::<f32>::new(self::corpus(1, &[]), config(0), None).err().unwrap().to_string();
    assert!(error.starts_with("--topics is 0; it must be a number from 1 to"), "{error}");
}

/// Accesses of words are averages over epochs; all other accesses are the same in each epoch.
#[test]
fn frequencies_are_those_of_batches() {
    const EPOCHS: u32 = 400;
    let source = Source::Generated(Generator::named("topics:40x60x3").unwrap());
    let corpus = Arc::new(Corpus::open(&source, &HeldOut::Every(10)).unwrap());
    let task = Lda::<f32>::new(Arc::clone(&corpus), Config { batch: 3, ..config(3) }, None).unwrap();
    let mut accesses = vec![0.0; task.model().keys() as usize];
    for partition in partitions(3) {
        for epoch in 0..EPOCHS {
            let subepoch = Subepoch { epoch, index: 0 };
            for index in 0..task.batches(subepoch, partition) {
                let keys = task.prepare(BatchAt { subepoch, partition, index }).keys;
                keys.iter().for_each(|key| accesses[key.index()] += 1.0 / f64::from(EPOCHS));
            }
        }
    }
    let partition = partitions(3).next().unwrap();
    let frequencies = task.frequencies(partition).unwrap();
    assert!(frequencies.windows(2).all(|two| two[0].key < two[1].key));
    let counts = corpus.training().counts(60);
    let (words, totals) = (task.layout().words(), task.layout().totals());
    for frequency in &frequencies {
        let found = std::mem::take(&mut accesses[frequency.key.index()]);
        let off = (found - frequency.accesses).abs();
        if frequency.key.index() < words {
            assert_eq!(frequency.uses, counts[frequency.key.index()]);
            assert!(off < 0.3, "{frequency:?}: {found}");
        } else {
            assert!(off < 1e-9, "{frequency:?}: {found}");
            assert_eq!(frequency.shared, frequency.key == totals);
        }
    }
    assert!(accesses.iter().all(|rest| *rest == 0.0), "all keys that are accessed are told");
    let of_assignments: u64 = frequencies.iter().filter(|f| f.key > totals).map(|f| f.uses).sum();
    assert_eq!(of_assignments, corpus.training().tokens());
    let hottest = frequencies.iter().max_by_key(|frequency| frequency.uses).unwrap();
    assert_eq!((hottest.key, hottest.uses), (totals, corpus.training().tokens()));
}

/// Sums of an evaluation on plain memory.
pub(crate) fn evaluate<E: Element>(
    task: &Lda<E>,
    split: Split,
    workers: u32,
    values: &[Vec<E>],
) -> Reduction {
    let mut all = Reduction::default();
    for partition in partitions(workers) {
        let Some(mut evaluation) = task.evaluation(split, partition) else { continue };
        let of = |keys: &[Key]| keys.iter().flat_map(|key| values[key.index()].clone()).collect::<Vec<E>>();
        let keys = evaluation.keys().to_vec();
        evaluation.take(&of(&keys));
        // In any order, in parts.
        let mut keys: Vec<Key> = evaluation.range().map(Key).collect();
        keys.reverse();
        keys.chunks(7).for_each(|part| evaluation.part(part, &of(part)));
        all.merge(&evaluation.finish());
    }
    all
}
