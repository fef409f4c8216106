//! Messages and stored locations of each location strategy [thesis Tab. 3.3, Fig. 3.7], counted in running
//! clusters.

use crate::still;
use intendant_checkers::checker::Checked;
use intendant_core::{Key, Layout};
use intendant_engine::Storage;
use intendant_sim::cluster::{ClusterConfig, Wait};
use intendant_sim::presets;
use intendant_techniques::{Location, Technique};

/// Each node is home of this many consecutive keys.
const KEYS_PER_NODE: u64 = 5;
const NODES: [usize; 3] = [4, 7, 16];

struct Counted(Checked<f32>);

impl Counted {
    fn new(nodes: usize, technique: Technique, location: Option<Location>, storage: Storage) -> Self {
        let layout = Layout::builder().range("keys", nodes as u64 * KEYS_PER_NODE, 2).nodes(nodes);
        let network = presets::network("10gbe").unwrap();
        let policy = technique.policy().located(location).with(None, None);
        Self(still::checked(ClusterConfig { storage, policy, ..still::config(layout, network) }))
    }

    /// Messages of what `call` starts, until the cluster is at rest.
    fn messages(&mut self, call: impl FnOnce(&mut Checked<f32>)) -> u64 {
        let before = self.0.traffic().messages;
        call(&mut self.0);
        while self.0.next().unwrap().is_some() {}
        self.0.check_quiescent().unwrap();
        self.0.traffic().messages - before
    }

    fn relocation(&mut self, node: usize, keys: &[Key]) -> u64 {
        self.messages(|cluster| {
            cluster.localize(node, keys).unwrap();
        })
    }

    /// Messages of a push and of a pull, which take the same way if it does not change.
    fn push(&mut self, node: usize, key: Key) -> u64 {
        self.messages(|cluster| {
            cluster.push(node, &[key], &[1.0; 2]).unwrap();
        })
    }

    fn pull(&mut self, node: usize, key: Key) -> u64 {
        self.messages(|cluster| {
            cluster.pull(node, &[key], Wait::Later).unwrap();
        })
    }
}

/// The home of this key is node 0.
const KEY: Key = Key(3);

/// Messages of a relocation from node 1 to node 2, of a push by node 3, and of its pull after that: the key's
/// home is node 0, and no node is two of these.
fn quiet(nodes: usize, location: Location) -> (u64, u64, u64) {
    let mut cluster = Counted::new(nodes, Technique::Lapse, Some(location), Storage::Dense);
    cluster.relocation(1, &[KEY]);
    let relocation = cluster.relocation(2, &[KEY]);
    assert_eq!(cluster.0.probe().owner(KEY).index(), 2);
    (relocation, cluster.push(3, KEY), cluster.pull(3, KEY))
}

#[test]
fn messages_are_those_of_the_table() {
    for nodes in NODES {
        let all = nodes as u64;
        let mut fixed = Counted::new(nodes, Technique::Classic, None, Storage::Dense);
        assert_eq!((fixed.push(3, KEY), fixed.pull(3, KEY)), (2, 2), "static partition");
        assert_eq!(quiet(nodes, Location::BroadcastOperations), (all, all, all));
        assert_eq!(quiet(nodes, Location::BroadcastRelocations), (all, 2, 2));
        assert_eq!(quiet(nodes, Location::Home { caches: false }), (3, 3, 3));
        assert_eq!(quiet(nodes, Location::Request), (3, 4, 4));
        // The push is not cached; it tells the location to the pull.
        assert_eq!(quiet(nodes, Location::Home { caches: true }), (3, 3, 2));
    }
}

#[test]
fn a_stale_cache_costs_one_message_more_than_none() {
    let mut cluster =
        Counted::new(4, Technique::Lapse, Some(Location::Home { caches: true }), Storage::Dense);
    cluster.relocation(1, &[KEY]);
    assert_eq!((cluster.pull(3, KEY), cluster.pull(3, KEY)), (3, 2));
    cluster.relocation(2, &[KEY]);
    assert_eq!((cluster.pull(3, KEY), cluster.pull(3, KEY)), (4, 2));
}

