//! Several nodes in one process whose keys move: the promises of localize, its cost, and how it ends.

use intendant::{Error, Key, KeyOrder, Layout, Node, NodeConfig, Storage, Technique, Worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const KEYS: u64 = 300;
const LEN: usize = 3;

/// The keys of each node are next to each other.
fn layout(keys: u64, len: usize) -> Layout {
    Layout::builder().range("k", keys, len).order(KeyOrder::Range).build().unwrap()
}

fn config(technique: Technique) -> NodeConfig<f32> {
    let init = |key: Key, value: &mut [f32]| value.fill(key.0 as f32);
    let mut config = NodeConfig::new(layout(KEYS, LEN), Arc::new(init));
    config.cluster.technique = technique;
    config
}

fn keys() -> Vec<Key> {
    (0..KEYS).map(Key).collect()
}

/// The workers of all nodes, node by node.
fn workers(nodes: &mut [Node<f32>]) -> Vec<Worker<f32>> {
    nodes.iter_mut().flat_map(Node::workers).collect()
}

/// All workers come to rest, each on its own thread.
fn quiesce(workers: &mut [Worker<f32>]) {
    std::thread::scope(|scope| {
        workers.iter_mut().for_each(|worker| {
            scope.spawn(|| worker.quiesce().unwrap());
        });
    });
}

fn messages(nodes: &[Node<f32>]) -> u64 {
    // A channel that answers has counted what it did before.
    nodes.iter().map(|node| (node.management().unwrap(), node.network().messages).1).sum()
}

fn relocations(nodes: &[Node<f32>]) -> u64 {
    nodes.iter().map(|node| node.management().unwrap().relocations).sum()
}

#[test]
fn localize_returns_when_the_keys_are_here() {
    for storage in [Storage::Dense, Storage::Sparse] {
        let mut config = config(Technique::Lapse);
        config.cluster.storage = storage;
        let mut nodes = Node::start_local(config, 3).unwrap();
        let mut workers = workers(&mut nodes);
        let (keys, elements) = (keys(), KEYS as usize * LEN);
        workers[2].push(&keys, &vec![0.5; elements]).unwrap();
        for at in [1, 0, 0, 2] {
            workers[at].localize(&keys).unwrap();
            let before = messages(&nodes);
            let mut values = vec![0.0; elements];
            assert_eq!(workers[at].pull_if_local(&keys, &mut values).unwrap(), vec![true; KEYS as usize]);
            let expected = |key: &Key| [key.0 as f32 + 0.5; LEN];
            assert!(keys.iter().zip(values.chunks(LEN)).all(|(key, value)| value == expected(key)));
            workers[at].pull(&keys, &mut values).unwrap();
            workers[at].push(&keys, &vec![0.0; elements]).unwrap();
            assert_eq!(messages(&nodes), before, "accesses to what is here need no message");
            let held: Vec<usize> = nodes.iter().map(Node::held).collect();
            assert_eq!((held[at], held.iter().sum::<usize>()), (KEYS as usize, KEYS as usize));
        }
        let access = workers[0].access();
        assert_eq!((access.remote, access.local), (0, 6 * KEYS), "two rounds of three calls");
        drop(workers);
        Node::shutdown_all(nodes).unwrap();
    }
}

#[test]
fn many_keys_cost_as_many_messages_as_one() {
    let mut nodes = Node::start_local(config(Technique::Lapse), 3).unwrap();
    let mut workers = workers(&mut nodes);
    let mut cost = |worker: usize, keys: &[Key]| {
        let before = messages(&nodes);
        workers[worker].localize(keys).unwrap();
        messages(&nodes) - before
    };
    assert_eq!(cost(0, &keys()), 4, "two homes are asked, two hand over");
    // Node 1 sends a localize to each of the two other homes. Three orders to hand keys over reach node 0:
    // messages of the homes 1 and 2, and the localize of node 1, as node 0 is a home as well. It hands over
    // three times.
    assert_eq!(cost(1, &keys()), 2 + 2 + 3);
    assert_eq!(cost(1, &keys()), 0, "they are here");
    assert_eq!(cost(1, &[]), 0);
    assert_eq!(cost(2, &[Key(0), Key(0), Key(0)]), 3, "one localize, one relocate, one hand-over");
    assert_eq!(relocations(&nodes), KEYS * 2 / 3 + KEYS + 1);
    drop(workers);
    Node::shutdown_all(nodes).unwrap();
}

#[test]
fn workers_of_a_node_that_want_the_same_get_it_once() {
    let mut config = config(Technique::Lapse);
    config.workers = 4;
    let mut nodes = Node::start_local(config, 2).unwrap();
    let mut workers = workers(&mut nodes);
    let keys = keys();
    std::thread::scope(|scope| {
        for worker in &mut workers[..4] {
            scope.spawn(|| {
                worker.localize(&keys).unwrap();
                let mut values = vec![0.0; KEYS as usize * LEN];
                assert!(worker.pull_if_local(&keys, &mut values).unwrap().into_iter().all(|here| here));
            });
        }
    });
    let management = nodes[0].management().unwrap();
    assert_eq!((management.relocations, management.relocation.count()), (KEYS / 2, KEYS / 2));
    assert_eq!(management.localization_conflicts, 0);
    drop(workers);
    Node::shutdown_all(nodes).unwrap();
}

#[test]
fn a_dropped_ticket_moves_the_keys_all_the_same() {
    let mut nodes = Node::start_local(config(Technique::Lapse), 2).unwrap();
    let mut workers = workers(&mut nodes);
    drop(workers[0].localize_async(&keys()).unwrap());
    let ticket = workers[0].localize_async(&keys()).unwrap();
    assert!(workers[1].wait(ticket).is_err(), "another worker's");
    let ticket = workers[0].localize_async(&keys()).unwrap();
    let not_a_pull = workers[0].wait_pull(ticket, &mut []).unwrap_err().to_string();
    assert!(not_a_pull.contains("not one of a pull"), "{not_a_pull}");
    quiesce(&mut workers);
    assert_eq!((nodes[0].held(), nodes[1].held()), (KEYS as usize, 0));
    assert_eq!(relocations(&nodes), KEYS / 2);
    drop(workers);
    Node::shutdown_all(nodes).unwrap();
}

#[test]
fn unknown_keys_are_refused_before_anything_moves() {
    let mut nodes = Node::start_local(config(Technique::Lapse), 2).unwrap();
    let mut workers = workers(&mut nodes);
    // The call is longer than one part of a localize, so that the key that does not exist is in a later part.
    let mut keys: Vec<Key> = keys().into_iter().cycle().take(40_000).collect();
    keys.push(Key(KEYS));
    let expected = "key 300 at position 40000 does not exist: keys are 0 to 299";
    assert_eq!(workers[0].localize(&keys).unwrap_err().to_string(), expected);
    assert_eq!(workers[0].localize_async(&keys).unwrap_err().to_string(), expected);
    let mut values = vec![f32::NAN; keys.len() * LEN];
    assert_eq!(workers[0].pull_if_local(&keys, &mut values).unwrap_err().to_string(), expected);
    assert!(workers[0].pull_if_local(&keys[..2], &mut values[..5]).is_err(), "two keys have six elements");
    assert!(values.iter().all(|value| value.is_nan()));
    quiesce(&mut workers);
    assert_eq!((relocations(&nodes), messages(&nodes)), (0, 0));
    // The cluster goes on.
    keys.pop();
    workers[0].localize(&keys).unwrap();
    assert_eq!(nodes[0].held(), KEYS as usize);
    drop(workers);
    Node::shutdown_all(nodes).unwrap();
}

/// Half of 100 MB of values must move, while 4 MiB may be in flight.
#[test]
fn a_long_localize_keeps_within_what_may_be_in_flight() {
    const MANY: u64 = 100_000;
    const LONG: usize = 256;
    let mut config = NodeConfig::<f32>::new(layout(MANY, LONG), Arc::new(|_, value| value.fill(1.0)));
    (config.cluster.technique, config.outstanding_bytes) = (Technique::Lapse, 4 << 20);
    let keys_max = config.outstanding_bytes / (LONG * size_of::<f32>());
    let mut nodes = Node::start_local(config, 2).unwrap();
    let mut workers = workers(&mut nodes);
    let keys: Vec<Key> = (0..MANY).map(Key).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            workers[0].localize(&keys).unwrap();
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            // In this order, a key that moves meanwhile is counted at least once, and maybe on both nodes.
            let held = nodes[1].held() + nodes[0].held();
            let under_way = (MANY as usize).saturating_sub(held);
            assert!(under_way <= keys_max, "{under_way} keys are under way; at most {keys_max} should be");
            std::thread::yield_now();
        }
    });
    assert_eq!((nodes[0].held(), nodes[1].held()), (MANY as usize, 0));
    drop(workers);
    Node::shutdown_all(nodes).unwrap();
}

