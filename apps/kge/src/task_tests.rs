//! Compares gradients with finite differences, and steps in place with naive ones; tests what batches depend
//! on.

use super::*;
use crate::batch::Query;
use crate::data::Names;
use crate::model::{ModelKind, Moduli};
use intendant_sampling::{Everything, Manager};
use intendant_task::PlainRows;
use std::collections::BTreeSet;

/// A graph of `entities` entities and 3 relations with pseudorandom triples.
pub(super) fn graph(entities: u32, triples: u64) -> Dataset {
    let names = |count: u32| {
        let mut names = Names::default();
        (0..count).for_each(|i| names.push(&format!("n{i}")));
        names
    };
    let word = |i: u64, part: u64, below: u32| (stream(7, &[i, part]) % u64::from(below)) as u32;
    let triple =
        |i| Triple { subject: word(i, 0, entities), relation: word(i, 1, 3), object: word(i, 2, entities) };
    let train = (0..triples).map(triple).collect();
    Dataset::new(names(entities), names(3), train, Vec::new(), Vec::new())
}

const MODELS: &[ModelKind] = ModelKind::ALL;
const LOSSES: [Loss; 2] = [Loss::Softmax, Loss::Logistic];

pub(super) fn config(model: ModelKind, loss: Loss, reciprocal: bool) -> Config {
    let facts = model.facts();
    // An odd number of elements, if possible, cannot be taken for complex numbers.
    let dim = 5_usize.next_multiple_of(facts.dim_step);
    let n3 = if facts.moduli == Moduli::None { 0.0 } else { 0.03 };
    Config {
        model,
        dim,
        batch: 5,
        loss,
        negatives: 9,
        reciprocal,
        penalties: Penalties { n3, l2: 0.02 },
        learning_rate: 0.1,
        init_scale: 0.7,
        cluster: Cluster::None,
        separate: false,
        seed: 3,
    }
}

/// All values of a new model.
fn initial(task: &Kge<f64>) -> Vec<Vec<f64>> {
    let value = |key| {
        let mut value = vec![0.0; task.model().len(key)];
        (task.model().init)(key, &mut value);
        value
    };
    (0..task.model().keys()).map(|key| value(Key(key))).collect()
}

/// The penalty of an embedding by its definition.
fn naive_penalty(config: &Config, embedding: &[f64]) -> f64 {
    let squares: f64 = embedding.iter().map(|x| x * x).sum();
    let moduli = (0..embedding.len()).map(|at| config.scorer().modulus(embedding, at));
    // Both parts of a complex number have its modulus.
    let parts = if config.model.facts().moduli == Moduli::Complex { 2.0 } else { 1.0 };
    let cubes = moduli.map(|modulus| modulus.powi(3)).sum::<f64>() / parts;
    config.penalties.n3 * cubes + config.penalties.l2 * squares
}

/// A batch with its samples.
struct Step {
    task: Kge<f64>,
    prepared: Prepared<Batch>,
    sample_keys: Vec<Key>,
}

impl Step {
    fn new(task: Kge<f64>, at: BatchAt) -> Self {
        let prepared = task.prepare(at);
        let manager = Manager::new(task.model().sampler.clone(), 0, 0);
        let mut sample_keys = Vec::new();
        for request in &prepared.samples {
            let SampleRequest { distribution, samples, stream } = *request;
            let mut handle = manager.prepare(distribution, samples, stream, &Everything).unwrap();
            manager.draw(&mut handle, samples, &Everything, &mut sample_keys, &mut Vec::new()).unwrap();
        }
        Self { task, prepared, sample_keys }
    }

    /// The keys of the rows: direct ones, then sampled ones.
    fn keys(&self) -> Vec<Key> {
        self.prepared.keys.iter().chain(&self.sample_keys).copied().collect()
    }

