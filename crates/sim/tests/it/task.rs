//! Tests of [`run_task`]: a task learns on any number of nodes, with either element type, and trains on the
//! same examples as a single worker on a plain array.

use crate::likes::Likes;
use intendant_checkers::checker::run_task;
use intendant_core::{Element, Key, Tick};
use intendant_engine::{ClusterSettings, ReplicationConfig};
use intendant_sampling::{Everything, Manager};
use intendant_sim::{Faults, Spread, TaskConfig, TaskOutcome};
use intendant_task::{
    BatchAt, Driver, Evaluation, Event, Loader, LoaderEvent, LoaderOp, LookAhead, Model, Op, Partition,
    Prepared, Pulled, Rows, SampleRequest, Schedule, Split, StepReport, Subepoch, Task, Update,
};
use intendant_techniques::{Assignment, KeyTechnique, Order, StaticReplicaPace, Technique};
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;

const SCHEDULE: Schedule = Schedule { valid_every: 3, ..Schedule::epochs(6) };

fn train<E: Element>(config: &TaskConfig) -> TaskOutcome<E> {
    run_task(&Arc::new(Likes::<E>::new(5)), config, &mut ()).unwrap()
}

/// The next batch of a loader.
fn next<T: Task>(task: &T, loader: &mut Loader<T>, mut event: LoaderEvent) -> Prepared<T::Batch> {
    loop {
        match loader.step(event) {
            LoaderOp::PrepareSample(request) => {
                let manager = Manager::new(task.model().sampler.clone(), 0, 0);
                let SampleRequest { distribution, samples, stream } = request;
                let handle = manager.prepare(distribution, samples, stream, &Everything).unwrap();
                event = LoaderEvent::Prepared(handle);
            }
            LoaderOp::Intend => panic!("nothing is announced unless the schedule says so"),
            LoaderOp::Deliver => return loader.take(),
            LoaderOp::Done => panic!("no batch is left"),
        }
    }
}

/// Trains with one worker on a plain array: the reference for the simulated runs.
fn plain<E: Element>() -> (Vec<E>, u64) {
    let task = Arc::new(Likes::<E>::new(5));
    let model = task.model().clone();
    let manager = Manager::new(model.sampler.clone(), 0, 0);
    let mut at = vec![0];
    let mut values = Vec::new();
    for key in (0..model.keys()).map(Key) {
        let start = values.len();
        values.resize(start + model.len(key), E::ZERO);
        (model.init)(key, &mut values[start..]);
        at.push(values.len());
    }
    let row = |key: &Key| at[key.index()]..at[key.index() + 1];
    let partition = Partition::alone();
    let mut driver = Driver::new(Arc::clone(&task), partition, SCHEDULE);
    let mut loader = Loader::new(Arc::clone(&task), partition, &SCHEDULE);
    let mut event = Event::Start;
    let mut heard = Some(LoaderEvent::Start);
    loop {
        event = match driver.step(event).unwrap() {
            Op::NextBatch => {
                Event::Batch(next(&*task, &mut loader, heard.take().unwrap_or(LoaderEvent::Done)))
            }
            Op::PullSample => {
                let draw = |handle: &mut _, samples, keys: &mut _| {
                    manager.draw(handle, samples, &Everything, keys, &mut Vec::new())
                };
                driver.draw(draw).unwrap();
                Event::Done
            }
            Op::Pull => {
                let (keys, into) = driver.pull_buffers();
                let pulled: Vec<E> = keys.iter().flat_map(|key| values[row(key)].to_vec()).collect();
                into.copy_from_slice(&pulled);
                Event::Done
            }
            Op::Push => {
                let (keys, update) = driver.push_buffers();
                let places = keys.iter().flat_map(&row);
                places.zip(update).for_each(|(place, update)| values[place] += *update);
                Event::Done
            }
            Op::Snapshot(range) => {
                let keys: Vec<Key> = range.map(Key).collect();
                let part: Vec<E> = keys.iter().flat_map(|key| values[row(key)].to_vec()).collect();
                driver.snapshot_part(&keys, &part);
                Event::Done
            }
            Op::Reduce => Event::Reduced(driver.reduction().clone()),
            Op::Train => panic!("it trains on copies"),
            Op::Compute(_)
            | Op::Localize { .. }
            | Op::AdvanceClock
            | Op::Meet
            | Op::Synchronize
            | Op::Flush
            | Op::Barrier
            | Op::Quiesce => Event::Done,
            Op::Done => break,
        };
    }
    let digest = driver.combined().iter().fold(0u64, |sum, r| sum.wrapping_add(r.digest));
    (values, digest)
}

