//! The triples that are known to be true.

use super::{Dataset, Triple};
use std::ops::{Range, RangeInclusive};

/// All triples of a data set, with an index for either end.
#[derive(Clone, Debug)]
pub struct Known {
    /// (subject, relation, object), sorted.
    objects: Vec<(u32, u32, u32)>,
    /// (object, relation, subject), sorted.
    subjects: Vec<(u32, u32, u32)>,
}

/// Identifies the true answers to one question; see [`Known::entities`].
#[derive(Clone, Debug)]
pub struct Answers {
    subjects: bool,
    range: Range<usize>,
}

impl Known {
    /// The triples of train, valid and test, and those that were held out but are not evaluated.
    pub fn new(data: &Dataset) -> Self {
        let all = || data.train.iter().chain(&data.valid).chain(&data.test).chain(&data.removed);
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

    /// The entities that are answers, in ascending order, if they are in `within`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Names;

    fn triple(subject: u32, object: u32) -> Triple {
        Triple { subject, relation: 0, object }
    }

    /// Node 3 does not occur in training.
    fn data() -> Dataset {
        let (mut entities, mut relations) = (Names::default(), Names::default());
        ["a", "b", "c", "d"].iter().for_each(|name| entities.push(name));
        relations.push("r");
        let train = vec![triple(0, 1), triple(1, 2)];
        Dataset::new(entities, relations, train, vec![triple(0, 3)], vec![triple(0, 2), triple(3, 2)])
    }

    fn objects(data: &Dataset, subject: u32) -> Vec<u32> {
        let known = Known::new(data);
        known.entities(&known.objects(subject, 0), 0..=3).collect()
    }

    #[test]
    fn skipped_triples_stay_true() {
        let mut data = data();
        data.skip_unseen();
        assert_eq!((&data.valid[..], &data.test[..]), (&[][..], &[triple(0, 2)][..]));
        assert_eq!((objects(&data, 0), objects(&data, 3)), (vec![1, 2, 3], vec![2]));
    }

    #[test]
    fn replaced_test_triples_stay_true() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "b\tr\ta\n").unwrap();
        let mut from_file = data();
        from_file.test_from(file.path()).unwrap();
        assert_eq!(from_file.test, [triple(1, 0)]);
        assert_eq!((objects(&from_file, 0), objects(&from_file, 1)), (vec![1, 2, 3], vec![0, 2]));

        let mut held_out = data();
        held_out.hold_out(0.5, 1).unwrap();
        assert_eq!((held_out.train.len(), held_out.test.len()), (1, 1));
        assert_eq!((objects(&held_out, 0), objects(&held_out, 3)), (vec![1, 2, 3], vec![2]));
    }
}
