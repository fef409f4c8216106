//! Drivers and loaders, interpreted by hand: the order of operations, which worker trains what, and what
//! stops a run.

use intendant_core::{Clock, Key};
use intendant_sampling::{Conformity, Distribution, DistributionId, Everything, Manager, Sampler};
use intendant_task::{
    Announcement, BatchAt, Cost, Driver, EpochOrder, Evaluation, Event, Loader, LoaderEvent, LoaderOp, Model,
    ModelRange, Op, Partition, Prepared, Pulled, Reduction, Rest, SampleRequest, Schedule, Split, Start,
    StepReport, Stretch, Subepoch, Task, Update, expected_batches,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

pub(crate) const EXAMPLES: u64 = 23;
const BATCH: u64 = 4;

/// Adds the number of an example to its key, and 1 to two sampled keys of another range and length. Workers
/// also gather the numbers of their examples.
pub(crate) struct Sums {
    model: Model<f64>,
    samples: DistributionId,
    /// The example whose update is not finite.
    bad: Option<u64>,
    /// Number of subepochs of an epoch, each with a block. The task then also has residents.
    subepochs: Option<u32>,
    batch: u64,
    /// Number of keys of each batch that are declared residents.
    own: usize,
}

impl Sums {
    pub(crate) fn new(bad: Option<u64>) -> Arc<Self> {
        let mut sampler = Sampler::builder();
        let uniform = Distribution::uniform(EXAMPLES..EXAMPLES + 5).unwrap();
        let samples = sampler.register(uniform, Conformity::Conform);
        let ranges = vec![ModelRange::new("direct", EXAMPLES, 1), ModelRange::new("sampled", 5, 2)];
        let model = Model { ranges, init: Arc::new(|_, _: &mut [f64]| {}), sampler: sampler.build() };
        Arc::new(Self { model, samples, bad, subepochs: None, batch: BATCH, own: 0 })
    }

    pub(crate) fn in_subepochs(subepochs: u32, batch: u64) -> Arc<Self> {
        let mut task = Arc::into_inner(Self::new(None)).unwrap();
        (task.subepochs, task.batch) = (Some(subepochs), batch);
        Arc::new(task)
    }

    /// Batches of the epoch that are trained in the subepoch: its share of them, in order.
    fn part(&self, subepoch: Subepoch) -> Range<u64> {
        let all = EpochOrder::new(1, subepoch.epoch, EXAMPLES, self.batch).batches();
        let parts = u64::from(self.subepochs.unwrap_or(1));
        let at = u64::from(subepoch.index);
        at * all / parts..(at + 1) * all / parts
    }
}

/// Sums the values of the range.
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
    type Scratch = f64;

    fn name(&self) -> &'static str {
        "sums"
    }
    fn model(&self) -> &Model<f64> {
        &self.model
    }
    fn batches(&self, subepoch: Subepoch, partition: Partition) -> u64 {
        let part = self.part(subepoch);
        partition.share(part.end - part.start)
    }
    fn subepochs(&self, _: u32, _: Partition) -> u32 {
        self.subepochs.unwrap_or(1)
    }
    fn residents(&self, partition: Partition) -> Vec<Key> {
        self.subepochs.iter().map(|_| Key(u64::from(partition.node()))).collect()
    }
    fn residents_of(&self, batch: &Vec<u64>) -> usize {
        self.own.min(batch.len())
    }
    fn block(&self, subepoch: Subepoch, partition: Partition) -> Vec<Key> {
        self.subepochs.iter().map(|_| Key(u64::from(subepoch.index * 4 + partition.worker))).collect()
    }
    fn prepare(&self, at: BatchAt) -> Prepared<Vec<u64>> {
        let index = self.part(at.subepoch).start + at.partition.nth(at.index);
        let order = EpochOrder::new(1, at.subepoch.epoch, EXAMPLES, self.batch);
        let batch: Vec<u64> = order.batch(index).collect();
        let samples = vec![SampleRequest { distribution: self.samples, samples: 2, stream: index }];
        let digest = batch.iter().map(|example| 1 << example).sum();
        Prepared {
            keys: batch.iter().map(|e| Key(*e)).collect(),
            near: batch.iter().map(|e| Key(*e)).collect(),
            samples,
            handles: vec![],
            digest,
            batch,
        }
    }
    fn scratch(&self) -> f64 {
        0.0
    }
    fn compute(
        &self,
        gathered: &mut f64,
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
        *gathered += batch.iter().sum::<u64>() as f64;
        StepReport { loss: batch.len() as f64 / 2.0, examples: batch.len() as u64, cost: Cost(1) }
    }
    fn settle(&self, gathered: &mut f64, sums: &mut Reduction) {
        sums.add("gathered", std::mem::take(gathered));
    }
    fn evaluation(&self, _: Split, _: Partition) -> Option<Box<dyn Evaluation<f64>>> {
        Some(Box::new(Total(vec![Key(0), Key(EXAMPLES)], 0.0)))
    }
}