    /// The report, and the update of each of the [`Step::keys`], computed from copies of `model`.
    fn compute(&self, model: &[Vec<f64>]) -> (StepReport, Vec<Vec<f64>>) {
        let gather = |keys: &[Key]| keys.iter().flat_map(|k| model[k.index()].clone()).collect::<Vec<_>>();
        let (values, sample_values) = (gather(&self.prepared.keys), gather(&self.sample_keys));
        let (mut update, mut sample_update) = (vec![0.0; values.len()], vec![0.0; sample_values.len()]);
        let report = self.task.compute(
            &mut self.task.scratch(),
            &self.prepared.batch,
            Pulled {
                keys: &self.prepared.keys,
                values: &values,
                sample_keys: &self.sample_keys,
                sample_values: &sample_values,
            },
            &mut Update { values: &mut update, sample_values: &mut sample_update },
        );
        let updates = [update, sample_update].concat();
        let mut rest = &updates[..];
        let of_key = |key: &Key| rest.split_off(..model[key.index()].len()).unwrap().to_vec();
        let updates = self.keys().iter().map(of_key).collect();
        assert!(rest.is_empty());
        (report, updates)
    }

    /// Trains the batch on `model`, in place or by an update.
    fn train(&self, model: &mut [Vec<f64>]) -> StepReport {
        let keys = self.keys();
        let report = if self.task.trains_in_place() {
            let mut rows = PlainRows { keys: &keys, values: model };
            self.task.train(&mut self.task.scratch(), &self.prepared.batch, &keys, &mut rows)
        } else {
            let (report, updates) = self.compute(model);
            for (key, update) in keys.iter().zip(updates) {
                model[key.index()].iter_mut().zip(update).for_each(|(value, update)| *value += update);
            }
            report
        };
        // Of the separate scores of a triple, only the first one counts as an example.
        assert!(report.examples == self.task.config.batch as u64 || self.task.config.separate);
        report
    }

    fn report(&self, model: &[Vec<f64>]) -> StepReport {
        self.train(&mut model.to_vec())
    }

    /// The loss with penalties.
    fn loss(&self, model: &[Vec<f64>]) -> f64 {
        let penalty = |(key, uses): (&Key, &u32)| {
            let value = &model[key.index()];
            f64::from(*uses) * naive_penalty(&self.task.config, &value[..value.len() / 2])
        };
        let penalty: f64 = self.prepared.keys.iter().zip(&self.prepared.batch.uses).map(penalty).sum();
        self.report(model).loss + penalty
    }
}

/// AdaGrad's update reveals the gradient: its square is added to the accumulator, and the step has the
/// opposite sign.
fn gradient(update: &[f64]) -> Vec<f64> {
    let (steps, squares) = update.split_at(update.len() / 2);
    steps.iter().zip(squares).map(|(step, square)| -step.signum() * square.sqrt()).collect()
}

/// Compares the gradients of all values of the model with finite differences.
fn check_gradients(step: &Step) {
    let Config { model, loss, batch, .. } = step.task.config;
    let mut values = initial(&step.task);
    let mut after = values.clone();
    step.train(&mut after);
    for key in (0..step.task.model().keys()).map(Key) {
        let update: Vec<f64> = std::iter::zip(&after[key.index()], &values[key.index()])
            .map(|(after, before)| after - before)
            .collect();
        for (at, analytic) in gradient(&update).iter().enumerate() {
            let (h, original) = (1e-5, values[key.index()][at]);
            let mut loss_at = |x: f64| {
                values[key.index()][at] = x;
                step.loss(&values)
            };
            let numeric = (loss_at(original + h) - loss_at(original - h)) / (2.0 * h);
            values[key.index()][at] = original;
            assert!(
                (numeric - analytic).abs() < 1e-6 * (1.0 + numeric.abs()),
                "{model:?} {loss:?} {batch} {key:?}[{at}]: finite difference {numeric}, gradient {analytic}"
            );
        }
    }
}

#[test]
fn gradients_of_matrix_products_equal_finite_differences() {
    for (model, reciprocal) in MODELS.iter().copied().flat_map(|model| [(model, true), (model, false)]) {
        // Few entities, so that samples coincide with entities of the batch and with each other.
        let config = config(model, Loss::Softmax, reciprocal);
        let step = Step::new(Kge::<f64>::new(Arc::new(graph(12, 40)), config).unwrap(), BatchAt::alone(1, 2));
        assert!(!step.task.trains_in_place());
        check_gradients(&step);
        // AdaGrad squares the sum of a key's gradients, and not each gradient.
        let (keys, mut repeated) = (step.keys(), 0);
        for (at, update) in step.compute(&initial(&step.task)).1.iter().enumerate() {
            if keys[..at].contains(&keys[at]) {
                repeated += 1;
                assert!(update.iter().all(|x| *x == 0.0), "one update per key");
            }
        }
        assert!(repeated > 0, "the batch exercises samples that occur more than once");
    }
}

