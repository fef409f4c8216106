//! Drivers and loaders, interpreted by hand: the order of operations, who trains what, and what stops a run.

use intendant_core::Key;
use intendant_sampling::{Conformity, Distribution, DistributionId, Sampler};
use intendant_task::{
    BatchAt, Cost, Driver, EpochOrder, Evaluation, Event, Loader, LoaderEvent, LoaderOp, Model, ModelRange,
    Op, Partition, Prepared, Pulled, Reduction, SampleRequest, Schedule, Split, StepReport, Task, Update,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

const EXAMPLES: u64 = 23;
const BATCH: u64 = 4;

/// Adds the number of an example to its key, and 1 to two sampled keys of another range and length.
struct Sums {
    model: Model<f64>,
    samples: DistributionId,
    /// An update that is not finite, at this example.
    bad: Option<u64>,
}

impl Sums {
    fn new(bad: Option<u64>) -> Arc<Self> {
        let mut sampler = Sampler::builder();
        let uniform = Distribution::uniform(EXAMPLES..EXAMPLES + 5).unwrap();
        let samples = sampler.register(uniform, Conformity::Conform);
        let ranges = vec![
            ModelRange { name: "direct", keys: EXAMPLES, len: 1 },
            ModelRange { name: "sampled", keys: 5, len: 2 },
        ];
        let model = Model { ranges, init: Arc::new(|_, _: &mut [f64]| {}), sampler: sampler.build() };
        Arc::new(Self { model, samples, bad })
    }
}

/// Sums up what streams by.
struct Total(Vec<Key>, f64);

impl Evaluation<f64> for Total {
    fn keys(&self) -> &[Key] {
        &self.0
    }
    fn take(&mut self, values: &[f64]) {
        assert_eq!(values.len(), 3, "a value of one element and one of two");
    }
    fn range(&self) -> Range<u64> {
        0..EXAMPLES
    }
    fn part(&mut self, keys: &[Key], values: &[f64]) {
        assert_eq!(keys.len(), values.len());
        self.1 += values.iter().sum::<f64>();
    }
    fn finish(self: Box<Self>) -> Reduction {
        let mut reduction = Reduction::default();
        reduction.add("quality.total", self.1);
        reduction.add("quality.count", 1.0);
        reduction
    }
}

impl Task for Sums {
    type Element = f64;
    type Batch = Vec<u64>;
    type Scratch = ();

    fn name(&self) -> &'static str {
        "sums"
    }
    fn model(&self) -> &Model<f64> {
        &self.model
    }
    fn batches(&self, epoch: u32) -> u64 {
        EpochOrder::new(1, epoch, EXAMPLES, BATCH).batches()
    }
    fn prepare(&self, at: BatchAt) -> Prepared<Vec<u64>> {
        let batch: Vec<u64> = EpochOrder::new(1, at.epoch, EXAMPLES, BATCH).batch(at.index).collect();
        let samples = vec![SampleRequest { distribution: self.samples, samples: 2, stream: at.index }];
        let digest = batch.iter().map(|example| 1 << example).sum();
        Prepared { keys: batch.iter().map(|e| Key(*e)).collect(), samples, handles: vec![], digest, batch }
    }
    fn scratch(&self) {}
    fn compute(
        &self,
        (): &mut (),
        batch: &Vec<u64>,
        pulled: Pulled<'_, f64>,
        update: &mut Update<'_, f64>,
    ) -> StepReport {
        assert_eq!(
            (pulled.values.len(), pulled.sample_keys.len(), pulled.sample_values.len()),
            (batch.len(), 2, 4)
        );
        for (example, update) in batch.iter().zip(&mut *update.values) {
            assert_eq!(*update, 0.0, "updates start at zero");
            *update = if self.bad == Some(*example) { f64::NAN } else { *example as f64 };
        }
        update.sample_values.fill(1.0);
        StepReport { loss: batch.len() as f64 / 2.0, examples: batch.len() as u64, cost: Cost(1) }
    }
    fn evaluation(&self, _: Split, _: Partition) -> Option<Box<dyn Evaluation<f64>>> {
        Some(Box::new(Total(vec![Key(0), Key(EXAMPLES)], 0.0)))
    }
}

