//! Several nodes in one process with copies of keys: no update is lost, copies become equal, reads are as
//! fresh as promised, nodes send nothing without need, and no worker waits for ever.

use crate::replication::{KEYS, Pusher, Setting, bounded, phases};
use intendant::{Error, Key, KeyTechnique, Node, StaticReplicaPace, Storage, Technique, Tick, Worker};
use intendant_core::random::stream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// The longest time that any part of these tests may take, many times the time that it does take. A worker
/// that waits so long waits for ever.
const SAFETY_NET: Duration = Duration::from_secs(120);

/// Techniques that copy keys.
const COPYING: [Technique; 5] =
    [Technique::Ssp, Technique::Essp, Technique::Nups, Technique::Bips, Technique::FullReplication];

/// Runs `work` on every worker of every node, each on its own thread. Fails if the work does not end.
fn run(
    setting: Setting,
    work: impl Fn(usize, &mut Worker<f32>) -> Result<(), Error> + Send + Sync + 'static,
) -> Vec<Node<f32>> {
    ends(move || {
        let mut nodes = Node::start_local(setting.config(), setting.nodes).unwrap();
        std::thread::scope(|scope| {
            for (me, mut worker) in nodes.iter_mut().flat_map(Node::workers).enumerate() {
                let work = &work;
                scope.spawn(move || work(me, &mut worker).unwrap());
            }
        });
        nodes
    })
}

fn ends<R: Send + 'static>(act: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, ended) = mpsc::channel();
    let acting = std::thread::spawn(move || {
        // The receiver is gone if the work took too long.
        let _ = done.send(act());
    });
    match ended.recv_timeout(SAFETY_NET) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("a worker waits for ever"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match acting.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("it ended without a result"),
        },
    }
}

fn pause(milliseconds: u64) {
    let (_keep, never) = mpsc::channel::<()>();
    let _ = never.recv_timeout(Duration::from_millis(milliseconds));
}

fn shut_down(nodes: Vec<Node<f32>>) {
    Node::shutdown_all(nodes).unwrap();
}

#[test]
fn nothing_is_lost_and_copies_become_equal() {
    for technique in COPYING {
        for (storage, channels, nodes) in
            [(Storage::Dense, 1, 3), (Storage::Sparse, 3, 3), (Storage::Dense, 2, 1)]
        {
            let setting = Setting { storage, channels, nodes, ..Setting::new(technique) };
            let nodes = run(setting, move |me, worker| phases(worker, setting, me, 150).map(drop));
            // The nodes had replicas and synchronised them; otherwise equal values would prove nothing.
            let sum = |of: fn(&intendant::ManagementStats) -> u64| -> u64 {
                nodes.iter().map(|node| of(&node.management().unwrap())).sum()
            };
            let (setups, drops) = (sum(|m| m.replica_setups), sum(|m| m.replica_drops));
            let (rounds, keys) = (sum(|m| m.sync_rounds), sum(|m| m.synced_keys));
            let here = format!("{setting:?}: {setups} setups, {drops} drops, {rounds} rounds of {keys} keys");
            let several = setting.nodes > 1;
            assert_eq!(drops > 10, technique == Technique::Ssp && several, "{here}");
            assert!(drops <= setups && (drops == 0 || technique == Technique::Ssp), "{here}");
            assert_eq!(setups > 10, setting.is_clocked() && several, "{here}");
            assert_eq!(keys > 100, several, "{here}");
            // Each of the three phases ends with a round of every node. The number of further rounds depends
            // on time.
            assert!(rounds >= 3 * setting.nodes as u64 || !several, "{here}");
            shut_down(nodes);
        }
    }
}

#[test]
fn hardly_anything_may_be_in_flight() {
    for technique in COPYING {
        let setting = Setting { channels: 2, ..Setting::new(technique) };
        ends(move || {
            let mut config = setting.config();
            config.outstanding_bytes = 1;
            let mut nodes = Node::start_local(config, setting.nodes).unwrap();
            std::thread::scope(|scope| {
                for (me, mut worker) in nodes.iter_mut().flat_map(Node::workers).enumerate() {
                    scope.spawn(move || phases(&mut worker, setting, me, 40).unwrap());
                }
            });
            shut_down(nodes);
        });
    }
}

/// How often each worker pushed to each key at each clock: `[worker][clock][key]`.
struct Pushes(Vec<AtomicU32>);

impl Pushes {
    const CLOCKS: u32 = 4_000;

    fn new(workers: usize) -> Self {
        Self((0..workers * (Self::CLOCKS as usize) * KEYS as usize).map(|_| AtomicU32::new(0)).collect())
    }

