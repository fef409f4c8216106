//! Several nodes in one process: operations, order, bounds, meetings, snapshots and failures.

use intendant::{Element, Error, Key, KeyOrder, Layout, Node, NodeConfig, Order, Storage, Technique, Worker};
use intendant_core::random::mix;
use std::collections::BTreeMap;
use std::sync::Arc;

const KEYS: u64 = 200;

fn layout(channels: usize, order: KeyOrder) -> Layout {
    let builder =
        Layout::builder().range("short", 120, 3).range("long", 80, 17).shards(16).channels(channels);
    builder.order(order).seed(5).build().unwrap()
}

fn config<E: Element>(channels: usize) -> NodeConfig<E> {
    NodeConfig::new(
        layout(channels, KeyOrder::Random),
        Arc::new(|key, value| value.fill(E::from_f64(key.0 as f64))),
    )
}

/// Runs `work` on every worker of every node, then shuts down.
fn run<E: Element>(
    config: NodeConfig<E>,
    nodes: usize,
    work: impl Fn(usize, &mut Worker<E>) -> Result<(), Error> + Sync,
) -> Vec<Node<E>> {
    let mut nodes = Node::start_local(config, nodes).unwrap();
    std::thread::scope(|scope| {
        let mut index = 0;
        for node in &mut nodes {
            for mut worker in node.workers() {
                let (work, me) = (&work, index);
                scope.spawn(move || work(me, &mut worker).unwrap());
                index += 1;
            }
        }
    });
    nodes
}

fn shut_down<E: Element>(nodes: Vec<Node<E>>) {
    Node::shutdown_all(nodes).unwrap();
}

fn elements(layout: &Layout, keys: &[Key]) -> usize {
    keys.iter().map(|key| layout.len(*key)).sum()
}

/// Everything that is pushed arrives exactly once, wherever the keys go. The values are integers, so that
/// sums are exact in any order.
fn everything_arrives<E: Element>(mut config: NodeConfig<E>, nodes: usize, workers: usize) {
    const STEPS: u64 = 200;
    config.workers = workers;
    let layout = config.layout.clone();
    let total = nodes * workers;
    let moves = config.cluster.technique == Technique::Lapse && nodes > 1;
    let nodes = run(config, nodes, |me, worker| {
        let mut tickets = Vec::new();
        for step in 0..STEPS {
            let word = mix(step * 1000 + me as u64);
            // A call has several keys in any order, some of them twice, with values of both lengths.
            let keys: Vec<Key> = (0..1 + word % 9).map(|i| Key(mix(word + i) % KEYS)).collect();
            let ones = vec![E::ONE; elements(&layout, &keys)];
            let mut values = ones.clone();
            match word / 4 % 4 {
                0 => worker.localize(&keys)?,
                1 => tickets.push(worker.localize_async(&keys)?),
                2 => {
                    let _forgotten = worker.localize_async(&keys)?;
                }
                _ => {}
            }
            match word % 4 {
                0 => worker.push(&keys, &ones)?,
                1 => tickets.push(worker.push_async(&keys, &ones)?),
                2 => {
                    let _forgotten = worker.push_async(&keys, &ones)?;
                }
                _ => {
                    worker.push(&keys, &ones)?;
                    let ticket = worker.pull_async(&keys)?;
                    worker.wait_pull(ticket, &mut values)?;
                }
            }
            worker.pull(&keys, &mut values)?;
            let mut at = 0;
            for key in &keys {
                let len = layout.len(*key);
                let value = &values[at..at + len];
                assert!(value.iter().all(|v| *v == value[0]), "torn value of {key:?}: {value:?}");
                assert!(value[0].to_f64() >= key.0 as f64 + 1.0, "own push to {key:?} is not visible");
                at += len;
            }
        }
        for ticket in tickets {
            worker.wait(ticket)?;
        }
        worker.quiesce()?;
        let mut expected = BTreeMap::new();
        for me in 0..total {
            for step in 0..STEPS {
                let word = mix(step * 1000 + me as u64);
                for i in 0..1 + word % 9 {
                    *expected.entry(mix(word + i) % KEYS).or_insert(0.0) += 1.0;
                }
            }
        }
        let mut seen = BTreeMap::new();
        worker.snapshot(0..KEYS, &mut |keys, values| {
            let mut at = 0;
            for key in keys {
                let len = layout.len(*key);
                assert!(values[at..at + len].iter().all(|v| *v == values[at]));
                let before = seen.insert(key.0, values[at].to_f64());
                assert!(before.is_none(), "{key:?} twice in a snapshot");
                at += len;
            }
            assert_eq!(at, values.len());
        })?;
        assert_eq!(seen.len() as u64, KEYS);
        for (key, value) in seen {
            assert_eq!(value, key as f64 + expected.get(&key).copied().unwrap_or(0.0), "value of key {key}");
        }
        let access = worker.access();
        assert_eq!(access.local + access.remote, access.pull_keys + access.push_keys);
        if nodes_of(worker, &layout) == 1 {
            assert_eq!(access.remote, 0);
        }
        worker.quiesce()
    });
    let held: usize = nodes.iter().map(Node::held).sum();
    assert_eq!(held as u64, KEYS, "each key has one owner");
    let relocations: u64 = nodes.iter().map(|node| node.management().unwrap().relocations).sum();
    assert_eq!(relocations > 0, moves);
    let traffic: u64 = nodes.iter().map(|node| node.network().messages).sum();
    assert_eq!(traffic > 0, nodes.len() > 1);
    shut_down(nodes);
}

