//! Rules: every technique applies each pushed operand exactly once at the main copy, copies of rows become
//! equal, and errors name what a rule does not allow.

use intendant::rules::{Decay, Proximal};
use intendant::{
    Clock, Element, Error, Key, KeyTechnique, Layout, Node, NodeConfig, Rule, StaticReplicaPace, Technique,
    Tick, Worker,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const KEYS: u64 = 30;
const NODES: usize = 2;
const WORKERS: usize = 2;
const STEPS: u64 = 150;

/// Adds all elements of an operand but the last to the value, and counts the last one, which is 1.
#[derive(Debug)]
struct Tally;

impl Rule for Tally {
    fn id(&self) -> String {
        "tally".into()
    }

    fn state_len(&self, _visible: usize) -> usize {
        1
    }

    fn operand_len(&self, visible: usize) -> usize {
        visible + 1
    }

    fn apply<E: Element>(&self, visible: &mut [E], state: &mut [E], operand: &[E]) {
        visible.iter_mut().zip(operand).for_each(|(value, update)| *value += *update);
        state[0] += operand[visible.len()];
    }
}

/// A model with two ranges of keys: with the rule, values have 3 elements and operands 4; without it, values
/// have 5.
fn config(technique: Technique) -> NodeConfig<f32> {
    let layout = Layout::builder().range_with_rule("ruled", KEYS / 2, 3, Tally).range("plain", KEYS / 2, 5);
    let mut config =
        NodeConfig::new(layout.shards(8).build().unwrap(), Arc::new(|_key, row: &mut [f32]| row.fill(0.0)));
    config.cluster.technique = technique;
    config.workers = WORKERS;
    config.cluster.replication.pace = StaticReplicaPace::Every(Tick(500));
    (0..KEYS).step_by(3).for_each(|key| config.set_technique(Key(key), KeyTechnique::Replicate));
    config
}

/// The keys of a step: some of each range, one of them twice.
fn keys(worker: u64, step: u64) -> [Key; 4] {
    let key = |number: u64| Key((worker * 7 + step * 5 + number * 11) % KEYS);
    [key(0), key(1), key(2), key(1)]
}

/// Pushes ones, in calls with keys of both ranges, and checks that reads have its own pushes.
fn work(me: u64, worker: &mut Worker<f32>) -> Result<(), Error> {
    let mut own = BTreeMap::<Key, f32>::new();
    for step in 0..STEPS {
        let keys = keys(me, step);
        let of = |key: &Key, ruled: usize, plain: usize| if key.0 < KEYS / 2 { ruled } else { plain };
        let (mut operands, mut elements) = (Vec::new(), 0);
        for key in &keys {
            operands.resize(operands.len() + of(key, 4, 5), 1.0);
            elements += of(key, 3, 5);
            *own.entry(*key).or_default() += 1.0;
        }
        worker.intent(&keys, Clock(step as u32)..Clock(step as u32 + 2))?;
        match step % 3 {
            0 => worker.push(&keys, &operands)?,
            1 => drop(worker.push_async(&keys, &operands)?),
            _ => {
                worker.localize(&keys)?;
                worker.push(&keys, &operands)?;
            }
        }
        let mut values = vec![0.0; elements];
        worker.pull(&keys, &mut values)?;
        let mut rest = &values[..];
        for key in &keys {
            let (value, after) = rest.split_at(of(key, 3, 5));
            rest = after;
            assert!(
                value.iter().all(|element| *element >= own[key]),
                "{key}: {value:?} without its own pushes"
            );
        }
        worker.advance_clock();
    }
    worker.quiesce()
}

/// Runs `work` on every worker of every node. Returns all rows.
fn rows(
    config: NodeConfig<f32>,
    work: impl Fn(u64, &mut Worker<f32>) -> Result<(), Error> + Sync,
) -> BTreeMap<Key, Vec<f32>> {
    let layout = config.layout.clone();
    let mut nodes = Node::start_local(config, NODES).unwrap();
    let mut workers: Vec<_> = nodes.iter_mut().flat_map(Node::workers).collect();
    std::thread::scope(|scope| {
        for (me, worker) in (0..).zip(&mut workers) {
            let work = &work;
            scope.spawn(move || work(me, worker).unwrap());
        }
    });
    let mut rows = BTreeMap::new();
    for worker in &mut workers {
        worker
            .snapshot_of_node(&mut |keys, values| {
                let mut rest = values;
                for key in keys {
                    let (row, after) = rest.split_at(layout.len(*key));
                    rest = after;
                    // Static replicas are read at every node.
                    let before = rows.insert(*key, row.to_vec());
                    assert!(before.is_none_or(|before| before == row), "{key} differs between nodes");
                }
            })
            .unwrap();
    }
    drop(workers);
    Node::shutdown_all(nodes).unwrap();
    rows
}

#[test]
fn every_technique_applies_every_push_once() {
    let mut pushes = vec![0; KEYS as usize];
    for me in 0..(NODES * WORKERS) as u64 {
        for step in 0..STEPS {
            keys(me, step).iter().for_each(|key| pushes[key.0 as usize] += 1);
        }
    }
    let techniques = [
        Technique::Classic,
        Technique::Lapse,
        Technique::Ssp,
        Technique::Essp,
        Technique::FullReplication,
        Technique::Nups,
        Technique::Bips,
        Technique::Adaptive,
    ];
    for technique in techniques {
        let rows = rows(config(technique), work);
        assert_eq!(rows.len(), KEYS as usize, "{technique}");
        for (key, row) in rows {
            let pushed = pushes[key.0 as usize] as f32;
            // The expected row: the value, the count, and no pending operand.
            let ruled = [pushed, pushed, pushed, pushed, 0.0, 0.0, 0.0, 0.0];
            let expected: &[f32] = if key.0 < KEYS / 2 { &ruled } else { &[pushed; 5] };
            assert_eq!(row, expected, "{technique}, {key}");
        }
    }
}

/// Each worker has a part of a quadratic function. Every clock takes one full step on the whole function,
/// which leads to its minimum: the mean of all centres, moved by the penalty.
#[test]
fn operands_of_a_clock_are_applied_together() {
    for technique in [Technique::Ssp, Technique::Essp] {
        let rule = Proximal::new(1.0, 2.0).unwrap();
        let layout = Layout::builder().range_with_rule("weight", 4, 2, rule).build().unwrap();
        let mut config = NodeConfig::new(layout, Arc::new(|_key, row: &mut [f32]| row.fill(0.0)));
        config.cluster.technique = technique;
        config.workers = WORKERS;
        config.cluster.replication.staleness = 0;
        let rows = rows(config, |me, worker| {
            let (centre, curvature) = (me as f32 + 1.0, 1.0);
            for clock in 0..3 {
                for key in (0..4).map(Key) {
                    let mut value = [0.0; 2];
                    worker.pull(&[key], &mut value)?;
                    let [a, b] = value.map(|value| curvature * (value - centre));
                    worker.push(&[key], &[a, b, curvature, curvature])?;
                    let mut same = [0.0; 2];
                    worker.pull(&[key], &mut same)?;
                    assert_eq!(same, value, "{technique}: the clock has not ended");
                }
                worker.advance_clock();
                worker.barrier(&format!("clock {clock}"))?;
            }
            worker.quiesce()
        });
        for (key, row) in rows {
            // The mean of the centres 1 to 4, which have the same curvature, is 2.5; the penalty moves it by
            // 2 / 4 towards zero.
            assert_eq!(row, [2.0, 2.0, 0.0, 0.0, 0.0, 0.0], "{technique}, {key}");
        }
    }
}

/// A rule that adds, and has ten times as much state as value.
#[derive(Debug)]
struct Heavy;

impl Rule for Heavy {
    fn id(&self) -> String {
        "heavy".into()
    }

    fn state_len(&self, visible: usize) -> usize {
        10 * visible
    }

    fn apply<E: Element>(&self, visible: &mut [E], _state: &mut [E], operand: &[E]) {
        visible[0] += operand[0];
    }
}

/// The answer to a frame of deltas may have rows, which are longer. So the number of deltas in a frame
/// depends on the length of both.
#[test]
fn as_many_deltas_travel_together_as_may_be_answered() {
    const MANY: u64 = 250_000;
    let layout = Layout::builder().range_with_rule("weight", MANY, 1, Heavy).build().unwrap();
    let mut config = NodeConfig::new(layout, Arc::new(|_key, row: &mut [f32]| row.fill(0.0)));
    config.cluster.technique = Technique::Essp;
    let rows = rows(config, |me, worker| {
        let keys: Vec<Key> = (0..MANY).map(Key).collect();
        for keys in keys.chunks(50_000) {
            let mut values = vec![0.0; keys.len()];
            worker.pull(keys, &mut values)?;
            values.fill(me as f32 + 1.0);
            worker.push(keys, &values)?;
        }
        worker.advance_clock();
        worker.quiesce()
    });
    assert!(rows.len() == MANY as usize && rows.values().all(|row| row[0] == 3.0));
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let layout = |rule| Layout::builder().range_with_rule("weight", 4, 2, rule).build().unwrap();
    let init = || Arc::new(|_key, row: &mut [f32]| row.fill(0.0));
    let at_clocks = NodeConfig::new(layout(Proximal::new(1.0, 0.0).unwrap()), init());
    let error = Node::start_alone(at_clocks).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("has no clocks") && error.contains("use technique ssp or essp"), "{error}");

    let decaying = |technique| {
        let layout =
            Layout::builder().range_with_rule("weight", 4, 2, Decay::new(0.5).unwrap()).build().unwrap();
        let mut config = NodeConfig::new(layout, init());
        config.cluster.technique = technique;
        config
    };
    let mut node = Node::start_alone(decaying(Technique::Classic)).unwrap();
    let mut worker = node.workers().remove(0);
    let error = worker.update(&[Key(1)], |_, _| ()).unwrap_err().to_string();
    assert!(error.contains("key 1 has a rule") && error.contains("push an operand"), "{error}");
    let error = worker.pull(&[Key(1)], &mut [0.0; 4]).unwrap_err().to_string();
    assert!(error.contains("values of 2 elements"), "{error}");
    worker.set(&[Key(1)], &[4.0, 8.0]).unwrap();
    worker.push(&[Key(1)], &[1.0, 1.0]).unwrap();
    let mut value = [0.0; 2];
    worker.pull(&[Key(1)], &mut value).unwrap();
    assert_eq!(value, [3.0, 5.0]);
    drop(worker);
    node.shutdown().unwrap();

    let mut nodes = Node::start_local(decaying(Technique::FullReplication), 2).unwrap();
    let mut workers: Vec<_> = nodes.iter_mut().flat_map(Node::workers).collect();
    let error = workers[1].set(&[Key(1)], &[4.0, 8.0]).unwrap_err().to_string();
    assert!(error.contains("key 1 has a static replica and a rule"), "{error}");
    drop(workers);
    Node::shutdown_all(nodes).unwrap();
}