/// The loss of the last epoch is below the part `falls_to` of the first one's, and the part `right` of the
/// held-out pairs is ranked right.
#[track_caller]
fn check_learned<E>(outcome: &TaskOutcome<E>, falls_to: f64, right: f64, at: &str) {
    let [first, .., last, test] = &outcome.combined[..] else { panic!("{at}: too few epochs") };
    let loss = |r: &intendant_task::Reduction| r.get("loss") / r.get("examples");
    assert!(loss(last) < falls_to * loss(first), "{at}: loss {} to {}", loss(first), loss(last));
    let ranked = test.get("quality.ranked_right") / test.get("quality.count");
    assert!(ranked > right, "{at}: {ranked} of the held-out pairs are ranked right");
}

fn digest<E>(outcome: &TaskOutcome<E>) -> u64 {
    outcome.combined.iter().fold(0, |sum, reduction| sum.wrapping_add(reduction.digest))
}

fn one_worker_equals_a_plain_array<E: Element>() {
    let (values, expected) = plain::<E>();
    let outcome = train::<E>(&TaskConfig::new(1, 1, SCHEDULE));
    assert_eq!(outcome.values, values, "bit by bit");
    assert_eq!(digest(&outcome), expected);
    assert_eq!((outcome.traffic.messages, outcome.accesses.remote), (0, 0));
}

#[test]
fn one_worker_on_one_node_equals_a_plain_array() {
    one_worker_equals_a_plain_array::<f32>();
    one_worker_equals_a_plain_array::<f64>();
}

fn it_learns<E: Element>() {
    let (_, expected) = plain::<E>();
    for (nodes, workers, channels) in [(1, 3, 1), (2, 1, 2), (3, 2, 1), (4, 2, 3), (7, 1, 1)] {
        let outcome = train::<E>(&TaskConfig { channels, ..TaskConfig::new(nodes, workers, SCHEDULE) });
        let at = format!("{nodes} nodes with {workers} workers");
        assert_eq!(digest(&outcome), expected, "{at}: the same examples");
        check_learned(&outcome, 0.7, 0.9, &at);
        let accesses = outcome.accesses;
        assert_eq!(accesses.local + accesses.remote, accesses.pull_keys + accesses.push_keys, "{at}");
        assert!(accesses.sampled > 0, "{at}");
        assert_eq!(outcome.traffic.messages > 0, nodes > 1, "{at}");
    }
}

#[test]
fn it_learns_on_any_number_of_nodes() {
    it_learns::<f32>();
    it_learns::<f64>();
}

#[test]
fn equal_seeds_give_equal_runs_in_virtual_time() {
    let config = TaskConfig::new(3, 2, SCHEDULE);
    let (a, b) = (train::<f32>(&config), train::<f32>(&config));
    assert_eq!((a.hash, a.virtual_ns, &a.values), (b.hash, b.virtual_ns, &b.values));
    let other = train::<f32>(&TaskConfig { seed: 1, ..config.clone() });
    assert_ne!(a.hash, other.hash);
    assert_eq!(digest(&a), digest(&other));
    // With a network a hundred times slower, the run takes at least ten times as long.
    let mut slow = config;
    slow.delays.network.latency = Spread::even(3_500_000, 4_500_000);
    assert!(train::<f32>(&slow).virtual_ns > 10 * a.virtual_ns);
}

#[test]
fn tight_bounds_and_slow_loaders_only_cost_time() {
    let mut config = TaskConfig {
        outstanding_bytes_max: 1,
        look_ahead: LookAhead { batches: 1, keys: 0 },
        cluster: ClusterSettings { order: Some(Order::Chain), ..ClusterSettings::new(Technique::Classic) },
        ..TaskConfig::new(4, 1, SCHEDULE)
    };
    config.delays.machine.prepare_ns = 3_000_000;
    let outcome = train::<f32>(&config);
    assert_eq!(digest(&outcome), plain::<f32>().1);
}

/// Lapse with latency hiding: workers localize keys two batches before they use them.
fn lapse(nodes: usize, workers: usize) -> TaskConfig {
    let schedule = Schedule { localize_ahead: 2, ..SCHEDULE };
    TaskConfig {
        cluster: ClusterSettings::new(Technique::Lapse),
        ..TaskConfig::new(nodes, workers, schedule)
    }
}