fn nodes_of<E: Element>(worker: &mut Worker<E>, _layout: &Layout) -> usize {
    worker.gather("count", Vec::new()).unwrap().len()
}

#[test]
fn one_node() {
    everything_arrives::<f32>(config(1), 1, 2);
}

#[test]
fn three_nodes_two_channels() {
    everything_arrives::<f32>(config(2), 3, 2);
}

#[test]
fn doubles_in_a_sparse_store_chained() {
    let mut config = config::<f64>(1);
    (config.cluster.storage, config.cluster.order) = (Storage::Sparse, Some(Order::Chain));
    everything_arrives(config, 2, 2);
}

#[test]
fn hardly_anything_may_be_in_flight() {
    for technique in [Technique::Classic, Technique::Lapse] {
        let mut config = config::<f64>(2);
        (config.cluster.technique, config.outstanding_bytes) = (technique, 1);
        everything_arrives(config, 2, 1);
    }
}

#[test]
fn keys_that_move() {
    for channels in [1, 3] {
        for storage in [Storage::Dense, Storage::Sparse] {
            for caches in [false, true] {
                let mut config = config::<f32>(channels);
                (config.cluster.technique, config.cluster.storage, config.cluster.caches) =
                    (Technique::Lapse, storage, Some(caches));
                everything_arrives(config, 3, 2);
            }
        }
    }
}

#[test]
fn doubles_that_move_or_have_nowhere_to_go() {
    for nodes in [1, 4] {
        let mut config = config::<f64>(2);
        config.cluster.technique = Technique::Lapse;
        everything_arrives(config, nodes, 2);
    }
}

#[test]
fn key_orders_by_range_and_hash() {
    for order in [KeyOrder::Range, KeyOrder::Hash] {
        let mut config = config::<f32>(1);
        config.layout = layout(1, order);
        everything_arrives(config, 2, 1);
    }
}

#[test]
fn values_larger_than_a_frames_target_and_calls_larger_than_a_frame() {
    // The model has 400 values of 64 KiB: a call has 25 MiB, far more than one frame may have.
    let layout = Layout::builder().range("k", 400, 16_384).shards(4).build().unwrap();
    let config = NodeConfig::<f32>::new(layout, Arc::new(|key, value| value.fill(key.0 as f32)));
    let nodes = run(config, 2, |me, worker| {
        let keys: Vec<Key> = (0..400).map(Key).collect();
        let mut values = vec![0.0; 400 * 16_384];
        if me == 0 {
            worker.push(&keys, &vec![1.0; 400 * 16_384])?;
        }
        worker.barrier("pushed")?;
        worker.pull(&keys, &mut values)?;
        for (key, value) in values.chunks(16_384).enumerate() {
            assert!(value.iter().all(|v| *v == key as f32 + 1.0), "key {key}");
        }
        Ok(())
    });
    shut_down(nodes);
}

