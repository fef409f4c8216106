//! Tests of the network, machine and fault models: durations in simulated clusters equal those that queueing
//! theory and the configured lengths predict.

use crate::still;
use intendant_checkers::checker::Checked;
use intendant_core::{Key, Layout, NodeId};
use intendant_engine::LocalAccess;
use intendant_sim::cluster::{ClusterConfig, Happened, Wait};
use intendant_sim::{Charge, Delays, Episode, Fault, Faults, Machine, Network, Spread};

const LEN: usize = 2_500;
const VALUE_BYTES: u64 = 4 * LEN as u64;
/// Each node is home of this many consecutive keys.
const KEYS_PER_NODE: u64 = 4;

/// Latency of 1 µs, one nanosecond per byte, machines on which work takes no time.
fn plain() -> Delays {
    let latency = Spread::fixed(1_000);
    let network = Network { latency, byte_ps: 1_000, frame_bytes: 0 };
    Delays::of(Machine::infinitely_fast(), network, Charge::ACTUAL)
}

fn cluster(nodes: usize, workers: usize, delays: Delays, faults: Faults, seed: u64) -> Checked<f32> {
    cluster_with(LocalAccess::Shared, nodes, workers, delays, faults, seed)
}

fn cluster_with(
    access: LocalAccess,
    nodes: usize,
    workers: usize,
    delays: Delays,
    faults: Faults,
    seed: u64,
) -> Checked<f32> {
    let layout = Layout::builder().range("keys", nodes as u64 * KEYS_PER_NODE, LEN).nodes(nodes);
    let base = still::config(layout, delays.network);
    still::checked(ClusterConfig { access, workers, delays, faults, seed, ..base })
}

fn key(node: usize, nth: u64) -> Key {
    Key(node as u64 * KEYS_PER_NODE + nth)
}

/// Executes all events, and checks that the cluster is quiescent.
fn finish(cluster: &mut Checked<f32>) {
    while cluster.next().unwrap().is_some() {}
    cluster.check_quiescent().unwrap();
}

/// Time until `pushes` from each of `senders` to its node, all issued at once, have been applied.
fn push_time(senders: &[(usize, usize)], pushes: usize, delays: Delays) -> u64 {
    let mut cluster = cluster(4, 1, delays, Faults::none(), 1);
    for _ in 0..pushes {
        for (worker, node) in senders {
            cluster.push(*worker, &[key(*node, 0)], &[1.0; LEN]).unwrap();
        }
    }
    finish(&mut cluster);
    cluster.now_ns()
}

fn near(found: u64, expected: u64) -> bool {
    found.abs_diff(expected) * 50 < expected
}

#[test]
fn connections_share_the_nics_at_both_ends() {
    const PUSHES: usize = 100;
    let alone = push_time(&[(1, 0)], PUSHES, plain());
    assert!(near(alone, PUSHES as u64 * VALUE_BYTES), "{alone}");
    let two_to_one = push_time(&[(1, 0), (2, 0)], PUSHES, plain());
    assert!(near(two_to_one, 2 * alone), "two senders: {two_to_one}, one: {alone}");
    let apart = push_time(&[(1, 0), (2, 3)], PUSHES, plain());
    assert!(near(apart, alone), "two pairs: {apart}, one: {alone}");
    let one_to_two = push_time(&[(1, 0), (1, 3)], PUSHES, plain());
    assert!(near(one_to_two, 2 * alone), "two receivers: {one_to_two}, one: {alone}");
    let mut ways = plain();
    ways.network.byte_ps = 0;
    assert!(
        push_time(&[(1, 0), (2, 0)], PUSHES, ways) < 10_000,
        "with unlimited bandwidth, frames do not wait"
    );
}

#[test]
fn a_frame_takes_one_latency_and_one_transmission() {
    let time = push_time(&[(1, 0)], 1, plain());
    // The push, and its answer, which takes little more than the latency.
    let expected = 2 * 1_000 + VALUE_BYTES;
    assert!((expected..expected + 200).contains(&time), "{time} instead of {expected}");
}

