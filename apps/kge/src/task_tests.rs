//! The gradients by finite differences, and what batches depend on.

use super::*;
use crate::data::Names;
use crate::model::{ModelKind, adagrad};
use intendant_sampling::{Everything, Manager};

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

const MODELS: [ModelKind; 2] = [ModelKind::Complex, ModelKind::Rescal];
const LOSSES: [Loss; 2] = [Loss::Softmax, Loss::Logistic];

pub(super) fn config(model: ModelKind, loss: Loss, reciprocal: bool) -> Config {
    let (dim, n3) = match model {
        ModelKind::Complex => (6, 0.03),
        // Odd, and so there is nothing in it that could be taken for complex numbers.
        ModelKind::Rescal => (5, 0.0),
    };
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
    let moduli = |half: usize| (0..half).map(move |i| embedding[i].hypot(embedding[i + half]));
    let cubes: f64 = match config.model {
        ModelKind::Complex => moduli(embedding.len() / 2).map(|modulus| modulus.powi(3)).sum(),
        ModelKind::Rescal => 0.0,
    };
    config.penalties.n3 * cubes + config.penalties.l2 * squares
}

/// A batch with its pulled values.
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

    /// What is reported, and the updates of direct and sampled values, if the model is `model`.
    fn report(&self, model: &[Vec<f64>]) -> (StepReport, Vec<f64>, Vec<f64>) {
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
        // Of a triple's separate scores, the first one counts.
        assert!(report.examples == self.task.config.batch as u64 || self.task.config.separate);
        (report, update, sample_update)
    }

    /// The loss with penalties, and the updates.
    fn compute(&self, model: &[Vec<f64>]) -> (f64, Vec<f64>, Vec<f64>) {
        let (report, update, sample_update) = self.report(model);
        let penalty = |(key, uses): (&Key, &u32)| {
            let value = &model[key.index()];
            f64::from(*uses) * naive_penalty(&self.task.config, &value[..value.len() / 2])
        };
        let penalty: f64 = self.prepared.keys.iter().zip(&self.prepared.batch.uses).map(penalty).sum();
        (report.loss + penalty, update, sample_update)
    }
}

/// AdaGrad's update tells the gradient: its square is added to the accumulator, and the step has its opposite
/// sign.
fn gradient(update: &[f64]) -> Vec<f64> {
    let (steps, squares) = update.split_at(update.len() / 2);
    steps.iter().zip(squares).map(|(step, square)| -step.signum() * square.sqrt()).collect()
}

fn check_gradients(model: ModelKind, loss: Loss, reciprocal: bool) {
    // Few entities: samples meet entities of the batch and each other.
    let task = Kge::<f64>::new(Arc::new(graph(12, 40)), config(model, loss, reciprocal)).unwrap();
    let mut values = initial(&task);
    let step = Step::new(task, BatchAt::alone(1, 2));
    let (_, update, sample_update) = step.compute(&values);
    let all_keys: Vec<Key> = step.prepared.keys.iter().chain(&step.sample_keys).copied().collect();
    let mut distinct = all_keys.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(distinct.len() < all_keys.len(), "the batch exercises samples that occur more than once");
    let updates = [update, sample_update].concat();
    let mut rest = &updates[..];
    let rows: Vec<&[f64]> =
        all_keys.iter().map(|key| rest.split_off(..values[key.index()].len()).unwrap()).collect();
    assert!(rest.is_empty());
    for key in distinct {
        let of_key: Vec<&&[f64]> =
            rows.iter().zip(&all_keys).filter(|(_, k)| **k == key).map(|(r, _)| r).collect();
        assert!(of_key[1..].iter().all(|row| row.iter().all(|x| *x == 0.0)), "one update per key");
        let analytic = gradient(of_key[0]);
        for (at, analytic) in analytic.iter().enumerate() {
            let (h, original) = (1e-5, values[key.index()][at]);
            let mut loss_at = |x: f64| {
                values[key.index()][at] = x;
                step.compute(&values).0
            };
            let numeric = (loss_at(original + h) - loss_at(original - h)) / (2.0 * h);
            values[key.index()][at] = original;
            assert!(
                (numeric - analytic).abs() < 1e-6 * (1.0 + numeric.abs()),
                "{model:?} {loss:?} {key:?}[{at}]: finite difference {numeric}, gradient {analytic}"
            );
        }
    }
}

#[test]
fn softmax_gradients_equal_finite_differences() {
    for model in MODELS {
        check_gradients(model, Loss::Softmax, true);
        check_gradients(model, Loss::Softmax, false);
    }
}

