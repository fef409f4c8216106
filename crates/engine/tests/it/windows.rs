//! Two nodes of one host, and a third elsewhere: what is mirrored, and when a worker reads it.

use super::node::{Node, config, layout};
use intendant_core::{Key, KeyOrder, Layout, NodeId};
use intendant_engine::{Action, Input, Shared, WindowConfig, Windows, WindowsError};
use intendant_segment::{Segment, View};
use intendant_techniques::{Initiator, Policy, Technique};
use std::sync::Arc;

// Of nine keys on three nodes, 0 to 2 are at home on node 0, the owner, 3 to 5 on node 1, its neighbour.
const KEY: Key = Key(1);
const OWNER: usize = 0;
const NEIGHBOUR: usize = 1;
const FAR: usize = 2;

/// Nodes 0 and 1 read in each other's windows.
fn nodes(layout: &Arc<Layout>, policy: Policy, windows: WindowConfig) -> Vec<Node> {
    let words = Windows::words::<f32>(layout, windows).max(1);
    let segments = [0, 1].map(|_| Segment::new(words).expect("memory"));
    let node = |node: usize| {
        let shared = Shared::new(config(node as u16, layout, policy));
        if node == FAR {
            return Node::of(shared);
        }
        let others = (0..3).map(|other| (other == 1 - node).then(|| View::of(&segments[other])));
        let own = segments[node].clone();
        let windows = Windows::new::<f32>(layout, windows, shared.node(), own, others.collect());
        Node::of(shared.with_windows(windows.expect("long enough")))
    };
    (0..3).map(node).collect()
}

fn classic(windows: WindowConfig) -> Vec<Node> {
    nodes(&layout(3, 9, 3), Technique::Classic.policy(), windows)
}

/// Passes messages on until there are none. Completes operations.
fn settle(nodes: &mut [Node], from: usize, actions: Vec<Action>) {
    let mut left: Vec<_> = actions.into_iter().map(|action| (from, action)).collect();
    while let Some((node, action)) = left.pop() {
        match action {
            Action::Send { to, message } => {
                let actions = nodes[to.index()].receive(NodeId(node as u16), message);
                left.extend(actions.into_iter().map(|action| (to.index(), action)));
            }
            Action::Complete { completion, .. } => {
                let layout = Arc::clone(nodes[node].shared.layout());
                nodes[node].worker.complete(completion, &layout, None);
            }
            Action::CompleteSnapshot { .. } => panic!("no snapshot was asked for"),
        }
    }
}

/// Pulls a key at a node. Returns the value if no message was necessary.
fn pull(nodes: &mut [Node], node: usize, key: Key) -> Option<Vec<f32>> {
    let mut values = vec![f32::NAN; nodes[node].shared.layout().len(key)];
    let Node { shared, worker, .. } = &mut nodes[node];
    let started = shared.pull(worker, &[key], &mut values).expect("the key exists");
    if started.op.is_none() {
        return Some(values);
    }
    let actions = nodes[node].submit(started);
    settle(nodes, node, actions);
    None
}

fn windows_read(node: &Node) -> u64 {
    node.worker.stats().windows
}

#[test]
fn a_neighbour_asks_once_and_then_sees_every_write() {
    let mut nodes = classic(WindowConfig::DEFAULT);
    assert_eq!(nodes[OWNER].shared.inspect().mirrored(KEY), None);
    assert_eq!(pull(&mut nodes, NEIGHBOUR, KEY), None, "a message");
    assert_eq!(nodes[OWNER].shared.inspect().mirrored(KEY), Some(vec![1.0; 3]));
    assert_eq!(pull(&mut nodes, NEIGHBOUR, KEY), Some(vec![1.0; 3]));
    // By a worker of the owner: pushed, set, in place.
    nodes[OWNER].push(&[KEY], &[0.5; 3]);
    assert_eq!(pull(&mut nodes, NEIGHBOUR, KEY), Some(vec![1.5; 3]));
    let Node { shared, worker, .. } = &mut nodes[OWNER];
    shared.set(worker, &[KEY], &[4.0; 3]).expect("the key exists");
    assert_eq!(pull(&mut nodes, NEIGHBOUR, KEY), Some(vec![4.0; 3]));
    let Node { shared, worker, .. } = &mut nodes[OWNER];
    shared.lend(worker, KEY).expect("it is here")[1] = 7.0;
    assert_eq!(pull(&mut nodes, NEIGHBOUR, KEY), Some(vec![4.0, 7.0, 4.0]));
    // By another node.
    let actions = nodes[FAR].push(&[KEY], &[1.0; 3]);
    settle(&mut nodes, FAR, actions);
    assert_eq!(pull(&mut nodes, NEIGHBOUR, KEY), Some(vec![5.0, 8.0, 5.0]));
    let stats = nodes[NEIGHBOUR].worker.stats();
    assert_eq!((stats.windows, stats.remote, stats.local, stats.pull_keys), (5, 6, 0, 6));
}

#[test]
fn a_worker_that_waits_for_an_operation_on_the_key_asks() {
    let mut nodes = classic(WindowConfig::DEFAULT);
    pull(&mut nodes, NEIGHBOUR, KEY);
    let pushed = nodes[NEIGHBOUR].push(&[KEY], &[1.0; 3]);
    let mut values = [0.0; 3];
    let Node { shared, worker, .. } = &mut nodes[NEIGHBOUR];
    let pulled = shared.pull(worker, &[KEY], &mut values).expect("the key exists");
    assert!(pulled.op.is_some(), "the mirror lacks the worker's own push");
    // Other keys do not wait, nor do other workers.
    let actions = nodes[NEIGHBOUR].submit(pulled);
    settle(&mut nodes, NEIGHBOUR, pushed);
    settle(&mut nodes, NEIGHBOUR, actions);
    assert_eq!(pull(&mut nodes, NEIGHBOUR, KEY), Some(vec![2.0; 3]));
}