#[test]
fn gradients_in_place_equal_finite_differences() {
    let kinds = MODELS.iter().copied().flat_map(|model| LOSSES.map(|loss| (model, loss)));
    for (model, loss, reciprocal) in kinds.flat_map(|(m, l)| [(m, l, true), (m, l, false)]) {
        // So many entities that no row is visited twice, so that all gradients are taken at one point.
        let config = Config { batch: 1, negatives: 4, ..config(model, loss, reciprocal) };
        let task = || Kge::<f64>::new(Arc::new(graph(60, 40)), config.clone()).unwrap();
        let steps = (0..40).map(|index| Step::new(task(), BatchAt::alone(1, index)));
        let is_plain = |step: &Step| {
            let keys = step.keys();
            keys.len() == BTreeSet::from_iter(&keys).len() && step.prepared.batch.entities == 2
        };
        let plain: Vec<Step> = steps.filter(is_plain).collect();
        assert!(plain.len() > 10, "{model:?} {loss:?}: {} steps", plain.len());
        assert!(plain[0].task.trains_in_place());
        plain[..3].iter().for_each(check_gradients);
    }
}

/// The loss of a batch with a softmax by its definition, without penalties.
fn naive_loss(step: &Step, model: &[Vec<f64>]) -> f64 {
    let task = &step.task;
    let key = |place: u32| step.prepared.keys[place as usize];
    let score = |s: Key, r: Key, o: Key| {
        let of = |key: Key| &model[key.index()][..model[key.index()].len() / 2];
        task.config.scorer().score(of(s), of(r), of(o))
    };
    let near = &step.prepared.keys[..step.prepared.batch.entities];
    let far: Vec<Key> = step.sample_keys.iter().copied().filter(|k| !near.contains(k)).collect();
    let loss = |query: &Query| {
        let (anchor, relation, target) = (key(query.anchor), key(query.relation), key(query.target));
        let of = |entity| {
            if query.inverse { score(entity, relation, anchor) } else { score(anchor, relation, entity) }
        };
        let near_sum: f64 = near.iter().map(|e| of(*e).exp()).sum();
        let far_mean = far.iter().map(|e| of(*e).exp()).sum::<f64>() / far.len().max(1) as f64;
        let outside = task.data.entities.len() - near.len();
        (near_sum + outside as f64 * far_mean).ln() - of(target)
    };
    step.prepared.batch.queries.iter().map(loss).sum()
}

#[test]
fn softmax_losses_equal_their_definition() {
    let (mut all_entities, mut sample_in_batch) = (false, false);
    for (model, batch) in MODELS.iter().copied().flat_map(|model| [(model, 1), (model, 5)]) {
        for (reciprocal, entities, index) in [true, false]
            .into_iter()
            .flat_map(|r| [4, 30].map(|e| (r, e)))
            .flat_map(|(r, e)| (0..8).map(move |i| (r, e, i)))
        {
            let config = Config { batch, ..config(model, Loss::Softmax, reciprocal) };
            let task = Kge::<f64>::new(Arc::new(graph(entities, 40)), config).unwrap();
            let values = initial(&task);
            let step = Step::new(task, BatchAt::alone(0, index));
            let keys = &step.prepared.keys;
            all_entities |= step.prepared.batch.entities == entities as usize;
            sample_in_batch |= step.sample_keys.iter().any(|k| keys.contains(k));
            let (computed, expected) = (step.report(&values).loss, naive_loss(&step, &values));
            assert!((computed - expected).abs() < 1e-9 * expected, "{model:?}: {computed}, not {expected}");
        }
    }
    assert!(all_entities && sample_in_batch, "the special cases occur");
}