    fn at(&self, worker: usize, clock: u32, key: Key) -> &AtomicU32 {
        assert!(clock < Self::CLOCKS);
        &self.0[(worker * Self::CLOCKS as usize + clock as usize) * KEYS as usize + key.0 as usize]
    }

    /// Pushes of a worker before `clock`.
    fn before(&self, worker: usize, clock: u32, key: Key) -> u32 {
        (0..clock).map(|clock| self.at(worker, clock, key).load(Ordering::SeqCst)).sum()
    }
}

/// The number of clocks at which a worker works between two meetings. Some workers do nothing, so that
/// meetings follow each other closely.
fn clocks(me: usize, round: u64) -> u64 {
    match stream(77, &[me as u64, round]) % 5 {
        0 => 0,
        1 => 1,
        n => 4 * n,
    }
}

/// The promise of bounded staleness, while workers are at very different clocks, and meet now and then. The
/// test looks the pushes up after the read: the value read must contain all that any worker ever pushes
/// before that clock.
#[test]
fn a_read_has_what_was_done_before_the_staleness_bound() {
    for technique in [Technique::Ssp, Technique::Essp] {
        for (staleness, channels) in [(0, 1), (1, 2), (3, 1)] {
            let setting = Setting { staleness, channels, ..Setting::new(technique) };
            let pushes = Pushes::new(setting.all());
            let nodes = run(setting, move |me, worker| {
                let mut pusher = Pusher::new(setting, me);
                for round in 0..25 {
                    for step in 0..clocks(me, round) {
                        let word = stream(staleness.into(), &[me as u64, round, step]);
                        let keys: Vec<Key> = (0..3).map(|i| Key((word >> (8 * i)) % 12)).collect();
                        let update = pusher.update(&keys, word);
                        for key in &keys {
                            pushes.at(me, worker.clock().0, *key).fetch_add(1, Ordering::SeqCst);
                        }
                        drop(worker.push_async(&keys, &update)?);
                        if word >> 40 & 3 > 0 {
                            worker.advance_clock();
                        }
                        let clock = worker.clock().0;
                        for (key, value) in keys.iter().zip(pusher.read(worker, &keys)?) {
                            for (other, found) in value[..setting.all()].iter().enumerate() {
                                let promised = pushes.before(other, clock.saturating_sub(staleness), *key);
                                assert!(
                                    *found >= promised as f32,
                                    "{setting:?}: worker {me} reads {key:?} at clock {clock} with {found} of \
                                     {promised} pushes of worker {other}"
                                );
                            }
                            assert_eq!(value[me], pusher.made[key.0 as usize] as f32, "{key:?}");
                        }
                        std::thread::yield_now();
                    }
                    if round % 10 == 9 {
                        worker.quiesce()?;
                    } else {
                        let clocks = worker.gather("clocks", worker.clock().0.to_le_bytes().to_vec())?;
                        let latest =
                            clocks.iter().map(|c| u32::from_le_bytes(c[..].try_into().unwrap())).max();
                        assert_eq!(
                            worker.clock().0,
                            latest.unwrap(),
                            "workers leave a meeting with the latest clock"
                        );
                    }
                }
                Ok(())
            });
            let stale: u64 = nodes.iter().map(|node| node.management().unwrap().stale_reads).sum();
            assert!(stale > 0, "{setting:?}: no read ever waited");
            shut_down(nodes);
        }
    }
}

/// The same without any meeting, as far apart as the bound lets workers be.
#[test]
fn workers_may_be_as_far_apart_as_the_bound_says() {
    for technique in [Technique::Ssp, Technique::Essp] {
        for (staleness, channels) in [(0, 2), (3, 1)] {
            let setting = Setting { staleness, channels, ..Setting::new(technique) };
            shut_down(run(setting, move |me, worker| bounded(worker, setting, me, 300, |_| {})));
        }
    }
}

/// Nodes that have nothing to do between two meetings rest in the second one before others have left the
/// first one. Workers in the first meeting must not wait for them.
#[test]
fn no_worker_waits_for_a_node_without_work() {
    for technique in [Technique::Ssp, Technique::Essp] {
        let setting = Setting { staleness: 0, workers: 1, ..Setting::new(technique) };
        let nodes = run(setting, move |me, worker| {
            let mut pusher = Pusher::new(setting, me);
            let keys: Vec<Key> = (0..6).map(Key).collect();
            for round in 0..300 {
                // One or two of the workers work.
                if round % 3 == me || round % 7 == me {
                    for _ in 0..4 {
                        let update = pusher.update(&keys, round as u64);
                        drop(worker.push_async(&keys, &update)?);
                        worker.advance_clock();
                        pusher.read(worker, &keys)?;
                    }
                }
                worker.barrier("round")?;
            }
            Ok(())
        });
        shut_down(nodes);
    }
}

