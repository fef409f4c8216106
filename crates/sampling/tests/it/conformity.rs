//! Which scheme offers which level [thesis Tab. 4.1], determined from samples alone. Independent sampling is
//! tested in detail: first its exact replay, then its frequencies by χ².

use crate::common::{Holds, fits, independent, keys, manager, picked};
use intendant_core::{Key, Tick, random};
use intendant_sampling::{
    Conformity, Distribution, DistributionError, Everything, Locality, Pooling, SampleError, Sampler, Scheme,
};
use proptest::prelude::*;
use rand::TryRng;
use std::convert::Infallible;
use std::num::NonZeroU32;

#[test]
fn equal_streams_replay_exactly_and_portions_do_not_matter() {
    let weighted = Distribution::weighted(Key(10), &[1.0, 2.0, 3.0]).unwrap();
    let (manager, id) = picked(weighted, Conformity::Conform);
    let whole = keys(&manager, id, 100, 7, &Everything);
    assert_eq!(whole, keys(&manager, id, 100, 7, &Everything));
    assert_ne!(whole, keys(&manager, id, 100, 8, &Everything));
    // The samples are the same, whatever happens in between, and wherever keys are.
    let nowhere = Holds(|_| false);
    let (mut handle, mut parts) = (manager.prepare(id, 100, 7, &nowhere).unwrap(), Vec::new());
    assert_eq!(handle.ahead().collect::<Vec<_>>(), whole);
    assert_eq!(handle.near().collect::<Vec<_>>(), whole);
    let mut near = Vec::new();
    for n in [1, 0, 59, 40] {
        manager.draw(&mut handle, n, &nowhere, &mut parts, &mut near).unwrap();
    }
    assert_eq!(whole, parts);
    assert!(near.is_empty());
    assert_eq!(
        manager.draw(&mut handle, 1, &nowhere, &mut parts, &mut near),
        Err(SampleError::HandleExhausted { wanted: 1, left: 0 })
    );
    assert_eq!(parts.len(), 100);
}

#[test]
fn frequencies_follow_the_distribution() {
    let weights: Vec<f64> =
        (0..200).map(|i| if i % 17 == 0 { 0.0 } else { 1.0 / f64::from(i + 1) }).collect();
    let counts: Vec<u64> = (0..200).map(|i| if i % 17 == 0 { 0 } else { 10_000 / (i + 1) }).collect();
    let normed = |weights: &[f64]| {
        let total: f64 = weights.iter().sum();
        weights.iter().map(|w| w / total).collect::<Vec<_>>()
    };
    let smoothed: Vec<f64> = counts.iter().map(|c| (*c as f64).powf(0.75)).collect();
    let cases = [
        (Distribution::uniform(5..205).unwrap(), vec![1.0 / 200.0; 200]),
        (Distribution::weighted(Key(5), &weights).unwrap(), normed(&weights)),
        (Distribution::unigram(Key(5), &counts, 0.75).unwrap(), normed(&smoothed)),
    ];
    let tests = cases.len();
    for (distribution, probabilities) in cases {
        assert_eq!(distribution.keys(), 5..205);
        let (manager, id) = picked(distribution, Conformity::Conform);
        // Many short streams, as training uses them: a flaw in seeding would show here and not in one long
        // stream.
        let mut counts = vec![0u64; 200];
        for stream in 0..40_000 {
            for key in keys(&manager, id, 5, random::stream(3, &[stream]), &Everything) {
                counts[key.index() - 5] += 1;
            }
        }
        assert!(fits(&counts, &probabilities, tests));
        // The check can fail.
        let mut shifted = probabilities.clone();
        shifted.rotate_right(1);
        assert!(probabilities[1] == probabilities[2] || !fits(&counts, &shifted, tests));
    }
}

/// Numbers at equal distances instead of random ones.
struct Even {
    at: u64,
    distance: u64,
}

impl TryRng for Even {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.try_next_u64()? >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.at = self.at.wrapping_add(self.distance);
        Ok(self.at)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.fill_with(|| self.at as u8);
        Ok(())
    }
}