#[test]
fn keys_that_are_localized_ahead_are_local_more_often() {
    // Steps are long enough for keys to arrive in time, unless another node localizes them too. In a model
    // this small, another node often does.
    let [classic, lapse] = [TaskConfig::new(4, 1, SCHEDULE), lapse(4, 1)].map(|mut config| {
        config.delays.charge.compute_milli = 1_000_000;
        train::<f32>(&config)
    });
    assert_eq!(digest(&lapse), digest(&classic));
    assert!(lapse.management.relocations > 0 && lapse.management.relocation.mean_us() > 50.0);
    let remote = |outcome: &TaskOutcome<f32>| {
        outcome.epochs.iter().map(|epoch| epoch.accesses.remote).sum::<u64>() as f64
    };
    assert!(remote(&lapse) < 0.95 * remote(&classic), "{} and {}", remote(&lapse), remote(&classic));
}

#[test]
fn epochs_add_up_to_the_run_without_its_evaluations() {
    let outcome = train::<f32>(&lapse(3, 2));
    assert_eq!(outcome.epochs.len(), 6);
    assert_eq!(outcome.test.as_ref(), outcome.combined.last());
    let batches = outcome.epochs[0].accesses.push_keys;
    for (epoch, combined) in outcome.epochs.iter().zip(&outcome.combined) {
        assert_eq!(&epoch.reduction, combined);
        let accesses = epoch.accesses;
        assert_eq!(accesses.push_keys, batches, "every epoch pushes the same keys");
        assert_eq!(accesses.pull_keys, accesses.push_keys, "evaluation pulls are not counted");
        assert!(0 < epoch.late.pull_keys && epoch.late.pull_keys < accesses.pull_keys, "start-up is a part");
        assert!(epoch.management.relocations > 0 && epoch.traffic.messages > 0 && epoch.virtual_ns > 0);
        let busy = epoch.load.channels.utilisation(epoch.virtual_ns) / 3.0;
        assert!((0.0..1.0).contains(&busy) && busy > 0.0, "{busy}");
    }
    assert_eq!(outcome.accesses.push_keys, 6 * batches);
    assert!(outcome.accesses.pull_keys > 6 * batches, "two validations and a test pull as well");
    let sum = |of: fn(&intendant_sim::EpochOutcome) -> u64| outcome.epochs.iter().map(of).sum::<u64>();
    assert!(sum(|epoch| epoch.virtual_ns) < outcome.virtual_ns);
    assert!(sum(|epoch| epoch.traffic.bytes) < outcome.traffic.bytes);
    assert_eq!(sum(|epoch| epoch.management.relocations), outcome.management.relocations);
}

/// Every technique with replicas. Static replicas exist for every third of the 100 keys, or for all.
fn with_copies(nodes: usize, workers: usize) -> Vec<TaskConfig> {
    let set = |technique, replication, schedule| TaskConfig {
        cluster: ClusterSettings { replication, ..ClusterSettings::new(technique) },
        ..TaskConfig::new(nodes, workers, schedule)
    };
    let base = |technique| set(technique, ReplicationConfig::default(), SCHEDULE);
    let mut some = Assignment::none();
    (0..100).step_by(3).for_each(|key| some.set_technique(Key(key), KeyTechnique::Replicate));
    let paced =
        ReplicationConfig { pace: StaticReplicaPace::Every(Tick(2_000)), ..ReplicationConfig::default() };
    let asked = Schedule { synchronize: NonZeroU32::new(1), ..SCHEDULE };
    vec![
        base(Technique::Ssp),
        base(Technique::Essp),
        set(Technique::Nups, ReplicationConfig { assignment: some, ..paced.clone() }, SCHEDULE),
        set(Technique::FullReplication, paced.clone(), SCHEDULE),
        set(Technique::FullReplication, ReplicationConfig { pace: StaticReplicaPace::Asked, ..paced }, asked),
    ]
}

#[test]
fn a_task_is_trained_with_copies() {
    let (_, expected) = plain::<f32>();
    for config in with_copies(3, 2) {
        let name = format!("{} {:?}", config.cluster.technique, config.cluster.replication.pace);
        let outcome = train::<f32>(&config);
        assert_eq!(digest(&outcome), expected, "{name}: the same examples");
        check_learned(&outcome, 0.8, 0.85, &name);
        let stats = &outcome.management;
        assert!(stats.sync_rounds > 0 && stats.synced_keys > 0, "{name}: {stats:?}");
        let lazily = matches!(config.cluster.technique, Technique::Ssp | Technique::Essp);
        assert_eq!(stats.replica_setups > 0, lazily, "{name}");
        let full = config.cluster.technique == Technique::FullReplication;
        assert_eq!(outcome.accesses.remote == 0, full, "{name}");
        assert_eq!(train::<f32>(&config).hash, outcome.hash, "{name}: equal seeds give equal runs");
    }
}

