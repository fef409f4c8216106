//! A batch: its queries, and the keys that they need.

use crate::data::Triple;
use intendant_core::Key;
use smallvec::{SmallVec, smallvec};

/// One question with its answer: which entity completes anchor and relation? Positions are those of the
/// batch's direct keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    /// The entity that is given.
    pub(crate) anchor: u32,
    /// The relation, or its reciprocal.
    pub(crate) relation: u32,
    /// The entity that is asked for.
    pub(crate) target: u32,
    /// Whether the subject is asked for, by a relation that has no reciprocal.
    pub(crate) inverse: bool,
    /// Whether the score of the triple itself counts in this query; see [`crate::logistic`].
    pub(crate) scores_triple: bool,
}

/// A batch, prepared before it is trained. The data of a single score is stored inside the struct, because
/// loaders prepare thousands of scores ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Two queries per example: object, subject.
    pub(crate) queries: SmallVec<[Query; 1]>,
    /// How many of the direct keys, at their beginning, are entities.
    pub(crate) entities: usize,
    /// How often each direct key is used: the number of penalties on it.
    pub(crate) uses: SmallVec<[u32; 4]>,
    /// Number of triples that the batch counts as trained.
    pub(crate) examples: u64,
    /// The answer's key if it is not one of the direct keys, as in a step that trains one corrupted triple.
    pub(crate) answer: Option<Key>,
}

/// The triple that a step trains, if each score is a step of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scored {
    /// The triple.
    Triple,
    /// The triple with another object.
    OtherObject,
    /// The triple with another subject.
    OtherSubject,
}

impl Scored {
    /// The triple that the `at`-th step of a triple trains, with `negatives` negatives per side. The triple
    /// itself comes first.
    pub(crate) const fn nth(at: u64, negatives: u64) -> Self {
        match at {
            0 => Self::Triple,
            at if at <= negatives => Self::OtherObject,
            _ => Self::OtherSubject,
        }
    }
}

impl Batch {
    /// One score of `triple`, and its keys, entities first. The key of relation `r` is `forward + r`.
    pub(crate) fn of_score(triple: &Triple, forward: u64, scored: Scored) -> (Self, Vec<Key>) {
        let (subject, object) = (Key(triple.subject.into()), Key(triple.object.into()));
        let mut keys = Vec::with_capacity(3);
        match scored {
            Scored::Triple => keys.extend([subject.min(object), subject.max(object)]),
            Scored::OtherObject => keys.push(subject),
            Scored::OtherSubject => keys.push(object),
        }
        keys.dedup();
        let entities = keys.len();
        keys.push(Key(forward + u64::from(triple.relation)));
        let place = |key: Key| keys.iter().position(|k| *k == key).unwrap_or(entities) as u32;
        let query = |anchor, answer, inverse| Query {
            anchor: place(anchor),
            relation: entities as u32,
            target: place(answer),
            inverse,
            scores_triple: scored == Scored::Triple,
        };
        let (query, answer) = match scored {
            Scored::Triple => (query(subject, object, false), None),
            Scored::OtherObject => (query(subject, object, false), Some(object)),
            Scored::OtherSubject => (query(object, subject, true), Some(subject)),
        };
        let uses = smallvec![1; keys.len()];
        let examples = u64::from(scored == Scored::Triple);
        (Self { queries: smallvec![query], entities, uses, examples, answer }, keys)
    }

    /// The key of the answer to `query`; `keys` are the direct ones.
    pub(crate) fn answer(&self, query: &Query, keys: &[Key]) -> Key {
        self.answer.unwrap_or_else(|| keys[query.target as usize])
    }

    /// The queries of `triples` and their distinct keys: entities first, then relations, each in ascending
    /// order. The key of relation `r` is `relations.0 + r`, that of its reciprocal `relations.1 + r` if there
    /// are any.
    pub(crate) fn new(triples: &[Triple], relations: (u64, Option<u64>)) -> (Self, Vec<Key>) {
        let (forward, reciprocal) = relations;
        let mut keys: Vec<Key> =
            triples.iter().flat_map(|t| [Key(t.subject.into()), Key(t.object.into())]).collect();
        keys.extend(triples.iter().map(|t| Key(forward + u64::from(t.relation))));
        if let Some(reciprocal) = reciprocal {
            keys.extend(triples.iter().map(|t| Key(reciprocal + u64::from(t.relation))));
        }
        // Keys of relations are larger than those of entities.
        keys.sort_unstable();
        keys.dedup();
        let place = |key: u64| keys.partition_point(|k| k.0 < key) as u32;
        let mut queries: SmallVec<[Query; 1]> = SmallVec::with_capacity(2 * triples.len());
        for triple in triples {
            let (subject, object) = (place(triple.subject.into()), place(triple.object.into()));
            let relation = place(forward + u64::from(triple.relation));
            queries.push(Query {
                anchor: subject,
                relation,
                target: object,
                inverse: false,
                scores_triple: true,
            });
            let (relation, inverse) = match reciprocal {
                Some(reciprocal) => (place(reciprocal + u64::from(triple.relation)), false),
                None => (relation, true),
            };
            queries.push(Query {
                anchor: object,
                relation,
                target: subject,
                inverse,
                scores_triple: !inverse,
            });
        }
        let mut uses: SmallVec<[u32; 4]> = smallvec![0; keys.len()];
        for query in &queries {
            for place in [query.anchor, query.relation, query.target] {
                uses[place as usize] += 1;
            }
        }
        let entities = keys.partition_point(|k| k.0 < forward);
        (Self { queries, entities, uses, examples: triples.len() as u64, answer: None }, keys)
    }
}
