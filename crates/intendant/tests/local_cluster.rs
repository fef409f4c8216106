//! Several nodes in one process: operations, order, bounds, meetings, snapshots and failures.

use intendant::{Element, Error, Key, KeyOrder, Layout, Node, NodeConfig, Order, Storage, Worker};
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
    std::thread::scope(|scope| {
        for node in nodes {
            scope.spawn(move || node.shutdown().unwrap());
        }
    });
}

fn elements(layout: &Layout, keys: &[Key]) -> usize {
    keys.iter().map(|key| layout.len(*key)).sum()
}

/// Integers, so that sums are exact in any order: everything that is pushed arrives exactly once.
fn everything_arrives<E: Element>(mut config: NodeConfig<E>, nodes: usize, workers: usize) {
    const STEPS: u64 = 200;
    config.workers = workers;
    let layout = config.layout.clone();
    let total = nodes * workers;
    let nodes = run(config, nodes, |me, worker| {
        let mut tickets = Vec::new();
        for step in 0..STEPS {
            let word = mix(step * 1000 + me as u64);
            // Several keys in a call, any order, sometimes twice, with values of both lengths.
            let keys: Vec<Key> = (0..1 + word % 9).map(|i| Key(mix(word + i) % KEYS)).collect();
            let ones = vec![E::ONE; elements(&layout, &keys)];
            let mut values = ones.clone();
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
    (config.storage, config.order) = (Storage::Sparse, Some(Order::Chain));
    everything_arrives(config, 2, 2);
}

#[test]
fn hardly_anything_may_be_in_flight() {
    let mut config = config::<f64>(2);
    config.outstanding_bytes = 1;
    everything_arrives(config, 2, 1);
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
    // 400 values of 64 KiB: 25 MiB per call, far more than one frame may have.
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
        // An empty call is fine, and so is a ticket of one.
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
            panic!("a bug in somebody's loss function");
        });
        assert!(panicking.join().is_err());
        assert_eq!(waiting.join().unwrap().to_string(), "node 1 ended the run: worker 0 panicked");
    });
}

#[test]
fn nodes_without_workers_are_refused() {
    let mut config = config::<f32>(1);
    config.workers = 0;
    assert_eq!(Node::start_alone(config).err().unwrap().exit_code(), 2);
}
