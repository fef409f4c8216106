//! Synchronous SGD, written down: the result of `--technique full-replication --sync-batches 1` must equal
//! it, to the last bit.
//!
//! Every node computes a batch on the same values. The updates of all nodes are summed, the sum is added, and
//! all nodes have the same values again. Nodes without a batch add nothing. Each node has one worker: with
//! several, a worker would see what another one has added in the same step. Floating-point sums depend on the
//! order, so the order is part of the specification: each node beyond a power of two adds its update to that
//! of one other node, then neighbours are added, then neighbouring pairs, and so on.

use intendant_apptest::App;
use intendant_core::Key;
use intendant_task::{
    Driver, Event, Loader, LoaderEvent, LoaderOp, Op, Partition, Reduction, Row, Rows, Schedule, Task,
};
use mf::data::Generator;
use mf::{Algorithm, Config, Mf, Optimizer, Scope};
use std::convert::Infallible;
use std::num::NonZeroU32;
use std::sync::Arc;

const MF: App = App::new(env!("CARGO_BIN_EXE_intendant-mf"));
const EPOCHS: u32 = 3;
const SIZE: &str = "zipf:300x60x4000";

fn task() -> Arc<Mf<f32>> {
    let config = Config {
        rank: 6,
        bias: true,
        algorithm: Algorithm::Columns,
        optimizer: Optimizer::RowAdaGrad,
        batch: 8,
        learning_rate: 0.05,
        bold_driver: false,
        l2: None,
        l2_bias: None,
        l2_scope: Scope::Key,
        init_scale: 0.1,
        seed: 7,
    };
    let data = Generator::named(SIZE).unwrap().generate().unwrap();
    Arc::new(Mf::new(Arc::new(data), config).unwrap())
}

/// The same settings as command-line flags.
const FLAGS: [&str; 12] = [
    "--data",
    "builtin:zipf:300x60x4000",
    "--rank",
    "6",
    "--batch",
    "8",
    "--epochs",
    "3",
    "--seed",
    "7",
    "--technique",
    "full-replication",
];

/// A node of one worker, with its copy of all values.
struct Node {
    driver: Driver<Mf<f32>>,
    loader: Loader<Mf<f32>>,
    loaded: LoaderEvent,
    event: Event<mf::Batch>,
    copy: Vec<f32>,
}

/// The rows of a batch, in the node's copy.
struct Copy<'a> {
    keys: &'a [Key],
    len: usize,
    values: &'a mut [f32],
}

impl Rows<f32> for Copy<'_> {
    fn row(&mut self, at: usize) -> Row<'_, f32> {
        Row::unshared(&mut self.values[self.keys[at].index() * self.len..][..self.len])
    }

    fn prefetch(&self, _at: usize) {}
}

struct Reference {
    task: Arc<Mf<f32>>,
    len: usize,
    base: Vec<f32>,
    nodes: Vec<Node>,
}

impl Reference {
    fn new(nodes: u32) -> Self {
        let task = task();
        let model = task.model();
        let len = model.len(Key(0));
        let mut base = vec![0.0; model.keys() as usize * len];
        for (key, value) in base.chunks_mut(len).enumerate() {
            (model.init)(Key(key as u64), value);
        }
        let synchronize = NonZeroU32::new(1);
        let schedule = Schedule { valid_every: 1, synchronize, ..Schedule::epochs(EPOCHS) };
        let node = |worker| {
            let partition = Partition { worker, workers: nodes, nodes, threads: 1 };
            Node {
                driver: Driver::new(Arc::clone(&task), partition, schedule),
                loader: Loader::new(Arc::clone(&task), partition, &schedule),
                loaded: LoaderEvent::Start,
                event: Event::Start,
                copy: base.clone(),
            }
        };
        Self { len, nodes: (0..nodes).map(node).collect(), base, task: Arc::clone(&task) }
    }

    /// Runs a node until it has to meet the others.
    fn go_on(node: &mut Node, len: usize) -> Op {
        loop {
            let event = std::mem::replace(&mut node.event, Event::Done);
            let op = node.driver.step(event).unwrap();
            match op {
                Op::NextBatch => {
                    let event = std::mem::replace(&mut node.loaded, LoaderEvent::Done);
                    assert_eq!(node.loader.step(event), LoaderOp::Deliver, "nothing is sampled");
                    node.event = Event::Batch(node.loader.take());
                }
                Op::Pull => {
                    let (keys, values) = node.driver.pull_buffers();
                    for (key, value) in keys.iter().zip(values.chunks_mut(len)) {
                        value.copy_from_slice(&node.copy[key.index() * len..][..len]);
                    }
                }
                Op::Train => {
                    let copy = &mut node.copy;
                    let trained = node.driver.train(|keys, act| {
                        assert!(act(&mut Copy { keys, len, values: copy }));
                        Ok::<(), Infallible>(())
                    });
                    trained.unwrap();
                }
                Op::AdvanceClock | Op::Flush | Op::Localize { .. } => {}
                Op::Barrier | Op::Meet | Op::Synchronize | Op::Quiesce | Op::Reduce | Op::Done => return op,
                Op::PullSample | Op::Compute(_) | Op::Push | Op::Snapshot(_) => {
                    panic!("{op:?} in matrix factorisation")
                }
            }
        }
    }

