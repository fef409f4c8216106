//! An evaluation of a model that is in memory: what commands such as `evaluate` print.

use crate::report::numbers::{in_reading_order, means};
use intendant_core::{Element, Key};
use intendant_task::{Evaluation, Partition, Split, Task};

/// Keys of a part of the range that an evaluation receives.
const PART: u64 = 1024;

/// The means of an evaluation, as a report has them, in reading order. `append` appends the value of a key,
/// with all elements that the evaluation expects.
pub fn measure<E: Element>(
    mut evaluation: Box<dyn Evaluation<E> + '_>,
    mut append: impl FnMut(Key, &mut Vec<E>),
) -> Vec<(String, f64)> {
    let mut values = Vec::new();
    evaluation.keys().iter().for_each(|key| append(*key, &mut values));
    evaluation.take(&values);
    let range = evaluation.range();
    let (mut first, mut keys) = (range.start, Vec::new());
    while first < range.end {
        let end = range.end.min(first + PART);
        keys.clear();
        values.clear();
        keys.extend((first..end).map(Key));
        keys.iter().for_each(|key| append(*key, &mut values));
        evaluation.part(&keys, &values);
        first = end;
    }
    let means = means(&evaluation.finish());
    in_reading_order(&means).into_iter().map(|(name, mean)| (name.to_owned(), mean)).collect()
}

/// The means of the evaluation of a task's initial values on its test data; none without test data. A task
/// that begins with a trained model measures that model.
pub fn measure_initial<T: Task>(task: &T) -> Vec<(String, f64)> {
    let (model, evaluation) = (task.model(), task.evaluation(Split::Test, Partition::alone()));
    let initial = |key: Key, values: &mut Vec<T::Element>| {
        let start = values.len();
        values.resize(start + model.len(key), T::Element::ZERO);
        (model.init)(key, &mut values[start..]);
    };
    evaluation.map_or_else(Vec::new, |evaluation| measure(evaluation, initial))
}
