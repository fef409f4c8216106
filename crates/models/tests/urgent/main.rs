//! The list of urgent replicas in isolation: workers count their updates under latches and list keys, while a
//! channel takes the list and gives the keys new allowances.
//!
//! `tests/handover` tests the list in whole nodes, where its effect is visible only in the messages. Here the
//! source is compiled once more, so that the model sees the list. In every schedule:
//!
//! - no key is lost: after all updates and one more look, no key has used up its allowance;
//! - no key is in the list twice;
//! - every update is counted once.
//!
//! The second property does not hold in a node, and need not hold there. A round may send the updates of a
//! key that is in the list, and a channel that gets the answer to a delta lists the key if it became urgent
//! meanwhile. The channel finds nothing to send for such a key.

/// The items of the engine's `src/sync.rs`, made of shuttle's primitives.
mod sync {
    use shuttle::sync::MutexGuard;

    pub(crate) use shuttle::sync::Mutex;
    pub(crate) use shuttle::sync::atomic::{AtomicBool, Ordering};

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().expect("no thread panics")
    }
}

#[path = "../../../engine/src/node/urgent.rs"]
mod urgent;

use intendant_core::{ChannelId, Key, Layout};
use intendant_store::Store;
use intendant_techniques::{Role, SlotState};
use shuttle::rand::Rng;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use urgent::Urgent;

/// Schedules per scheduler. A schedule is short.
const SCHEDULES: usize = 20_000;
/// Preemptions that PCT places, plus one.
const DEPTH: usize = 4;
const SEED: u64 = 1;

const NODES: usize = 4;
const KEYS: u64 = 3;
const WORKERS: usize = 2;
/// Updates of a worker.
const UPDATES: u32 = 6;
/// Looks of the channel while workers update.
const LOOKS: usize = 4;
/// The change of a value by an update, relative to its norm. With four nodes, each node may then make two
/// updates.
const CHANGE: f64 = 0.02;

/// A node with replicas of all keys. One channel has all of them.
struct Node {
    layout: Arc<Layout>,
    store: Store<SlotState, f32>,
    urgent: Urgent,
}

/// How often things happened that a set of schedules should contain.
#[derive(Default)]
struct Reach {
    /// Looks that found keys, and looks that found none.
    taken: AtomicU64,
    empty: AtomicU64,
    /// Updates of keys that were in the list.
    meanwhile: AtomicU64,
}

impl Node {
    fn new() -> Self {
        let layout = Layout::builder().range("keys", KEYS, 1).nodes(NODES).channels(1).shards(2);
        let layout = Arc::new(layout.build().expect("a valid layout"));
        let store: Store<SlotState, f32> = Store::dense(Arc::clone(&layout));
        let urgent = Urgent::new(1, NODES);
        for key in (0..KEYS).map(Key) {
            let mut entry = store.latch(key);
            entry.allocate();
            let state = entry.state_mut();
            (state.role, state.side) = (Role::Replica, urgent.first_allowance());
        }
        Self { layout, store, urgent }
    }

    fn work(&self, reach: &Reach) {
        for _ in 0..UPDATES {
            let key = Key(shuttle::rand::thread_rng().gen_range(0..KEYS));
            let mut entry = self.store.latch(key);
            reach.meanwhile.fetch_add(u64::from(entry.state().is_urgent()), Ordering::Relaxed);
            self.urgent.count(&self.layout, &mut entry);
        }
    }

    /// Takes the list, and gives its keys new allowances. Returns how many updates these keys have had.
    fn look(&self, reach: &Reach, allowances: &mut [u32]) -> u32 {
        let mut keys = Vec::new();
        self.urgent.take(ChannelId(0), &mut keys);
        (if keys.is_empty() { &reach.empty } else { &reach.taken }).fetch_add(1, Ordering::Relaxed);
        let mut listed = keys.clone();
        listed.sort_unstable();
        listed.dedup();
        assert_eq!(listed.len(), keys.len(), "in the list twice: {keys:?}");
        let mut counted = 0;
        for key in keys {
            let mut entry = self.store.latch(key);
            assert!(entry.state().is_urgent(), "{key:?} is listed and not urgent");
            let allowance = &mut allowances[key.0 as usize];
            let updates = allowance.wrapping_sub(entry.state().side);
            counted += updates;
            *allowance = self.urgent.allowance(updates, CHANGE * f64::from(updates));
            entry.state_mut().side = *allowance;
        }
        counted
    }
}

fn run(reach: &Arc<Reach>) {
    let node = Arc::new(Node::new());
    let workers = (0..WORKERS).map(|_| {
        let (node, reach) = (Arc::clone(&node), Arc::clone(reach));
        thread::spawn(move || node.work(&reach))
    });
    let workers: Vec<_> = workers.collect();
    let mut allowances = vec![node.urgent.first_allowance(); KEYS as usize];
    let mut counted: u32 = (0..LOOKS).map(|_| node.look(reach, &mut allowances)).sum();
    workers.into_iter().for_each(|worker| worker.join().expect("the worker ends"));
    counted += node.look(reach, &mut allowances);
    for (key, allowance) in (0..KEYS).map(Key).zip(allowances) {
        let state = node.store.latch(key).state();
        assert!(!state.is_urgent(), "{key:?} is urgent and not listed");
        counted += allowance - state.side;
    }
    assert_eq!(counted, WORKERS as u32 * UPDATES);
}

#[test]
fn no_urgent_key_is_lost_or_in_the_list_twice() {
    let schedules = std::env::var("INTENDANT_SCHEDULES").ok().and_then(|text| text.parse().ok());
    let schedules = schedules.unwrap_or(SCHEDULES);
    let reach = Arc::new(Reach::default());
    let sink = Arc::clone(&reach);
    let body = move || run(&sink);
    Runner::new(RandomScheduler::new_from_seed(SEED, schedules), Config::new()).run(body.clone());
    Runner::new(PctScheduler::new_from_seed(SEED, DEPTH, schedules), Config::new()).run(body);
    for (name, count) in
        [("full", &reach.taken), ("empty", &reach.empty), ("grown meanwhile", &reach.meanwhile)]
    {
        assert!(count.load(Ordering::Relaxed) > 0, "in no schedule the list was {name}");
    }
}
