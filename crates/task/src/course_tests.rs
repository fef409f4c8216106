use super::*;
use crate::{Evaluation, Model, Prepared, Split};
use intendant_sampling::Sampler;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A task whose workers have different numbers of batches.
struct Uneven {
    model: Model<f32>,
    subepochs: u32,
    seed: u64,
}

impl Uneven {
    fn new(subepochs: u32, seed: u64) -> Arc<Self> {
        let model =
            Model { ranges: Vec::new(), init: Arc::new(|_, _| {}), sampler: Sampler::builder().build() };
        Arc::new(Self { model, subepochs, seed })
    }
}

impl Task for Uneven {
    type Element = f32;
    type Batch = ();
    type Scratch = ();

    fn name(&self) -> &'static str {
        "uneven"
    }

    fn model(&self) -> &Model<f32> {
        &self.model
    }

    fn subepochs(&self, _: u32, partition: Partition) -> u32 {
        if self.subepochs > 1 { partition.workers } else { 1 }
    }

    fn batches(&self, subepoch: Subepoch, partition: Partition) -> u64 {
        let name = [subepoch.epoch, subepoch.index, partition.worker, partition.workers].map(u64::from);
        intendant_core::random::stream(self.seed, &name) % 9
    }

    fn prepare(&self, _: BatchAt) -> Prepared<()> {
        unreachable!("batches are only named")
    }

    fn block(&self, subepoch: Subepoch, partition: Partition) -> Vec<Key> {
        vec![Key(u64::from(subepoch.index) * 1000 + u64::from(partition.worker))]
    }

    fn scratch(&self) {}

    fn evaluation(&self, _: Split, _: Partition) -> Option<Box<dyn Evaluation<f32>>> {
        None
    }
}

fn partition(workers: u32, nodes: u32) -> Partition {
    Partition { worker: 0, workers, nodes, threads: 1 }
}

type Name = (u32, u32, u64);

fn name(at: BatchAt) -> Name {
    (at.subepoch.index, at.partition.worker, at.index)
}

/// The names of all batches of epoch 3 in a run that continues no other run.
fn all(task: &Arc<Uneven>, workers: u32) -> BTreeSet<Name> {
    let course = Course::new(Arc::clone(task), partition(workers, 1), None);
    let subepochs = course.subepochs(3);
    let batches = |index| {
        let shares: Vec<Share> = course.shares(Subepoch { epoch: 3, index }).collect();
        shares.into_iter().flat_map(|share| (0..share.batches()).map(move |at| name(share.batch(at))))
    };
    subepochs.flat_map(batches).collect()
}

proptest! {
    /// Runs of several sizes share an epoch: each run stops somewhere, and the next one continues it.
    #[test]
    fn runs_that_continue_each_other_train_every_batch_once(
        seed in any::<u64>(),
        subepochs in 1u32..3,
        runs in proptest::collection::vec((1u32..7, 0u32..3, 0u64..6), 1..5),
    ) {
        let task = Uneven::new(subepochs, seed);
        let first = runs[0].0;
        let expected = all(&task, first);
        let (mut rest, mut trained): (Option<Arc<Rest>>, Vec<Name>) = (None, Vec::new());
        for (run, (workers, skip, stop)) in runs.iter().enumerate() {
            let course = Course::new(Arc::clone(&task), partition(*workers, 1), rest.take());
            let left = course.subepochs(3);
            let is_last = run + 1 == runs.len();
            // The run trains `skip` subepochs as a whole, and some batches of the next one.
            let subepochs = left.end - left.start;
            let whole = left.start + if is_last { subepochs } else { (*skip).min(subepochs - 1) };
            for index in left.start..whole {
                for share in course.shares(Subepoch { epoch: 3, index }) {
                    trained.extend((0..share.batches()).map(|at| name(share.batch(at))));
                }
            }
            if !is_last {
                let subepoch = Subepoch { epoch: 3, index: whole };
                for share in course.shares(subepoch) {
                    trained.extend((0..share.batches().min(*stop)).map(|at| name(share.batch(at))));
                }
                let after = course.rest_after(subepoch, *stop);
                after.check(task.as_ref()).expect("it is a rest of this task");
                rest = Some(Arc::new(after));
            }
        }
        prop_assert_eq!(trained.len(), expected.len(), "no batch twice");
        prop_assert_eq!(trained.into_iter().collect::<BTreeSet<_>>(), expected);
    }

    /// With as many workers as before, each continues with its own batches, in its own order.
    #[test]
    fn the_same_workers_continue_their_own_batches(
        seed in any::<u64>(),
        workers in 1u32..7,
        stop in 0u64..6,
    ) {
        let task = Uneven::new(1, seed);
        let subepoch = Subepoch { epoch: 0, index: 0 };
        let before = Course::new(Arc::clone(&task), partition(workers, 1), None);
        let rest = Arc::new(before.rest_after(subepoch, stop));
        let after = Course::new(Arc::clone(&task), partition(workers, 1), Some(rest));
        for (one, other) in before.shares(subepoch).zip(after.shares(subepoch)) {
            let left: Vec<BatchAt> = (stop..one.batches()).map(|at| one.batch(at)).collect();
            let goes_on: Vec<BatchAt> = (0..other.batches()).map(|at| other.batch(at)).collect();
            prop_assert_eq!(left, goes_on);
        }
    }

    /// With another number of workers, shares differ by one batch at most.
    #[test]
    fn what_is_left_is_shared_evenly(
        seed in any::<u64>(),
        workers in 1u32..7,
        others in 1u32..9,
        stop in 0u64..4,
    ) {
        let task = Uneven::new(1, seed);
        let subepoch = Subepoch { epoch: 0, index: 0 };
        let rest = Course::new(Arc::clone(&task), partition(workers, 1), None).rest_after(subepoch, stop);
        let after = Course::new(task, partition(others, 1), Some(Arc::new(rest)));
        let sizes: Vec<u64> = after.shares(subepoch).map(|share| share.batches()).collect();
        let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
        prop_assert!(workers == others || most - least <= 1, "{:?}", sizes);
    }
}

