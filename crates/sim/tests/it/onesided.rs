//! What the network of one-sided operations promises, and what it does not.

use intendant_segment::Segment;
use intendant_sim::onesided::{Input, OneSided, OneSidedConfig, Step};
use intendant_sim::reach::Marker;
use intendant_sim::{Network, Spread};

const LATENCY_NS: u64 = 1_000;

fn config(seed: u64) -> OneSidedConfig {
    OneSidedConfig {
        network: Network { latency: Spread::fixed(LATENCY_NS), byte_ps: 1_000, frame_bytes: 0 },
        line: Spread::even(0, 300),
        hints_lost_once_in: 0,
        detect: Spread::even(1, 10_000),
        seed,
        trace: false,
    }
}

fn network(config: OneSidedConfig, nodes: usize) -> OneSided<u32> {
    let segments = (0..nodes).map(|_| Segment::new(256).expect("2 KiB")).collect();
    OneSided::new(config, segments)
}

fn words(network: &OneSided<u32>, node: usize, at: usize, count: usize) -> Vec<u64> {
    let mut words = vec![0; count];
    network.segment(node).read(at, &mut words);
    words
}

fn inputs(network: &mut OneSided<u32>, node: usize) -> Vec<Input<u32>> {
    let steps = std::iter::from_fn(|| network.next());
    steps.filter(|step| step.node == node).map(|step| step.input).collect()
}

#[test]
fn a_read_takes_a_round_trip_and_no_input_of_its_target() {
    let mut network = network(config(1), 2);
    network.segment(1).write(16, &[5; 24]);
    network.read(0, 1, 16, 64, 24, 7);
    assert_eq!(network.next(), Some(Step { node: 0, input: Input::Done(7) }));
    assert_eq!(words(&network, 0, 64, 24), [5; 24]);
    assert!(network.now_ns() >= 2 * LATENCY_NS + 2 * 24 * 8, "two latencies, and the words through two NICs");
    assert_eq!(network.next(), None);
    assert_eq!((network.load(1).0.served, network.load(1).1.served), (1, 0));
}

#[test]
fn reads_beside_stores_are_torn_and_later_ones_are_not() {
    let mut torn = 0;
    for seed in 0..50 {
        let mut network = network(config(seed), 2);
        network.read(0, 1, 0, 0, 32, 1);
        network.schedule(1, LATENCY_NS, 0);
        let step = network.next().expect("the store");
        assert_eq!((step.node, step.input), (1, Input::Own(0)));
        let before = words(&network, 1, 0, 32);
        network.segment(1).write(0, &[1; 32]);
        network.storing(1, 0, &before, 500);
        assert_eq!(network.next().map(|step| step.input), Some(Input::Done(1)));
        let image = words(&network, 0, 0, 32);
        torn += u32::from(image.contains(&0) && image.contains(&1));
        network.read(0, 1, 0, 0, 32, 2);
        assert_eq!(network.next().map(|step| step.input), Some(Input::Done(2)));
        assert_eq!(words(&network, 0, 0, 32), [1; 32], "the store was over when this read began");
    }
    assert!(torn > 10, "{torn} of 50 reads are torn");
}

#[test]
fn writes_of_a_node_and_their_hints_arrive_in_order() {
    for seed in 0..50 {
        let mut network = network(config(seed), 2);
        for value in 1..=5 {
            let place = value as usize * 16;
            network.segment(0).write(place, &[value; 16]);
            network.write(0, 1, place, 0, 16, Some(value as u32), value, value);
        }
        let mut last = 0;
        while let Some(Step { node, input }) = network.next() {
            let Input::Hint { hint, tag, from: 0, remote: 0 } = input else { continue };
            assert_eq!((node, u64::from(hint), tag), (1, last + 1, last + 1), "seed {seed}");
            // The next write has not landed: a line has a latency of its own only after the one before.
            assert_eq!(words(&network, 1, 0, 16), vec![tag; 16], "seed {seed}");
            last += 1;
        }
        assert_eq!(last, 5);
    }
}

#[test]
fn hints_of_a_busy_node_are_merged_and_can_be_lost() {
    let mut one = network(config(3), 2);
    one.schedule(1, 0, 0);
    assert!(one.next().is_some());
    one.storing(1, 0, &[0; 8], 100_000);
    for id in 0..4 {
        one.write(0, 1, 0, 64, 8, Some(9), id, 0);
    }
    let hints = inputs(&mut one, 1);
    assert!(matches!(hints[..], [Input::Hint { hint: 9, .. }]), "{hints:?}");
    assert_eq!(one.reach().count(Marker::HintMerged), 3);
    assert!(one.now_ns() >= 100_000);

    let mut lost = network(OneSidedConfig { hints_lost_once_in: 1, ..config(3) }, 2);
    lost.write(0, 1, 0, 64, 8, Some(9), 1, 0);
    assert_eq!(inputs(&mut lost, 1), []);
    assert_eq!(lost.reach().count(Marker::HintLost), 1);
}

#[test]
fn operations_on_a_released_segment_fail_and_are_noted() {
    let mut network = network(config(4), 3);
    network.release(1);
    network.read(0, 1, 0, 0, 8, 1);
    network.write(2, 1, 0, 0, 8, Some(1), 2, 0);
    let mut failed: Vec<_> = std::iter::from_fn(|| network.next()).map(|step| step.node).collect();
    failed.sort_unstable();
    assert_eq!(failed, [0, 2]);
    let mut trespasses = network.trespasses().to_vec();
    trespasses.sort_unstable();
    assert_eq!(trespasses, [(0, 1), (2, 1)]);
}

#[test]
fn the_end_of_a_node_fails_operations_on_it_and_is_told_to_all() {
    let mut inside = 0;
    for seed in 0..50 {
        let mut network = network(config(seed), 3);
        network.segment(1).write(0, &[1; 64]);
        network.read(0, 1, 0, 0, 64, 1);
        network.write(1, 2, 0, 0, 64, Some(1), 2, 0);
        network.schedule(1, LATENCY_NS + 800, 0);
        let step = network.next().expect("the end");
        assert_eq!(step.input, Input::Own(0));
        network.end(1);
        let mut seen = [Vec::new(), Vec::new(), Vec::new()];
        while let Some(Step { node, input }) = network.next() {
            if input == Input::Closed(1) {
                assert!(!network.is_landing(node, 0, 64), "nothing lands afterwards");
            }
            seen[node].push(input);
        }
        assert!(seen[0].contains(&Input::Failed { id: 1, node: 1, reason: "connection lost" }), "{seen:?}");
        assert!(seen[0].contains(&Input::Closed(1)) && seen[2].contains(&Input::Closed(1)), "{seen:?}");
        assert_eq!(seen[1], []);
        let written = words(&network, 2, 0, 64);
        inside += u32::from(written.contains(&0) && written.contains(&1));
    }
    assert!(inside > 5, "{inside} of 50 writes are executed in part");
}