#[test]
fn a_raised_bound_lets_workers_run_ahead_and_finished_workers_delay_no_other() {
    for technique in [Technique::Ssp, Technique::Essp] {
        let setting = Setting { staleness: 0, ..Setting::new(technique) };
        ends(move || {
            let mut nodes = Node::start_local(setting.config(), setting.nodes).unwrap();
            let mut workers: Vec<_> = nodes.iter_mut().flat_map(Node::workers).collect();
            let keys: Vec<Key> = (0..KEYS).map(Key).collect();
            let pusher = Pusher::new(setting, 0);
            workers.iter_mut().for_each(|worker| worker.set_staleness_bound(1_000));
            for _ in 0..20 {
                workers[0].advance_clock();
                // All others are at clock 0.
                pusher.read(&mut workers[0], &keys).unwrap();
            }
            workers.iter_mut().for_each(|worker| worker.set_staleness_bound(0));
            workers.drain(1..).for_each(drop);
            pusher.read(&mut workers[0], &keys).unwrap();
            workers[0].advance_clock();
            pusher.read(&mut workers[0], &keys).unwrap();
            drop(workers);
            shut_down(nodes);
        });
    }
}

#[test]
fn a_node_that_leaves_with_workers_that_never_began_delays_no_other() {
    for technique in [Technique::Ssp, Technique::Essp] {
        let setting = Setting { staleness: 0, nodes: 2, workers: 1, ..Setting::new(technique) };
        ends(move || {
            let mut nodes = Node::start_local(setting.config(), 2).unwrap();
            let mut workers: Vec<_> = nodes.iter_mut().flat_map(Node::workers).collect();
            let (mut worker, idle) = (workers.remove(0), workers);
            let (leaving, staying) = (nodes.pop().unwrap(), nodes.pop().unwrap());
            std::thread::scope(|scope| {
                let leaving = scope.spawn(move || leaving.shutdown().unwrap());
                scope.spawn(move || {
                    let keys: Vec<Key> = (0..KEYS).map(Key).collect();
                    worker.advance_clock();
                    Pusher::new(setting, 0).read(&mut worker, &keys).unwrap();
                    drop(worker);
                    staying.shutdown().unwrap();
                });
                leaving.join().unwrap();
            });
            drop(idle);
        });
    }
}

/// Whether a worker adds to a key in a round. It skips some of them.
fn adds(key: Key, worker: usize, round: u64) -> bool {
    !(key.0 + worker as u64 + round).is_multiple_of(4)
}

/// Synchronous SGD: after each synchronisation, all copies are equal and have all updates. Workers do not
/// meet otherwise before they read the copies.
#[test]
fn who_asks_for_it_gets_copies_with_all_that_was_done() {
    for (technique, nodes, channels) in [
        (Technique::FullReplication, 3, 1),
        (Technique::FullReplication, 2, 3),
        (Technique::Nups, 3, 2),
        (Technique::Nups, 1, 1),
    ] {
        let setting = Setting { nodes, channels, pace: StaticReplicaPace::Asked, ..Setting::new(technique) };
        let ended = run(setting, move |me, worker| {
            let mut pusher = Pusher::new(setting, me);
            let keys: Vec<Key> = (0..KEYS).step_by(setting.replicated as usize).map(Key).collect();
            for round in 1..=60u64 {
                let mine: Vec<Key> = keys.iter().copied().filter(|key| adds(*key, me, round)).collect();
                let update = pusher.update(&mine, round);
                worker.push(&mine, &update)?;
                worker.synchronize()?;
                let values = pusher.read(worker, &keys)?;
                let bits: Vec<u8> = values.iter().flatten().flat_map(|v| v.to_bits().to_le_bytes()).collect();
                for (key, value) in keys.iter().zip(&values) {
                    for (other, found) in value[..setting.all()].iter().enumerate() {
                        let made = (1..=round).filter(|round| adds(*key, other, *round)).count();
                        assert_eq!(
                            *found, made as f32,
                            "{setting:?}: round {round}, {key:?}, worker {other}"
                        );
                    }
                }
                let all = worker.gather("bits", bits)?;
                assert!(
                    all.iter().all(|bits| *bits == all[0]),
                    "{setting:?}: copies differ in round {round}"
                );
            }
            Ok(())
        });
        let rounds: Vec<u64> = ended.iter().map(|node| node.management().unwrap().sync_rounds).collect();
        let expected = if nodes == 1 { 0 } else { 60 * channels as u64 };
        assert!(rounds.iter().all(|rounds| *rounds == expected), "{setting:?}: {rounds:?}");
        shut_down(ended);
    }
}