proptest! {
    /// The test makes a draw for each of many equal parts of the range of random numbers. So the frequencies
    /// are the probabilities themselves.
    #[test]
    fn tables_have_the_probabilities_of_their_weights(
        weights in proptest::collection::vec(prop_oneof![
            Just(0.0), Just(1.0), 0.0..1e-12, 0.0..1.0, 0.0..1e3, Just(1e300),
        ], 1..60),
    ) {
        const DRAWS: u64 = 1 << 16;
        let largest = weights.iter().fold(0.0f64, |a, b| a.max(*b));
        prop_assume!(largest > 0.0);
        let total: f64 = weights.iter().map(|weight| weight / largest).sum();
        let distribution = Distribution::weighted(Key(7), &weights).unwrap();
        let mut counts = vec![0u64; weights.len()];
        let mut numbers = Even { at: 0, distance: u64::MAX / DRAWS };
        (0..DRAWS).for_each(|_| counts[distribution.draw(&mut numbers).index() - 7] += 1);
        for (weight, count) in weights.iter().zip(&counts) {
            let expected = weight / largest / total * DRAWS as f64;
            // Each cell has one inner border and two ends.
            let cells = 3.0 * weights.len() as f64;
            prop_assert!((*count as f64 - expected).abs() <= cells, "{count} {expected}");
            prop_assert!(*weight > 0.0 || *count == 0);
        }
    }
}

#[test]
fn bad_weights_are_named() {
    let refused = |w: &[f64]| Distribution::weighted(Key(0), w).unwrap_err();
    assert_eq!(refused(&[]), DistributionError::Empty);
    assert_eq!(refused(&[1.0, -2.0]), DistributionError::Weight { position: 1, weight: -2.0 });
    assert!(matches!(refused(&[f64::NAN]), DistributionError::Weight { position: 0, .. }));
    assert_eq!(refused(&[0.0, 0.0]), DistributionError::AllZero { keys: 2 });
    assert!(Distribution::weighted(Key(0), &[f64::MAX, f64::MAX]).is_ok());
    assert_eq!(Distribution::uniform(3..3).unwrap_err(), DistributionError::Empty);
    assert_eq!(
        Distribution::unigram(Key(0), &[0, 0], 0.75).unwrap_err(),
        DistributionError::AllZero { keys: 2 }
    );
}

#[test]
fn schemes_are_picked_named_and_refused() {
    let uniform = || Distribution::uniform(0..9).unwrap();
    for level in Conformity::ALL {
        assert!(level.scheme().offers() <= level, "{level}");
        assert_eq!(level.to_string().parse(), Ok(level));
        let (manager, id) = picked(uniform(), level);
        assert_eq!(manager.sampler().scheme(id), Ok((level, level.scheme())));
    }
    for scheme in Scheme::ALL {
        assert_eq!(scheme.to_string().parse(), Ok(scheme));
    }
    assert!("best".parse::<Scheme>().is_err() && "best".parse::<Conformity>().is_err());
    let mut builder = Sampler::builder();
    let error = builder.register_with(uniform(), Conformity::Bounded, Scheme::Local).unwrap_err();
    assert_eq!(
        error.to_string(),
        "local sampling is overall, not bounded: ask for overall, or leave the scheme to the system"
    );
    let id = builder.register(uniform(), Conformity::Conform);
    let sampler = builder.build();
    assert!(sampler.with(Conformity::Conform, Some(Scheme::ALL[1])).is_err());
    let changed = sampler.with(Conformity::NonConform, Some(Scheme::Repurposing)).unwrap();
    assert_eq!(changed.scheme(id), Ok((Conformity::NonConform, Scheme::Repurposing)));
    assert_eq!(sampler.scheme(id), Ok((Conformity::Conform, Scheme::Independent)));
    let nothing = Sampler::default();
    assert_eq!(nothing.scheme(id), Err(SampleError::UnknownDistribution { index: 0, registered: 0 }));
}

