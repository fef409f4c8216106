//! How clustering by relation and latency hiding change the program of a worker: which keys it accesses, and
//! which keys it has brought to its node before.

use super::tests::{config, graph};
use super::*;
use crate::model::ModelKind;
use intendant_sampling::{Everything, Manager};
use intendant_task::{Driver, Event, Loader, LoaderEvent, LoaderOp, Op, Row, SampleRequest, Schedule};
use std::collections::BTreeSet;
use std::convert::Infallible;

const ENTITIES: u64 = 30;

fn task(loss: Loss, reciprocal: bool, cluster: Cluster) -> Kge<f32> {
    let config = Config { cluster, ..config(ModelKind::Rescal, loss, reciprocal) };
    Kge::new(Arc::new(graph(ENTITIES as u32, 157)), config).unwrap()
}

pub(super) fn partitions(nodes: u32, per_node: u32) -> impl Iterator<Item = Partition> {
    let workers = nodes * per_node;
    (0..workers).map(move |worker| Partition { worker, workers, nodes, threads: 1 })
}

fn batches(task: &Kge<f32>, epoch: u32, partition: Partition) -> impl Iterator<Item = Prepared<Batch>> {
    let subepoch = Subepoch { epoch, index: 0 };
    (0..task.batches(subepoch, partition))
        .map(move |index| task.prepare(BatchAt { subepoch, partition, index }))
}

/// The triples of a batch.
fn triples(prepared: &Prepared<Batch>) -> impl Iterator<Item = Triple> {
    let key = |place: u32| prepared.keys[place as usize].0 as u32;
    prepared.batch.queries.chunks_exact(2).map(move |pair| Triple {
        subject: key(pair[0].anchor),
        relation: key(pair[0].relation) - ENTITIES as u32,
        object: key(pair[0].target),
    })
}

fn digest(task: &Kge<f32>, epoch: u32, nodes: u32, per_node: u32) -> u64 {
    partitions(nodes, per_node)
        .flat_map(|partition| batches(task, epoch, partition))
        .fold(0, |sum, prepared| sum.wrapping_add(prepared.digest))
}

#[test]
fn every_triple_is_trained_once_by_any_number_of_workers() {
    for (nodes, per_node) in [(1, 1), (1, 3), (2, 1), (2, 2), (3, 2), (8, 4)] {
        for loss in [Loss::Softmax, Loss::Logistic] {
            let task = task(loss, true, Cluster::Relations);
            let clusters = task.clusters(nodes).unwrap();
            let mut seen = Vec::new();
            for partition in partitions(nodes, per_node) {
                let own: Vec<Triple> =
                    batches(&task, 2, partition).flat_map(|b| triples(&b).collect::<Vec<_>>()).collect();
                let of_node = clusters.triples(partition.node());
                assert!(own.iter().all(|t| of_node.iter().any(|n| task.data.train[*n as usize] == *t)));
                // Within a node, workers differ by at most one batch.
                let fair = of_node.len() as f64 / f64::from(per_node);
                assert!((own.len() as f64 - fair).abs() <= 5.0, "{} of {}", own.len(), of_node.len());
                seen.extend(own);
            }
            let mut expected = task.data.train.clone();
            expected.sort_unstable();
            seen.sort_unstable();
            assert_eq!(seen, expected, "{nodes} nodes of {per_node} workers");
            assert_eq!(digest(&task, 2, nodes, per_node), digest(&task, 2, 1, 1));
            assert_ne!(digest(&task, 2, nodes, per_node), digest(&task, 3, nodes, per_node));
        }
        // Negatives belong to their triple, so that even these samples are the same.
        let logistic = |cluster| digest(&task(Loss::Logistic, false, cluster), 2, nodes, per_node);
        assert_eq!(logistic(Cluster::Relations), logistic(Cluster::None));
    }
}