#[test]
fn charged_bytes_are_those_of_values_only() {
    let run = |charge: f64| {
        let delays = Delays { charge: Charge::new(charge, 1.0), ..plain() };
        let mut cluster = cluster(2, 1, delays, Faults::none(), 1);
        cluster.push(1, &[key(0, 0), key(0, 1)], &[1.0; 2 * LEN]).unwrap();
        finish(&mut cluster);
        let traffic = cluster.traffic();
        assert_eq!(traffic.messages, 2);
        (traffic.bytes, cluster.now_ns())
    };
    let ((once, short), (many, long)) = (run(1.0), run(250.0));
    assert_eq!(many - once, 249 * 2 * VALUE_BYTES);
    assert_eq!(long - short, 249 * 2 * VALUE_BYTES, "a nanosecond per byte");
}

/// What a pull of two keys of the worker's own node costs on each of the three ways to local values.
#[test]
fn a_local_access_costs_a_queue_or_messages_if_memory_is_not_shared() {
    let machine = Machine {
        call_ns: 100,
        key_ns: 10,
        input_ns: 1_000,
        input_key_ns: 1,
        send_ns: 20_000,
        channel_byte_ps: 1_000,
        ..Machine::infinitely_fast()
    };
    let network = Network { latency: Spread::fixed(1 << 40), byte_ps: 0, frame_bytes: 0 };
    let still = Spread::fixed(0);
    let plain = Delays::of(machine, network, Charge::ACTUAL);
    let plain = Delays { worker: still, enqueue: still, deliver: still, intake: still, ..plain };
    let run = |access, ipc| {
        let mut cluster = cluster_with(access, 2, 1, Delays { ipc, ..plain }, Faults::none(), 1);
        cluster.pull(0, &[key(0, 0), key(0, 1)], Wait::Blocking).unwrap();
        finish(&mut cluster);
        assert_eq!(cluster.traffic().messages, 0, "none of this goes over the network");
        let accesses = cluster.local(0).stats();
        assert_eq!((accesses.local, accesses.remote), (2, 0));
        let load = cluster.load();
        (load.workers.busy_ns, load.channels.busy_ns)
    };
    assert_eq!(run(LocalAccess::Shared, false), (120, 0));
    assert_eq!(run(LocalAccess::Queue, false), (120, 102), "a call of the channel");
    // The worker sends a request without values, and receives the answer; the channel receives the request
    // beside its input, and sends the answer.
    let values = 2 * VALUE_BYTES;
    assert_eq!(
        run(LocalAccess::Queue, true),
        (120 + 20_000 + 1_000 + values, 1_002 + 1_000 + 20_000 + values)
    );
    // For keys of another node, a channel takes as long whether it gets all accesses or these only.
    let elsewhere = |access| {
        let mut cluster = cluster_with(access, 2, 1, plain, Faults::none(), 1);
        cluster.pull(0, &[key(0, 0), key(1, 0)], Wait::Blocking).unwrap();
        finish(&mut cluster);
        cluster.load().channels.busy_ns
    };
    assert_eq!(elsewhere(LocalAccess::Queue), elsewhere(LocalAccess::Shared) + 1, "one key more");
}

#[test]
fn a_channel_serves_one_input_at_a_time_for_the_cost_of_its_keys() {
    let machine =
        Machine { input_ns: 10_000, input_key_ns: 1_000, send_ns: 500, ..Machine::infinitely_fast() };
    let network = Network { latency: Spread::fixed(1_000), byte_ps: 0, frame_bytes: 0 };
    let delays = Delays::of(machine, network, Charge::ACTUAL);
    let mut cluster = cluster(2, 4, delays, Faults::none(), 1);
    for worker in 4..8 {
        let called = cluster.pull(worker, &[key(0, 0), key(0, 1)], Wait::Later).unwrap();
        assert!(called.op.is_some());
    }
    finish(&mut cluster);
    // Node 1's channel handles four submissions (12 µs) and sends each (0.5 µs). Meanwhile node 0's channel
    // handles the requests (12 µs) and answers each (0.5 µs). Node 1 handles each answer in 12 µs.
    let load = cluster.load().channels;
    assert_eq!((load.served, load.busy_ns), (12, 4 * (12_000 + 500) + 4 * (12_000 + 500) + 4 * 12_000));
    // Node 1's channel can only be idle after its answers, while it waits for the round trip of its last
    // submission.
    let busy_ns = 4 * 12_500 + 4 * 12_000;
    assert!((busy_ns..=busy_ns + 12_500 + 2 * 1_000).contains(&cluster.now_ns()), "{}", cluster.now_ns());
}