pub(crate) type Values = BTreeMap<Key, Vec<f64>>;

/// All workers in one thread, one after the other between meetings.
pub(crate) struct Cluster {
    pub(crate) model: Values,
    pub(crate) workers: Vec<(Driver<Sums>, Loader<Sums>)>,
    ops: Vec<Vec<String>>,
    localized: Vec<Vec<Vec<Key>>>,
    /// Per worker, what its loader announced, and its clock.
    announced: Vec<Vec<Announcement>>,
    clocks: Vec<u32>,
    announces: bool,
    /// Announcements that were used.
    used: BTreeSet<(usize, usize)>,
    /// The number of meetings after which the cluster stops at the next one, and what was left of the epoch
    /// then.
    pub(crate) meetings: Option<u32>,
    pub(crate) stopped: Option<Rest>,
}

fn deliver(
    task: &Sums,
    loader: &mut Loader<Sums>,
    event: LoaderEvent,
    announced: &mut Vec<Announcement>,
) -> Option<Prepared<Vec<u64>>> {
    let mut op = loader.step(event);
    loop {
        op = match op {
            LoaderOp::PrepareSample(request) => {
                let manager = Manager::new(task.model.sampler.clone(), 0, 0);
                let SampleRequest { distribution, samples, stream } = request;
                let handle = manager.prepare(distribution, samples, stream, &Everything).unwrap();
                loader.step(LoaderEvent::Prepared(handle))
            }
            LoaderOp::Intend => {
                announced.push(loader.next_intent().clone());
                loader.step(LoaderEvent::Done)
            }
            LoaderOp::Deliver => return Some(loader.take()),
            LoaderOp::Done => return None,
        }
    }
}

impl Cluster {
    fn new(task: &Arc<Sums>, workers: u32, schedule: Schedule) -> Self {
        Self::resume(task, workers, schedule, &Start::default(), &Reduction::default())
    }

    /// A cluster that continues at `start`, with these sums of the epoch.
    pub(crate) fn resume(
        task: &Arc<Sums>,
        workers: u32,
        schedule: Schedule,
        start: &Start,
        sums: &Reduction,
    ) -> Self {
        let model = &task.model;
        let values = (0..model.keys()).map(|k| (Key(k), vec![0.0; model.len(Key(k))])).collect();
        let worker = |worker| {
            let partition =
                Partition { worker, workers, nodes: if workers == 4 { 2 } else { 1 }, threads: 1 };
            let sums = if worker == 0 { sums.clone() } else { Reduction::default() };
            let driver = Driver::resume(Arc::clone(task), partition, schedule, start, sums);
            (driver, Loader::resume(Arc::clone(task), partition, &schedule, start))
        };
        let workers: Vec<_> = (0..workers).map(worker).collect();
        Self {
            model: values,
            ops: vec![Vec::new(); workers.len()],
            localized: vec![Vec::new(); workers.len()],
            announced: vec![Vec::new(); workers.len()],
            clocks: vec![0; workers.len()],
            announces: schedule.intents,
            used: BTreeSet::new(),
            meetings: None,
            stopped: None,
            workers,
        }
    }