#[test]
fn set_overwrites_and_the_later_of_two_stays() {
    let nodes = run(config::<f32>(1), 2, |me, worker| {
        if me == 0 {
            let keys: Vec<Key> = [0, 1, 2, 0].map(Key).to_vec();
            worker.set(&keys, &[1., 1., 1., 2., 2., 2., 3., 3., 3., 4., 4., 4.])?;
        }
        worker.barrier("set")?;
        let mut values = [0.0; 9];
        worker.pull(&[Key(0), Key(1), Key(2)], &mut values)?;
        assert_eq!(values, [4., 4., 4., 2., 2., 2., 3., 3., 3.]);
        Ok(())
    });
    shut_down(nodes);
}

#[test]
fn wrong_calls_are_refused_as_a_whole() {
    let nodes = run(config::<f32>(1), 2, |me, worker| {
        let (mut values, keys) = ([0.0; 6], [Key(1), Key(KEYS)]);
        let message = worker.pull(&keys, &mut values).unwrap_err().to_string();
        assert_eq!(message, "key 200 at position 1 does not exist: keys are 0 to 199");
        let message = worker.push(&keys, &values).unwrap_err().to_string();
        assert!(message.contains("does not exist"));
        let message = worker.pull_async(&keys).unwrap_err().to_string();
        assert!(message.contains("does not exist"));
        let message = worker.push(&[Key(0), Key(1)], &[1.0; 5]).unwrap_err().to_string();
        assert_eq!(message, "2 keys have values of 6 elements together, but the buffer has 5");
        assert_eq!(worker.access(), Default::default(), "nothing was accessed");
        worker.pull(&[Key(1), Key(2)], &mut values)?;
        assert_eq!(values, [1., 1., 1., 2., 2., 2.], "worker {me}: nothing was changed");
        // An empty call is allowed, and so is its ticket.
        worker.pull(&[], &mut [])?;
        let ticket = worker.push_async(&[], &[])?;
        worker.wait(ticket)?;
        let ticket = worker.push_async(&[Key(1)], &[0.0; 3])?;
        assert!(worker.wait_pull(ticket, &mut values).is_err());
        worker.quiesce()
    });
    shut_down(nodes);
}

#[test]
fn meetings_return_what_everybody_brought() {
    let mut config = config::<f32>(1);
    config.workers = 3;
    let nodes = run(config, 3, |me, worker| {
        for round in 0..50u8 {
            let all = worker.gather("who", vec![me as u8, round])?;
            assert_eq!(all, (0..9).map(|i| vec![i, round]).collect::<Vec<_>>());
            worker.barrier("done")?;
        }
        Ok(())
    });
    shut_down(nodes);
}

#[test]
fn aborting_ends_every_blocked_call_on_every_node() {
    let mut nodes = Node::start_local(config::<f32>(1), 3).unwrap();
    let aborter = nodes[1].aborter();
    std::thread::scope(|scope| {
        let mut waiting = Vec::new();
        for (index, node) in nodes.iter_mut().enumerate() {
            for mut worker in node.workers() {
                // Node 1 never comes.
                if index != 1 {
                    waiting.push(scope.spawn(move || worker.barrier("never").unwrap_err()));
                }
            }
        }
        aborter.abort("the operator said so");
        for thread in waiting {
            let error = thread.join().unwrap();
            assert_eq!(error.to_string(), "node 1 ended the run: the operator said so");
            assert_eq!(error.exit_code(), 1);
        }
    });
    assert!(nodes.pop().unwrap().shutdown().is_err());
}

#[test]
fn a_dropped_node_is_missed_by_those_who_need_it() {
    let mut nodes = Node::start_local(config::<f32>(1), 2).unwrap();
    let layout = Arc::clone(nodes[0].layout());
    let away = (0..120).map(Key).find(|key| layout.home(*key).index() == 1).unwrap();
    drop(nodes.pop());
    let mut worker = nodes[0].workers().pop().unwrap();
    let error = worker.pull(&[away], &mut [0.0; 3]).unwrap_err();
    assert!(error.to_string().starts_with("node 1 "), "{error}");
}