/// π over six keys. One of two nodes always holds two of the keys, and the other node holds the rest: their
/// shares are equal.
const PI: [f64; 6] = [0.3, 0.05, 0.2, 0.15, 0.1, 0.2];
const HELD: [bool; 6] = [true, false, true, false, false, false];

/// Small pools, so that tests find dependent samples quickly.
const POOLING: Pooling = Pooling { keys: NonZeroU32::new(5).unwrap(), uses: NonZeroU32::new(4).unwrap() };

/// Samples of a handle, drawn one by one.
const HANDLE: usize = 4;

/// Samples of one node in one run.
fn run(scheme: Scheme, seed: u64, node: u16, samples: usize) -> Vec<usize> {
    let (manager, id) = manager(Distribution::weighted(Key(0), &PI).unwrap(), scheme, seed, node);
    let place = Holds(|key: Key| HELD[key.index()] == (node == 0));
    // The keys that the node pulls have other frequencies.
    manager.observe(&[Key(0), Key(1), Key(1), Key(5)]);
    let mut keys = Vec::new();
    for index in 0..samples / HANDLE {
        let stream = random::stream(seed, &[u64::from(node), index as u64]);
        let mut handle = manager.prepare(id, HANDLE, stream, &place).unwrap();
        for _ in 0..HANDLE {
            manager.draw(&mut handle, 1, &place, &mut keys, &mut Vec::new()).unwrap();
        }
    }
    keys.into_iter().map(Key::index).collect()
}

/// The samples of a scheme, from which tests determine its level.
struct Evidence {
    /// Many independent runs of two nodes, a few pools long.
    runs: Vec<[Vec<usize>; 2]>,
    /// One long run of each.
    long: [Vec<usize>; 2],
}

const RUN: usize = 3 * 20;
const LONG: usize = 400_000;

impl Evidence {
    fn of(scheme: Scheme) -> Self {
        let runs = (0..4_000).map(|seed| [run(scheme, seed, 0, RUN), run(scheme, seed, 1, RUN)]).collect();
        Self { runs, long: [0, 1].map(|node| run(scheme, 77, node, LONG)) }
    }

    /// Every sample has π's probabilities, at each position of a run.
    fn each_follows_pi(&self) -> bool {
        (0..RUN).all(|i| {
            let mut counts = [0; PI.len()];
            self.runs.iter().for_each(|run| counts[run[0][i]] += 1);
            fits(&counts, &PI, RUN)
        })
    }

    /// Samples of a node that are this far apart do not depend on each other.
    fn independent_at(&self, distance: usize) -> bool {
        (0..RUN - distance).all(|i| {
            let pairs: Vec<_> = self.runs.iter().map(|run| (run[0][i], run[0][i + distance])).collect();
            independent(&pairs, &PI, RUN * RUN)
        })
    }

    /// Samples of two nodes do not depend on each other.
    fn nodes_are_independent(&self) -> bool {
        (0..RUN).all(|i| {
            let pairs: Vec<_> = self.runs.iter().map(|run| (run[0][i], run[1][i])).collect();
            independent(&pairs, &PI, RUN)
        })
    }

    /// In the long run, frequencies at these nodes approach π: they are within five standard deviations for
    /// this many samples, if each key is used `uses` times.
    fn frequencies_come_to_pi(nodes: &[Vec<usize>], uses: u32) -> bool {
        let samples = (nodes.len() * LONG) as f64;
        PI.iter().enumerate().all(|(key, p)| {
            let frequency = nodes.iter().flatten().filter(|drawn| **drawn == key).count() as f64 / samples;
            let deviation = (p * (1.0 - p) * f64::from(uses) / samples).sqrt();
            (frequency - p).abs() < 5.0 * deviation
        })
    }