/// Trains a batch in place, computed naively: triple by triple, each from copies of its direct rows. Samples
/// are changed one by one, direct rows at the end. Returns the loss.
fn train_naively(step: &Step, model: &mut [Vec<f64>]) -> f64 {
    let (task, batch, keys) = (&step.task, &step.prepared.batch, &step.prepared.keys);
    let config = &task.config;
    let per_query = step.sample_keys.len() / batch.queries.len();
    let adapt = |value: &mut [f64], gradient: &[f64]| {
        let (parameters, sums) = value.split_at_mut(gradient.len());
        for ((parameter, sum), gradient) in parameters.iter_mut().zip(sums).zip(gradient) {
            *sum += gradient * gradient;
            *parameter -= config.learning_rate * gradient / (*sum + 1e-10).sqrt();
        }
    };
    let mut loss = 0.0;
    for (triple, queries) in batch.queries.chunks(2).enumerate() {
        let before = model.to_vec();
        let mut gradients: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
        // The score of an entity, and its gradients with respect to anchor, relation and entity: it is linear
        // in each of them.
        let score = |query: &Query, entity: &[f64]| {
            let embedding = |place: u32| {
                let value = &before[keys[place as usize].index()];
                value[..value.len() / 2].to_vec()
            };
            let parts = [embedding(query.anchor), embedding(query.relation), entity.to_vec()];
            let of = |parts: &[Vec<f64>; 3]| {
                let [anchor, relation, entity] = parts;
                let (s, o) = if query.inverse { (entity, anchor) } else { (anchor, entity) };
                config.scorer().score(s, relation, o)
            };
            let gradients = [0, 1, 2].map(|part| {
                let unit = |at: usize| {
                    let mut parts = parts.clone();
                    parts[part].fill(0.0);
                    parts[part][at] = 1.0;
                    of(&parts)
                };
                (0..parts[part].len()).map(unit).collect::<Vec<f64>>()
            });
            (of(&parts), gradients)
        };
        let mut add = |key: Key, factor: f64, of: &[f64]| {
            let sum = gradients.entry(key).or_insert_with(|| vec![0.0; of.len()]);
            sum.iter_mut().zip(of).for_each(|(sum, x)| *sum += factor * x);
        };
        for query in queries {
            let mut places = vec![query.anchor, query.relation];
            places.extend(batch.answer.is_none().then_some(query.target));
            for key in places.into_iter().map(|place| keys[place as usize]) {
                let value = &before[key.index()];
                let embedding = &value[..value.len() / 2];
                let Penalties { n3, l2 } = config.penalties;
                let slope = |at: usize| {
                    let modulus = config.scorer().modulus(embedding, at);
                    (3.0 * n3 * modulus + 2.0 * l2) * embedding[at]
                };
                add(key, 1.0, &(0..embedding.len()).map(slope).collect::<Vec<_>>());
            }
        }
        // The visits, by query: the candidate, the slope of the loss with respect to its score, and whether
        // it is a direct row.
        let mut visits: Vec<(usize, Key, f64, bool)> = Vec::new();
        match config.loss {
            Loss::Logistic => {
                // The slopes are computed below, when the sample is visited.
                for (at, query) in queries.iter().enumerate() {
                    if query.scores_triple && batch.answer.is_none() {
                        visits.push((at, keys[query.target as usize], 1.0, true));
                    }
                }
                for (at, query) in queries.iter().enumerate() {
                    let answer = batch.answer(query, keys);
                    let samples = &step.sample_keys[(2 * triple + at) * per_query..][..per_query];
                    visits.extend(samples.iter().filter(|k| **k != answer).map(|k| (at, *k, -1.0, false)));
                }
            }
            Loss::Softmax => {
                let near = &keys[..batch.entities];
                let far: Vec<Key> =
                    step.sample_keys.iter().copied().filter(|key| !near.contains(key)).collect();
                let weight = (task.data.entities.len() - near.len()) as f64 / far.len().max(1) as f64;
                let candidates: Vec<(Key, f64, bool)> = near
                    .iter()
                    .map(|key| (*key, 1.0, true))
                    .chain(far.iter().map(|key| (*key, weight, false)))
                    .collect();
                for (at, query) in queries.iter().enumerate() {
                    let exps = candidates.iter().map(|(key, weight, _)| {
                        weight * score(query, &before[key.index()][..config.dim]).0.exp()
                    });
                    let exps: Vec<f64> = exps.collect();
                    let (sum, target) = (exps.iter().sum::<f64>(), keys[query.target as usize]);
                    for (exp, (key, _, is_near)) in exps.iter().zip(&candidates) {
                        let is_target = *is_near && *key == target;
                        if is_target {
                            loss -= (exp / sum).ln();
                        }
                        visits.push((at, *key, exp / sum - f64::from(u8::from(is_target)), *is_near));
                    }
                }
            }
        }
        let in_turn: Vec<Vec<(usize, Key, f64, bool)>> = match config.loss {
            Loss::Logistic => visits.into_iter().map(|visit| vec![visit]).collect(),
            // Both queries visit a candidate together.
            Loss::Softmax => {
                let (object, subject) = visits.split_at(visits.len() / 2);
                std::iter::zip(object, subject).map(|(o, s)| vec![*o, *s]).collect()
            }
        };
        for visit in in_turn {
            let (_, key, _, is_direct) = visit[0];
            let entity = if is_direct { &before } else { &*model }[key.index()][..config.dim].to_vec();
            let mut of_sample = vec![0.0; config.dim];
            for (at, _, slope, _) in visit {
                let query = &queries[at];
                let (value, [d_anchor, d_relation, d_entity]) = score(query, &entity);
                let slope = match config.loss {
                    Loss::Softmax => slope,
                    Loss::Logistic => {
                        loss += (-slope * value).exp().ln_1p();
                        -slope / (1.0 + (slope * value).exp())
                    }
                };
                add(keys[query.anchor as usize], slope, &d_anchor);
                add(keys[query.relation as usize], slope, &d_relation);
                if is_direct {
                    add(key, slope, &d_entity);
                } else {
                    of_sample.iter_mut().zip(&d_entity).for_each(|(sum, x)| *sum += slope * x);
                }
            }
            if !is_direct {
                adapt(&mut model[key.index()], &of_sample);
            }
        }
        for (key, gradient) in gradients {
            adapt(&mut model[key.index()], &gradient);
        }
    }
    loss
}