#[test]
fn every_epoch_and_every_node_has_an_order_of_its_own() {
    let task = task(Loss::Softmax, true, Cluster::Relations);
    let order = |epoch, node: u32| {
        let partition = partitions(2, 1).nth(node as usize).unwrap();
        batches(&task, epoch, partition).flat_map(|b| triples(&b).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    let sorted = |mut triples: Vec<Triple>| {
        triples.sort_unstable();
        triples
    };
    assert_ne!(order(0, 1), order(1, 1));
    assert_eq!(sorted(order(0, 1)), sorted(order(1, 1)));
    let streams = |node: u32| {
        let partition = partitions(2, 1).nth(node as usize).unwrap();
        batches(&task, 0, partition).map(|b| b.samples[0].stream).collect::<Vec<_>>()
    };
    assert!(streams(0).iter().all(|stream| !streams(1).contains(stream)), "nodes share no samples");
}

#[test]
fn relations_live_at_the_nodes_that_use_them() {
    for reciprocal in [false, true] {
        let task = task(Loss::Logistic, reciprocal, Cluster::Relations);
        let relations = if reciprocal { 6 } else { 3 };
        for (nodes, per_node) in [(1, 2), (2, 1), (2, 2), (3, 4)] {
            let mut residents = Vec::new();
            for node in 0..nodes {
                let of_node: Vec<Partition> =
                    partitions(nodes, per_node).filter(|p| p.node() == node).collect();
                let mut at_home: Vec<Key> = of_node.iter().flat_map(|p| task.residents(*p)).collect();
                for prepared in of_node.iter().flat_map(|p| batches(&task, 0, *p)) {
                    let entities = prepared.batch.entities;
                    assert!(prepared.near.iter().all(|key| key.0 < ENTITIES), "only entities travel");
                    assert_eq!(prepared.near, prepared.keys[..entities]);
                    // Three relations of similar size: none is split between up to three nodes.
                    assert!(prepared.keys[entities..].iter().all(|key| at_home.contains(key)));
                }
                residents.append(&mut at_home);
            }
            residents.sort_unstable();
            assert!(residents.iter().map(|k| k.0).eq(ENTITIES..ENTITIES + relations), "{residents:?}");
        }
    }
}

#[test]
fn without_clusters_nothing_has_a_home_and_everything_travels() {
    let task = task(Loss::Logistic, true, Cluster::None);
    for partition in partitions(2, 2) {
        assert_eq!(task.residents(partition), []);
        assert!(batches(&task, 0, partition).all(|prepared| prepared.near == prepared.keys));
    }
    assert!(task.clusters(2).is_none());
}

/// The pull of a batch.
pub(super) struct Pull {
    pub(super) keys: Vec<Key>,
    /// How many of the keys, at their end, are samples.
    pub(super) sampled: usize,
    /// Batches that were localized before.
    localized: usize,
}

/// The trace of a worker.
pub(super) struct Run {
    residents: Vec<Key>,
    localized: Vec<Vec<Key>>,
    pub(super) pulls: Vec<Pull>,
}

/// Rows that all have the same values. Changes that a batch makes are discarded, so that values stay finite.
struct Same<'a>(&'a Kge<f32>, &'a [Key], Vec<f32>);

impl Rows<f32> for Same<'_> {
    fn row(&mut self, at: usize) -> Row<'_, f32> {
        let Self(task, keys, value) = self;
        value.clear();
        value.resize(task.model().len(keys[at]), 0.1);
        Row::unshared(value)
    }

    fn prefetch(&self, _at: usize) {}
}

