//! Static replicas: a copy on every node, synchronised by an all-reduce.

use super::super::cluster::{Cluster, Seed, Setup};
use super::{is_complete, seeds};
use intendant_core::{Key, Tick};
use intendant_engine::{Input, ReplicationConfig, Storage};
use intendant_techniques::{Assignment, KeyTechnique, Policy, Role, StaticReplicaPace, Technique};

const EVERY: StaticReplicaPace = StaticReplicaPace::Every(Tick(100));

fn setup(seed: u64, technique: Technique, pace: StaticReplicaPace, clip: Option<f64>) -> Setup {
    let mut assignment = Assignment::none();
    for key in [0, 3, 4].into_iter().filter(|key| seed >> key & 1 == 1) {
        assignment.set_technique(Key(key), KeyTechnique::Replicate);
    }
    Setup {
        nodes: 1 + seed as usize % 9,
        workers: 1 + seed as usize / 9 % 2,
        channels: 1 + seed as usize / 18 % 2,
        keys: 5,
        storage: if seed.is_multiple_of(2) { Storage::Dense } else { Storage::Sparse },
        policy: technique.policy(),
        replication: ReplicationConfig { assignment, pace, clip, ..ReplicationConfig::default() },
    }
}

/// Lets a worker start an operation.
fn act(c: &mut Cluster, me: usize) {
    let keys = c.setup.keys as usize;
    let (key, other) = (Key(c.dice.below(keys) as u64), Key(c.dice.below(keys) as u64));
    match c.dice.below(10) {
        0..3 => c.pull(me, &[key, other]),
        3 => {
            c.pull_if_local(me, key);
        }
        4 => c.localize(me, key),
        // Sets of several workers would add up: each is the difference from the value that the worker sees.
        5 if me == 0 => c.set(me, Key(0)),
        _ if key == Key(0) => {}
        _ => c.push(me, key),
    }
}

/// Random operations, ticks and deliveries.
fn run(c: &mut Cluster, steps: usize) {
    for step in 0..steps {
        if step % 60 == 0 {
            c.shift();
        }
        match c.dice.below(4) {
            0 => {
                let me = c.dice.below(c.workers.len());
                if c.workers[me].ahead() < 4 {
                    act(c, me);
                }
            }
            1 => c.tick(),
            _ => {
                c.deliver_any();
            }
        }
        let me = c.dice.below(c.workers.len());
        c.receive(me);
    }
    c.drain();
}

/// Checks that nodes send no message at the times of later rounds.
fn check_silence(c: &mut Cluster) {
    for _ in 0..10 {
        c.now.0 += 1_000;
        for place in 0..c.channels.len() {
            if c.channels[place].due().is_some_and(|due| due <= c.now) {
                c.handle(place, Input::Tick);
            }
        }
    }
    assert_eq!(c.under_way(), 0, "nodes send messages although no value has changed");
}

#[test]
fn all_copies_are_equal_after_background_rounds() {
    let (mut rounds, mut synced) = (0, 0);
    for seed in seeds(1_800) {
        let _seed = Seed(seed);
        let technique = if seed.is_multiple_of(3) { Technique::FullReplication } else { Technique::Nups };
        // The longest update that is not clipped is longer than any update.
        let clip = seed.is_multiple_of(5).then_some(1e9);
        let mut c = Cluster::new(setup(seed, technique, EVERY, clip), seed);
        for _ in 0..2 {
            run(&mut c, 200);
            c.quiesce(20);
            c.check_end();
            check_silence(&mut c);
        }
        (rounds, synced) = (rounds + c.stats().sync_rounds, synced + c.stats().synced_keys);
        let expected = if technique == Technique::FullReplication {
            5
        } else {
            c.setup.replication.assignment.resolve(&c.layout).len()
        };
        assert_eq!(c.nodes[0].static_replicas(), if c.setup.nodes == 1 { 0 } else { expected });
        for node in 0..c.setup.nodes {
            let count = (0..5).filter(|key| c.role(node, Key(*key)) == Role::Static).count();
            assert_eq!(count, c.nodes[0].static_replicas(), "the keys are static from the start to the end");
        }
    }
    assert!(!is_complete() || (rounds > 10_000 && synced > 10_000), "{rounds} rounds, {synced} keys");
}

