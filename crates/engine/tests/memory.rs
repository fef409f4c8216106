//! The memory that static replicas take while an all-reduce synchronises them, as `docs/report.md` states it.
//!
//! The test sums the memory of all nodes. The nodes advance together, so that each takes an equal part.

use bytes::Bytes;
use intendant_core::{ChannelId, Key, KeyOrder, Layout, NodeId, Tick, WorkerId};
use intendant_engine::{
    Action, Channel, Input, Local, LocalAccess, ReplicationConfig, Shared, SharedConfig, Storage,
};
use intendant_techniques::{StaticReplicaPace, Technique};
use intendant_wire::Message;
use std::alloc::{GlobalAlloc, Layout as Block, System};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn count(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

// SAFETY: all calls go to the system's allocator; counting sizes does not touch the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, block: Block) -> *mut u8 {
        count(block.size());
        // SAFETY: the caller keeps the contract of the method, which is that of the system's allocator.
        unsafe { System.alloc(block) }
    }

    unsafe fn alloc_zeroed(&self, block: Block) -> *mut u8 {
        count(block.size());
        // SAFETY: the caller keeps the contract of the method, which is that of the system's allocator.
        unsafe { System.alloc_zeroed(block) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, block: Block) {
        LIVE.fetch_sub(block.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of the method, which is that of the system's allocator.
        unsafe { System.dealloc(memory, block) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const NODES: usize = 4;
const KEYS: u64 = 4096;
const LEN: usize = 1024;
const MODEL_BYTES: usize = KEYS as usize * LEN * 4;

/// Bytes allocated since `start`, in models per node.
fn models(bytes: &AtomicUsize, start: usize) -> f64 {
    (bytes.load(Ordering::Relaxed) - start) as f64 / (NODES * MODEL_BYTES) as f64
}

struct Cluster {
    nodes: Vec<(Channel<f32>, Arc<Shared<f32>>)>,
    /// Sender, receiver and encoded frames, in the order of the next delivery.
    links: VecDeque<(usize, usize, VecDeque<Bytes>)>,
}

impl Cluster {
    fn new(layout: &Arc<Layout>) -> Self {
        let node = |node| {
            let shared = Arc::new(Shared::new(SharedConfig {
                node: NodeId(node as u16),
                layout: Arc::clone(layout),
                init: Arc::new(|_, value: &mut [f32]| value.fill(0.0)),
                storage: Storage::Dense,
                access: LocalAccess::Shared,
                policy: Technique::FullReplication.policy(),
                replication: ReplicationConfig {
                    pace: StaticReplicaPace::Asked,
                    ..ReplicationConfig::default()
                },
                workers: 1,
            }));
            (Channel::new(ChannelId(0), Arc::clone(&shared)), shared)
        };
        Self { nodes: (0..NODES).map(node).collect(), links: VecDeque::new() }
    }

    fn handle(&mut self, node: usize, input: Input) {
        let mut actions = Vec::new();
        self.nodes[node].0.handle(Tick(0), input, &mut actions).expect("a valid input");
        for action in actions {
            let Action::Send { to, message } = action else { panic!("no worker has an operation under way") };
            let (to, frame) = (to.index(), message.encode());
            match self.links.iter_mut().find(|(a, b, _)| (*a, *b) == (node, to)) {
                Some((_, _, link)) => link.push_back(frame),
                None => self.links.push_back((node, to, VecDeque::from([frame]))),
            }
        }
    }

    /// Delivers one frame of each link in turn, until all links are empty.
    fn deliver(&mut self) {
        while let Some((from, to, mut link)) = self.links.pop_front() {
            if let Some(frame) = link.pop_front() {
                self.links.push_back((from, to, link));
                let message = Message::decode(frame).expect("a frame");
                self.handle(to, Input::Message { from: NodeId(from as u16), message });
            }
        }
    }
}

#[test]
fn a_round_with_updates_of_every_key_on_every_node() {
    let layout = Layout::builder().range("k", KEYS, LEN).nodes(NODES).shards(4).order(KeyOrder::Range);
    let layout = Arc::new(layout.build().expect("a valid layout"));
    let start = LIVE.load(Ordering::Relaxed);
    let mut c = Cluster::new(&layout);
    for (_, shared) in &c.nodes {
        let mut worker = Local::new(WorkerId(0), &layout);
        for key in (0..KEYS).map(Key) {
            shared.push(&mut worker, &[key], &[1.0; LEN]).expect("the key exists");
        }
    }
    // Values take whole huge pages.
    let at_rest = models(&LIVE, start);
    PEAK.store(LIVE.load(Ordering::Relaxed), Ordering::Relaxed);
    (0..NODES).for_each(|node| c.handle(node, Input::Settle));
    let started = models(&PEAK, start);
    c.deliver();
    let most = models(&PEAK, start);
    eprintln!("models per node: {at_rest:.2} before the round, {started:.2} at its start, {most:.2} at most");
    for (channel, shared) in &c.nodes {
        assert_eq!(channel.agreed().0, 1, "the round is over");
        assert_eq!(shared.inspect().copy(Key(7)), Some(vec![NODES as f32; LEN]));
    }
    assert!(
        (2.0..2.2).contains(&at_rest),
        "the values, and the values that all nodes agree on, take {at_rest} models"
    );
    assert!(started < 4.5, "with a node's updates and its frames, {started} models");
    assert!(most < 6.3, "with a node's updates, the sum, and received and sent frames, {most} models");
}