type Values = BTreeMap<Key, Vec<f64>>;

/// All workers in one thread, one after the other between meetings.
struct Cluster {
    model: Values,
    workers: Vec<(Driver<Sums>, Loader<Sums>)>,
    ops: Vec<Vec<String>>,
}

fn deliver(task: &Sums, loader: &mut Loader<Sums>, event: LoaderEvent) -> Option<Prepared<Vec<u64>>> {
    let mut op = loader.step(event);
    loop {
        op = match op {
            LoaderOp::PrepareSample(request) => {
                let sampler = &task.model.sampler;
                let handle = sampler.prepare(request.distribution, request.samples, request.stream).unwrap();
                loader.step(LoaderEvent::Prepared(handle))
            }
            LoaderOp::Deliver => return Some(loader.take()),
            LoaderOp::Done => return None,
        }
    }
}

impl Cluster {
    fn new(task: &Arc<Sums>, workers: u32, schedule: Schedule) -> Self {
        let model = &task.model;
        let values = (0..model.keys()).map(|k| (Key(k), vec![0.0; model.len(Key(k))])).collect();
        let worker = |worker| {
            let partition = Partition { worker, workers, threads: 1 };
            let driver = Driver::new(Arc::clone(task), partition, schedule);
            (driver, Loader::new(Arc::clone(task), partition, &schedule))
        };
        let workers: Vec<_> = (0..workers).map(worker).collect();
        Self { model: values, ops: vec![Vec::new(); workers.len()], workers }
    }

    fn run(&mut self, task: &Sums) -> Result<(), intendant_task::Diverged> {
        let mut events: Vec<Option<Event<Vec<u64>>>> =
            self.workers.iter().map(|_| Some(Event::Start)).collect();
        loop {
            let mut reductions = Vec::new();
            let mut done = 0;
            for (at, (driver, loader)) in self.workers.iter_mut().enumerate() {
                let mut event = events[at].take().unwrap();
                loop {
                    let op = driver.step(event)?;
                    let name = format!("{op:?}");
                    self.ops[at].push(name.split(['(', ' ']).next().unwrap().to_owned());
                    event = match op {
                        Op::NextBatch => {
                            Event::Batch(deliver(task, loader, LoaderEvent::Done).expect("a batch is left"))
                        }
                        Op::PullSample => {
                            driver.draw(|handle, n, keys| task.model.sampler.draw(handle, n, keys)).unwrap();
                            Event::Done
                        }
                        Op::Pull => {
                            let (keys, values) = driver.pull_buffers();
                            let read: Vec<f64> =
                                keys.iter().flat_map(|key| self.model[key].clone()).collect();
                            values.copy_from_slice(&read);
                            Event::Done
                        }
                        Op::Push => {
                            let (keys, update) = driver.push_buffers();
                            let mut update = update.iter();
                            for key in keys {
                                let value = self.model.get_mut(key).unwrap();
                                value.iter_mut().for_each(|v| *v += update.next().unwrap());
                            }
                            assert_eq!(update.next(), None);
                            Event::Done
                        }
                        Op::Snapshot(range) => {
                            for key in range.map(Key) {
                                driver.snapshot_part(&[key], &self.model[&key]);
                            }
                            Event::Done
                        }
                        Op::Compute(_) | Op::AdvanceClock | Op::Flush => Event::Done,
                        Op::Quiesce => {
                            events[at] = Some(Event::Done);
                            break;
                        }
                        Op::Reduce => {
                            reductions.push(driver.reduction().clone());
                            break;
                        }
                        Op::Done => {
                            assert!(
                                deliver(task, loader, LoaderEvent::Done).is_none(),
                                "a batch was not trained"
                            );
                            done += 1;
                            break;
                        }
                    };
                }
            }
            if done > 0 {
                assert_eq!(done, self.workers.len(), "all workers finish together");
                return Ok(());
            }
            if !reductions.is_empty() {
                assert_eq!(reductions.len(), self.workers.len(), "all workers reduce together");
                let mut all = Reduction::default();
                reductions.iter().for_each(|reduction| all.merge(reduction));
                events.iter_mut().for_each(|event| *event = Some(Event::Reduced(all.clone())));
            }
        }
    }
}