#[test]
fn later_epochs_are_divided_among_the_workers_of_this_run() {
    let task = Uneven::new(1, 5);
    let rest =
        Course::new(Arc::clone(&task), partition(4, 2), None).rest_after(Subepoch { epoch: 1, index: 0 }, 2);
    let course = Course::new(Arc::clone(&task), partition(3, 3), Some(Arc::new(rest)));
    let later = Subepoch { epoch: 2, index: 0 };
    for share in course.shares(later) {
        assert_eq!(share.batches(), task.batches(later, share.partition));
        assert_eq!((share.partition.workers, share.partition.nodes), (3, 3));
    }
}

#[test]
fn a_worker_of_blocks_takes_those_of_the_workers_it_replaces() {
    let task = Uneven::new(2, 8);
    let subepoch = Subepoch { epoch: 0, index: 1 };
    let rest = Course::new(Arc::clone(&task), partition(5, 1), None).rest_after(subepoch, 0);
    let course = Course::new(Arc::clone(&task), partition(2, 1), Some(Arc::new(rest)));
    assert_eq!(course.subepochs(0), 1..5);
    let share = course.share(subepoch);
    let workers: BTreeSet<u32> = (0..share.batches()).map(|at| share.batch(at).partition.worker).collect();
    let keys: BTreeSet<u64> = course.block(subepoch, &share).into_iter().map(|key| key.0 - 1000).collect();
    assert_eq!(keys, workers.iter().map(|worker| u64::from(*worker)).collect());
    assert!(workers.is_subset(&BTreeSet::from([0, 2, 4])), "{workers:?}");
}

#[test]
fn a_rest_that_is_not_of_the_task_is_refused() {
    let task = Uneven::new(1, 5);
    let course = Course::new(Arc::clone(&task), partition(4, 2), None);
    let subepoch = Subepoch { epoch: 1, index: 0 };
    let good = course.rest_after(subepoch, 1);
    assert_eq!(good.check(task.as_ref()), Ok(()));
    let refused = |change: &dyn Fn(&mut Rest)| {
        let mut bad = good.clone();
        change(&mut bad);
        bad.check(task.as_ref()).expect_err("it is not").to_string()
    };
    for (change, reason) in [
        (&|rest: &mut Rest| rest.nodes = 3, "it has 4 workers on 3 nodes"),
        (&|rest: &mut Rest| rest.nodes = 0, "it has 4 workers on 0 nodes"),
        (&|rest: &mut Rest| rest.subepoch.index = 1, "it goes on in subepoch 1 of 1"),
        (&|rest: &mut Rest| rest.stretches[0].worker = 4, "are not batches of one of 4 workers"),
        (&|rest: &mut Rest| rest.stretches[0].end = rest.stretches[0].first, "are not batches"),
        (&|rest: &mut Rest| rest.stretches.push(rest.stretches[0]), "is out of order, or occurs twice"),
        (&|rest: &mut Rest| rest.stretches.last_mut().unwrap().end += 100, "has no batch"),
    ] as [(&dyn Fn(&mut Rest), &str); 7]
    {
        let said = refused(change);
        assert!(said.contains(reason), "{said}");
    }
}