#[test]
fn steps_in_place_equal_naive_ones() {
    let (mut sample_twice, mut sample_in_batch, mut sample_is_target, mut is_loop) = (0, 0, 0, 0);
    let kinds = MODELS.iter().copied().flat_map(|model| {
        [
            (Loss::Logistic, 1, false),
            (Loss::Logistic, 5, false),
            (Loss::Logistic, 1, true),
            (Loss::Softmax, 1, false),
        ]
        .map(|(loss, batch, separate)| (model, loss, batch, separate))
    });
    for (model, loss, batch, separate) in kinds {
        for (reciprocal, entities, index) in [true, false]
            .into_iter()
            .filter(|reciprocal| !(*reciprocal && separate))
            .flat_map(|r| [4, 30].map(|e| (r, e)))
            .flat_map(|(r, e)| (0..8).map(move |i| (r, e, i)))
        {
            let config = Config { batch, separate, ..config(model, loss, reciprocal) };
            let task = Kge::<f64>::new(Arc::new(graph(entities, 40)), config).unwrap();
            let mut expected = initial(&task);
            // Accumulators as after a few steps, so that they matter.
            for (key, value) in expected.iter_mut().enumerate() {
                let half = value.len() / 2;
                value[half..].iter_mut().enumerate().for_each(|(at, sum)| *sum = (key + at) as f64 / 50.0);
            }
            let mut trained = expected.clone();
            let step = Step::new(task, BatchAt::alone(0, index));
            let (samples, keys) = (&step.sample_keys, &step.prepared.keys);
            sample_twice += usize::from(BTreeSet::from_iter(samples).len() < samples.len());
            sample_in_batch += samples.iter().filter(|key| keys.contains(key)).count();
            is_loop += usize::from(step.prepared.batch.queries.iter().any(|q| q.anchor == q.target));
            let answers = step.prepared.batch.queries.iter().map(|q| step.prepared.batch.answer(q, keys));
            let per_query = (samples.len() / step.prepared.batch.queries.len()).max(1);
            let meets = |(answer, samples): (Key, &[Key])| usize::from(samples.contains(&answer));
            sample_is_target += answers.zip(samples.chunks(per_query)).map(meets).sum::<usize>();
            let (loss, naive) = (step.train(&mut trained).loss, train_naively(&step, &mut expected));
            let what = format!("{model:?}, {loss:?}, {batch}, {separate}, {reciprocal}, {entities}, {index}");
            assert!((loss - naive).abs() < 1e-9 * (1.0 + naive), "{what}: loss {loss}, not {naive}");
            for (key, (trained, expected)) in trained.iter().zip(&expected).enumerate() {
                for (at, (trained, expected)) in trained.iter().zip(expected).enumerate() {
                    assert!(
                        (trained - expected).abs() < 1e-9 * (1.0 + expected.abs()),
                        "{what}: {key}[{at}] is {trained}, not {expected}"
                    );
                }
            }
        }
    }
    let seen = [sample_twice, sample_in_batch, sample_is_target, is_loop];
    assert!(seen.iter().all(|count| *count > 0), "the special cases occur: {seen:?}");
}

