//! Compares ranks with their definition.

use super::*;
use crate::data::{Dataset, Names};
use crate::model::ModelKind;
use intendant_core::random::stream;

const RELATIONS: u32 = 4;

fn graph(entities: u32) -> Dataset {
    let names = |count: u32| {
        let mut names = Names::default();
        (0..count).for_each(|i| names.push(&i.to_string()));
        names
    };
    let word = |i: u64, part: u64, below: u32| (stream(11, &[i, part]) % u64::from(below)) as u32;
    let triple = |i| Triple {
        subject: word(i, 0, entities),
        relation: word(i, 1, RELATIONS),
        object: word(i, 2, entities),
    };
    let all: Vec<Triple> = (0..u64::from(entities) * 8).map(triple).collect();
    let (train, held) = all.split_at(all.len() * 3 / 4);
    let (valid, test) = held.split_at(held.len() / 2);
    Dataset::new(names(entities), names(RELATIONS), train.to_vec(), valid.to_vec(), test.to_vec())
}

/// A model of at least `dim` real numbers per entity.
fn scorer(model: ModelKind, dim: usize) -> Scorer {
    Scorer { model, dim: dim.next_multiple_of(model.facts().dim_step) }
}

/// A model of `entities` entities, relations and reciprocals, whose embeddings come from `number`; the
/// accumulators are NaN, as evaluation must not read them.
fn model<E: Element>(entities: u64, scorer: Scorer, number: impl Fn(u64) -> f64) -> Vec<Vec<E>> {
    let value = |key: u64| {
        let len = if key < entities { scorer.dim } else { scorer.relation_len() };
        let embedding = (0..len as u64).map(|i| E::from_f64(number(stream(key, &[i]))));
        embedding.chain(std::iter::repeat_n(E::from_f64(f64::NAN), len)).collect()
    };
    (0..entities + 2 * u64::from(RELATIONS)).map(value).collect()
}

/// Sums of the metrics, by the definition.
fn naive<E: Element>(data: &Dataset, model: &[Vec<E>], reciprocal: bool, scorer: Scorer) -> Reduction {
    let entities = data.entities.len() as u32;
    let known: Vec<Triple> = data.train.iter().chain(&data.valid).chain(&data.test).copied().collect();
    let mut sums = Reduction::default();
    for triple in &data.test {
        for subject_side in [false, true] {
            let replaced = |entity: u32| {
                if subject_side {
                    Triple { subject: entity, ..*triple }
                } else {
                    Triple { object: entity, ..*triple }
                }
            };
            let score_of = |t: Triple| {
                let inverse = subject_side && reciprocal;
                let relation = entities + t.relation + if inverse { RELATIONS } else { 0 };
                let (s, o) = if inverse { (t.object, t.subject) } else { (t.subject, t.object) };
                let [s, r, o] = [s, relation, o].map(|key| &model[key as usize]);
                scorer.score(&s[..s.len() / 2], &r[..r.len() / 2], &o[..o.len() / 2])
            };
            let answer = score_of(*triple);
            let mut rank = 1.0;
            for entity in 0..entities {
                let other = replaced(entity);
                if !known.contains(&other) {
                    let score = score_of(other);
                    rank += if score > answer {
                        1.0
                    } else if score == answer {
                        0.5
                    } else {
                        0.0
                    };
                }
            }
            let side = if subject_side { triple.subject } else { triple.object };
            let mut loss = (1.0 + (-answer).exp()).ln();
            for at in 0..CORRUPTED as u64 {
                let of = [triple.subject, triple.relation, triple.object, side].map(u64::from);
                let drawn = stream(CORRUPTION, &[&of[..], &[at]].concat()) % u64::from(entities);
                let other = replaced(drawn as u32);
                if !known.contains(&other) {
                    loss += (1.0 + score_of(other).exp()).ln();
                }
            }
            sums.add("quality.heldout_loss", loss);
            sums.add("quality.mrr_filtered", 1.0 / rank);
            sums.add("quality.mean_rank_filtered", rank);
            for (name, last) in [("hits_at_1", 1.0), ("hits_at_3", 3.0), ("hits_at_10", 10.0)] {
                sums.add(&format!("quality.{name}"), if rank <= last { 1.0 } else { 0.0 });
            }
            sums.add("quality.count", 1.0);
        }
    }
    sums
}

/// Evaluates the test triples with `workers` workers, which receive values in parts of `part` keys, in a
/// permuted order.
fn evaluate<E: Element>(
    data: &Dataset,
    model: &[Vec<E>],
    reciprocal: bool,
    scorer: Scorer,
    (workers, threads, part): (usize, usize, usize),
) -> Reduction {
    let entities = data.entities.len() as u64;
    let relations = (entities, reciprocal.then_some(entities + u64::from(RELATIONS)));
    let known = Arc::new(Known::new(data));
    let mut sums = Reduction::default();
    for worker in 0..workers {
        let share: Vec<Triple> = data.test.iter().skip(worker).step_by(workers).copied().collect();
        let mut ranking =
            Box::new(Ranking::<E>::new(known.clone(), &share, entities, relations, scorer, threads));
        let values: Vec<E> = ranking.keys().iter().flat_map(|k| model[k.index()].clone()).collect();
        ranking.take(&values);
        let order = intendant_core::random::Permutation::new(entities, worker as u64);
        let keys: Vec<Key> = ranking.range().map(|k| Key(order.apply(k))).collect();
        for keys in keys.chunks(part) {
            let values: Vec<E> = keys.iter().flat_map(|k| model[k.index()].clone()).collect();
            ranking.part(keys, &values);
        }
        sums.merge(&ranking.finish());
    }
    sums
}