#[test]
fn nothing_is_mirrored_for_nodes_elsewhere() {
    let mut nodes = classic(WindowConfig::DEFAULT);
    assert_eq!(pull(&mut nodes, FAR, KEY), None);
    assert_eq!(nodes[OWNER].shared.inspect().mirrored(KEY), None);
    pull(&mut nodes, NEIGHBOUR, KEY);
    assert_eq!(pull(&mut nodes, FAR, KEY), None, "its windows are not mapped there");
    assert_eq!((windows_read(&nodes[FAR]), windows_read(&nodes[NEIGHBOUR])), (0, 0));
}

#[test]
fn a_mirror_that_has_used_up_its_loan_is_asked_for_again() {
    let mut nodes = classic(WindowConfig { lent: 2, ..WindowConfig::DEFAULT });
    pull(&mut nodes, NEIGHBOUR, KEY);
    for write in 1..=2 {
        nodes[OWNER].push(&[KEY], &[1.0; 3]);
        assert_eq!(pull(&mut nodes, NEIGHBOUR, KEY), Some(vec![1.0 + write as f32; 3]));
    }
    nodes[OWNER].push(&[KEY], &[1.0; 3]);
    assert!(!nodes[OWNER].shared.inspect().slot(KEY).is_published());
    assert_eq!(pull(&mut nodes, NEIGHBOUR, KEY), None);
    assert_eq!(pull(&mut nodes, NEIGHBOUR, KEY), Some(vec![4.0; 3]));
}

#[test]
fn a_key_that_leaves_is_mirrored_no_longer() {
    let policy = Policy { relocation: Some(Initiator::Owner), ..Technique::Lapse.policy() };
    let mut nodes = nodes(&layout(3, 9, 3), policy, WindowConfig::DEFAULT);
    pull(&mut nodes, NEIGHBOUR, KEY);
    let moved = nodes[OWNER].accept(Input::Relocate { keys: vec![KEY], to: NodeId(FAR as u16) });
    // The hand-over has not left the node yet.
    assert_eq!(nodes[OWNER].shared.inspect().mirrored(KEY), None);
    settle(&mut nodes, OWNER, moved);
    assert_eq!(pull(&mut nodes, NEIGHBOUR, KEY), None);
    assert_eq!(nodes[FAR].shared.inspect().value(KEY), Some(vec![1.0; 3]));
}

/// Layouts with several lengths, for some of which there is no room, and windows in which keys share places.
#[test]
fn no_key_is_taken_for_another() {
    let mixed = Layout::builder().range("short", 40, 1).range("long", 20, 300).range("odd", 9, 7);
    let mixed = mixed.nodes(3).shards(4).order(KeyOrder::Range).build().expect("a valid layout");
    let mixed = Arc::new(mixed);
    for (bytes_max, places_max, mirrored_min, mirrored_max) in
        [(0, 9, 0, 0), (8_000, 9, 3, 14), (1 << 20, 1, 5, 12), (1 << 20, u32::MAX, usize::MAX, usize::MAX)]
    {
        let windows = WindowConfig { bytes_max, places_max, ..WindowConfig::DEFAULT };
        assert!(8 * Windows::words::<f32>(&mixed, windows) <= bytes_max, "{windows:?}");
        let mut nodes = nodes(&mixed, Technique::Classic.policy(), windows);
        let own = |node: &Node| {
            (0..69).map(Key).filter(|key| node.shared.inspect().value(*key).is_some()).collect()
        };
        let keys: Vec<Key> = own(&nodes[OWNER]);
        for key in keys.iter().chain(&keys) {
            nodes[OWNER].push(&[*key], &vec![1.0; mixed.len(*key)]);
            if let Some(value) = pull(&mut nodes, NEIGHBOUR, *key) {
                assert_eq!(Some(value), nodes[OWNER].shared.inspect().value(*key), "{key:?}, {windows:?}");
            }
        }
        let mirrored = keys.iter().filter(|key| {
            let mirrored = nodes[OWNER].shared.inspect().mirrored(**key);
            assert!(
                mirrored.is_none() || mirrored == nodes[OWNER].shared.inspect().value(**key),
                "{key:?}, {windows:?}"
            );
            mirrored.is_some()
        });
        let mirrored = mirrored.count();
        let bounds = mirrored_min.min(keys.len())..=mirrored_max.min(keys.len());
        assert!(bounds.contains(&mirrored), "{mirrored} of {} keys, {windows:?}", keys.len());
    }
}

#[test]
fn windows_that_are_too_short_are_refused() {
    let layout = layout(2, 9, 3);
    let needed = Windows::words::<f32>(&layout, WindowConfig::DEFAULT);
    let [short, long] = [needed - 8, needed].map(|words| Segment::new(words).expect("memory"));
    let open = |own: &Segment, other: &Segment| {
        let others = vec![None, Some(View::of(other))];
        Windows::new::<f32>(&layout, WindowConfig::DEFAULT, NodeId(0), own.clone(), others).err()
    };
    let error = |node| Some(WindowsError { node: NodeId(node), words: needed - 8, needed });
    assert_eq!((open(&long, &long), open(&short, &long), open(&long, &short)), (None, error(0), error(1)));
}

#[test]
fn techniques_whose_reads_make_copies_have_no_windows() {
    let without = ["ssp", "essp", "full-replication"];
    for technique in Technique::ALL {
        let name = technique.to_string();
        assert_eq!(
            Windows::are_used(&technique.policy(), &layout(2, 9, 3)),
            !without.contains(&&*name),
            "{name}"
        );
    }
}