    pub(crate) fn run(&mut self, task: &Sums) -> Result<(), intendant_task::Diverged> {
        let mut events: Vec<Option<Event<Vec<u64>>>> =
            self.workers.iter().map(|_| Some(Event::Start)).collect();
        loop {
            let (mut meetings, mut reductions, mut stopped) = (Vec::new(), Vec::new(), Vec::new());
            let mut done = 0;
            for (at, (driver, loader)) in self.workers.iter_mut().enumerate() {
                let mut event = events[at].take().unwrap();
                loop {
                    let op = driver.step(event)?;
                    let name = format!("{op:?}");
                    self.ops[at].push(name.split(['(', ' ']).next().unwrap().to_owned());
                    event = match op {
                        Op::NextBatch => {
                            let announced = &mut self.announced[at];
                            let batch = deliver(task, loader, LoaderEvent::Done, announced);
                            Event::Batch(batch.expect("a batch is left"))
                        }
                        Op::PullSample => {
                            let manager = Manager::new(task.model.sampler.clone(), 0, 0);
                            let draw = |handle: &mut _, n, keys: &mut _| {
                                manager.draw(handle, n, &Everything, keys, &mut Vec::new())
                            };
                            driver.draw(draw).unwrap();
                            Event::Done
                        }
                        Op::Pull => {
                            let trains = driver.sampled_keys() > 0;
                            let (keys, values) = driver.pull_buffers();
                            for key in keys.iter().filter(|_| trains && self.announces) {
                                let clock = Clock(self.clocks[at]);
                                let covers =
                                    |a: &Announcement| a.window.contains(&clock) && a.keys.contains(key);
                                let found = self.announced[at].iter().position(covers);
                                let found =
                                    found.unwrap_or_else(|| panic!("{key:?} at {clock:?} was not announced"));
                                self.used.insert((at, found));
                            }
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
                        Op::Localize { .. } => {
                            self.localized[at].push(driver.localize_keys().to_vec());
                            Event::Done
                        }
                        Op::AdvanceClock => {
                            self.clocks[at] += 1;
                            Event::Done
                        }
                        Op::Train => panic!("it trains on copies"),
                        Op::Compute(_) | Op::Flush => Event::Done,
                        Op::Meet if self.meetings == Some(0) => {
                            stopped.push(driver.rest());
                            break;
                        }
                        Op::Quiesce | Op::Barrier | Op::Synchronize | Op::Meet => {
                            meetings.push(op);
                            events[at] = Some(Event::Done);
                            break;
                        }
                        Op::Reduce => {
                            reductions.push(driver.reduction().clone());
                            break;
                        }
                        Op::Done => {
                            assert!(
                                deliver(task, loader, LoaderEvent::Done, &mut Vec::new()).is_none(),
                                "a batch was not trained"
                            );
                            done += 1;
                            break;
                        }
                    };
                }
            }
            assert!(
                meetings.windows(2).all(|two| two[0] == two[1]),
                "all workers meet in the same: {meetings:?}"
            );
            assert!([0, self.workers.len()].contains(&meetings.len()), "all workers meet");
            if meetings.contains(&Op::Meet) {
                self.meetings = self.meetings.map(|left| left - 1);
            }
            if let Some(rest) = stopped.pop() {
                assert_eq!(stopped, vec![rest.clone(); self.workers.len() - 1], "all agree on what is left");
                self.stopped = Some(rest);
                return Ok(());
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

pub(crate) const EVERYTHING: u64 = (1 << EXAMPLES) - 1;

#[test]
fn every_example_is_trained_once_per_epoch_with_any_number_of_workers() {
    for workers in [1, 2, 3, 7, 50] {
        let task = Sums::new(None);
        let mut cluster = Cluster::new(&task, workers, Schedule { valid_every: 2, ..Schedule::epochs(3) });
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
    let mut cluster = Cluster::new(&task, 6, Schedule { valid_every: 1, test: false, ..Schedule::epochs(1) });
    cluster.run(&task).unwrap();
    let expected = [
        "Quiesce",
        "Barrier",
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
fn subepochs_begin_with_a_meeting_and_their_block() {
    let task = Sums::in_subepochs(3, BATCH);
    let mut cluster = Cluster::new(&task, 4, Schedule { test: false, ..Schedule::epochs(2) });
    cluster.run(&task).unwrap();
    for example in 0..EXAMPLES {
        assert_eq!(
            cluster.model[&Key(example)],
            [2.0 * example as f64],
            "each example is trained once per epoch"
        );
    }
    for (worker, (ops, localized)) in cluster.ops.iter().zip(&cluster.localized).enumerate() {
        let meetings: Vec<&str> = ops
            .iter()
            .map(String::as_str)
            .filter(|op| ["Localize", "Barrier", "Flush", "Quiesce", "Reduce"].contains(op))
            .collect();
        let between = ["Localize", "Flush", "Barrier"];
        let epoch = [&between[..], &between, &["Localize", "Flush", "Quiesce", "Reduce"]].concat();
        assert_eq!(meetings, [&["Localize", "Quiesce", "Barrier"][..], &epoch, &epoch].concat());
        let key = |at: usize| vec![Key(at as u64)];
        let blocks = [key(worker), key(4 + worker), key(8 + worker)];
        assert_eq!(*localized, [&[key(worker / 2)][..], &blocks, &blocks].concat(), "residents, then blocks");
    }
}

#[test]
fn batches_are_localized_ahead_with_their_samples() {
    let task = Sums::new(None);
    let schedule = Schedule { localize_ahead: 2, synchronous: true, test: false, ..Schedule::epochs(1) };
    let mut cluster = Cluster::new(&task, 1, schedule);
    cluster.run(&task).unwrap();
    let ops = cluster.ops[0].join(" ");
    let (take, train) = ("NextBatch Localize", "PullSample Pull Compute Push Flush AdvanceClock");
    let steps = [take, take, take, train, take, train, take, train, take, train, train, train];
    assert_eq!(ops, format!("Quiesce Barrier {} Flush Quiesce Reduce Done", steps.join(" ")));
    for keys in &cluster.localized[0] {
        assert!(keys.is_sorted_by(|a, b| a < b), "each key once: {keys:?}");
        assert!(keys.last().unwrap().0 >= EXAMPLES, "a sampled key is among {keys:?}");
    }
}

#[test]
fn workers_synchronise_after_batches_and_then_go_on() {
    let task = Sums::new(None);
    let schedule = Schedule { synchronize: NonZeroU32::new(2), test: false, ..Schedule::epochs(2) };
    let mut cluster = Cluster::new(&task, 1, schedule);
    cluster.run(&task).unwrap();
    let batch = "NextBatch PullSample Pull Compute Push AdvanceClock";
    let epoch = format!("{} Flush Quiesce Reduce", [batch, batch, "Synchronize"].repeat(3).join(" "));
    assert_eq!(cluster.ops[0].join(" "), format!("Quiesce Barrier {epoch} {epoch} Done"));
}

#[test]
fn clocks_are_as_long_as_asked_for_and_end_with_the_subepoch() {
    let task = Sums::new(None);
    let clocks = |every, ahead| {
        let clock_every = NonZeroU32::new(every);
        let schedule = Schedule { clock_every, localize_ahead: ahead, test: false, ..Schedule::epochs(2) };
        let mut cluster = Cluster::new(&task, 1, schedule);
        cluster.run(&task).unwrap();
        let ops =
            cluster.ops[0].iter().filter(|op| ["Compute", "AdvanceClock", "Flush"].contains(&op.as_str()));
        ops.map(|op| &op[..1]).collect::<String>()
    };
    for ahead in [0, 2] {
        assert_eq!(clocks(1, ahead), "CACACACACACAF".repeat(2));
        assert_eq!(clocks(4, ahead), "CCCCACCAF".repeat(2));
        assert_eq!(clocks(0, ahead), "CCCCCCAF".repeat(2), "one for the subepoch");
    }
}

#[test]
fn no_epochs_evaluate_the_initial_model() {
    let task = Sums::new(None);
    let mut cluster = Cluster::new(&task, 2, Schedule { valid_every: 1, ..Schedule::epochs(0) });
    cluster.run(&task).unwrap();
    assert_eq!(
        cluster.ops[0],
        ["Quiesce", "Barrier", "Quiesce", "Pull", "Snapshot", "Quiesce", "Reduce", "Done"]
    );
}

#[test]
fn a_nan_is_refused_before_it_is_pushed_and_named() {
    let task = Sums::new(Some(17));
    let mut cluster = Cluster::new(&task, 1, Schedule { test: false, ..Schedule::epochs(1) });
    let diverged = cluster.run(&task).unwrap_err();
    assert_eq!((diverged.epoch, diverged.key), (1, Some(Key(17))));
    assert!(diverged.to_string().starts_with("diverged in epoch 1, step "), "{diverged}");
    assert!(diverged.to_string().contains(", key 17: an update is NaN; "), "{diverged}");
    assert!(cluster.model.values().flatten().all(|v| v.is_finite()));
}

proptest! {
    /// Workers have different numbers of batches; some have none at all.
    #[test]
    fn all_workers_synchronise_equally_often(
        workers in 1u32..9,
        subepochs in 1u32..5,
        batch in 1u64..6,
        every in 1u32..5,
        localize_ahead in 0u32..3,
    ) {
        let task = Sums::in_subepochs(subepochs, batch);
        let synchronize = NonZeroU32::new(every);
        let schedule = Schedule { synchronize, localize_ahead, test: false, ..Schedule::epochs(2) };
        let mut cluster = Cluster::new(&task, workers, schedule);
        cluster.run(&task).unwrap();
        for (worker, ops) in (0..).zip(&cluster.ops) {
            let partition = Partition { worker, ..Partition::alone() };
            let of_worker = |index, worker| {
                let partition = Partition { worker, workers, ..partition };
                task.batches(Subepoch { epoch: 0, index }, partition)
            };
            // The expected epoch: the worker's batches, and the synchronisations, counted in steps that all
            // workers take.
            let (mut expected, mut step) = (Vec::new(), 0);
            for subepoch in 0..subepochs {
                let longest = (0..workers).map(|other| of_worker(subepoch, other)).max().unwrap();
                for batch in 0..longest {
                    if batch < of_worker(subepoch, worker) {
                        expected.push("Push");
                    }
                    step += 1;
                    if step % every == 0 {
                        expected.push("Synchronize");
                    }
                }
                expected.push("Flush");
            }
            let shown = ["Push", "Synchronize", "Flush"];
            let seen: Vec<&str> = ops.iter().map(String::as_str).filter(|op| shown.contains(op)).collect();
            prop_assert_eq!(seen, [&expected[..], &expected].concat(), "worker {}", worker);
        }
    }

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

/// Compares with a count, over every choice of the examples that use something.
#[test]
fn expected_batches_are_the_average_over_all_orders() {
    for examples in 0..10u64 {
        for batch in 1..12u64 {
            let (mut batches, mut choices) = ([0; 10], [0; 10]);
            for chosen in 0..1u64 << examples {
                let uses = chosen.count_ones() as usize;
                choices[uses] += 1;
                let starts = (0..examples).step_by(batch as usize);
                batches[uses] += starts.filter(|start| chosen >> start & ((1 << batch) - 1) != 0).count();
            }
            for uses in 0..=examples {
                let expected = batches[uses as usize] as f64 / f64::from(choices[uses as usize]);
                let computed = expected_batches(examples, batch, uses);
                assert!(
                    (computed - expected).abs() < 1e-12,
                    "{uses} uses in {examples} examples, batches of {batch}: {computed}, not {expected}"
                );
            }
        }
    }
    // With one example per batch, there are as many batches as uses. What every example uses is in every
    // batch.
    assert!((expected_batches(123_456_789_123, 1, 77) - 77.0).abs() < 1e-12);
    assert_eq!(expected_batches(1000, 64, 1000), 16.0);
}

/// What a loader asks for and delivers, one letter each: `2p` prepares two samples, `d` delivers a batch.
fn loading(task: &Arc<Sums>, sample_portions: u32, epochs: u32) -> String {
    let sample_portions = NonZeroU32::new(sample_portions).unwrap();
    let schedule = Schedule { sample_portions, ..Schedule::epochs(epochs) };
    let mut loader = Loader::new(Arc::clone(task), Partition::alone(), &schedule);
    let manager = Manager::new(task.model.sampler.clone(), 0, 0);
    let (mut heard, mut told) = (LoaderEvent::Start, String::new());
    loop {
        heard = match loader.step(heard) {
            LoaderOp::PrepareSample(SampleRequest { distribution, samples, stream }) => {
                told += &format!("{samples}p");
                LoaderEvent::Prepared(manager.prepare(distribution, samples, stream, &Everything).unwrap())
            }
            LoaderOp::Intend => panic!("nothing is announced unless the schedule says so"),
            LoaderOp::Deliver => {
                let batch = loader.take();
                told += if batch.handles.is_empty() { "-" } else { "d" };
                LoaderEvent::Done
            }
            LoaderOp::Done => return told,
        };
    }
}

#[test]
fn batches_share_handles_within_a_subepoch() {
    let whole = Sums::new(None);
    // Six batches of an epoch.
    assert_eq!(loading(&whole, 1, 2), "2pd".repeat(12));
    assert_eq!(loading(&whole, 4, 2), "8pd---4pd-".repeat(2));
    assert_eq!(loading(&whole, 100, 1), "12pd-----");
    assert_eq!(loading(&Sums::in_subepochs(3, BATCH), 4, 1), "4pd-".repeat(3));
    assert_eq!(loading(&whole, 4, 0), "");
}

/// The keys that a worker pulls at one of its clocks were announced for that clock before the batch was
/// delivered, and no other keys were announced.
#[test]
fn what_is_used_is_announced_for_the_clock_at_which_it_is_used() {
    for task in [Sums::new(None), Sums::in_subepochs(3, BATCH)] {
        for (workers, portions, every) in [(1, 1, 1), (3, 1, 1), (2, 4, 1), (1, 3, 2), (2, 2, 0), (1, 4, 100)]
        {
            let schedule = Schedule {
                intents: true,
                clock_every: NonZeroU32::new(every),
                sample_portions: NonZeroU32::new(portions).unwrap(),
                ..Schedule::epochs(2)
            };
            let mut cluster = Cluster::new(&task, workers, schedule);
            cluster.run(&task).unwrap();
            let announced: usize = cluster.announced.iter().map(Vec::len).sum();
            assert!(announced > 0);
            for announcement in cluster.announced.iter().flatten() {
                assert!(announcement.keys.is_sorted_by(|a, b| a < b), "each key once: {announcement:?}");
                let Range { start, end } = announcement.window;
                assert!(start < end && (end.0 - start.0 == 1 || portions > 1), "{announcement:?}");
            }
            if (portions, every) == (1, 1) {
                assert_eq!(cluster.used.len(), announced, "nothing is announced in vain");
            }
        }
    }
}

/// Residents are announced once, and a batch's use of them is not announced again. The batches of an epoch
/// that other workers have divided are announced in full, because the residents differ.
#[test]
fn residents_are_announced_once_for_the_whole_run() {
    let mut task = Arc::into_inner(Sums::in_subepochs(1, BATCH)).unwrap();
    task.own = 3;
    let task = Arc::new(task);
    let schedule = Schedule { intents: true, ..Schedule::epochs(2) };
    let partition = Partition { worker: 3, workers: 4, nodes: 2, threads: 1 };
    for workers in [4, 2] {
        let stretches =
            vec![Stretch { worker: 1, first: 0, end: 1 }, Stretch { worker: 3, first: 0, end: 1 }];
        let stretches = stretches.into_iter().filter(|stretch| stretch.worker < workers).collect();
        let subepoch = Subepoch { epoch: 0, index: 0 };
        let rest = Some(Arc::new(Rest { subepoch, workers, nodes: 2, stretches }));
        let start = Start { rest, ..Start::default() };
        let mut loader = Loader::resume(Arc::clone(&task), partition, &schedule, &start);
        let (mut residents, mut others) = (Vec::new(), Vec::new());
        let (mut announced, mut event) = (Vec::new(), LoaderEvent::Start);
        while let Some(batch) = deliver(&task, &mut loader, event, &mut announced) {
            event = LoaderEvent::Done;
            let number = others.len();
            for Announcement { keys, window } in announced.drain(..) {
                if window.end == Clock(u32::MAX) {
                    residents.push((number, keys, window.start));
                } else if keys[0] < Key(EXAMPLES) {
                    others.push((keys, batch.keys.clone()));
                }
            }
            // Batches may consist of residents and samples.
            others.resize(number + 1, (Vec::new(), batch.keys));
        }
        let first = usize::from(workers == 2);
        assert_eq!(residents, [(first, vec![Key(1)], Clock(first as u32))], "{workers} workers before");
        for (number, (announced, keys)) in others.iter().enumerate() {
            let own = if number < first { 0 } else { 3.min(keys.len()) };
            let mut expected = keys[own..].to_vec();
            expected.sort_unstable();
            assert_eq!(*announced, expected, "batch {number} of {keys:?}");
        }
    }
}

#[test]
fn who_shares_handles_trains_all_the_same() {
    let task = Sums::new(None);
    for (workers, portions, ahead) in [(1, 4, 0), (3, 2, 1), (1, 6, 3)] {
        let sample_portions = NonZeroU32::new(portions).unwrap();
        let schedule = Schedule { sample_portions, localize_ahead: ahead, ..Schedule::epochs(3) };
        let mut cluster = Cluster::new(&task, workers, schedule);
        cluster.run(&task).unwrap();
        let sampled: f64 = (EXAMPLES..EXAMPLES + 5).map(|key| cluster.model[&Key(key)][0]).sum();
        assert_eq!(sampled, 3.0 * 2.0 * 6.0, "two samples for each of six batches");
        let reduction = &cluster.workers[0].0.combined()[0];
        assert_eq!(reduction.digest, EVERYTHING);
    }
}
