//! Compares frequencies with the pulls of workers.

use super::tests::{config, data, ids};
use super::*;
use crate::Algorithm;
use crate::data::{Entry, Generator};
use intendant_task::{Driver, Event, Loader, LoaderEvent, LoaderOp, Op, Row, Schedule};
use std::collections::BTreeSet;
use std::convert::Infallible;

const EPOCHS: u32 = 200;

/// Rows that all share the same memory.
struct Same<'a>(&'a mut [f64]);

impl Rows<f64> for Same<'_> {
    fn row(&mut self, _at: usize) -> Row<'_, f64> {
        // The values must stay finite, whatever a batch makes of them.
        self.0.fill(0.1);
        Row::unshared(self.0)
    }

    fn prefetch(&self, _at: usize) {}
}

/// How often one worker of several pulls each key in each epoch. All values are equal.
fn pulls(task: &Arc<Mf<f64>>, partition: Partition) -> Vec<Vec<u32>> {
    let schedule = Schedule { test: false, ..Schedule::epochs(EPOCHS) };
    let mut loader = Loader::new(Arc::clone(task), partition, &schedule);
    let mut driver = Driver::new(Arc::clone(task), partition, schedule);
    let none = vec![0; task.model().keys() as usize];
    let mut pulls = vec![none.clone()];
    let mut event = Event::Start;
    loop {
        event = match driver.step(event).unwrap() {
            Op::NextBatch => {
                assert_eq!(loader.step(LoaderEvent::Start), LoaderOp::Deliver);
                Event::Batch(loader.take())
            }
            Op::Train => {
                let counts = pulls.last_mut().unwrap();
                driver.train_keys().iter().for_each(|key| counts[key.index()] += 1);
                let mut row = vec![0.1; task.config.shape().len()];
                let trained = driver.train(|_, act| {
                    assert!(act(&mut Same(&mut row)));
                    Ok::<(), Infallible>(())
                });
                trained.unwrap();
                Event::Done
            }
            Op::Reduce => {
                pulls.push(none.clone());
                Event::Reduced(driver.reduction().clone())
            }
            Op::Done => break,
            Op::Localize { .. }
            | Op::Barrier
            | Op::PullSample
            | Op::Pull
            | Op::Push
            | Op::Compute(_)
            | Op::AdvanceClock
            | Op::Meet
            | Op::Synchronize
            | Op::Flush
            | Op::Quiesce
            | Op::Snapshot(_) => Event::Done,
        };
    }
    assert_eq!(pulls.pop(), Some(none), "nothing is pulled after the last epoch");
    pulls
}

/// Compares frequencies with the pulls: exactly if every epoch must be like the others, else on average.
fn check(task: &Arc<Mf<f64>>, (nodes, per_node): (u32, u32), exactly: bool) {
    let Config { algorithm, batch, .. } = task.config;
    let what = format!("{algorithm:?}, batches of {batch} on {nodes} x {per_node}");
    let workers = nodes * per_node;
    let keys = task.model().keys() as usize;
    let (mut seen, mut users) = (vec![vec![0; keys]; EPOCHS as usize], vec![BTreeSet::new(); keys]);
    let mut all = Vec::new();
    for partition in (Partition { workers, nodes, ..Partition::alone() }).all() {
        all.push(task.frequencies(partition).unwrap());
        for (seen, pulled) in seen.iter_mut().zip(pulls(task, partition)) {
            for (key, count) in pulled.into_iter().enumerate().filter(|(_, count)| *count > 0) {
                seen[key] += count;
                users[key].insert(partition.node());
            }
        }
    }
    assert!(all.iter().all(|frequencies| *frequencies == all[0]), "{what}: all workers know the same");
    let uses = task.data.row_uses().iter().chain(task.data.column_uses());
    let mut next = all[0].iter().peekable();
    for (key, uses) in uses.enumerate() {
        let frequency = next.next_if(|frequency| frequency.key.index() == key);
        let (expected, shared) = frequency.map_or((0.0, false), |f: &Frequency| (f.accesses, f.shared));
        assert_eq!(shared, users[key].len() > 1, "{what}: key {key} is accessed by {:?}", users[key]);
        assert_eq!(frequency.map_or(0, |f| f.uses), u64::from(*uses), "{what}: key {key}");
        let of_key = || seen.iter().map(|epoch| f64::from(epoch[key]));
        if exactly {
            assert!(of_key().all(|seen| (seen - expected).abs() < 1e-9), "{what}: key {key}");
        }
        let epochs = f64::from(EPOCHS);
        let mean = of_key().sum::<f64>() / epochs;
        let variance = of_key().map(|count| (count - mean).powi(2)).sum::<f64>() / (epochs - 1.0);
        let error = (variance / epochs).sqrt();
        // A key that is accessed less than once in all the epochs may not have been seen.
        let bound = 5.0 * error + 1.0 / epochs;
        assert!(
            (mean - expected).abs() <= bound,
            "{what}: key {key}: {expected} expected, {mean} ± {error} seen"
        );
    }
    assert_eq!(next.next(), None, "ascending, and each key once");
}