/// The same task, trained in place: it reads all rows of a batch, and then adds to each.
struct InPlace<E>(Likes<E>);

impl<E: Element> Task for InPlace<E> {
    type Element = E;
    type Batch = usize;
    type Scratch = ();

    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn model(&self) -> &Model<E> {
        self.0.model()
    }
    fn batches(&self, subepoch: Subepoch, partition: Partition) -> u64 {
        self.0.batches(subepoch, partition)
    }
    fn prepare(&self, at: BatchAt) -> Prepared<usize> {
        self.0.prepare(at)
    }
    fn scratch(&self) {}
    fn trains_in_place(&self) -> bool {
        true
    }
    fn train(&self, (): &mut (), batch: &usize, keys: &[Key], rows: &mut dyn Rows<E>) -> StepReport {
        let (mut values, mut starts) = (Vec::new(), Vec::new());
        for at in 0..keys.len() {
            starts.push(values.len());
            values.extend_from_slice(&rows.row(at));
        }
        let mut update = vec![E::ZERO; values.len()];
        // Of each example a user and an item; the others are samples.
        let direct = 2 * batch;
        let (keys, sample_keys) = keys.split_at(direct);
        let (values, sample_values) = values.split_at(starts[direct]);
        let (direct_update, sample_update) = update.split_at_mut(starts[direct]);
        let pulled = Pulled { keys, values, sample_keys, sample_values };
        let mut change = Update { values: direct_update, sample_values: sample_update };
        let report = self.0.compute(&mut (), batch, pulled, &mut change);
        for (at, start) in starts.into_iter().enumerate() {
            let mut row = rows.row(at);
            row.iter_mut().zip(&update[start..]).for_each(|(value, update)| *value += *update);
        }
        report
    }
    fn evaluation(&self, split: Split, partition: Partition) -> Option<Box<dyn Evaluation<E>>> {
        self.0.evaluation(split, partition)
    }
}

#[test]
fn a_task_is_trained_in_place() {
    let task = Arc::new(InPlace(Likes::<f32>::new(5)));
    let train = |config: &TaskConfig| run_task(&task, config, &mut ()).unwrap();
    let (values, expected) = plain::<f32>();
    let alone = train(&TaskConfig::new(1, 1, SCHEDULE));
    assert_eq!(alone.values, values, "bit by bit");
    let on_copies = self::train::<f32>(&TaskConfig::new(1, 1, SCHEDULE));
    assert_eq!(alone.accesses, on_copies.accesses, "each row counts as a pull and a push");
    let tight = TaskConfig { outstanding_bytes_max: 1, ..TaskConfig::new(3, 2, SCHEDULE) };
    let adaptive = TaskConfig {
        cluster: ClusterSettings::new(Technique::Adaptive),
        ..TaskConfig::new(3, 2, Schedule { intents: true, ..SCHEDULE })
    };
    let synchronous = TaskConfig::new(3, 2, Schedule { synchronous: true, ..SCHEDULE });
    let more = [TaskConfig::new(4, 1, SCHEDULE), lapse(3, 2), tight, adaptive, synchronous];
    for config in with_copies(3, 2).into_iter().chain(more) {
        let name = format!("{} {:?}", config.cluster.technique, config.cluster.replication.pace);
        let outcome = train(&config);
        assert_eq!(digest(&outcome), expected, "{name}: the same examples");
        check_learned(&outcome, 0.8, 0.85, &name);
        for accesses in outcome.epochs.iter().map(|epoch| epoch.accesses) {
            assert_eq!(accesses.local + accesses.remote, accesses.pull_keys + accesses.push_keys, "{name}");
            assert_eq!(accesses.pull_keys, accesses.push_keys, "{name}");
        }
        let full = config.cluster.technique == Technique::FullReplication;
        assert!(full || outcome.accesses.remote > 0, "{name}: some rows were not here");
        assert_eq!(train(&config).hash, outcome.hash, "{name}: equal seeds give equal runs");
    }
}

