//! Several nodes in one process whose workers signal intents: keys are there in time, nodes give them up
//! afterwards, and nodes send nothing while nothing happens.

use intendant::{
    Cause, Clock, Error, Explanation, Key, KeyOrder, Layout, Node, NodeConfig, NodeId, Role, Storage,
    Technique, What, Worker, WorkerId,
};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

const KEYS: u64 = 300;
const LEN: usize = 3;
/// Longer than any part of these tests takes. A wait as long as this lasts for ever.
const PATIENCE: Duration = Duration::from_secs(60);

/// The keys of each node are next to each other.
fn config(technique: Technique) -> NodeConfig<f32> {
    let layout = Layout::builder().range("k", KEYS, LEN).channels(2).order(KeyOrder::Range).build().unwrap();
    let mut config =
        NodeConfig::new(layout, Arc::new(|key: Key, value: &mut [f32]| value.fill(key.0 as f32)));
    config.cluster.technique = technique;
    config
}

fn messages(nodes: &[Node<f32>]) -> u64 {
    // A channel that answers has counted what it did before.
    nodes.iter().map(|node| (node.management().unwrap(), node.network().messages).1).sum()
}

fn workers(nodes: &mut [Node<f32>]) -> Vec<Worker<f32>> {
    nodes.iter_mut().flat_map(Node::workers).collect()
}

fn clocks(range: Range<u32>) -> Range<Clock> {
    Clock(range.start)..Clock(range.end)
}

#[expect(clippy::disallowed_methods, reason = "a safety net: what is waited for is not measured")]
fn now() -> Instant {
    Instant::now()
}

/// Waits until `so` holds for all of `keys`, as this worker's node sees them.
#[track_caller]
fn wait(worker: &Worker<f32>, keys: Range<u64>, so: impl Fn(&Explanation) -> bool) {
    let begun = now();
    for key in keys.map(Key) {
        loop {
            let explanation = worker.explain(key).unwrap();
            if so(&explanation) {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "{key:?} is not so yet: {explanation:?}");
            std::thread::yield_now();
        }
    }
}

fn here(explanation: &Explanation) -> bool {
    matches!(explanation.role, Role::Owner | Role::Hub | Role::Replica)
}

/// Whether all of `keys` can be read without a message.
fn reads_locally(worker: &mut Worker<f32>, keys: Range<u64>) -> bool {
    let keys: Vec<Key> = keys.map(Key).collect();
    let mut values = vec![0.0; keys.len() * LEN];
    worker.pull_if_local(&keys, &mut values).unwrap().iter().all(|here| *here)
}

#[test]
fn what_one_node_intends_to_use_moves_there_and_stays() {
    for storage in [Storage::Dense, Storage::Sparse] {
        let mut config = config(Technique::Adaptive);
        config.cluster.storage = storage;
        let mut nodes = Node::start_local(config, 3).unwrap();
        let mut workers = workers(&mut nodes);
        let keys: Vec<Key> = (0..KEYS).map(Key).collect();
        workers[1].intent(&keys, clocks(0..2)).unwrap();
        wait(&workers[1], 0..KEYS, |explanation| explanation.role == Role::Owner && explanation.intents == 1);
        assert!(reads_locally(&mut workers[1], 0..KEYS));
        workers[1].advance_clock();
        workers[1].advance_clock();
        wait(&workers[1], 0..KEYS, |explanation| explanation.intents == 0);
        assert!(reads_locally(&mut workers[1], 0..KEYS), "no other node wants them");
        let whence: Vec<What> =
            workers[0].explain(Key(0)).unwrap().decisions.iter().map(|d| d.what).collect();
        assert_eq!(whence, [What::Left { to: NodeId(1), cause: Cause::Began(NodeId(1)) }]);
        drop(workers);
        Node::shutdown_all(nodes).unwrap();
    }
}

