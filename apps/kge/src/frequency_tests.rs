//! Compares frequencies with the pulls of workers.

use super::clustering_tests::{partitions, run};
use super::tests::{config, graph};
use super::*;
use crate::model::ModelKind;
use intendant_task::Schedule;
use std::collections::BTreeSet;

const ENTITIES: u32 = 12;
const EPOCHS: u32 = 200;

/// How often each key is pulled directly and as a sample in each epoch, by all workers together, and by which
/// nodes.
struct Pulled {
    direct: Vec<Vec<u32>>,
    sampled: Vec<Vec<u32>>,
    nodes: Vec<BTreeSet<u32>>,
}

fn pulled(task: &Arc<Kge<f32>>, nodes: u32, per_node: u32) -> Pulled {
    let keys = task.model().keys() as usize;
    let counts = || vec![vec![0; keys]; EPOCHS as usize];
    let mut pulled = Pulled { direct: counts(), sampled: counts(), nodes: vec![BTreeSet::new(); keys] };
    let first = Subepoch { epoch: 0, index: 0 };
    for partition in partitions(nodes, per_node) {
        let schedule = Schedule { test: false, ..Schedule::epochs(EPOCHS) };
        let pulls = run(task, partition, schedule).pulls;
        let batches = task.batches(first, partition) as usize;
        assert_eq!(pulls.len(), batches * EPOCHS as usize);
        for (at, pull) in pulls.iter().enumerate() {
            let (direct, sampled) = pull.keys.split_at(pull.keys.len() - pull.sampled);
            direct.iter().for_each(|key| pulled.direct[at / batches][key.index()] += 1);
            sampled.iter().for_each(|key| pulled.sampled[at / batches][key.index()] += 1);
            pull.keys.iter().for_each(|key| _ = pulled.nodes[key.index()].insert(partition.node()));
        }
    }
    pulled
}

/// Mean over the epochs, and its standard error.
fn mean(counts: impl Iterator<Item = u32> + Clone) -> (f64, f64) {
    let (all, epochs) = (counts.clone().map(f64::from).sum::<f64>(), f64::from(EPOCHS));
    let mean = all / epochs;
    let squares: f64 = counts.map(|count| (f64::from(count) - mean).powi(2)).sum();
    (mean, (squares / (epochs - 1.0) / epochs).sqrt())
}

fn check(config: Config, nodes: u32, per_node: u32) {
    let what = format!("{config:?} on {nodes} x {per_node}");
    // A graph so dense that most keys occur more than once in a batch, and that some triples are loops.
    let data = graph(ENTITIES, 57);
    assert!(data.train.iter().any(|triple| triple.subject == triple.object));
    let task = Arc::new(Kge::<f32>::new(Arc::new(data), config).unwrap());
    let all: Vec<_> =
        partitions(nodes, per_node).map(|partition| task.frequencies(partition).unwrap()).collect();
    assert!(all.iter().all(|frequencies| *frequencies == all[0]), "{what}: all workers know the same");
    let frequencies = &all[0];
    assert!(frequencies.is_sorted_by(|a, b| a.key < b.key), "{what}");

    let Pulled { direct, sampled, nodes: users } = pulled(&task, nodes, per_node);
    // If there are fewer batches than nodes, some nodes have nothing to do.
    let busy = users.iter().flatten().collect::<BTreeSet<_>>().len();
    let total =
        |epoch: usize| direct[epoch].iter().chain(&sampled[epoch]).map(|n| f64::from(*n)).sum::<f64>();
    let mean_total = (0..EPOCHS as usize).map(total).sum::<f64>() / f64::from(EPOCHS);
    let expected: f64 = frequencies.iter().map(|f| f.accesses).sum();
    assert!((mean_total / expected - 1.0).abs() < 0.01, "{what}: {expected} expected, {mean_total} seen");
    let uses = frequencies.iter().map(|f| f.uses);
    let relations = if task.config.reciprocal { 2 } else { 1 };
    let loops = task.data.train.iter().filter(|triple| triple.subject == triple.object).count();
    assert_eq!(uses.sum::<u64>(), (2 + relations) * 57 - loops as u64, "{what}: a loop uses its entity once");
    let mut next = frequencies.iter().peekable();
    for key in 0..task.model().keys() as usize {
        let frequency = next.next_if(|frequency| frequency.key.index() == key);
        let (expected, shared) = frequency.map_or((0.0, false), |f| (f.accesses, f.shared));
        if shared && busy < nodes as usize {
            assert!(busy == 1, "{what}");
        } else {
            assert_eq!(shared, users[key].len() > 1, "{what}: key {key} is accessed by {:?}", users[key]);
        }
        let seen = mean((0..EPOCHS as usize).map(|epoch| direct[epoch][key] + sampled[epoch][key]));
        // Samples are random in any case; direct accesses are exact with batches of one triple.
        if task.config.batch == 1 {
            let uses = direct[0][key];
            assert!(direct.iter().all(|epoch| epoch[key] == uses), "{what}: key {key}");
            assert_eq!(frequency.map_or(0, |f| f.uses), u64::from(uses), "{what}: key {key}");
            let of_each = if key < ENTITIES as usize {
                sampled[0].iter().sum::<u32>() as f64 / f64::from(ENTITIES)
            } else {
                0.0
            };
            assert!((expected - of_each - f64::from(uses)).abs() < 1e-9, "{what}: key {key}");
        }
        // A key that is accessed less than once in all the epochs may not have been seen.
        let bound = 5.0 * seen.1 + 1.0 / f64::from(EPOCHS);
        let (mean, error) = seen;
        assert!(
            (mean - expected).abs() <= bound,
            "{what}: key {key}: {expected} expected, {mean} ± {error} seen"
        );
    }
    assert_eq!(next.next(), None);
}