#[test]
fn operations_of_one_key_wait_for_each_key() {
    let task = Arc::new(InPlace(Likes::<f32>::new(5)));
    let train = |config: &TaskConfig| run_task(&task, config, &mut ()).unwrap();
    let config = TaskConfig::new(2, 1, SCHEDULE);
    let part = |keys| TaskConfig { operation_keys_max: NonZeroUsize::new(keys), ..config.clone() };
    let [whole, many, one] = [&config, &part(1_000), &part(1)].map(train);
    assert_eq!((digest(&one), digest(&many)), (digest(&whole), digest(&whole)), "the same examples");
    assert_eq!((whole.hash, whole.virtual_ns), (many.hash, many.virtual_ns), "no batch has so many keys");
    assert_eq!(one.epochs[0].accesses.push_keys, whole.epochs[0].accesses.push_keys);
    // An operation is a request and its answer. Pushes may travel together, pulls do not.
    let epoch = &one.epochs[0];
    assert!(
        epoch.traffic.messages > epoch.accesses.remote
            && epoch.traffic.messages > 2 * whole.epochs[0].traffic.messages
    );
    assert!(epoch.virtual_ns > 2 * whole.epochs[0].virtual_ns);
}

/// On a single node, techniques with replicas create none.
#[test]
fn one_worker_needs_no_copies() {
    let (values, _) = plain::<f32>();
    for config in with_copies(1, 1) {
        let outcome = train::<f32>(&config);
        assert_eq!(outcome.values, values, "{} bit by bit", config.cluster.technique);
        assert_eq!(
            (outcome.traffic.messages, outcome.accesses.remote),
            (0, 0),
            "{}",
            config.cluster.technique
        );
    }
}

/// Synchronising replicas occupies channels, and its bytes occupy the network.
#[test]
fn synchronising_replicas_takes_time_and_bytes() {
    let busy = |every| {
        let replication =
            ReplicationConfig { pace: StaticReplicaPace::Every(Tick(every)), ..ReplicationConfig::default() };
        let technique = Technique::FullReplication;
        let cluster = ClusterSettings { replication, ..ClusterSettings::new(technique) };
        let outcome = train::<f32>(&TaskConfig { cluster, ..TaskConfig::new(4, 1, SCHEDULE) });
        let load = outcome.epochs.iter().map(|epoch| epoch.load.channels.busy_ns).sum::<u64>();
        (load, outcome.traffic.bytes, outcome.management.sync_rounds)
    };
    let (often, rarely) = (busy(500), busy(50_000));
    let more = |of: fn((u64, u64, u64)) -> u64| 2 * of(often) > 3 * of(rarely);
    assert!(more(|l| l.0) && more(|l| l.1) && more(|l| l.2), "{often:?}, {rarely:?}");
}

#[test]
fn a_task_is_trained_under_random_faults() {
    for (seed, mut config) in (0..).zip([TaskConfig::new(4, 1, SCHEDULE), lapse(4, 1), lapse(3, 2)]) {
        let undisturbed = train::<f32>(&config);
        config.faults = Faults::random(seed, config.nodes, undisturbed.virtual_ns);
        let disturbed = train::<f32>(&config);
        assert_eq!(digest(&disturbed), digest(&undisturbed), "{:?}", config.faults);
        assert!(disturbed.virtual_ns > undisturbed.virtual_ns, "{:?}", config.faults);
        assert_eq!(train::<f32>(&config).hash, disturbed.hash, "equal seeds give equal runs");
    }
}

#[test]
fn threads_share_cores_if_there_are_more_of_them() {
    let time = |cores| {
        let mut config = TaskConfig::new(1, 4, SCHEDULE);
        // One node, because a network would add the same time to every run.
        config.delays.machine.cores = cores;
        config.delays.charge.compute_milli = 10_000_000;
        train::<f32>(&config).virtual_ns as f64
    };
    assert_eq!(time(0), time(5));
    let quarter = time(1) / time(0);
    assert!((3.8..4.2).contains(&quarter), "four workers on one core: {quarter}");
}

/// A channel whose looks take long rests afterwards, longer if it shares its core with workers.
#[test]
fn channels_rest_between_looks() {
    let rounds = |send_ns, cores| {
        let mut config = with_copies(4, 1).remove(3);
        config.delays.charge.compute_milli = 1_000_000;
        config.delays.machine.send_ns = send_ns;
        config.delays.machine.cores = cores;
        let outcome = train::<f32>(&config);
        assert_eq!(digest(&outcome), plain::<f32>().1);
        outcome.management.sync_rounds as f64 / outcome.virtual_ns as f64
    };
    let (idle, own, shared) = (rounds(0, 0), rounds(1_000_000, 0), rounds(1_000_000, 1));
    assert!(own < 0.85 * idle && shared < 0.85 * own, "rounds per ns: {idle}, {own}, {shared}");
}
