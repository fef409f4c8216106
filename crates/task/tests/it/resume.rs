//! Runs that stop at a meeting, and runs that continue from there with other numbers of workers.

use crate::programs::{Cluster, EVERYTHING, EXAMPLES, Sums};
use intendant_core::Key;
use intendant_task::{Reduction, Rest, Schedule, Start};
use proptest::prelude::*;
use std::sync::Arc;

fn schedule() -> Schedule {
    Schedule { meets: true, ..Schedule::epochs(3) }
}

/// The state in which a run stopped, from which another run continues.
struct Cut {
    start: Start,
    sums: Reduction,
    model: crate::programs::Values,
}

/// Runs a cluster up to one of its meetings; `None` if it trained to the end before.
fn run(
    task: &Arc<Sums>,
    workers: u32,
    from: Option<Cut>,
    meet_after: Option<u64>,
    stop: Option<u32>,
) -> (Cluster, Option<Cut>) {
    let mut cluster = match &from {
        None => Cluster::resume(task, workers, schedule(), &Start::default(), &Reduction::default()),
        Some(cut) => Cluster::resume(task, workers, schedule(), &cut.start, &cut.sums),
    };
    if let Some(cut) = from {
        cluster.model = cut.model;
    }
    cluster.meetings = stop;
    cluster.workers.iter_mut().for_each(|(driver, _)| driver.meet_after(meet_after));
    cluster.run(task).expect("it does not diverge");
    let cut = cluster.stopped.take().map(|rest: Rest| {
        let mut sums = Reduction::default();
        cluster.workers.iter().for_each(|(driver, _)| sums.merge(driver.reduction()));
        let start = Start { epochs: cluster.workers[0].0.combined().to_vec(), rest: Some(Arc::new(rest)) };
        Cut { start, sums, model: cluster.model.clone() }
    });
    (cluster, cut)
}

proptest! {
    #[test]
    fn a_run_that_stops_and_goes_on_trains_every_example_once_per_epoch(
        subepochs in 1u32..4,
        runs in proptest::collection::vec((1u32..6, 1u64..5, 0u32..4), 1..5),
        last in 1u32..6,
    ) {
        // This task deals out the batches of its subepochs to any number of workers.
        let task = if subepochs == 1 { Sums::new(None) } else { Sums::in_subepochs(subepochs, 1) };
        let mut cut = None;
        for (workers, meet_after, stop) in runs {
            let (cluster, next) = run(&task, workers, cut, Some(meet_after), Some(stop));
            cut = next;
            if cut.is_none() {
                check(&cluster);
                return Ok(());
            }
        }
        let (cluster, _) = run(&task, last, cut, None, None);
        check(&cluster);
    }
}

/// Checks three epochs, each of which trained every example once, and the test.
fn check(cluster: &Cluster) {
    for example in 0..EXAMPLES {
        assert_eq!(cluster.model[&Key(example)], [3.0 * example as f64], "example {example}");
    }
    let (driver, _) = &cluster.workers[0];
    assert_eq!(driver.combined().len(), 4);
    for sums in &driver.combined()[..3] {
        assert_eq!((sums.digest, sums.get("examples")), (EVERYTHING, EXAMPLES as f64));
        assert_eq!(sums.get("gathered"), (EXAMPLES * (EXAMPLES - 1) / 2) as f64, "before and after meetings");
    }
}

#[test]
fn a_run_that_has_trained_all_epochs_evaluates() {
    let task = Sums::new(None);
    let (cluster, _) = run(&task, 2, None, None, None);
    let epochs = cluster.workers[0].0.combined()[..3].to_vec();
    let cut =
        Cut { start: Start { epochs, rest: None }, sums: Reduction::default(), model: cluster.model.clone() };
    let (again, _) = run(&task, 3, Some(cut), None, None);
    check(&again);
    let total = |cluster: &Cluster| {
        let test = &cluster.workers[0].0.combined()[3];
        test.get("quality.total") / test.get("quality.count")
    };
    assert_eq!(total(&again), total(&cluster));
}

#[test]
fn meetings_are_where_every_worker_has_batches_left() {
    // 6 batches of 4 workers: two have two batches, two have one.
    let task = Sums::new(None);
    for (meet_after, meets) in [(Some(1), false), (Some(0), false), (None, false)] {
        let (_, cut) = run(&task, 4, None, meet_after, Some(0));
        assert_eq!(cut.is_some(), meets, "{meet_after:?}");
    }
    let (_, cut) = run(&task, 3, None, Some(1), Some(0));
    let rest = cut.expect("each has two batches").start.rest.expect("an epoch is under way");
    assert_eq!((rest.workers, rest.stretches.len()), (3, 3));
}