/// Synchronous SGD: when a call of `synchronize` ends, the worker's copy contains the pushes of all workers
/// from before their calls.
#[test]
fn a_synchronized_copy_contains_the_pushes_before_the_calls_of_all_workers() {
    for seed in seeds(900) {
        let _seed = Seed(seed);
        let technique = if seed.is_multiple_of(2) { Technique::FullReplication } else { Technique::Nups };
        let mut c = Cluster::new(setup(seed, technique, StaticReplicaPace::Asked, None), seed);
        let replicated: Vec<Key> = (0..5).map(Key).filter(|key| c.role(0, *key) == Role::Static).collect();
        let workers = c.workers.len();
        // By round, worker and key: the number of pushes before the call.
        let mut before: Vec<Vec<Vec<usize>>> = Vec::new();
        let (mut asked, mut ended) = (vec![0; workers], vec![0; workers]);
        let together = c.dice.percent(40);
        let mut stuck = 0;
        while ended.iter().any(|rounds| *rounds < 4) {
            let me = c.dice.below(workers);
            let went = match c.dice.below(3) {
                0 if asked[me] > ended[me] => {
                    let done = c.workers[me].ahead() == 0;
                    if done {
                        for key in &replicated {
                            let value =
                                c.nodes[me / c.setup.workers].inspect().copy(*key).expect("a replica");
                            for lane in 0..workers {
                                let least = before[ended[me]][lane][key.0 as usize];
                                assert!(
                                    value[lane] >= least as f32,
                                    "{key:?}: fewer than {least} pushes of {lane} in {value:?}"
                                );
                            }
                        }
                        ended[me] += 1;
                        if together && ended.iter().all(|rounds| *rounds == ended[me]) {
                            // No worker has done anything since.
                            check_equal(&c, &replicated);
                        }
                    }
                    done
                }
                0 if ended[me] == 4 || (together && ended.iter().any(|rounds| *rounds < asked[me])) => false,
                0 if c.dice.percent(80) && asked[me] < 4 => {
                    if c.workers[me].ahead() < 2 {
                        act(&mut c, me);
                    }
                    true
                }
                0 if c.workers[me].ahead() == 0 => {
                    before.resize_with(before.len().max(asked[me] + 1), || vec![vec![0; 5]; workers]);
                    before[asked[me]][me] = (0..5).map(|key| c.workers[me].pushes(Key(key))).collect();
                    c.synchronize(me);
                    asked[me] += 1;
                    true
                }
                1 => c.receive(me),
                _ => c.deliver_any(),
            };
            stuck = if went { 0 } else { stuck + 1 };
            assert!(stuck < 2_000, "no worker goes on: {asked:?} calls, {ended:?} ended");
        }
        c.drain();
        c.quiesce(20);
        c.check_end();
        check_silence(&mut c);
    }
}

fn check_equal(c: &Cluster, keys: &[Key]) {
    for key in keys {
        let copies: Vec<_> =
            c.nodes.iter().map(|node| node.inspect().copy(*key).expect("a replica")).collect();
        assert!(copies.iter().all(|copy| *copy == copies[0]), "{key:?}: {copies:?}");
    }
}

#[test]
fn all_copies_are_equal_after_clipping() {
    let mut shorter = 0;
    for seed in seeds(300) {
        let _seed = Seed(seed);
        for clip in [None, Some(1.5), Some(0.5)] {
            let mut c = Cluster::new(setup(seed, Technique::FullReplication, EVERY, clip), seed);
            for _ in 0..150 {
                match c.dice.below(3) {
                    0 => {
                        let me = c.dice.below(c.workers.len());
                        c.push(me, Key(1));
                    }
                    1 => c.tick(),
                    _ => {
                        c.deliver_any();
                    }
                }
            }
            c.quiesce(20);
            check_equal(&c, &[Key(1)]);
            let pushes: usize = c.workers.iter().map(|worker| worker.pushes(Key(1))).sum();
            let (_, value) = c.main(Key(1));
            let remains: f32 = value[..c.workers.len()].iter().sum();
            if clip.is_none() || c.setup.nodes == 1 {
                assert_eq!(remains, pushes as f32, "no update is clipped");
            }
            assert!(remains <= pushes as f32 + 1e-3, "{remains} of {pushes}");
            shorter += usize::from(remains < pushes as f32 - 0.1);
        }
    }
    assert!(!is_complete() || shorter > 200, "only {shorter} runs clipped an update");
}

#[test]
fn what_a_node_clips_does_not_come_back_with_the_next_update() {
    let mut setup = setup(1, Technique::FullReplication, EVERY, Some(0.5));
    (setup.nodes, setup.workers, setup.channels) = (2, 1, 1);
    let mut c = Cluster::new(setup, 0);
    c.push(0, Key(1));
    c.handle(0, Input::Tick);
    // The first update has the average norm. The clip of 0.5 halves it.
    let copy = |c: &Cluster, node: usize| c.nodes[node].inspect().copy(Key(1)).expect("a replica")[0];
    assert_eq!(copy(&c, 0), 0.5);
    c.push(0, Key(1));
    assert_eq!(copy(&c, 0), 1.5);
    c.deliver_all();
    assert_eq!((copy(&c, 0), copy(&c, 1)), (1.5, 0.5));
    c.quiesce(20);
    check_equal(&c, &[Key(1)]);
}

#[test]
fn nups_without_static_replicas_does_the_same_as_lapse() {
    for seed in seeds(200) {
        let _seed = Seed(seed);
        let log = |policy: Policy| {
            let mut setup = setup(seed, Technique::Nups, EVERY, None);
            (setup.policy, setup.replication.assignment) = (policy, Assignment::none());
            let mut c = Cluster::new(setup, seed);
            c.watch.log = Some(Vec::new());
            run(&mut c, 300);
            c.quiesce(20);
            c.check_end();
            let stats = c.stats();
            (c.watch.log, stats)
        };
        let [lapse, nups] = [Technique::Lapse, Technique::Nups].map(|technique| log(technique.policy()));
        let (lapse_log, nups_log) = (lapse.0.expect("kept"), nups.0.expect("kept"));
        assert!(lapse_log.len() > 100 || seed.is_multiple_of(9));
        if let Some((lapse, nups)) = lapse_log.iter().zip(&nups_log).find(|(lapse, nups)| lapse != nups) {
            panic!("lapse: {lapse}\nnups: {nups}");
        }
        assert_eq!((lapse_log.len(), lapse.1), (nups_log.len(), nups.1));
    }
}