/// No worker asks for a round, and no worker ends a phase.
#[test]
fn updates_reach_other_nodes_in_the_background() {
    let setting = Setting { nodes: 2, workers: 1, ..Setting::new(Technique::FullReplication) };
    let nodes = run(setting, move |me, worker| {
        let pusher = Pusher::new(setting, me);
        let keys = [Key(0), Key(1)];
        let (mine, other) = (keys[me], keys[1 - me]);
        let wait = |worker: &mut Worker<f32>| {
            while pusher.read(worker, &[other])?[0][0] == 0.0 {
                pause(1);
            }
            Ok::<_, Error>(())
        };
        // The second node pushes when it has seen the first one's update. So updates have passed in both
        // directions.
        if me == 1 {
            wait(worker)?;
        }
        worker.push(&[mine], &vec![1.0; pusher.elements(&[mine])])?;
        if me == 0 {
            wait(worker)?;
        }
        Ok(())
    });
    shut_down(nodes);
}

#[test]
fn in_the_background_synchronize_waits_for_a_round() {
    let setting = Setting {
        pace: StaticReplicaPace::Every(Tick(3_600_000_000)),
        ..Setting::new(Technique::FullReplication)
    };
    let nodes = run(setting, move |me, worker| {
        let mut pusher = Pusher::new(setting, me);
        let keys: Vec<Key> = (0..KEYS).map(Key).collect();
        let update = pusher.update(&keys, 1);
        worker.push(&keys, &update)?;
        worker.barrier("all have pushed")?;
        worker.synchronize()?;
        // A channel begins its first round at once, perhaps between the pushes of two workers. Another node
        // may have waited for that round: the missing pushes are in the next one, which `synchronize` began
        // here. No other round comes for an hour.
        let is_all =
            |values: Vec<Vec<f32>>| values.iter().all(|value| value[setting.all()] == setting.all() as f32);
        while !is_all(pusher.read(worker, &keys)?) {
            pause(1);
        }
        Ok(())
    });
    shut_down(nodes);
}

#[test]
fn synchronizing_without_static_replicas_waits_for_no_worker() {
    for technique in Technique::ALL {
        // A cluster of one node has no replicas, whatever the technique.
        let setting = Setting { nodes: 1, ..Setting::new(technique) };
        ends(move || {
            let mut nodes = Node::start_local(setting.config(), setting.nodes).unwrap();
            nodes[0].workers()[0].synchronize().unwrap();
            shut_down(nodes);
        });
    }
}

/// The last of all workers is dropped. Other workers of its node wait for it, or only workers of other nodes.
#[test]
fn who_synchronizes_with_a_worker_that_is_gone_is_told() {
    for (pace, workers) in [
        (StaticReplicaPace::Asked, 2),
        (StaticReplicaPace::Asked, 1),
        (StaticReplicaPace::Every(Tick(1_000)), 2),
    ] {
        for before in [false, true] {
            let setting = Setting { pace, workers, ..Setting::new(Technique::FullReplication) };
            ends(move || {
                let mut nodes = Node::start_local(setting.config(), setting.nodes).unwrap();
                let mut workers: Vec<_> = nodes.iter_mut().flat_map(Node::workers).collect();
                std::thread::scope(|scope| {
                    let mut last = workers.pop();
                    if before {
                        drop(last.take());
                    }
                    let waiting: Vec<_> = workers
                        .into_iter()
                        .map(|mut worker| {
                            scope.spawn(move || worker.synchronize().err().map(|error| error.to_string()))
                        })
                        .collect();
                    pause(20);
                    drop(last);
                    for (me, thread) in waiting.into_iter().enumerate() {
                        match thread.join().unwrap() {
                            Some(error) => assert!(error.contains("dropped"), "{error}"),
                            // If rounds run in the background, a node needs only its own workers.
                            None => {
                                assert!(
                                    pace != StaticReplicaPace::Asked && me < 4,
                                    "worker {me} did not wait, {pace:?}"
                                )
                            }
                        }
                    }
                });
            });
        }
    }
}