    /// The definitions of [thesis §4.3.1], as far as pairs of samples show.
    fn offers(&self, level: Conformity, pooling: Pooling) -> bool {
        let bound = pooling.samples() as usize;
        match level {
            Conformity::Conform => {
                self.each_follows_pi()
                    && self.nodes_are_independent()
                    && (1..RUN).all(|distance| self.independent_at(distance))
            }
            Conformity::Bounded => {
                self.each_follows_pi()
                    && self.nodes_are_independent()
                    && (bound..RUN).all(|distance| self.independent_at(distance))
            }
            Conformity::LongTerm => self
                .long
                .iter()
                .all(|node| Self::frequencies_come_to_pi(std::slice::from_ref(node), pooling.uses.get())),
            Conformity::Overall => Self::frequencies_come_to_pi(&self.long, pooling.uses.get()),
            Conformity::NonConform => true,
        }
    }
}

/// [thesis Tab. 4.1], with a line for postponing [thesis §4.3.4] and a level for all nodes together.
#[test]
fn table_4_1() {
    for scheme in Scheme::ALL {
        let scheme = scheme.with_pooling(POOLING);
        let evidence = Evidence::of(scheme);
        for level in Conformity::ALL {
            assert_eq!(evidence.offers(level, POOLING), scheme.offers() <= level, "{scheme}: {level}");
        }
    }
}

/// The bound is tight: within it, some samples depend on each other, so the tests detect a bound that is too
/// small.
#[test]
fn samples_of_a_pool_depend_on_each_other_up_to_its_end() {
    let evidence = Evidence::of(Scheme::Reuse(POOLING));
    // The first sample of a pool and its last are the same draw in one of G cases.
    assert!(!evidence.independent_at(POOLING.samples() as usize - 1));
    assert!(evidence.independent_at(POOLING.samples() as usize));
}

/// Half the sum of absolute differences between frequencies and the uniform distribution.
fn distance_from_uniform(counts: &[u64]) -> f64 {
    let (n, p) = (counts.iter().sum::<u64>() as f64, 1.0 / counts.len() as f64);
    counts.iter().map(|count| (*count as f64 / n - p).abs()).sum::<f64>() / 2.0
}

/// One of eight nodes with equal shares of π, between which keys move while samples are drawn. Some keys have
/// copies on all nodes.
struct Moving {
    node: u64,
    step: u64,
    /// The part that a node reports of a key with copies: one eighth, if the report is correct.
    copy: u32,
}

impl Moving {
    const NODES: u64 = 8;
    const KEYS: u64 = 2_000;
    const COPIED: u64 = 16;

    /// Whether the samples of all nodes together pass the χ² test of inclusion. All nodes draw equally many.
    fn samples_fit(copy: u32) -> bool {
        let distribution = Distribution::uniform(0..Self::KEYS).unwrap();
        let mut counts = vec![0u64; Self::KEYS as usize];
        for node in 0..Self::NODES {
            let (manager, id) = manager(distribution.clone(), Scheme::Local, 5, node as u16);
            for step in 0..1_000 {
                let place = Self { node, step, copy };
                for key in keys(&manager, id, 50, random::stream(9, &[node, step]), &place) {
                    counts[key.index()] += 1;
                }
            }
        }
        fits(&counts, &vec![1.0 / Self::KEYS as f64; counts.len()], 2)
    }
}

impl Locality for Moving {
    fn is_local(&self, key: Key) -> bool {
        self.part(key) > 0
    }

    fn part(&self, key: Key) -> u32 {
        let owned = (key.0 + self.step / 50) % Self::NODES == self.node;
        if key.0 < Self::COPIED {
            self.copy
        } else if owned {
            Self::NODES as u32
        } else {
            0
        }
    }

    fn nodes(&self) -> u32 {
        Self::NODES as u32
    }

    fn now(&self) -> Tick {
        Tick(0)
    }
}

#[test]
fn inclusion_over_a_cluster_passes_the_chi_squared_test() {
    assert!(Moving::samples_fit(1));
    assert!(!Moving::samples_fit(Moving::NODES as u32), "copies that count as whole keys");
}

/// A node of a cluster in which the most frequent keys have replicas on all nodes.
struct Member {
    node: u64,
    /// The part that a node reports of a key with replicas.
    replica: u32,
}

