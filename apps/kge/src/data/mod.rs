//! Knowledge graphs: triples of numbered entities and relations, split into train, valid and test.
//!
//! [`Dataset::builtin`] is the built-in graph or a generated one. [`Dataset::read`] reads a LibKGE folder, a
//! folder of tab-separated files or a single such file. [`Known`] knows the true triples, so that the
//! evaluation does not count a true answer as an error. Entities and relations are numbered by first
//! appearance in train, valid, test (LibKGE's files contain the numbers), so that every process that reads
//! the same files uses the same keys.
//!
//! A held-out triple may name an entity or relation that does not occur in training ([`Dataset::unseen`]). It
//! is part of the model like any other, with its initial embedding, unless [`Dataset::skip_unseen`] removes
//! the triple.
//!
//! This module has no keys and values. The task maps numbers to keys.

mod error;
mod known;
mod read;
mod synthetic;

pub use error::DataError;
pub use intendant_formats::Names;
pub use known::{Answers, Known};

use intendant_core::random::{Permutation, stream};

/// One fact: `subject` stands in `relation` to `object`. All three are numbers of [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Triple {
    /// Number of an entity.
    pub subject: u32,
    /// Number of a relation.
    pub relation: u32,
    /// Number of an entity.
    pub object: u32,
}

/// How the triples of a data set name entities and relations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    /// By name.
    Names,
    /// By number, as in LibKGE's `.del` files.
    Numbers,
}

/// A knowledge graph.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// Entities.
    pub entities: Names,
    /// Relations.
    pub relations: Names,
    /// Triples to learn from.
    pub train: Vec<Triple>,
    /// Triples for validation during training; may be empty.
    pub valid: Vec<Triple>,
    /// Triples for the evaluation after training; may be empty.
    pub test: Vec<Triple>,
    /// Held-out triples that were replaced or skipped. They are still true.
    removed: Vec<Triple>,
    naming: Naming,
}

/// Held-out triples with an entity or a relation that does not occur in training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unseen {
    /// Such triples among the validation triples.
    pub valid: usize,
    /// Such triples among the test triples.
    pub test: usize,
}

impl Dataset {
    /// A graph from numbered triples.
    ///
    /// # Panics
    /// If a triple has a number without a name.
    pub fn new(
        entities: Names,
        relations: Names,
        train: Vec<Triple>,
        valid: Vec<Triple>,
        test: Vec<Triple>,
    ) -> Self {
        for triple in train.iter().chain(&valid).chain(&test) {
            let entity = triple.subject.max(triple.object) as usize;
            assert!(
                entity < entities.len() && (triple.relation as usize) < relations.len(),
                "{triple:?} is not within {} entities and {} relations",
                entities.len(),
                relations.len()
            );
        }
        Self { entities, relations, train, valid, test, removed: Vec::new(), naming: Naming::Names }
    }

    /// Moves a seeded choice of the training triples to the test triples, in place of the previous ones.
    /// Distinct triples are chosen, so that a triple that occurs twice is not both trained and tested.
    ///
    /// # Errors
    /// If `fraction` of the distinct triples leaves nothing to train on or nothing to test.
    pub fn hold_out(&mut self, fraction: f64, seed: u64) -> Result<(), DataError> {
        let mut distinct = self.train.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let (triples, held) = (distinct.len(), (distinct.len() as f64 * fraction).round());
        if !(held >= 1.0 && held < triples as f64) {
            return Err(DataError::HoldOut { fraction, triples });
        }
        let order = Permutation::new(triples as u64, stream(seed, &[HOLD_OUT]));
        let mut index = 0..triples as u64;
        distinct.retain(|_| index.next().is_some_and(|index| order.apply(index) < held as u64));
        self.train.retain(|triple| distinct.binary_search(triple).is_err());
        self.removed.extend(std::mem::replace(&mut self.test, distinct));
        Ok(())
    }

    /// The same triples with the numbers that others have given to entities and relations, and how many test
    /// triples have an entity or a relation without such a number. Triples without such numbers are left out.
    pub(crate) fn renumbered(
        &self,
        (entities, relations): (&Names, &Names),
        entity: impl Fn(&str) -> Option<u32>,
        relation: impl Fn(&str) -> Option<u32>,
    ) -> (Self, usize) {
        let entity: Vec<Option<u32>> = self.entities.iter().map(entity).collect();
        let relation: Vec<Option<u32>> = self.relations.iter().map(relation).collect();
        let all = |triples: &[Triple]| -> Vec<Triple> {
            let numbered = triples.iter().filter_map(|triple| {
                Some(Triple {
                    subject: entity[triple.subject as usize]?,
                    relation: relation[triple.relation as usize]?,
                    object: entity[triple.object as usize]?,
                })
            });
            numbered.collect()
        };
        let (train, valid, test) = (all(&self.train), all(&self.valid), all(&self.test));
        let unknown = self.test.len() - test.len();
        let mut data = Self::new(entities.clone(), relations.clone(), train, valid, test);
        data.removed = all(&self.removed);
        (data, unknown)
    }

    /// Counts the held-out triples with an entity or relation that does not occur in training.
    pub fn unseen(&self) -> Unseen {
        let seen = self.seen();
        let count = |split: &[Triple]| split.iter().filter(|t| !seen.has(t)).count();
        Unseen { valid: count(&self.valid), test: count(&self.test) }
    }

    /// Removes those triples from the held-out ones. [`Known`] still contains them: they are right answers to
    /// other questions.
    pub fn skip_unseen(&mut self) {
        let seen = self.seen();
        for split in [&mut self.valid, &mut self.test] {
            self.removed.extend(split.extract_if(.., |t| !seen.has(t)));
        }
    }

    /// A hash of names, triples, their order and their splits.
    pub fn digest(&self) -> u64 {
        let mut digest = DIGEST;
        for names in [&self.entities, &self.relations] {
            digest = stream(digest, &[names.len() as u64]);
            digest = names.digest(digest);
        }
        for split in [&self.train, &self.valid, &self.test, &self.removed] {
            digest = stream(digest, &[split.len() as u64]);
            for triple in split {
                digest =
                    stream(digest, &[triple.subject.into(), triple.relation.into(), triple.object.into()]);
            }
        }
        digest
    }

    fn seen(&self) -> Seen {
        let mut seen =
            Seen { entities: vec![false; self.entities.len()], relations: vec![false; self.relations.len()] };
        for triple in &self.train {
            seen.entities[triple.subject as usize] = true;
            seen.entities[triple.object as usize] = true;
            seen.relations[triple.relation as usize] = true;
        }
        seen
    }
}

/// The stream of random numbers of [`Dataset::hold_out`].
const HOLD_OUT: u64 = 0x7465_7374;

/// The initial value of [`Dataset::digest`].
const DIGEST: u64 = 0x6b67_6520_6461_7461;

struct Seen {
    entities: Vec<bool>,
    relations: Vec<bool>,
}

impl Seen {
    fn has(&self, triple: &Triple) -> bool {
        self.entities[triple.subject as usize]
            && self.entities[triple.object as usize]
            && self.relations[triple.relation as usize]
    }
}