#[test]
fn what_several_nodes_intend_to_use_is_copied_while_they_do_and_no_update_is_lost() {
    let mut nodes = Node::start_local(config(Technique::Adaptive), 2).unwrap();
    let mut workers = workers(&mut nodes);
    let keys: Vec<Key> = (0..KEYS).map(Key).collect();
    for worker in &workers {
        worker.intent(&keys, clocks(0..1)).unwrap();
    }
    for worker in &workers {
        wait(worker, 0..KEYS, here);
    }
    for worker in &mut workers {
        worker.push(&keys, &vec![0.25; KEYS as usize * LEN]).unwrap();
    }
    // One node is done, then the other.
    workers[0].advance_clock();
    wait(&workers[1], 0..KEYS, |explanation| explanation.role == Role::Owner);
    workers[1].advance_clock();
    for worker in &workers {
        wait(worker, 0..KEYS, |explanation| matches!(explanation.role, Role::Owner | Role::Absent));
    }
    let mut values = vec![0.0; KEYS as usize * LEN];
    workers[0].pull(&keys, &mut values).unwrap();
    let expected = (0..KEYS).flat_map(|key| [key as f32 + 0.5; LEN]);
    assert!(values.iter().copied().eq(expected), "both have added a quarter");
    let stats = nodes.iter().map(|node| node.management().unwrap());
    let (setups, drops) = stats.fold((0, 0), |sum, s| (sum.0 + s.replica_setups, sum.1 + s.replica_drops));
    assert!(setups >= KEYS && setups == drops, "{setups} replicas came, {drops} went");
    drop(workers);
    Node::shutdown_all(nodes).unwrap();
}

#[test]
fn nothing_is_said_while_nothing_happens() {
    let mut nodes = Node::start_local(config(Technique::Adaptive), 2).unwrap();
    let mut workers = workers(&mut nodes);
    let keys: Vec<Key> = (0..KEYS).map(Key).collect();
    for worker in &workers {
        worker.intent(&keys, clocks(0..1)).unwrap();
        // This intent is far too early.
        worker.intent(&keys, clocks(1_000_000..1_000_001)).unwrap();
    }
    for worker in &workers {
        wait(worker, 0..KEYS, here);
    }
    // All copies are synchronised by now, and no clock advances.
    std::thread::scope(|scope| {
        workers.iter_mut().for_each(|worker| {
            // After the barrier, channels act on intents again.
            scope.spawn(|| (worker.quiesce().unwrap(), worker.barrier("rested").unwrap()));
        });
    });
    let before = messages(&nodes);
    #[expect(clippy::disallowed_methods, reason = "whether something happens is the question")]
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(messages(&nodes), before);
    drop(workers);
    Node::shutdown_all(nodes).unwrap();
}

#[test]
fn loaders_speak_for_workers_and_a_worker_that_is_gone_wants_nothing() {
    let mut config = config(Technique::Adaptive);
    config.workers = 2;
    let mut nodes = Node::start_local(config, 2).unwrap();
    let mut workers = workers(&mut nodes);
    let preparer = nodes[1].preparer();
    preparer.intent(WorkerId(1), &[Key(3)], clocks(0..u32::MAX)).unwrap();
    let refused = preparer.intent(WorkerId(2), &[Key(3)], clocks(0..1)).unwrap_err();
    assert!(refused.to_string().contains("this node has 2 workers"), "{refused}");
    let refused = preparer.intent(WorkerId(0), &[Key(0), Key(KEYS)], clocks(0..1)).unwrap_err();
    assert!(matches!(&refused, Error::Access(_)) && refused.to_string().contains("299"), "{refused}");
    assert!(workers[0].explain(Key(KEYS)).is_err());
    wait(&workers[2], 3..4, |explanation| explanation.role == Role::Owner && explanation.intents == 1);
    let gone = workers.pop().unwrap();
    assert_eq!((gone.rank(), gone.id()), (NodeId(1), WorkerId(1)));
    drop(gone);
    wait(&workers[2], 3..4, |explanation| explanation.intents == 0);
    drop(workers);
    Node::shutdown_all(nodes).unwrap();
}

#[test]
fn techniques_that_ignore_intents_ignore_them() {
    for technique in [Technique::Classic, Technique::Lapse, Technique::Nups, Technique::Essp] {
        let mut nodes = Node::start_local(config(technique), 2).unwrap();
        let workers = workers(&mut nodes);
        let before = messages(&nodes);
        workers[1].intent(&[Key(0)], clocks(0..10)).unwrap();
        assert_eq!(messages(&nodes), before);
        assert!(workers[1].intent(&[Key(KEYS)], clocks(0..10)).is_err(), "nonsense is nonsense");
        assert!(!here(&workers[1].explain(Key(0)).unwrap()));
        drop(workers);
        Node::shutdown_all(nodes).unwrap();
    }
}