const EVERYTHING: u64 = (1 << EXAMPLES) - 1;

#[test]
fn every_example_is_trained_once_per_epoch_whoever_trains() {
    for workers in [1, 2, 3, 7, 50] {
        let task = Sums::new(None);
        let mut cluster = Cluster::new(&task, workers, Schedule { epochs: 3, valid_every: 2, test: true });
        cluster.run(&task).unwrap();
        for example in 0..EXAMPLES {
            assert_eq!(cluster.model[&Key(example)], [3.0 * example as f64], "{workers} workers");
        }
        let sampled: f64 = (EXAMPLES..EXAMPLES + 5).map(|key| cluster.model[&Key(key)][0]).sum();
        assert_eq!(sampled, 3.0 * 2.0 * 6.0, "two samples for each of six batches");
        for (driver, _) in &cluster.workers {
            let combined = driver.combined();
            assert_eq!(combined.len(), 4, "three epochs and a test");
            for (epoch, reduction) in combined[..3].iter().enumerate() {
                assert_eq!(reduction.digest, EVERYTHING);
                assert_eq!((reduction.get("examples"), reduction.get("loss")), (23.0, 11.5));
                let validated = reduction.sums.contains_key("quality.total");
                assert_eq!(validated, epoch == 1, "validation after every second epoch");
            }
            let total: f64 = (0..EXAMPLES).map(|example| 3.0 * example as f64).sum();
            let test = &combined[3];
            assert_eq!(test.get("quality.total") / test.get("quality.count"), total);
            assert!(!test.sums.contains_key("loss"), "the test has sums of its own");
        }
    }
}

#[test]
fn the_order_of_operations() {
    let task = Sums::new(None);
    let mut cluster = Cluster::new(&task, 6, Schedule { epochs: 1, valid_every: 1, test: false });
    cluster.run(&task).unwrap();
    let expected = [
        "NextBatch",
        "PullSample",
        "Pull",
        "Compute",
        "Push",
        "AdvanceClock",
        "Flush",
        "Quiesce",
        "Pull",
        "Snapshot",
        "Quiesce",
        "Reduce",
        "Done",
    ];
    for ops in &cluster.ops {
        assert_eq!(*ops, expected);
    }
}

#[test]
fn no_epochs_evaluate_the_initial_model() {
    let task = Sums::new(None);
    let mut cluster = Cluster::new(&task, 2, Schedule { epochs: 0, valid_every: 1, test: true });
    cluster.run(&task).unwrap();
    assert_eq!(cluster.ops[0], ["Quiesce", "Pull", "Snapshot", "Quiesce", "Reduce", "Done"]);
}

#[test]
fn a_nan_is_refused_before_it_is_pushed_and_named() {
    let task = Sums::new(Some(17));
    let mut cluster = Cluster::new(&task, 1, Schedule { epochs: 1, valid_every: 0, test: false });
    let diverged = cluster.run(&task).unwrap_err();
    assert_eq!((diverged.epoch, diverged.key), (1, Some(Key(17))));
    assert!(diverged.to_string().starts_with("diverged in epoch 1, step "), "{diverged}");
    assert!(diverged.to_string().contains(", key 17: an update is NaN; "), "{diverged}");
    assert!(cluster.model.values().flatten().all(|v| v.is_finite()));
}

proptest! {
    #[test]
    fn epochs_are_permutations_in_batches(seed: u64, epoch: u32, examples in 1u64..300, batch in 1u64..40) {
        let order = EpochOrder::new(seed, epoch, examples, batch);
        let mut all: Vec<u64> = (0..order.batches()).flat_map(|index| order.batch(index)).collect();
        prop_assert_eq!(all.len() as u64, examples);
        all.sort_unstable();
        prop_assert!(all.into_iter().eq(0..examples));
    }
}

#[test]
fn epochs_have_different_orders() {
    let order = |epoch| EpochOrder::new(1, epoch, 100, 100).batch(0).collect::<Vec<_>>();
    assert_ne!(order(0), order(1));
    assert_eq!(order(1), order(1));
}