#[test]
fn frequencies_are_how_often_keys_are_pulled() {
    for loss in [Loss::Softmax, Loss::Logistic] {
        for (reciprocal, batch) in [(true, 1), (false, 5), (true, 20), (false, 100)] {
            for cluster in [Cluster::None, Cluster::Relations] {
                let config = Config { batch, cluster, ..config(ModelKind::DEFAULT, loss, reciprocal) };
                check(config.clone(), 2, 2);
                check(config, 1, 2);
            }
        }
    }
}

/// Each score reads its triple again.
#[test]
fn separate_scores_make_accesses_of_uses() {
    const NEGATIVES: u32 = 3;
    let config = Config {
        batch: 1,
        negatives: NEGATIVES as usize,
        separate: true,
        ..config(ModelKind::DEFAULT, Loss::Logistic, false)
    };
    let task = Arc::new(Kge::<f32>::new(Arc::new(graph(ENTITIES, 57)), config).unwrap());
    let frequencies = task.frequencies(Partition { nodes: 2, workers: 4, ..Partition::alone() }).unwrap();
    let Pulled { direct, sampled, .. } = pulled(&task, 2, 2);
    let of_each = sampled[0].iter().sum::<u32>() as f64 / f64::from(ENTITIES);
    assert_eq!(of_each, f64::from(57 * 2 * NEGATIVES) / f64::from(ENTITIES));
    for Frequency { key, accesses, .. } in frequencies {
        let seen = f64::from(direct[0][key.index()]);
        let samples = if key.0 < u64::from(ENTITIES) { of_each } else { 0.0 };
        assert!((accesses - samples - seen).abs() < 1e-9, "{key:?}: {accesses}, {seen} and {samples} seen");
    }
}

/// A relation that is split between nodes is shared; other relations are at one node only.
#[test]
fn split_relations_are_shared() {
    let config = Config { cluster: Cluster::Relations, ..config(ModelKind::DEFAULT, Loss::Logistic, false) };
    let task = Kge::<f32>::new(Arc::new(graph(ENTITIES, 157)), config).unwrap();
    let partition = Partition { nodes: 8, workers: 8, ..Partition::alone() };
    let split = task.clusters(8).unwrap().split_relations();
    let relations = task.frequencies(partition).unwrap().split_off(ENTITIES as usize);
    assert_eq!(relations.len(), 3);
    assert!(split > 0 && relations.iter().filter(|f| f.shared).count() == split);
}