/// A home that takes part itself saves a message, as in the classic parameter server.
#[test]
fn a_home_that_is_requester_or_owner_saves_a_message() {
    for (location, at_home, at_owner) in [
        (Location::Home { caches: false }, (2, 2), (2, 2)),
        // The owner is asked where it is, although it is the home: it says so, and gets the request.
        (Location::Request, (2, 2), (2, 4)),
    ] {
        let mut cluster = Counted::new(4, Technique::Lapse, Some(location), Storage::Dense);
        assert_eq!((cluster.relocation(1, &[KEY]), cluster.pull(3, Key(4))), at_owner, "{location}");
        assert_eq!((cluster.pull(0, KEY), cluster.relocation(0, &[KEY])), at_home, "{location}");
    }
}

#[test]
fn nodes_store_as_many_locations_as_the_table_says() {
    for (nodes, storage) in NODES.into_iter().flat_map(|n| [(n, Storage::Dense), (n, Storage::Sparse)]) {
        let keys: Vec<Key> = (0..nodes as u64 * KEYS_PER_NODE).map(Key).collect();
        let all = keys.len() as u64;
        let mut fixed = Counted::new(nodes, Technique::Classic, None, storage);
        keys.iter().for_each(|key| {
            fixed.pull(3, *key);
        });
        assert!((0..nodes).all(|node| fixed.0.nodes()[node].inspect().locations() == 0), "static partition");
        for (location, expected) in [
            (Location::BroadcastOperations, 0),
            (Location::BroadcastRelocations, all),
            (Location::Home { caches: false }, KEYS_PER_NODE),
            (Location::Request, KEYS_PER_NODE),
        ] {
            let mut cluster = Counted::new(nodes, Technique::Lapse, Some(location), storage);
            // Every key moves twice, and is away from its home then.
            for shift in [1, 2] {
                for (node, of_home) in keys.chunks(KEYS_PER_NODE as usize).enumerate() {
                    cluster.relocation((node + shift) % nodes, of_home);
                }
            }
            let stored: Vec<u64> =
                (0..nodes).map(|node| cluster.0.nodes()[node].inspect().locations()).collect();
            assert_eq!(stored, vec![expected; nodes], "{location}, {storage}");
        }
    }
}

#[test]
fn caches_store_the_keys_that_a_node_accessed_in_addition() {
    let mut cluster =
        Counted::new(4, Technique::Lapse, Some(Location::Home { caches: true }), Storage::Dense);
    cluster.relocation(1, &[KEY]);
    cluster.pull(3, KEY);
    cluster.pull(3, Key(KEYS_PER_NODE));
    let stored: Vec<u64> = (0..4).map(|node| cluster.0.nodes()[node].inspect().locations()).collect();
    assert_eq!(stored, [KEYS_PER_NODE, KEYS_PER_NODE, KEYS_PER_NODE, KEYS_PER_NODE + 2]);
}

/// Messages are grouped: several keys at one owner cost no more than one.
#[test]
fn keys_of_one_call_share_messages() {
    for (location, relocation, access) in [
        (Location::BroadcastOperations, 6, 6),
        (Location::BroadcastRelocations, 6, 2),
        (Location::Home { caches: false }, 3, 3),
        (Location::Request, 3, 4),
    ] {
        let keys = [Key(0), Key(1), Key(2), Key(3)];
        let mut cluster = Counted::new(6, Technique::Lapse, Some(location), Storage::Dense);
        cluster.relocation(1, &keys);
        assert_eq!(cluster.relocation(2, &keys), relocation, "{location}");
        let pulled = cluster.messages(|cluster| {
            cluster.pull(3, &keys, Wait::Later).unwrap();
        });
        assert_eq!(pulled, access, "{location}");
    }
}