#[test]
fn a_panicking_worker_ends_the_run_of_the_others() {
    let mut nodes = Node::start_local(config::<f32>(1), 2).unwrap();
    std::thread::scope(|scope| {
        let mut workers: Vec<_> = nodes.iter_mut().flat_map(Node::workers).collect();
        let (mut a, b) = (workers.remove(0), workers.remove(0));
        let waiting = scope.spawn(move || a.barrier("never").unwrap_err());
        let panicking = scope.spawn(move || {
            let _worker = b;
            panic!("a bug in an application's loss function");
        });
        assert!(panicking.join().is_err());
        assert_eq!(waiting.join().unwrap().to_string(), "node 1 ended the run: worker 0 panicked");
    });
}

/// The keys of the first range whose home is the node.
fn home_of(node: &Node<f32>, rank: u16) -> Vec<Key> {
    (0..120).map(Key).filter(|key| node.layout().home(*key).0 == rank).collect()
}

#[test]
fn every_call_after_a_failure_fails_not_only_the_first() {
    let mut nodes = Node::start_local(config::<f32>(1), 2).unwrap();
    let away = home_of(&nodes[0], 1);
    let mut worker = nodes[0].workers().pop().unwrap();
    nodes[1].abort("enough");
    // The tickets may have been answered or not; waiting for them must end either way.
    let tickets: Vec<_> = (0..3).map_while(|_| worker.pull_async(&away).ok()).collect();
    for ticket in tickets {
        let _ = worker.wait(ticket);
    }
    for _ in 0..3 {
        assert_eq!(worker.pull(&away, &mut vec![0.0; 3 * away.len()]).unwrap_err().exit_code(), 1);
        assert!(worker.barrier("b").is_err());
        assert!(worker.quiesce().is_err());
        assert!(worker.snapshot(0..KEYS, &mut |_, _| {}).is_err());
        assert!(worker.wait_all().is_err());
    }
}

#[test]
fn workers_that_outlive_their_node_get_errors() {
    let mut nodes = Node::start_local(config::<f32>(1), 2).unwrap();
    let away = home_of(&nodes[0], 1);
    let mut workers: Vec<_> = nodes.iter_mut().flat_map(Node::workers).collect();
    let ticket = workers[0].pull_async(&away).unwrap();
    Node::shutdown_all(nodes).unwrap();
    let error = workers[0].barrier("b").unwrap_err();
    assert_eq!(error.to_string(), "the node is shut down");
    // Whether the pull was answered before the end or not, the call does not hang.
    let _ = workers[0].wait(ticket);
    assert!(workers[0].pull(&away, &mut vec![0.0; 3 * away.len()]).is_err());
}

#[test]
fn no_worker_waits_for_a_worker_that_ended_early() {
    let mut config = config::<f32>(1);
    config.workers = 2;
    let mut nodes = Node::start_local(config, 2).unwrap();
    std::thread::scope(|scope| {
        let mut workers: Vec<_> = nodes.iter_mut().flat_map(Node::workers).collect();
        // The second worker of node 1 ends without a call.
        drop(workers.pop());
        let waiting: Vec<_> = workers
            .into_iter()
            .map(|mut w| scope.spawn(move || w.barrier("end").unwrap_err().to_string()))
            .collect();
        for thread in waiting {
            let message = thread.join().unwrap();
            assert!(message.contains("'end'"), "{message}");
        }
    });
}

