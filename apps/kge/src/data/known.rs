//! Which triples are true.

use super::{Dataset, Triple};

/// All triples of a data set, findable from either end.
#[derive(Clone, Debug)]
pub struct Known {
    /// (subject, relation, object), sorted.
    objects: Vec<(u32, u32, u32)>,
    /// (object, relation, subject), sorted.
    subjects: Vec<(u32, u32, u32)>,
}

/// The true answers to one question.
#[derive(Clone, Copy, Debug)]
pub struct Answers<'a>(&'a [(u32, u32, u32)]);

impl Answers<'_> {
    /// Whether `entity` is one of the answers.
    #[inline]
    pub fn contains(&self, entity: u32) -> bool {
        self.0.binary_search_by_key(&entity, |t| t.2).is_ok()
    }
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
    pub fn objects(&self, subject: u32, relation: u32) -> Answers<'_> {
        Self::find(&self.objects, subject, relation)
    }

    /// The subjects that stand in `relation` to `object`.
    pub fn subjects(&self, relation: u32, object: u32) -> Answers<'_> {
        Self::find(&self.subjects, object, relation)
    }

    fn find(triples: &[(u32, u32, u32)], entity: u32, relation: u32) -> Answers<'_> {
        let start = triples.partition_point(|t| (t.0, t.1) < (entity, relation));
        let len = triples[start..].partition_point(|t| (t.0, t.1) == (entity, relation));
        Answers(&triples[start..start + len])
    }
}