/// A step stops at the first score that is not finite, and says so in its loss.
#[test]
fn a_score_that_is_not_finite_is_reported() {
    for (model, loss) in MODELS.iter().copied().flat_map(|model| LOSSES.map(|loss| (model, loss))) {
        for large in [f64::MAX, f64::NAN] {
            let config = Config { batch: 1, ..config(model, loss, false) };
            let task = Kge::<f64>::new(Arc::new(graph(60, 40)), config).unwrap();
            let mut values = initial(&task);
            let step = Step::new(task, BatchAt::alone(0, 0));
            let last = *step.sample_keys.last().unwrap();
            assert!(!step.prepared.keys.contains(&last));
            let dim = step.task.config.dim;
            values[last.index()][..dim].fill(large);
            step.prepared.keys.iter().for_each(|key| values[key.index()].iter_mut().for_each(|x| *x *= 1e3));
            let direct: Vec<_> =
                step.prepared.keys.iter().map(|key| (*key, values[key.index()].clone())).collect();
            assert!(!step.train(&mut values).loss.is_finite(), "{model:?} {loss:?} {large}");
            assert!(direct.iter().all(|(key, value)| values[key.index()] == *value), "rows are left alone");
        }
    }
}

/// Two queries per triple, among the entities of the batch and the samples.
#[test]
fn costs_are_the_multiply_adds_of_a_step() {
    let steps = [(Loss::Logistic, 1), (Loss::Softmax, 1), (Loss::Softmax, 5)];
    for (model, (loss, batch)) in MODELS.iter().flat_map(|model| steps.map(|step| (*model, step))) {
        let config = Config { batch, ..config(model, loss, true) };
        let (dim, scorer) = (config.dim, config.scorer());
        let (relation, of_query) = (scorer.relation_len(), scorer.query_cost());
        let task = Kge::<f64>::new(Arc::new(graph(30, 40)), config).unwrap();
        let values = initial(&task);
        let step = Step::new(task, BatchAt::alone(0, 0));
        let entities = step.prepared.batch.entities;
        assert!(batch > 1 || entities == 2, "no loop");
        let (queries, relations) = (2 * batch, step.prepared.keys.len() - entities);
        let (samples, candidates) = match loss {
            Loss::Softmax => (9, queries * (entities + 9)),
            Loss::Logistic => (18, queries * (1 + 9)),
        };
        let direct = entities * dim + relations * relation;
        let expected = 3 * candidates * dim + queries * of_query + direct + 4 * (direct + samples * dim);
        assert_eq!(step.report(&values).cost, Cost(expected as u64), "{model:?} {loss:?} {batch}");
    }
}

#[test]
fn adagrad_divides_by_the_root_of_all_squares() {
    let (value, mut update) = ([5.0, 7.0, 9.0, 16.0], [4.0, -3.0, 0.0, 0.0]);
    AdaGrad::new(0.5).update(&value, &mut update);
    assert_eq!(update[2..], [16.0, 9.0]);
    assert!((update[0] + 0.5 * 4.0 / 5.0).abs() < 1e-9 && (update[1] - 0.5 * 3.0 / 5.0).abs() < 1e-9);
    let mut trained = value;
    AdaGrad::new(0.5).train(&mut trained, &[4.0, -3.0]);
    for (at, (trained, value)) in trained.iter().zip(value).enumerate() {
        assert!((trained - (value + update[at])).abs() < 1e-9, "in place as by an update");
    }
    let mut still = [0.0; 4];
    AdaGrad::new(0.5).update(&[1.0, 1.0, 0.0, 0.0], &mut still);
    assert_eq!(still, [0.0; 4]);
    let mut still = [1.0, 1.0, 0.0, 0.0];
    AdaGrad::new(0.5).train(&mut still, &[0.0, 0.0]);
    assert_eq!(still, [1.0, 1.0, 0.0, 0.0]);
}