#[test]
fn workers_that_mean_different_meetings_are_told() {
    for workers in [1, 2] {
        let mut config = config::<f32>(1);
        config.workers = workers;
        let mut nodes = Node::start_local(config, if workers == 1 { 2 } else { 1 }).unwrap();
        let messages: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = nodes
                .iter_mut()
                .flat_map(Node::workers)
                .zip(["here", "there"])
                .map(|(mut worker, name)| scope.spawn(move || worker.barrier(name).unwrap_err().to_string()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for message in messages {
            assert!(message.contains("'here'") && message.contains("'there'"), "{message}");
        }
    }
}

#[test]
fn a_node_that_leaves_while_others_wait_for_it_ends_the_run() {
    let mut nodes = Node::start_local(config::<f32>(1), 2).unwrap();
    let mut workers: Vec<_> = nodes.iter_mut().flat_map(Node::workers).collect();
    std::thread::scope(|scope| {
        let mut first = workers.remove(0);
        let waiting = scope.spawn(move || first.barrier("end").unwrap_err().to_string());
        drop(workers);
        let leaving = nodes.pop().unwrap();
        assert!(leaving.shutdown().is_err());
        let message = waiting.join().unwrap();
        assert!(message.contains("node 1 left"), "{message}");
    });
}

#[test]
fn tickets_belong_to_their_worker_and_may_be_dropped() {
    let mut config = config::<f32>(1);
    config.workers = 2;
    let mut nodes = Node::start_local(config, 2).unwrap();
    let away = home_of(&nodes[0], 1);
    let mut workers: Vec<_> = nodes.iter_mut().flat_map(Node::workers).collect();
    let mut values = vec![0.0; 3 * away.len()];
    let ticket = workers[0].pull_async(&away).unwrap();
    let message = workers[1].wait_pull(ticket, &mut values).unwrap_err().to_string();
    assert!(message.contains("belongs to another worker"), "{message}");
    for _ in 0..100 {
        drop(workers[0].pull_async(&away).unwrap());
        drop(workers[0].pull_async(&[]).unwrap());
    }
    workers[0].wait_all().unwrap();
    workers[0].pull(&away, &mut values).unwrap();
    assert!(away.iter().zip(values.chunks(3)).all(|(key, value)| value == [key.0 as f32; 3]));
    drop(workers);
    Node::shutdown_all(nodes).unwrap();
}

#[test]
fn snapshots_of_parts_of_a_sparse_model_take_no_memory() {
    let mut config = config::<f32>(2);
    config.cluster.storage = Storage::Sparse;
    let nodes = run(config, 2, |_, worker| {
        let mut seen = BTreeMap::new();
        worker.snapshot(110..130, &mut |keys, values| {
            let mut values = values.iter();
            for key in keys {
                let len = if key.0 < 120 { 3 } else { 17 };
                assert!(values.by_ref().take(len).all(|v| *v == key.0 as f32));
                assert!(seen.insert(key.0, ()).is_none());
            }
            assert_eq!(values.next(), None);
        })?;
        assert!(seen.into_keys().eq(110..130));
        let message = worker.snapshot(0..KEYS + 1, &mut |_, _| {}).unwrap_err().to_string();
        assert!(message.starts_with("key 200 "), "{message}");
        worker.quiesce()
    });
    assert_eq!(nodes.iter().map(Node::held).sum::<usize>(), 0, "no worker has touched a key");
    shut_down(nodes);
}

#[test]
fn what_is_too_long_for_a_meeting_is_refused_and_the_run_goes_on() {
    let nodes = run(config::<f32>(1), 2, |_, worker| {
        assert!(matches!(worker.gather("x", vec![0; 9 << 20]), Err(Error::Meeting { .. })));
        assert!(matches!(worker.gather(&"x".repeat(500), vec![]), Err(Error::Meeting { .. })));
        assert_eq!(worker.gather("quiesce", vec![7])?, [[7], [7]], "a name of ours is free for others");
        worker.quiesce()
    });
    shut_down(nodes);
}

#[test]
fn a_panicking_initialiser_ends_the_run_and_leaves_no_zeros_behind() {
    let mut config = config::<f32>(1);
    config.cluster.storage = Storage::Sparse;
    config.init = Arc::new(|_, _| panic!("a bug in an application's initialiser"));
    let mut nodes = Node::start_local(config, 2).unwrap();
    let away = home_of(&nodes[0], 1);
    let mut worker = nodes[0].workers().pop().unwrap();
    let message = worker.pull(&away[..1], &mut [0.0; 3]).unwrap_err().to_string();
    assert!(message.contains("channel 0 of this node panicked"), "{message}");
}

#[test]
fn nodes_without_workers_are_refused() {
    let mut config = config::<f32>(1);
    config.workers = 0;
    assert_eq!(Node::start_alone(config).err().unwrap().exit_code(), 2);
}