/// The metrics are sums of a few numbers, so that another order of summation hardly matters.
fn assert_equal(a: &Reduction, b: &Reduction, what: &str) {
    assert_eq!(a.sums.keys().collect::<Vec<_>>(), b.sums.keys().collect::<Vec<_>>());
    for (name, value) in &a.sums {
        let near = 1e-9 * (1.0 + value.abs());
        assert!((value - b.get(name)).abs() < near, "{what}, {name}: {value} instead of {}", b.get(name));
    }
}

/// Small whole numbers make exact scores with very many ties.
#[test]
fn ranks_equal_the_definition_with_ties() {
    let data = graph(97);
    let dims = [(1, true), (3, false), (5, false), (20, true)];
    for (kind, (dim, reciprocal)) in ModelKind::ALL.iter().flat_map(|kind| dims.map(|dim| (*kind, dim))) {
        let scorer = scorer(kind, dim);
        let model = model::<f32>(97, scorer, |word| (word % 3) as f64 - 1.0);
        let expected = naive(&data, &model, reciprocal, scorer);
        for split in [(1, 1, 1000), (1, 2, 10), (3, 2, 7), (200, 1, 97)] {
            let sums = evaluate(&data, &model, reciprocal, scorer, split);
            assert_equal(&sums, &expected, &format!("{scorer:?}, split {split:?}"));
        }
    }
}

#[test]
fn ranks_equal_the_definition_without_ties() {
    let data = graph(150);
    let number = |word: u64| intendant_core::random::unit(word) - 0.5;
    for scorer in ModelKind::ALL.iter().map(|kind| scorer(*kind, 17)) {
        let model = model::<f64>(150, scorer, number);
        for reciprocal in [false, true] {
            let expected = naive(&data, &model, reciprocal, scorer);
            assert_equal(&evaluate(&data, &model, reciprocal, scorer, (2, 2, 40)), &expected, "random");
        }
    }
}

/// Entities that differ only in the last bits: single precision products cannot tell them apart, ranks must.
#[test]
fn ranks_of_near_ties_do_not_depend_on_blocks() {
    let data = graph(200);
    let number = |word: u64| 1.0 + (word % 5) as f64 * f64::from(f32::EPSILON);
    for scorer in ModelKind::ALL.iter().map(|kind| scorer(*kind, 65)) {
        let model = model::<f32>(200, scorer, number);
        let once = evaluate(&data, &model, true, scorer, (1, 1, 1000));
        for split in [(1, 1, 1), (1, 2, 13), (4, 1, 64)] {
            let sums = evaluate(&data, &model, true, scorer, split);
            assert_equal(&sums, &once, &format!("{scorer:?}, split {split:?}"));
        }
    }
}

/// A model that knows nothing must be rated as such.
#[test]
fn equal_scores_give_the_mean_rank() {
    let data = graph(60);
    let scorer = scorer(ModelKind::DEFAULT, 8);
    let model = model::<f32>(60, scorer, |_| 0.0);
    let sums = evaluate(&data, &model, true, scorer, (1, 1, 60));
    assert_equal(&sums, &naive(&data, &model, true, scorer), "zeros");
    assert!(sums.get("quality.mrr_filtered") / sums.get("quality.count") < 0.05);
}

/// A broken embedding must not improve the ranks of others.
#[test]
fn scores_that_are_no_numbers_count_as_higher() {
    let data = graph(60);
    let scorer = scorer(ModelKind::DEFAULT, 8);
    let mut model = model::<f32>(60, scorer, |word| (word % 3) as f64);
    let before = evaluate(&data, &model, true, scorer, (1, 1, 60));
    model[0][0] = f32::NAN;
    let after = evaluate(&data, &model, true, scorer, (1, 1, 60));
    assert!(after.get("quality.mrr_filtered") < before.get("quality.mrr_filtered"));
}

#[test]
fn workers_share_the_triples_and_few_read_all_entities_for_few_triples() {
    let triple = |at| Triple { subject: at, relation: 0, object: 0 };
    for (triples, workers, evaluating) in
        [(0, 3, 0), (1, 3, 1), (600, 1, 1), (600, 8, 2), (1000, 8, 3), (2560, 4, 4), (5000, 512, 19)]
    {
        let all: Vec<Triple> = (0..triples).map(triple).collect();
        let part = |worker| share(&all, Partition { worker, workers, nodes: 1, threads: 1 });
        let parts: Vec<Vec<Triple>> = (0..workers).map(part).collect();
        let busy: Vec<usize> = (0..parts.len()).filter(|at| !parts[*at].is_empty()).collect();
        assert_eq!(busy.len(), evaluating, "{triples} triples, {workers} workers");
        let gaps = busy.windows(2).map(|pair| pair[1] - pair[0]);
        let even = workers as usize / evaluating.max(1);
        assert!(gaps.into_iter().all(|gap| gap == even || gap == even + 1), "not spread evenly: {busy:?}");
        let mut subjects: Vec<u32> = parts.iter().flatten().map(|triple| triple.subject).collect();
        subjects.sort_unstable();
        assert_eq!(subjects, (0..triples).collect::<Vec<_>>());
    }
}
