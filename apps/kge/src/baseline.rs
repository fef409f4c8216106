//! A predictor that knows only which entities a relation has most often.

use crate::data::{Dataset, Known, Triple};

/// How often entities occur on one side of each relation, in training.
struct Counts {
    /// (relation, entity, occurrences), sorted.
    entities: Vec<(u32, u32, u32)>,
    /// (relation, occurrences), sorted.
    occurrences: Vec<(u32, u32)>,
}

impl Counts {
    fn new(triples: &[Triple], side: fn(&Triple) -> u32) -> Self {
        let mut pairs: Vec<(u32, u32)> =
            triples.iter().map(|triple| (triple.relation, side(triple))).collect();
        pairs.sort_unstable();
        let runs = pairs.chunk_by(|a, b| a == b);
        let entities: Vec<_> = runs.map(|run| (run[0].0, run[0].1, run.len() as u32)).collect();
        let mut occurrences: Vec<_> =
            entities.iter().map(|(relation, _, count)| (*relation, *count)).collect();
        occurrences.sort_unstable();
        Self { entities, occurrences }
    }

    fn of(&self, relation: u32, entity: u32) -> u32 {
        let at = self.entities.partition_point(|(r, e, _)| (*r, *e) < (relation, entity));
        self.entities
            .get(at)
            .filter(|(r, e, _)| (*r, *e) == (relation, entity))
            .map_or(0, |(.., count)| *count)
    }

    /// The rank of `answer` among `entities` by occurrences, without the others of `known`; entities with as
    /// many share the mean of their ranks.
    fn rank(&self, relation: u32, answer: u32, known: impl Iterator<Item = u32>, entities: u64) -> f64 {
        let count = self.of(relation, answer);
        let before = |count: (u32, u32)| self.occurrences.partition_point(|found| *found < count) as u64;
        let [first, this, after, end] =
            [(relation, 0), (relation, count), (relation, count + 1), (relation + 1, 0)].map(before);
        let mut higher = end - after;
        let mut equal = if count == 0 { entities - (end - first) } else { after - this };
        // The answer itself.
        equal -= 1;
        for other in known.filter(|other| *other != answer) {
            let found = self.of(relation, other);
            higher -= u64::from(found > count);
            equal -= u64::from(found == count);
        }
        1.0 + higher as f64 + 0.5 * equal as f64
    }
}

/// The mean reciprocal rank, as the evaluation defines it, of predicting the objects and the subjects of test
/// triples by how often training triples of the relation have them; `None` without test triples.
pub(crate) fn mrr(data: &Dataset, known: &Known) -> Option<f64> {
    let (objects, subjects) =
        (Counts::new(&data.train, |triple| triple.object), Counts::new(&data.train, |triple| triple.subject));
    let entities = data.entities.len() as u64;
    let reciprocals = data.test.iter().map(|&Triple { subject, relation, object }| {
        let of_subject = known.objects(subject, relation);
        let of_object = known.subjects(relation, object);
        let others = |answers| known.entities(answers, 0..=u32::MAX);
        1.0 / objects.rank(relation, object, others(&of_subject), entities)
            + 1.0 / subjects.rank(relation, subject, others(&of_object), entities)
    });
    let sum: f64 = reciprocals.sum();
    (!data.test.is_empty()).then(|| sum / (2 * data.test.len()) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Names;

    fn triple(subject: u32, relation: u32, object: u32) -> Triple {
        Triple { subject, relation, object }
    }

    #[test]
    fn frequent_entities_are_predicted_first_and_known_answers_are_left_out() {
        let (mut entities, mut relations) = (Names::default(), Names::default());
        ["a", "b", "c", "d", "e"].iter().for_each(|name| entities.push(name));
        ["r", "s"].iter().for_each(|name| relations.push(name));
        // Objects of r: d three times, e once. Of s: a. Subjects of r: a twice, b and c once; of s: b.
        let train = vec![triple(0, 0, 3), triple(1, 0, 3), triple(2, 0, 3), triple(0, 0, 4), triple(1, 1, 0)];
        let test = vec![triple(1, 0, 4), triple(3, 1, 2)];
        let data = Dataset::new(entities, relations, train, Vec::new(), test);
        let found = mrr(&data, &Known::new(&data)).expect("there are test triples");
        // (b, r, e): d is known, so e is first. Of the subjects of e, a is known; b shares ranks 1 and 2 with
        // c. (d, s, c): a is the only object of s; c shares ranks 2 to 5. b is the only subject of s; d
        // shares ranks 2 to 5.
        let expected = (1.0 / 1.0 + 1.0 / 1.5 + 1.0 / 3.5 + 1.0 / 3.5) / 4.0;
        assert!((found - expected).abs() < 1e-12, "{found}, {expected}");
    }
}