#[test]
fn a_batch_depends_on_seed_epoch_and_index_only() {
    let data = Arc::new(graph(30, 57));
    for loss in LOSSES {
        let config = config(ModelKind::DEFAULT, loss, true);
        let task = |seed| Kge::<f32>::new(Arc::clone(&data), Config { seed, ..config.clone() }).unwrap();
        let (a, b, other) = (task(3), task(3), task(4));
        let at = BatchAt::alone;
        // Another order of requests, as with another number of workers.
        let later: Vec<_> = (0..12).rev().map(|i| b.prepare(at(2, i))).collect();
        for (index, later) in (0..12).zip(later.iter().rev()) {
            let now = a.prepare(at(2, index));
            assert_eq!((&now.batch, &now.keys, &now.samples), (&later.batch, &later.keys, &later.samples));
            assert_eq!(now.digest, later.digest);
        }
        let of = |task: &Kge<f32>, epoch| task.prepare(at(epoch, 0)).digest;
        assert_ne!(of(&a, 2), of(&other, 2));
        assert_ne!(of(&a, 2), of(&a, 3));
        assert_ne!(a.prepare(at(2, 0)).keys, a.prepare(at(3, 0)).keys, "every epoch has an order of its own");
        assert_ne!(a.prepare(at(2, 0)).samples, a.prepare(at(3, 0)).samples, "and samples of its own");
    }
}

const FIRST: Subepoch = Subepoch { epoch: 0, index: 0 };

#[test]
fn an_epoch_has_every_triple_once() {
    let data = Arc::new(graph(30, 57));
    let task = Kge::<f32>::new(Arc::clone(&data), config(ModelKind::DEFAULT, Loss::Softmax, true)).unwrap();
    assert_eq!(task.batches(FIRST, Partition::alone()), 12);
    let mut seen = Vec::new();
    for index in 0..task.batches(FIRST, Partition::alone()) {
        let prepared = task.prepare(BatchAt::alone(0, index));
        let key = |place: u32| prepared.keys[place as usize].0 as u32;
        for pair in prepared.batch.queries.chunks_exact(2) {
            let [object, subject] = pair else { unreachable!("chunks of two") };
            assert_eq!((object.anchor, object.target), (subject.target, subject.anchor));
            assert_eq!(key(subject.relation), key(object.relation) + 3);
            let (subject, relation) = (key(object.anchor), key(object.relation) - 30);
            seen.push(Triple { subject, relation, object: key(object.target) });
        }
    }
    let mut expected = data.train.clone();
    expected.sort_unstable();
    seen.sort_unstable();
    assert_eq!(seen, expected);
}

#[test]
fn initial_values_of_both_element_types_agree_and_have_the_scale() {
    let mut values = (vec![0.0f32; 4000], vec![0.0f64; 4000]);
    initialise(5, Key(9), 0.25, &mut values.0);
    initialise(5, Key(9), 0.25, &mut values.1);
    assert!(values.0.iter().zip(&values.1).all(|(a, b)| *a == *b as f32));
    let deviation = (values.1.iter().map(|x| x * x).sum::<f64>() / 2000.0).sqrt();
    assert!((deviation - 0.25).abs() < 0.02, "{deviation}");
    assert!(values.1[2000..].iter().all(|x| *x == 0.0));
    let mut other = vec![0.0f64; 4000];
    initialise(5, Key(10), 0.25, &mut other);
    assert!(other.iter().zip(&values.1).take(2000).all(|(a, b)| a != b));
}

fn separate(negatives: usize) -> Config {
    let config = config(ModelKind::DEFAULT, Loss::Logistic, false);
    Config { batch: 1, negatives, separate: true, ..config }
}

