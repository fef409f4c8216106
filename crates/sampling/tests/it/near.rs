//! Local draws choose keys in proportion to probability and part, whichever keys moved before.

use crate::common::fits;
use intendant_core::{Key, Tick, random};
use intendant_sampling::{
    Conformity, Distribution, DistributionId, Locality, Manager, NearKeys, Sampler, Scheme,
};
use proptest::prelude::*;

/// A node that keeps a list of the keys that it may draw.
struct Keeps {
    near: NearKeys,
    nodes: u32,
}

impl Locality for Keeps {
    fn is_local(&self, key: Key) -> bool {
        self.part(key) > 0
    }

    fn part(&self, key: Key) -> u32 {
        self.near.parts(key).next().unwrap_or(0)
    }

    fn near(&self) -> Option<&NearKeys> {
        Some(&self.near)
    }

    fn nodes(&self) -> u32 {
        self.nodes
    }

    fn now(&self) -> Tick {
        Tick(0)
    }
}

fn keeps(distribution: Distribution, nodes: u32) -> (Manager, DistributionId, Keeps) {
    let mut builder = Sampler::builder();
    let id = builder.register_with(distribution, Conformity::Overall, Scheme::Local).unwrap();
    let sampler = builder.build();
    let near = NearKeys::new(&sampler, nodes);
    (Manager::new(sampler, 5, 0), id, Keeps { near, nodes })
}

/// Draws `samples` keys, in handles of 50. Does not count the keys that are announced because the node has
/// too few.
fn counts(manager: &Manager, id: DistributionId, place: &Keeps, keys: usize, samples: u64) -> Vec<u64> {
    let mut counts = vec![0; keys];
    for stream in 0..samples / 50 {
        let mut handle = manager.prepare(id, 50, random::stream(3, &[stream]), place).unwrap();
        let (announced, mut drawn) = (handle.ahead().count(), Vec::new());
        manager.draw(&mut handle, 50, place, &mut drawn, &mut Vec::new()).unwrap();
        drawn[announced..].iter().for_each(|key| counts[key.index()] += 1);
    }
    counts
}

const KEYS: u64 = 300;

/// Key k has a weight in proportion to 1 / (k + 1), and every seventh key has none.
fn weights() -> Vec<f64> {
    (0..KEYS).map(|key| if key % 7 == 3 { 0.0 } else { 1.0 / (key + 1) as f64 }).collect()
}

/// The part that a node has of a key after `change` changes: none of most keys, all of some, and any part of
/// others.
fn part(key: u64, change: u64, nodes: u32) -> u32 {
    let random = random::stream(change, &[key]);
    match random % 4 {
        0 | 1 => 0,
        2 => nodes,
        _ => 1 + (random >> 8) as u32 % nodes,
    }
}

#[test]
fn keys_are_drawn_in_proportion_to_probability_and_part() {
    for nodes in [2, 3, 8, 64, 255] {
        let weights = weights();
        let (manager, id, place) = keeps(Distribution::weighted(Key(0), &weights).unwrap(), nodes);
        // Keys come and go first; only the parts that the node has in the end count.
        for change in 0..20 {
            (0..KEYS).for_each(|key| place.near.set(Key(key), part(key, change, nodes)));
        }
        let weighted: Vec<f64> =
            (0..KEYS).map(|key| weights[key as usize] * f64::from(part(key, 19, nodes))).collect();
        let sum: f64 = weighted.iter().sum();
        let share = sum / weights.iter().sum::<f64>() / f64::from(nodes);
        let measured = place.near.share(id).unwrap();
        assert!((measured / share - 1.0).abs() < 1e-6, "{nodes} nodes: {measured}, and not {share}");
        let probabilities: Vec<f64> = weighted.iter().map(|weight| weight / sum).collect();
        // Keys that are expected fewer than 20 times are together one cell of the test.
        let counts = counts(&manager, id, &place, KEYS as usize, 200_000);
        let drawn: f64 = counts.iter().sum::<u64>() as f64;
        let often = |at: &usize| probabilities[*at] * drawn >= 20.0;
        let (mut cells, mut expected): (Vec<u64>, Vec<f64>) =
            (0..KEYS as usize).filter(often).map(|at| (counts[at], probabilities[at])).unzip();
        cells.push(counts.iter().sum::<u64>() - cells.iter().sum::<u64>());
        expected.push(1.0 - expected.iter().sum::<f64>());
        if expected.last().is_some_and(|rest| rest * drawn < 5.0) {
            cells.pop();
            expected.pop();
        }
        assert!(fits(&cells, &expected, 5), "{nodes} nodes: {counts:?}");
        let absent = (0..KEYS as usize).filter(|at| probabilities[*at] == 0.0);
        assert_eq!(absent.map(|at| counts[at]).sum::<u64>(), 0, "{nodes} nodes: keys that are elsewhere");
    }
}

/// Each of eight nodes draws in proportion to its share, with parts that add up to one for each key: together
/// they draw from the distribution.
#[test]
fn nodes_together_draw_from_the_distribution() {
    const NODES: u32 = 8;
    let distribution = Distribution::uniform(0..KEYS).unwrap();
    let owner = |key: u64| random::stream(1, &[key]) % u64::from(NODES);
    let mut all = vec![0; KEYS as usize];
    for node in 0..u64::from(NODES) {
        let (manager, id, place) = keeps(distribution.clone(), NODES);
        for key in 0..KEYS {
            // A third of the keys have a replica at every other node.
            let part = match (key % 3 == 0, owner(key) == node) {
                (true, _) => 1,
                (false, true) => NODES,
                (false, false) => 0,
            };
            place.near.set(Key(key), part);
        }
        let samples = 400_000.0 * place.near.share(id).unwrap();
        let of_node = counts(&manager, id, &place, KEYS as usize, samples as u64);
        all.iter_mut().zip(of_node).for_each(|(sum, count)| *sum += count);
    }
    // Announced samples are left out, so that nodes with few keys count less: compare within 5 %.
    let mean = all.iter().sum::<u64>() as f64 / KEYS as f64;
    let off = all.iter().map(|count| (*count as f64 - mean).abs()).sum::<f64>() / (mean * KEYS as f64);
    assert!(off < 0.1, "off by {off}: {all:?}");
}