/// Calls arrive in a Poisson process, and a channel serves each in constant time: the mean wait of its inputs
/// follows the formula of Pollaczek and Khinchine.
#[test]
fn waiting_for_a_channel_follows_from_its_load() {
    const FAST_NS: u64 = 500;
    const SLOWDOWN: u32 = 20;
    const CALLS: u64 = 20_000;
    let service_ns = (FAST_NS * u64::from(SLOWDOWN)) as f64;
    for load in [0.3, 0.7] {
        let machine = Machine { input_ns: FAST_NS, ..Machine::infinitely_fast() };
        let network = Network { latency: Spread::fixed(1_000), byte_ps: 0, frame_bytes: 0 };
        let delays = Delays::of(machine, network, Charge::ACTUAL);
        // The caller's own channel is so fast that it barely disturbs the arrival times of its requests.
        let slow = one(0, u64::MAX, Fault::SlowNode { node: NodeId(0), factor: SLOWDOWN });
        let mut cluster = cluster(2, 1, delays, slow, 3);
        let mut random = 7u64;
        let mut gap = || {
            random = intendant_core::random::stream(random, &[1]);
            let unit = (random >> 11) as f64 / (1u64 << 53) as f64;
            (-(1.0 - unit).ln() * service_ns / load) as u64
        };
        let mut left = CALLS;
        cluster.wake_loader(1, 0);
        while let Some(happened) = cluster.next().unwrap() {
            if let Happened::Loaded(worker) = happened {
                cluster.push(worker, &[key(0, 0)], &[0.0; LEN]).unwrap();
                left -= 1;
                if left > 0 {
                    cluster.wake_loader(1, gap());
                }
            }
        }
        let channels = cluster.load().channels;
        assert_eq!(channels.served, 3 * CALLS, "a submission, a request and an answer per call");
        assert_eq!(channels.busy_ns, CALLS * (2 * FAST_NS + FAST_NS * u64::from(SLOWDOWN)));
        let wait_ns = channels.waited_ns as f64 / CALLS as f64;
        let expected_ns = load / (2.0 * (1.0 - load)) * service_ns;
        assert!(
            (wait_ns / expected_ns - 1.0).abs() < 0.15,
            "load {load}: {wait_ns} instead of {expected_ns}"
        );
        let busy = channels.utilisation(cluster.now_ns());
        assert!((busy / load - 1.0).abs() < 0.15, "load {load}: busy {busy}");
    }
}

fn one(from_ns: u64, until_ns: u64, fault: Fault) -> Faults {
    Faults::new(vec![Episode { from_ns, until_ns, fault }]).unwrap()
}

/// Issues sets of one key, one after the other; the last one must stay. Returns its value and the time at
/// which all sets were acknowledged.
fn sets(faults: Faults) -> (f32, u64) {
    let mut cluster = cluster(3, 1, plain(), faults, 9);
    for number in 1..=20 {
        cluster.set(1, &[key(0, 2)], &[number as f32; LEN]).unwrap();
    }
    finish(&mut cluster);
    (cluster.values()[key(0, 2).index() * LEN], cluster.now_ns())
}

#[test]
fn a_partition_holds_frames_until_it_heals_and_keeps_their_order() {
    let (value, undisturbed) = sets(Faults::none());
    assert_eq!(value, 20.0);
    // The partition begins while frames are in flight, and ends long after the last one was sent.
    let healed_ns = 10 * undisturbed;
    let parted = one(undisturbed / 2, healed_ns, Fault::Partition { first: NodeId(1) });
    let (value, end) = sets(parted);
    assert_eq!(value, 20.0);
    assert!(end > healed_ns, "{end} is before {healed_ns}");
    // Only the frames that the partition held arrive after it.
    assert!(end < healed_ns + undisturbed, "{end}");
    let elsewhere = one(0, healed_ns, Fault::Isolated { node: NodeId(2) });
    assert_eq!(sets(elsewhere), (20.0, undisturbed), "both nodes are on the same side");
}

