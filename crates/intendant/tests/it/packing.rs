//! Packed messages and calls for ranges of keys, between nodes: values are the same, messages are shorter,
//! and the counts show by how much.

use intendant::{Error, Key, KeyOrder, Layout, NetworkStats, Node, NodeConfig, Packing, Technique, Worker};
use std::sync::Arc;

const KEYS: u64 = 4_000;
const ALL: Packing = Packing { key_lists: true, compress: true };

fn config(order: KeyOrder, packing: Packing) -> NodeConfig<f32> {
    let layout = Layout::builder().range("k", KEYS, 1).channels(2).shards(16).order(order).build().unwrap();
    let mut config = NodeConfig::new(layout, Arc::new(|key, value| value.fill((key.0 % 7) as f32)));
    config.cluster.technique = Technique::Classic;
    config.cluster.packing = packing;
    config
}

/// The messages that two nodes send while a worker of the first node does `work` and the worker of the other
/// node waits.
fn sent(config: NodeConfig<f32>, work: impl FnOnce(&mut Worker<f32>) -> Result<(), Error>) -> NetworkStats {
    let mut nodes = Node::start_local(config, 2).unwrap();
    let mut workers: Vec<_> = nodes.iter_mut().flat_map(Node::workers).collect();
    work(&mut workers[0]).unwrap();
    std::thread::scope(|scope| {
        for worker in &mut workers {
            scope.spawn(|| worker.quiesce().unwrap());
        }
    });
    let mut sent = NetworkStats::default();
    nodes.iter().for_each(|node| sent.merge(&node.network()));
    drop(workers);
    Node::shutdown_all(nodes).unwrap();
    sent
}

fn initial(range: std::ops::Range<u64>) -> Vec<f32> {
    range.map(|key| (key % 7) as f32).collect()
}

#[test]
fn calls_for_ranges_name_their_keys_in_a_few_bytes() {
    let range = 1_000..3_500;
    let sent = sent(config(KeyOrder::Range, Packing::default()), |worker| {
        let mut values = vec![0.0; 2_500];
        worker.pull_range(range.clone(), &mut values)?;
        assert_eq!(values, initial(range.clone()));
        worker.push_range(range.clone(), &[1.0; 2_500])?;
        worker.pull_range(range.clone(), &mut values)?;
        let pushed: Vec<f32> = initial(range).iter().map(|value| value + 1.0).collect();
        assert_eq!(values, pushed);
        worker.pull_range(7..7, &mut [])?;
        worker.pull_range(KEYS - 1..KEYS, &mut values[..1])
    });
    // The other node has the second half of the keys. For each of them, messages carry its value three times,
    // its key three times, and its position six times.
    let there = 1_500;
    assert_eq!(sent.unpacked_bytes - sent.saved_by_runs, sent.bytes - marks(&sent));
    assert!(sent.saved_by_runs > there * (3 * 8 + 6 * 4) * 9 / 10, "{sent:?}");
    assert!(sent.bytes < there * 3 * 4 + 2_000, "{sent:?}");
}

/// The bytes that say how frames are packed.
fn marks(sent: &NetworkStats) -> u64 {
    let saved = sent.saved_by_runs + sent.saved_by_key_lists + sent.saved_by_compression;
    let marks = sent.bytes + saved - sent.unpacked_bytes;
    assert!(marks <= 5 * sent.messages, "{marks} bytes in {sent:?}");
    marks
}

#[test]
fn ranges_must_exist() {
    let _ = sent(config(KeyOrder::Range, Packing::default()), |worker| {
        let beyond = worker.pull_range(10..KEYS + 1, &mut vec![0.0; KEYS as usize - 9]).unwrap_err();
        assert!(beyond.to_string().contains("4000"), "{beyond}");
        assert!(worker.push_range(u64::MAX - 1..u64::MAX, &[1.0]).is_err());
        let short = worker.pull_range(0..5, &mut [0.0; 4]).unwrap_err();
        assert!(short.to_string().contains('5'), "{short}");
        Ok(())
    });
}

/// A worker pulls the same scattered keys in each of ten epochs, and pushes to them.
#[test]
fn lists_that_repeat_travel_once() {
    let epochs = 10;
    let keys: Vec<Key> = (0..500).map(|at| Key(at * at * 7 % KEYS)).collect();
    let train = |worker: &mut Worker<f32>| {
        let mut values = vec![0.0; keys.len()];
        for _ in 0..epochs {
            worker.pull(&keys, &mut values)?;
            worker.push(&keys, &vec![1.0; keys.len()])?;
        }
        worker.pull(&keys, &mut values)?;
        for (at, key) in keys.iter().enumerate() {
            let times = keys.iter().filter(|other| *other == key).count() as u64;
            assert_eq!(values[at], (key.0 % 7 + epochs * times) as f32);
        }
        Ok(())
    };
    let plain = sent(config(KeyOrder::Random, Packing::default()), train);
    let cached = sent(config(KeyOrder::Random, Packing { key_lists: true, compress: false }), train);
    let all = sent(config(KeyOrder::Random, ALL), train);
    assert_eq!((plain.saved_by_key_lists, plain.saved_by_compression), (0, 0));
    assert_eq!(plain.unpacked_bytes, cached.unpacked_bytes);
    assert_eq!(cached.unpacked_bytes, all.unpacked_bytes);
    marks(&cached);
    marks(&all);
    // Each key takes 16 to 20 bytes, of which 4 are its value's. The messages are too short to be compressed.
    assert!(cached.bytes * 2 < plain.bytes, "{cached:?} of {plain:?}");
    assert_eq!((all.bytes, all.saved_by_compression), (cached.bytes, 0));
}

/// Long messages of small whole numbers, in both precisions.
fn compressed<E: intendant::Element>() {
    let of = |packing| {
        let layout = Layout::builder().range("k", KEYS, 8).shards(16).build().unwrap();
        let mut config = NodeConfig::new(
            layout,
            Arc::new(|key: Key, value: &mut [E]| value.fill(E::from_f64((key.0 % 7) as f64))),
        );
        (config.cluster.technique, config.cluster.packing) = (Technique::Classic, packing);
        let mut nodes = Node::start_local(config, 2).unwrap();
        let mut workers: Vec<_> = nodes.iter_mut().flat_map(Node::workers).collect();
        let keys: Vec<Key> = (0..KEYS).map(Key).collect();
        let mut values = vec![E::ZERO; keys.len() * 8];
        workers[1].push(&keys, &vec![E::ONE; keys.len() * 8]).unwrap();
        workers[1].pull(&keys, &mut values).unwrap();
        for (key, value) in keys.iter().zip(values.chunks_exact(8)) {
            assert!(
                value.iter().all(|element| element.to_f64() == (key.0 % 7 + 1) as f64),
                "{key:?}: {value:?}"
            );
        }
        std::thread::scope(|scope| {
            for worker in &mut workers {
                scope.spawn(|| worker.quiesce().unwrap());
            }
        });
        let mut sent = NetworkStats::default();
        nodes.iter().for_each(|node| sent.merge(&node.network()));
        drop(workers);
        Node::shutdown_all(nodes).unwrap();
        sent
    };
    let plain = of(Packing::default());
    let packed = of(Packing { key_lists: false, compress: true });
    assert_eq!((plain.unpacked_bytes, plain.saved_by_compression), (packed.unpacked_bytes, 0));
    assert!(packed.saved_by_compression > 0 && packed.bytes * 3 < plain.bytes, "{packed:?} of {plain:?}");
    marks(&packed);
}

#[test]
fn small_whole_numbers_are_compressed() {
    compressed::<f32>();
    compressed::<f64>();
}