const CLUSTERS: [(u32, u32); 4] = [(1, 1), (1, 3), (2, 2), (3, 1)];

/// Every cell, or nearly every cell, occurs twice.
#[test]
fn frequencies_are_how_often_keys_are_pulled() {
    for algorithm in [Algorithm::Columns, Algorithm::Blocks] {
        for batch in [1, 4, 100] {
            let task = Arc::new(Mf::<f64>::new(data(), Config { algorithm, batch, ..config() }).unwrap());
            CLUSTERS.into_iter().for_each(|cluster| check(&task, cluster, batch == 1));
        }
    }
}

/// Column by column, every epoch is like the others: a row has one entry in a column.
#[test]
fn frequencies_of_distinct_cells_visited_by_column_are_exact() {
    let data = Arc::new(Generator::named("zipf:40x12x150").unwrap().generate().unwrap());
    for batch in [1, 4, 16] {
        let task = Arc::new(Mf::<f64>::new(Arc::clone(&data), Config { batch, ..config() }).unwrap());
        CLUSTERS.into_iter().for_each(|cluster| check(&task, cluster, true));
        // Rows are accessed once per entry, columns once per batch of a visit.
        let frequencies = task.frequencies(Partition::alone()).unwrap();
        for frequency in frequencies {
            let expected = match frequency.key.index().checked_sub(40) {
                None => data.row_uses()[frequency.key.index()],
                Some(column) => data.column_uses()[column].div_ceil(batch as u32),
            };
            assert!((frequency.accesses - f64::from(expected)).abs() < 1e-9, "{frequency:?}");
        }
    }
}

/// A row is accessed once per entry, a column once per batch of each of its visits.
#[test]
fn frequencies_with_tiles_are_how_often_keys_are_pulled() {
    let cell = |i: u32| Entry { row: i % 1100, column: i / 1100, value: f64::from(i % 6) - 1.0 };
    let data = Arc::new(Dataset::new(ids(1100), ids(3), (0..3000).map(cell).collect(), Vec::new()));
    for batch in [1, 64, 4000] {
        // The tiles of one node of two are as large as those of a single node with half of the bytes.
        for (rank, clusters) in [(64, [(1, 1), (1, 2)]), (128, [(2, 1), (2, 2)])] {
            let algorithm = Algorithm::Tiles;
            let config = Config { rank, algorithm, optimizer: Optimizer::Sgd, batch, ..config() };
            let task = Arc::new(Mf::<f64>::new(Arc::clone(&data), config).unwrap());
            for (nodes, per_node) in clusters {
                let partition = Partition { workers: nodes * per_node, nodes, ..Partition::alone() };
                assert!(matches!(*task.division(partition), Division::Tiles(_)));
                check(&task, (nodes, per_node), batch == 1);
            }
        }
    }
}

/// As the README says, the way in which columns are divided into batches does not change which keys are hot.
#[test]
fn columns_of_a_zipf_matrix_are_hot_by_their_uses() {
    let data = Arc::new(Generator::named("zipf:10000x1000x1000000").unwrap().generate().unwrap());
    let partition = Partition { workers: 64, nodes: 8, ..Partition::alone() };
    for batch in [1, 64] {
        let task = Mf::<f64>::new(Arc::clone(&data), Config { batch, ..config() }).unwrap();
        let frequencies = task.frequencies(partition).unwrap();
        let (columns, rows): (Vec<Frequency>, Vec<Frequency>) =
            frequencies.into_iter().partition(|f| f.key.0 >= 10_000);
        assert!(columns.iter().all(|f| f.shared) && rows.iter().all(|f| !f.shared));
        assert_eq!(columns.iter().map(|f| f.uses).sum::<u64>(), 1_000_000);
        let hot: Vec<u64> = columns.iter().map(|f| f.uses).filter(|uses| *uses > 3_300).collect();
        assert!((45..56).contains(&hot.len()), "{} columns", hot.len());
        let share = hot.iter().sum::<u64>() as f64 / 2_000_000.0;
        assert!((0.13..0.15).contains(&share), "{share} of all uses");
        let pulled: f64 = columns.iter().map(|f| f.accesses).sum();
        assert!(if batch == 1 { (pulled - 1e6).abs() < 1e-3 } else { pulled < 0.05 * 1e6 }, "{pulled}");
    }
}