#[test]
fn logistic_gradients_equal_finite_differences() {
    for model in MODELS {
        check_gradients(model, Loss::Logistic, true);
        check_gradients(model, Loss::Logistic, false);
    }
}

/// The score of a triple by its definition: Re⟨s, r, ō⟩ or sᵀ R o.
fn naive_score(config: &Config, s: &[f64], r: &[f64], o: &[f64]) -> f64 {
    let (dim, half) = (config.dim, config.dim / 2);
    match config.model {
        ModelKind::Complex => {
            let term = |i: usize| {
                let re = s[i] * r[i] - s[i + half] * r[i + half];
                let im = s[i] * r[i + half] + s[i + half] * r[i];
                re * o[i] + im * o[i + half]
            };
            (0..half).map(term).sum()
        }
        ModelKind::Rescal => {
            let term = |at: usize| s[at / dim] * r[at] * o[at % dim];
            (0..dim * dim).map(term).sum()
        }
    }
}

/// The loss of a batch by its definition, without penalties.
fn naive_loss(step: &Step, model: &[Vec<f64>]) -> f64 {
    let task = &step.task;
    let key = |place: u32| step.prepared.keys[place as usize];
    let score = |s: Key, r: Key, o: Key| {
        naive_score(&task.config, &model[s.index()], &model[r.index()], &model[o.index()])
    };
    let near = &step.prepared.keys[..step.prepared.batch.entities];
    let far: Vec<Key> = step.sample_keys.iter().copied().filter(|k| !near.contains(k)).collect();
    let (mut loss, per_query) = (0.0, step.sample_keys.len() / step.prepared.batch.queries.len());
    for (at, query) in step.prepared.batch.queries.iter().enumerate() {
        let (anchor, relation, target) = (key(query.anchor), key(query.relation), key(query.target));
        let of = |entity| {
            if query.inverse { score(entity, relation, anchor) } else { score(anchor, relation, entity) }
        };
        match task.config.loss {
            Loss::Softmax => {
                let near_sum: f64 = near.iter().map(|e| of(*e).exp()).sum();
                let far_mean = far.iter().map(|e| of(*e).exp()).sum::<f64>() / far.len().max(1) as f64;
                let outside = task.data.entities.len() - near.len();
                loss += (near_sum + outside as f64 * far_mean).ln() - of(target);
            }
            Loss::Logistic => {
                let negatives = &step.sample_keys[at * per_query..][..per_query];
                let negatives = negatives.iter().filter(|k| **k != target);
                loss += negatives.map(|k| of(*k).exp().ln_1p()).sum::<f64>();
                // Without reciprocal relations both queries of a triple are the same statement.
                if at % 2 == 0 || task.config.reciprocal {
                    loss += (-of(target)).exp().ln_1p();
                }
            }
        }
    }
    loss
}

#[test]
fn losses_equal_their_definitions() {
    let (mut all_entities, mut sample_in_batch, mut sample_is_target) = (false, false, false);
    let kinds = MODELS.into_iter().flat_map(|model| LOSSES.map(|loss| (model, loss)));
    for (model, loss) in kinds {
        for (reciprocal, entities, index) in [true, false]
            .into_iter()
            .flat_map(|r| [4, 30].map(|e| (r, e)))
            .flat_map(|(r, e)| (0..8).map(move |i| (r, e, i)))
        {
            let config = Config { penalties: Penalties::default(), ..config(model, loss, reciprocal) };
            let task = Kge::<f64>::new(Arc::new(graph(entities, 40)), config).unwrap();
            let values = initial(&task);
            let step = Step::new(task, BatchAt::alone(0, index));
            let (batch, keys) = (&step.prepared.batch, &step.prepared.keys);
            all_entities |= batch.entities == entities as usize;
            sample_in_batch |= step.sample_keys.iter().any(|k| keys.contains(k));
            sample_is_target |=
                batch.queries.iter().zip(step.sample_keys.chunks(9)).any(|(query, samples)| {
                    loss == Loss::Logistic && samples.contains(&keys[query.target as usize])
                });
            let (computed, expected) = (step.compute(&values).0, naive_loss(&step, &values));
            assert!(
                (computed - expected).abs() < 1e-9 * expected,
                "{model:?} {loss:?}: {computed}, not {expected}"
            );
        }
    }
    assert!(all_entities && sample_in_batch && sample_is_target, "the special cases occur");
}