/// The only thread of a simulation draws for all nodes in turn.
#[test]
fn nodes_that_share_a_thread_draw_as_if_each_had_a_new_one() {
    let all = [3, 3, 8].map(|nodes| keeps(Distribution::weighted(Key(0), &weights()).unwrap(), nodes));
    for change in 0..30 {
        for (at, (manager, id, place)) in all.iter().enumerate() {
            // The parts of a node do not change each time.
            if !(change + at as u64).is_multiple_of(3) {
                (0..KEYS).for_each(|key| place.near.set(Key(key), part(key, change, place.nodes)));
            }
            let draw = || counts(manager, *id, place, KEYS as usize, 50);
            let alone = std::thread::scope(|scope| scope.spawn(draw).join().unwrap());
            assert_eq!(draw(), alone, "node {at}, change {change}");
        }
    }
}

#[test]
fn a_node_without_keys_draws_from_the_distribution() {
    let (manager, id, place) = keeps(Distribution::weighted(Key(4), &[1.0, 0.0, 3.0]).unwrap(), 4);
    assert_eq!(place.near.share(id), Some(0.0));
    let mut handle = manager.prepare(id, 100, 1, &place).unwrap();
    // It announces all of its samples, because it has no share.
    assert_eq!(handle.ahead().count(), 100);
    let mut keys = Vec::new();
    manager.draw(&mut handle, 100, &place, &mut keys, &mut Vec::new()).unwrap();
    assert!(keys.iter().all(|key| [Key(4), Key(6)].contains(key)));
    assert_eq!(manager.stats().strayed, 0);
    // If the node has keys when the samples are prepared, and none when they are drawn, it draws keys that
    // are elsewhere.
    (4..7).for_each(|key| place.near.set(Key(key), 4));
    let mut handle = manager.prepare(id, 100, 1, &place).unwrap();
    assert_eq!(handle.ahead().count(), 0);
    (4..7).for_each(|key| place.near.set(Key(key), 0));
    keys.clear();
    manager.draw(&mut handle, 100, &place, &mut keys, &mut Vec::new()).unwrap();
    assert!(keys.len() == 100 && keys.iter().all(|key| [Key(4), Key(6)].contains(key)));
    assert_eq!(manager.stats().strayed, 100);
    // As soon as it has a key again, it draws that key.
    place.near.set(Key(4), 4);
    let mut handle = manager.prepare(id, 100, 1, &place).unwrap();
    let announced = handle.ahead().count();
    keys.clear();
    manager.draw(&mut handle, 100, &place, &mut keys, &mut Vec::new()).unwrap();
    assert!(announced < 100 && keys[announced..].iter().all(|key| *key == Key(4)));
    assert_eq!(manager.stats().strayed, 100);
}

/// A node that has only keys of nearly no probability does not search for other keys forever.
#[test]
fn improbable_keys_end_a_draw() {
    let (manager, id, place) = keeps(Distribution::weighted(Key(0), &[1.0, 1e-30]).unwrap(), 2);
    place.near.set(Key(0), 2);
    let mut handle = manager.prepare(id, 1_000, 1, &place).unwrap();
    place.near.set(Key(0), 0);
    place.near.set(Key(1), 2);
    let mut keys = Vec::new();
    manager.draw(&mut handle, 1_000, &place, &mut keys, &mut Vec::new()).unwrap();
    assert_eq!(keys.len(), 1_000);
}

proptest! {
    #[test]
    fn parts_are_those_that_were_set_last(
        nodes in 2u32..256,
        weights in prop::collection::vec(prop_oneof![Just(0.0), 1e-12..1.0f64], 1..40),
        sets in prop::collection::vec((0u64..40, 0u32..256), 0..200),
    ) {
        prop_assume!(weights.iter().any(|weight| *weight > 0.0));
        let (manager, id, place) = keeps(Distribution::weighted(Key(7), &weights).unwrap(), nodes);
        let mut parts = vec![0; weights.len()];
        for (at, part) in sets {
            let (at, part) = (at as usize % weights.len(), part % (nodes + 1));
            place.near.set(Key(7 + at as u64), part);
            parts[at] = part;
        }
        for (at, (weight, part)) in weights.iter().zip(&parts).enumerate() {
            let kept: Vec<u32> = place.near.parts(Key(7 + at as u64)).collect();
            prop_assert_eq!(kept, if *weight > 0.0 { vec![*part] } else { vec![] });
        }
        prop_assert!(place.near.parts(Key(6)).next().is_none());
        let share = place.near.share(id).unwrap();
        prop_assert!((0.0..=1.0 + 1e-6).contains(&share), "{}", share);
        if share >= 1.0 / f64::from(nodes) {
            let mut handle = manager.prepare(id, 60, 1, &place).unwrap();
            let mut keys = Vec::new();
            manager.draw(&mut handle, 60, &place, &mut keys, &mut Vec::new()).unwrap();
            prop_assert!(keys.iter().all(|key| place.part(*key) > 0));
        }
    }
}