/// Runs one worker of several by itself; all values are the same.
pub(super) fn run(task: &Arc<Kge<f32>>, partition: Partition, schedule: Schedule) -> Run {
    let mut loader = Loader::new(Arc::clone(task), partition, &schedule);
    let mut driver = Driver::new(Arc::clone(task), partition, schedule);
    let mut run = Run { residents: Vec::new(), localized: Vec::new(), pulls: Vec::new() };
    let manager = Manager::new(task.model().sampler.clone(), 0, 0);
    let mut event = Event::Start;
    loop {
        event = match driver.step(event).unwrap() {
            Op::NextBatch => {
                let mut answer = LoaderEvent::Start;
                while let LoaderOp::PrepareSample(request) = loader.step(answer) {
                    let SampleRequest { distribution, samples, stream } = request;
                    let handle = manager.prepare(distribution, samples, stream, &Everything).unwrap();
                    answer = LoaderEvent::Prepared(handle);
                }
                Event::Batch(loader.take())
            }
            Op::Localize { wait: true } => {
                run.residents.extend_from_slice(driver.localize_keys());
                Event::Done
            }
            Op::Localize { wait: false } => {
                run.localized.push(driver.localize_keys().to_vec());
                Event::Done
            }
            Op::PullSample => {
                let draw = |handle: &mut _, samples, keys: &mut _| {
                    manager.draw(handle, samples, &Everything, keys, &mut Vec::new())
                };
                driver.draw(draw).unwrap();
                Event::Done
            }
            Op::Pull => {
                let sampled = driver.sampled_keys();
                let (keys, values) = driver.pull_buffers();
                values.fill(0.1);
                run.pulls.push(Pull { keys: keys.to_vec(), sampled, localized: run.localized.len() });
                Event::Done
            }
            Op::Train => {
                let (keys, sampled) = (driver.train_keys().to_vec(), driver.sampled_keys());
                let mut rows = Same(task.as_ref(), &keys, Vec::new());
                run.pulls.push(Pull { keys: keys.clone(), sampled, localized: run.localized.len() });
                let trained = driver.train(|_, act| {
                    assert!(act(&mut rows));
                    Ok::<(), Infallible>(())
                });
                trained.unwrap();
                Event::Done
            }
            Op::Reduce => Event::Reduced(driver.reduction().clone()),
            Op::Done => return run,
            Op::Barrier
            | Op::Compute(_)
            | Op::Push
            | Op::AdvanceClock
            | Op::Meet
            | Op::Synchronize
            | Op::Flush
            | Op::Quiesce => Event::Done,
            Op::Snapshot(_) => unreachable!("no evaluation"),
        };
    }
}

/// The papers' setting: the relations are at the node from the beginning. While a triple is trained, the
/// entities of the next one, negatives included, are on their way, and no entities further ahead.
#[test]
fn a_worker_brings_the_next_batch_near_while_it_trains_this_one() {
    let config = Config {
        batch: 1,
        negatives: 10,
        cluster: Cluster::Relations,
        ..config(ModelKind::Rescal, Loss::Logistic, false)
    };
    let task = Arc::new(Kge::<f32>::new(Arc::new(graph(ENTITIES as u32, 157)), config).unwrap());
    for partition in partitions(3, 2) {
        for ahead in [0, 1, 3] {
            let schedule = Schedule { test: false, localize_ahead: ahead, ..Schedule::epochs(1) };
            let run = run(&task, partition, schedule);
            assert_eq!(run.residents, task.residents(partition));
            assert_eq!(run.localized.len(), if ahead == 0 { 0 } else { run.pulls.len() });
            for (at, Pull { keys, sampled, localized }) in run.pulls.iter().enumerate() {
                let expected = if ahead == 0 { 0 } else { (at + 1 + ahead as usize).min(run.pulls.len()) };
                assert_eq!(*localized, expected, "batches that were localized before batch {at} is pulled");
                let (entities, relations): (Vec<Key>, Vec<Key>) =
                    keys.iter().partition(|key| key.0 < ENTITIES);
                assert_eq!((relations.len(), *sampled), (1, 20));
                if let Some(near) = run.localized.get(at) {
                    // The localized keys are the pulled ones, apart from relations.
                    assert!(BTreeSet::from_iter(&entities).into_iter().eq(near));
                }
            }
        }
    }
}