/// A batch of one triple: two queries among two entities and the samples.
#[test]
fn costs_are_the_multiply_adds_of_a_step() {
    for (model, loss, relation, of_query) in [
        (ModelKind::Complex, Loss::Logistic, 6, 6 * 6),
        (ModelKind::Complex, Loss::Softmax, 6, 6 * 6),
        (ModelKind::Rescal, Loss::Logistic, 25, 3 * 25),
        (ModelKind::Rescal, Loss::Softmax, 25, 3 * 25),
    ] {
        let config = Config { batch: 1, ..config(model, loss, true) };
        let dim = config.dim;
        let task = Kge::<f64>::new(Arc::new(graph(30, 40)), config).unwrap();
        let values = initial(&task);
        let step = Step::new(task, BatchAt::alone(0, 0));
        assert_eq!(step.prepared.batch.entities, 2, "no loop");
        let (samples, candidates) = match loss {
            Loss::Softmax => (9, 2 * (2 + 9)),
            Loss::Logistic => (18, 2 * (1 + 9)),
        };
        let direct = 2 * dim + 2 * relation;
        let expected = 3 * candidates * dim + 2 * of_query + direct + 4 * (direct + samples * dim);
        assert_eq!(step.report(&values).0.cost, Cost(expected as u64), "{model:?} {loss:?}");
    }
}

#[test]
fn adagrad_divides_by_the_root_of_all_squares() {
    let (value, mut update) = ([5.0, 7.0, 9.0, 16.0], [4.0, -3.0, 0.0, 0.0]);
    adagrad(0.5, &value, &mut update);
    assert_eq!(update[2..], [16.0, 9.0]);
    assert!((update[0] + 0.5 * 4.0 / 5.0).abs() < 1e-9 && (update[1] - 0.5 * 3.0 / 5.0).abs() < 1e-9);
    let mut still = [0.0; 4];
    adagrad(0.5, &[1.0, 1.0, 0.0, 0.0], &mut still);
    assert_eq!(still, [0.0; 4]);
}

#[test]
fn a_batch_depends_on_seed_epoch_and_index_only() {
    let data = Arc::new(graph(30, 57));
    for loss in LOSSES {
        let config = config(ModelKind::Complex, loss, true);
        let task = |seed| Kge::<f32>::new(Arc::clone(&data), Config { seed, ..config.clone() }).unwrap();
        let (a, b, other) = (task(3), task(3), task(4));
        let at = BatchAt::alone;
        // Another order of requests, as on another number of workers.
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
    let task = Kge::<f32>::new(Arc::clone(&data), config(ModelKind::Complex, Loss::Softmax, true)).unwrap();
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
    let config = config(ModelKind::Complex, Loss::Logistic, false);
    Config { batch: 1, negatives, separate: true, ..config }
}

/// Steps of a triple as one batch would train it: the same loss and, before anything is learnt, the same
/// gradients.
#[test]
fn separate_scores_are_the_scores_of_the_batch() {
    const NEGATIVES: usize = 4;
    // No penalties: these count per use, and there are as many uses as steps.
    let grouped = Config { separate: false, penalties: Penalties::default(), ..separate(NEGATIVES) };
    let apart = Config { separate: true, ..grouped.clone() };
    let steps = apart.steps();
    assert_eq!(steps, 9);
    let data = Arc::new(graph(11, 30));
    let (mut replaced, mut equal) = (0, 0);
    for triple in 0..30 {
        let task = |config: &Config| Kge::<f64>::new(Arc::clone(&data), config.clone()).unwrap();
        // As a loader does: one handle for the steps of a triple, whose first asks for all of their samples.
        assert_eq!(u64::from(task(&apart).portions().get()), steps);
        let at = |step| BatchAt::alone(0, triple * steps + step);
        let prepared: Vec<_> = (0..steps).map(|step| task(&apart).prepare(at(step))).collect();
        let SampleRequest { distribution, stream, .. } = prepared[0].samples[0];
        let samples = prepared.iter().map(|step| step.samples[0].samples).sum();
        let manager = Manager::new(task(&apart).model().sampler.clone(), 0, 0);
        let mut handle = manager.prepare(distribution, samples, stream, &Everything).unwrap();
        // All that is accessed is near before the first step, relations included.
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
        let reports: Vec<_> = all.iter().map(|step| step.report(&model).0).collect();
        let (loss, examples) = reports.iter().fold((0.0, 0), |(l, e), r| (l + r.loss, e + r.examples));
        let expected = whole.report(&model).0;
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

/// However many workers there are, all scores are trained.
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