/// Keys that are not used cost nothing, and nodes without updates send nothing, however often a round is due.
#[test]
fn a_cluster_at_rest_is_silent() {
    for technique in Technique::ALL {
        for (channels, pace) in [(1, StaticReplicaPace::Every(Tick(500))), (2, StaticReplicaPace::Asked)] {
            let setting = Setting { channels, pace, ..Setting::new(technique) };
            ends(move || {
                let mut nodes = Node::start_local(setting.config(), setting.nodes).unwrap();
                let mut workers: Vec<_> = nodes.iter_mut().flat_map(Node::workers).collect();
                std::thread::scope(|scope| {
                    for (me, worker) in workers.iter_mut().enumerate() {
                        scope.spawn(move || phases(worker, setting, me, 30).unwrap());
                    }
                });
                let sent = || nodes.iter().map(Node::network).collect::<Vec<_>>();
                // Nodes send clocks after a meeting.
                pause(200);
                let before = sent();
                assert!(before.iter().all(|node| node.messages > 0), "{setting:?}");
                pause(200);
                assert_eq!(sent(), before, "{setting:?}");
                drop(workers);
                pause(50);
                assert!(setting.is_clocked() || sent() == before, "{setting:?}");
                shut_down(nodes);
            });
        }
    }
}

/// NuPS without replicated keys is Lapse, message for message.
#[test]
fn nothing_replicated_costs_nothing() {
    let sent = |technique| {
        let setting = Setting { technique, channels: 2, ..Setting::new(Technique::Nups) };
        let mut config = setting.config();
        (0..KEYS).for_each(|key| config.set_technique(Key(key), KeyTechnique::Relocate));
        let mut nodes = Node::start_local(config, setting.nodes).unwrap();
        let mut workers: Vec<_> = nodes.iter_mut().flat_map(Node::workers).collect();
        let pusher = &mut Pusher::new(setting, 0);
        for step in 0..300 {
            let word = stream(5, &[step]);
            let worker = &mut workers[(word >> 50) as usize % setting.all()];
            let keys: Vec<Key> = (0..1 + word % 6).map(|i| Key((word >> (6 * i)) % KEYS)).collect();
            let update = pusher.update(&keys, step);
            match word >> 40 & 3 {
                0 => worker.localize(&keys).unwrap(),
                1 => drop(pusher.read(worker, &keys).unwrap()),
                2 => worker.set(&keys, &update).unwrap(),
                _ => worker.push(&keys, &update).unwrap(),
            }
            worker.advance_clock();
            worker.synchronize().unwrap();
            // The keys of a localize arrive before its last message, which goes to the home.
            let messages = || {
                nodes.iter().map(|node| (node.management().unwrap(), node.network()).1.messages).sum::<u64>()
            };
            while {
                let now = messages();
                pause(1);
                now != messages()
            } {}
        }
        let rounds: u64 = nodes.iter().map(|node| node.management().unwrap().sync_rounds).sum();
        assert_eq!(rounds, 0);
        let sent: Vec<_> = nodes.iter().map(Node::network).collect();
        drop(workers);
        shut_down(nodes);
        sent
    };
    assert_eq!(sent(Technique::Nups), sent(Technique::Lapse));
}

#[test]
fn a_set_value_stays_until_a_worker_adds_to_it() {
    for technique in COPYING {
        let setting = Setting { workers: 1, ..Setting::new(technique) };
        let nodes = run(setting, move |me, worker| {
            let pusher = Pusher::new(setting, me);
            let keys: Vec<Key> = (0..KEYS).map(Key).collect();
            pusher.read(worker, &keys)?;
            for round in 0..5u32 {
                worker.barrier("set")?;
                let value = (10 * round) as f32;
                if me == round as usize % 3 {
                    worker.set(&keys, &vec![value; pusher.elements(&keys)])?;
                    assert!(pusher.read(worker, &keys)?.iter().flatten().all(|v| *v == value), "{setting:?}");
                    worker.push(&keys, &vec![1.0; pusher.elements(&keys)])?;
                }
                worker.quiesce()?;
                let wrong = pusher.read(worker, &keys)?.into_iter().flatten().find(|v| *v != value + 1.0);
                assert_eq!(wrong, None, "{setting:?}: after {value} was set and 1 was added");
            }
            Ok(())
        });
        shut_down(nodes);
    }
}

#[test]
fn keys_that_do_not_exist_cannot_be_replicated() {
    let setting = Setting::new(Technique::Nups);
    let mut config = setting.config();
    config.set_technique(Key(KEYS), KeyTechnique::Replicate);
    let error = Node::start_local(config, 2).err().unwrap();
    assert_eq!(error.exit_code(), 2);
    let expected = "technique nups: key 60 is to be replicated, but the model has keys 0 to 59 only";
    assert_eq!(error.to_string(), expected);
}