impl Member {
    const NODES: u64 = 8;
    const KEYS: u64 = 2_000;
    const REPLICATED: u64 = 20;

    /// Over all nodes, half the sum of absolute differences between frequencies and π.
    fn distance(distribution: &Distribution, probabilities: &[f64], replica: u32) -> f64 {
        let mut counts = vec![0u64; probabilities.len()];
        for node in 0..Self::NODES {
            let (manager, id) = manager(distribution.clone(), Scheme::Local, 5, node as u16);
            let place = Self { node, replica };
            for batch in 0..2_000 {
                for key in keys(&manager, id, 50, random::stream(9, &[node, batch]), &place) {
                    counts[key.index()] += 1;
                }
            }
        }
        let n = counts.iter().sum::<u64>() as f64;
        let differences = counts.iter().zip(probabilities).map(|(count, p)| (*count as f64 / n - p).abs());
        differences.sum::<f64>() / 2.0
    }
}

impl Locality for Member {
    fn is_local(&self, key: Key) -> bool {
        self.part(key) > 0
    }

    fn part(&self, key: Key) -> u32 {
        let replicated = key.0 < Self::REPLICATED;
        // A quarter of the main copies of hot keys is at the first node.
        let owner = if key.0.is_multiple_of(4) { 0 } else { random::stream(4, &[key.0]) % Self::NODES };
        match (replicated, owner == self.node) {
            (false, true) => Self::NODES as u32,
            (false, false) => 0,
            (true, true) => (Self::NODES as u32).saturating_sub(7 * self.replica).max(self.replica),
            (true, false) => self.replica,
        }
    }

    fn nodes(&self) -> u32 {
        Self::NODES as u32
    }

    fn now(&self) -> Tick {
        Tick(0)
    }
}

/// Hot keys have replicas on all nodes, and some nodes own more than others: the cluster draws each key about
/// as often as π says. It would not if nodes counted a replica as a whole key, or not at all.
#[test]
fn local_samples_of_all_nodes_follow_the_distribution() {
    let weights: Vec<f64> = (0..Member::KEYS).map(|key| 1.0 / (key + 1) as f64).collect();
    let distribution = Distribution::weighted(Key(0), &weights).unwrap();
    let total: f64 = weights.iter().sum();
    let probabilities: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
    let [none, one, whole] = [0, 1, 8].map(|part| Member::distance(&distribution, &probabilities, part));
    assert!(one < 0.12, "parts of replicas: {one}");
    assert!(none > 1.5 * one && whole > 2.0 * one, "{none}, {one}, {whole}");
}

/// The example of the crate's documentation: four nodes, uniform π.
#[test]
fn the_bias_of_local_sampling() {
    const KEYS: u64 = 400;
    const NODES: u64 = 4;
    let frequencies = |node: u64, moves: bool| {
        let (manager, id) = manager(Distribution::uniform(0..KEYS).unwrap(), Scheme::Local, 5, node as u16);
        let mut counts = vec![0u64; KEYS as usize];
        for round in 0..2_000 {
            let epoch = if moves { round } else { 0 };
            // Each node holds a quarter of the keys, a different one in each epoch.
            let place = Holds(|key: Key| random::stream(epoch, &[key.0]) % NODES == node);
            for key in keys(&manager, id, 50, random::stream(9, &[node, round]), &place) {
                counts[key.index()] += 1;
            }
        }
        counts
    };
    let apart: Vec<Vec<u64>> = (0..NODES).map(|node| frequencies(node, false)).collect();
    for counts in &apart {
        let off = distance_from_uniform(counts);
        assert!((off - 0.75).abs() < 0.06, "a node that keeps its keys is off by {off}");
    }
    let together: Vec<u64> =
        (0..KEYS as usize).map(|key| apart.iter().map(|counts| counts[key]).sum()).collect();
    let off = distance_from_uniform(&together);
    assert!(off < 0.06, "all nodes together are off by {off}");
    let off = distance_from_uniform(&frequencies(0, true));
    assert!(off < 0.06, "a node whose keys move is off by {off}");
}