#[test]
fn slow_connections_nics_and_nodes_take_longer() {
    let (_, undisturbed) = sets(Faults::none());
    let to = |from, to| Fault::SlowConnection { from: NodeId(from), to: NodeId(to), more_ns: 500_000 };
    assert_eq!(sets(one(0, u64::MAX, to(1, 0))).1, undisturbed + 500_000);
    assert_eq!(sets(one(0, u64::MAX, to(0, 2))).1, undisturbed);
    let nic = sets(one(0, u64::MAX, Fault::SlowNic { node: NodeId(1), factor: 3 })).1;
    assert!(near(nic, 3 * undisturbed), "{nic} instead of {}", 3 * undisturbed);
    let half = sets(one(0, undisturbed / 2, Fault::SlowNic { node: NodeId(1), factor: 3 })).1;
    assert!(half > undisturbed && half <= nic, "{half}");
    let machine = Machine { input_ns: 10_000, ..Machine::infinitely_fast() };
    let pulls = |faults| {
        let mut cluster = cluster(2, 1, Delays { machine, ..plain() }, faults, 2);
        let called = cluster.pull(1, &[key(0, 0)], Wait::Later).unwrap();
        finish(&mut cluster);
        assert_eq!(cluster.take_pulled(1, called.op.unwrap()).unwrap().len(), LEN);
        cluster.now_ns()
    };
    // Node 0 handles one of the three inputs.
    let slow = one(0, u64::MAX, Fault::SlowNode { node: NodeId(0), factor: 5 });
    assert_eq!(pulls(slow) - pulls(Faults::none()), 4 * 10_000);
}

#[test]
fn no_update_is_lost_under_random_faults() {
    let (_, undisturbed) = sets(Faults::none());
    let mut slower = 0;
    for seed in 0..50 {
        let faults = Faults::random(seed, 3, undisturbed);
        assert_eq!(sets(faults.clone()), sets(faults.clone()), "equal seeds give equal runs");
        let (value, end) = sets(faults);
        assert_eq!(value, 20.0, "seed {seed}");
        slower += usize::from(end > undisturbed);
    }
    assert!(slower > 20, "only {slower} of 50 plans disturbed anything");
}

/// Four nodes on two cores: what a node works delays the other node of its core, and no other.
#[test]
fn nodes_that_share_a_core_take_turns() {
    let machine = Machine { nodes_per_core: 2, input_ns: 10_000, ..Machine::infinitely_fast() };
    let network = Network { latency: Spread::fixed(1_000), byte_ps: 0, frame_bytes: 0 };
    let mut cluster = cluster(4, 1, Delays::of(machine, network, Charge::ACTUAL), Faults::none(), 1);
    cluster.push(0, &[key(2, 0)], &[1.0; LEN]).unwrap();
    cluster.work(0, 50_000);
    cluster.work(1, 70_000);
    cluster.work(2, 50_000);
    assert_eq!([0, 1, 2, 3].map(|worker| cluster.free_ns(worker)), [50_000, 70_000, 100_000, 0]);
    // The channels of nodes 0 and 2 handle three inputs for a push: the submission, the request and the
    // answer. What the workers of this core do next is late by all of them.
    finish(&mut cluster);
    let before = cluster.now_ns();
    assert!(before < 100_000, "channels do not wait for workers: {before}");
    cluster.work(2, 1_000);
    cluster.work(3, 1_000);
    assert_eq!(cluster.free_ns(2), 100_000 + 3 * 10_000 + 1_000);
    assert_eq!(cluster.free_ns(3), 70_000 + 1_000);
    // A loader needs the core as well.
    cluster.wake_loader(0, 5_000);
    cluster.work(0, 1_000);
    assert_eq!(cluster.free_ns(0), 131_000 + 5_000 + 1_000);
}