#[test]
fn techniques_that_do_not_move_keys_ignore_the_wish() {
    let mut nodes = Node::start_local(config(Technique::Classic), 2).unwrap();
    let mut workers = workers(&mut nodes);
    let keys = keys();
    workers[0].localize(&keys).unwrap();
    let ticket = workers[0].localize_async(&keys).unwrap();
    workers[0].wait(ticket).unwrap();
    assert!(workers[0].localize(&[Key(KEYS)]).is_err(), "a wrong call is wrong with every technique");
    let mut values = vec![-1.0; KEYS as usize * LEN];
    let here = workers[0].pull_if_local(&keys, &mut values).unwrap();
    for (key, (here, value)) in keys.iter().zip(here.iter().zip(values.chunks(LEN))) {
        assert_eq!(*here, key.0 < KEYS / 2, "{key:?}");
        assert_eq!(
            value,
            [if *here { key.0 as f32 } else { -1.0 }; LEN],
            "the places of others are left alone"
        );
    }
    let access = workers[0].access();
    assert_eq!((access.pull_keys, access.local, access.remote), (KEYS / 2, KEYS / 2, 0));
    quiesce(&mut workers);
    assert_eq!((relocations(&nodes), messages(&nodes)), (0, 0));
    drop(workers);
    Node::shutdown_all(nodes).unwrap();
}

