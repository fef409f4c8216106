//! Which triples are true.

use super::{Dataset, Triple};
use std::ops::{Range, RangeInclusive};

/// All triples of a data set, findable from either end.
#[derive(Clone, Debug)]
pub struct Known {
    /// (subject, relation, object), sorted.
    objects: Vec<(u32, u32, u32)>,
    /// (object, relation, subject), sorted.
    subjects: Vec<(u32, u32, u32)>,
}

/// Names the true answers to one question; see [`Known::entities`].
#[derive(Clone, Debug)]
pub struct Answers {
    subjects: bool,
    range: Range<usize>,
}

impl Known {
    /// The triples of train, valid and test.
    pub fn new(data: &Dataset) -> Self {
        let all = || data.train.iter().chain(&data.valid).chain(&data.test);
        let collect = |order: fn(&Triple) -> (u32, u32, u32)| {
            let mut triples: Vec<_> = all().map(order).collect();
            triples.sort_unstable();
            triples.dedup();
            triples
        };
        Self {
            objects: collect(|t| (t.subject, t.relation, t.object)),
            subjects: collect(|t| (t.object, t.relation, t.subject)),
        }
    }

    /// The objects to which `subject` stands in `relation`.
    pub fn objects(&self, subject: u32, relation: u32) -> Answers {
        Answers { subjects: false, range: Self::find(&self.objects, subject, relation) }
    }

    /// The subjects that stand in `relation` to `object`.
    pub fn subjects(&self, relation: u32, object: u32) -> Answers {
        Answers { subjects: true, range: Self::find(&self.subjects, object, relation) }
    }

    /// The entities that are answers, ascending, as far as they are in `within`.
    ///
    /// # Panics
    /// If the answers are those of another graph.
    pub fn entities(&self, answers: &Answers, within: RangeInclusive<u32>) -> impl Iterator<Item = u32> {
        let triples = if answers.subjects { &self.subjects } else { &self.objects };
        let triples = &triples[answers.range.clone()];
        let start = triples.partition_point(|t| t.2 < *within.start());
        triples[start..].iter().map(|t| t.2).take_while(move |entity| entity <= within.end())
    }

    fn find(triples: &[(u32, u32, u32)], entity: u32, relation: u32) -> Range<usize> {
        let start = triples.partition_point(|t| (t.0, t.1) < (entity, relation));
        let len = triples[start..].partition_point(|t| (t.0, t.1) == (entity, relation));
        start..start + len
    }
}