    /// What a node has added to a key since all nodes had equal values, if anything.
    fn added(&self, node: usize, key: usize) -> Option<Vec<f32>> {
        let range = key * self.len..(key + 1) * self.len;
        let (copy, base) = (&self.nodes[node].copy[range.clone()], &self.base[range]);
        (copy != base).then(|| copy.iter().zip(base).map(|(copy, base)| copy - base).collect())
    }

    fn synchronize(&mut self) {
        let nodes = self.nodes.len();
        let power = 1 << nodes.ilog2();
        for key in 0..self.base.len() / self.len {
            let mut parts: Vec<_> = (0..nodes).map(|node| self.added(node, key)).collect();
            for (extra, part) in parts.split_off(power).into_iter().enumerate() {
                parts[extra] = sum(parts[extra].take(), part);
            }
            while parts.len() > 1 {
                parts = parts.chunks(2).map(|pair| sum(pair[0].clone(), pair[1].clone())).collect();
            }
            if let Some(total) = &parts[0] {
                let base = &mut self.base[key * self.len..][..self.len];
                base.iter_mut().zip(total).for_each(|(base, total)| *base += total);
            }
        }
        self.nodes.iter_mut().for_each(|node| node.copy.copy_from_slice(&self.base));
    }

    /// Trains; returns the loss of each epoch and the error on the test entries.
    fn run(mut self) -> (Vec<f64>, f64) {
        let mut reductions: Vec<Reduction> = Vec::new();
        loop {
            let len = self.len;
            let ops: Vec<Op> = self.nodes.iter_mut().map(|node| Self::go_on(node, len)).collect();
            assert!(ops.iter().all(|op| *op == ops[0]), "all meet in the same place: {ops:?}");
            match ops[0] {
                Op::Synchronize | Op::Quiesce => self.synchronize(),
                Op::Reduce => {
                    let mut all = Reduction::default();
                    self.nodes.iter().for_each(|node| all.merge(node.driver.reduction()));
                    self.nodes.iter_mut().for_each(|node| node.event = Event::Reduced(all.clone()));
                    reductions.push(all);
                }
                Op::Done => break,
                Op::Barrier | Op::Meet => {}
                Op::NextBatch
                | Op::Localize { .. }
                | Op::PullSample
                | Op::Pull
                | Op::Train
                | Op::Compute(_)
                | Op::Push
                | Op::AdvanceClock
                | Op::Flush
                | Op::Snapshot(_) => unreachable!("a node does this alone"),
            }
        }
        assert_eq!(self.task.name(), "mf");
        let test = reductions.pop().unwrap();
        let losses = reductions.iter().map(|all| read_back(all.get("loss") / all.get("examples"))).collect();
        (losses, read_back((test.get("quality.rmse^2") / test.get("quality.count")).sqrt()))
    }
}

/// A number as it is read from a report: reading may change the last bit.
fn read_back(number: f64) -> f64 {
    serde_json::from_str(&serde_json::to_string(&number).unwrap()).unwrap()
}

fn sum(lower: Option<Vec<f32>>, higher: Option<Vec<f32>>) -> Option<Vec<f32>> {
    match (lower, higher) {
        (Some(lower), Some(higher)) => Some(lower.iter().zip(&higher).map(|(l, h)| l + h).collect()),
        (one, other) => one.or(other),
    }
}

fn run(nodes: usize, more: &[&str]) -> (Vec<f64>, f64) {
    let nodes = nodes.to_string();
    let report = MF.report(&[&FLAGS[..], &["--workers", "1", "--nodes", &nodes], more].concat());
    let epochs = report["epochs"].as_array().unwrap();
    let losses = epochs.iter().map(|epoch| epoch["loss"].as_f64().unwrap()).collect();
    (losses, report["test"]["rmse"].as_f64().unwrap())
}

#[test]
fn synchronous_training_is_what_is_written_here() {
    for nodes in [2, 3, 4] {
        let expected = Reference::new(nodes as u32).run();
        assert_eq!(run(nodes, &["--sync-batches", "1"]), expected, "{nodes} nodes");
        assert_eq!(run(nodes, &["--sync-batches", "1", "--simulate"]), expected, "{nodes} simulated nodes");
        // Other settings give other results.
        assert_ne!(run(nodes, &["--sync-batches", "5", "--simulate"]), expected, "{nodes} nodes, less often");
    }
}