#[test]
fn a_worker_that_polls_sees_that_its_own_push_is_done() {
    let mut config = config(Technique::Lapse);
    config.workers = 2;
    let mut nodes = Node::start_local(config, 2).unwrap();
    let mut workers = workers(&mut nodes);
    let key = [Key(KEYS - 1)];
    drop(workers[0].push_async(&key, &[1.0; LEN]).unwrap());
    // Another worker moves the key to this node; the first worker makes no call that waits.
    workers[1].localize(&key).unwrap();
    let mut value = [0.0; LEN];
    let found = (0..1_000_000).any(|_| {
        std::thread::yield_now();
        workers[0].pull_if_local(&key, &mut value).unwrap() == [true]
    });
    assert!(found, "the push was answered long ago");
    assert_eq!(value, [KEYS as f32; LEN]);
    drop(workers);
    Node::shutdown_all(nodes).unwrap();
}

#[test]
fn a_node_that_goes_while_its_keys_are_wanted_ends_the_calls_of_the_others() {
    for blocked in [false, true] {
        let mut nodes = Node::start_local(config(Technique::Lapse), 3).unwrap();
        let mut workers = workers(&mut nodes);
        let leaving = (nodes.pop().unwrap(), workers.pop().unwrap());
        std::thread::scope(|scope| {
            let hammering: Vec<_> = workers
                .iter_mut()
                .map(|worker| {
                    scope.spawn(move || {
                        let keys = keys();
                        let error: Error = loop {
                            let tickets = [worker.localize_async(&keys[150..]), worker.localize_async(&keys)];
                            let waited = tickets.into_iter().try_for_each(|ticket| worker.wait(ticket?));
                            let done = waited.and_then(|()| worker.push(&keys, &vec![0.0; keys.len() * LEN]));
                            if let Err(error) = done {
                                break error;
                            }
                        };
                        error.to_string()
                    })
                })
                .collect();
            let (node, mut worker) = leaving;
            // The node that goes has keys in one case, and has keys under way to it in the other.
            if blocked {
                worker.localize(&keys()).unwrap();
            }
            drop(worker.localize_async(&keys()).unwrap());
            drop(node);
            for thread in hammering {
                let error = thread.join().unwrap();
                assert!(error.starts_with("node 2 "), "{error}");
            }
            assert!(worker.localize(&keys()).is_err());
        });
    }
}