/// Compares the steps of a triple with a batch that trains the triple: both have the same loss and, before
/// anything is learnt, the same gradients.
#[test]
fn separate_scores_are_the_scores_of_the_batch() {
    const NEGATIVES: usize = 4;
    // No penalties, because these are counted per use, and each step is a use. The rate is so small that the
    // batch's change of one row does not show in the next score.
    let grouped = Config {
        separate: false,
        penalties: Penalties::default(),
        learning_rate: 1e-13,
        ..separate(NEGATIVES)
    };
    let apart = Config { separate: true, ..grouped.clone() };
    let steps = apart.steps();
    assert_eq!(steps, 9);
    let data = Arc::new(graph(11, 30));
    let (mut replaced, mut equal) = (0, 0);
    for triple in 0..30 {
        let task = |config: &Config| Kge::<f64>::new(Arc::clone(&data), config.clone()).unwrap();
        // Like a loader: one handle serves the steps of a triple, whose first step asks for the samples of
        // all.
        assert_eq!(u64::from(task(&apart).portions().get()), steps);
        let at = |step| BatchAt::alone(0, triple * steps + step);
        let prepared: Vec<_> = (0..steps).map(|step| task(&apart).prepare(at(step))).collect();
        let SampleRequest { distribution, stream, .. } = prepared[0].samples[0];
        let samples = prepared.iter().map(|step| step.samples[0].samples).sum();
        let manager = Manager::new(task(&apart).model().sampler.clone(), 0, 0);
        let mut handle = manager.prepare(distribution, samples, stream, &Everything).unwrap();
        // All accessed keys are near before the first step, relations included.
        let near: Vec<Key> = prepared[0].near.iter().copied().chain(handle.near()).collect();
        let step = |prepared: Prepared<Batch>| {
            let (task, mut sample_keys) = (task(&apart), Vec::new());
            let samples = prepared.samples[0].samples;
            manager.draw(&mut handle, samples, &Everything, &mut sample_keys, &mut Vec::new()).unwrap();
            Step { task, prepared, sample_keys }
        };
        let all: Vec<Step> = prepared.into_iter().map(step).collect();
        let mut whole = Step::new(task(&grouped), BatchAt::alone(0, triple));
        // The batch gets the samples of the steps instead of its own.
        whole.sample_keys = all.iter().flat_map(|step| step.sample_keys.clone()).collect();
        assert_eq!(whole.sample_keys.len(), 2 * NEGATIVES);
        let model = initial(&whole.task);
        let reports: Vec<_> = all.iter().map(|step| step.report(&model)).collect();
        let (loss, examples) = reports.iter().fold((0.0, 0), |(l, e), r| (l + r.loss, e + r.examples));
        let expected = whole.report(&model);
        assert!((loss - expected.loss).abs() < 1e-9 && examples == expected.examples, "triple {triple}");
        let is_loop = all[0].prepared.keys.len() == 2;
        for step in &all {
            assert!(step.prepared.keys.iter().chain(&step.sample_keys).all(|key| near.contains(key)));
            let keys = step.prepared.keys.len() + step.sample_keys.len();
            assert!(keys == 3 || (is_loop && step.sample_keys.is_empty()), "a score is of three keys");
            replaced += step.sample_keys.len();
            equal +=
                usize::from(step.prepared.batch.answer.is_some_and(|key| step.sample_keys.contains(&key)));
        }
        assert!(all[1..].iter().all(|step| step.prepared.near.is_empty()));
    }
    assert!(equal > 0 && equal < replaced / 2, "some samples are what they replace: {equal} of {replaced}");
}

/// All scores are trained, whatever the number of workers.
#[test]
fn separate_scores_are_trained_once() {
    let task = Kge::<f64>::new(Arc::new(graph(11, 30)), separate(2)).unwrap();
    let digest = |workers| {
        let subepoch = Subepoch { epoch: 1, index: 0 };
        let partitions = Partition { workers, ..Partition::alone() }.all();
        let batches = partitions.flat_map(|partition| {
            (0..task.batches(subepoch, partition)).map(move |index| BatchAt { subepoch, partition, index })
        });
        let prepared: Vec<_> = batches.map(|at| task.prepare(at)).collect();
        assert_eq!(prepared.len(), 150);
        prepared.iter().fold(0u64, |sum, prepared| sum.wrapping_add(prepared.digest))
    };
    assert_eq!(digest(1), digest(7));
}
