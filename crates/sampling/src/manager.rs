//! The sampling manager of a node: prepares samples, and chooses their keys.

use crate::handle::Source;
use crate::pools::{PoolCounts, Pools};
use crate::recent::Recent;
use crate::share::{self, Looks, Share};
use crate::{Distribution, DistributionId, Handle, Locality, SampleError, Sampler, Scheme};
use intendant_core::{Key, Shown, lock, random, statistics};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Independent draws, per node, before local sampling gives up. If the nodes have equal shares of the
/// distribution, all of them miss with probability (1 − 1/N)^(16 N), which is less than e⁻¹⁶.
const LOCAL_DRAWS: u32 = 16;

/// How many keys are drawn before the node looks at the first of them, at most.
const BLOCK: usize = 64;

statistics! {
    /// What sampling did on a node.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    SamplingStats {
        /// Samples drawn.
        drawn: u64 => Shown::count("intendant_samples_total", "samples"),
        /// Pools of samples made.
        pools: u64 => Shown::count("intendant_sample_pools_total", "pools"),
        /// Part of the pools: those that were made only when a sample was needed, so that none of their keys
        /// could be moved ahead.
        late_pools: u64 => Shown::count("intendant_late_sample_pools_total", "pools"),
        /// Samples that were moved to the end of their handle because they were not local; only with
        /// `postponing`.
        postponed: u64 => Shown::count("intendant_postponed_samples_total", "samples"),
        /// Samples that were not local when they were drawn; with `local`, also those that had left the node
        /// before they were used, and were skipped. Only with `postponing` and `local`.
        strayed: u64 => Shown::count("intendant_strayed_samples_total", "samples"),
    }
}

/// The sampling manager of a node, for all of its workers and the threads that prepare their batches [thesis
/// §4.3.4].
///
/// It moves no key itself: [`Handle::near`] and [`Manager::draw`] say which should be moved.
pub struct Manager {
    sampler: Sampler,
    /// Per distribution, what its scheme remembers.
    memories: Vec<Memory>,
    /// Whether a scheme uses the keys that are pulled directly.
    observes: bool,
    /// Whether all schemes draw among the keys that are here.
    draws_near: bool,
    drawn: AtomicU64,
    postponed: AtomicU64,
    strayed: AtomicU64,
}

enum Memory {
    Nothing,
    Pools(Mutex<Pools>),
    Recent(Mutex<Recent>),
    Share(Share),
}

impl Manager {
    /// The manager of node `node`. What it draws for pools depends on `seed` and `node`.
    #[must_use]
    pub fn new(sampler: Sampler, seed: u64, node: u16) -> Self {
        let memory = |(index, entry): (usize, &crate::sampler::Registered)| match entry.scheme {
            Scheme::Reuse(pooling) | Scheme::Postponing(pooling) => {
                let stream = random::stream(seed, &[u64::from(node), index as u64]);
                Memory::Pools(Mutex::new(Pools::new(entry.distribution.clone(), pooling, stream)))
            }
            Scheme::Repurposing => Memory::Recent(Mutex::new(Recent::new(entry.distribution.keys()))),
            Scheme::Local => Memory::Share(Share::default()),
            Scheme::Independent => Memory::Nothing,
        };
        let memories: Vec<_> = sampler.entries().iter().enumerate().map(memory).collect();
        let observes = memories.iter().any(|memory| matches!(memory, Memory::Recent(_)));
        let mut schemes = memories.iter().map(|memory| matches!(memory, Memory::Share(_)));
        let draws_near = !memories.is_empty() && schemes.all(|local| local);
        let [drawn, postponed, strayed] = [const { AtomicU64::new(0) }; 3];
        Self { sampler, memories, observes, draws_near, drawn, postponed, strayed }
    }

    /// The registered distributions.
    pub fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// What sampling did so far.
    pub fn stats(&self) -> SamplingStats {
        let mut pools = PoolCounts::default();
        for memory in &self.memories {
            if let Memory::Pools(of_one) = memory {
                let counts = lock(of_one).counts();
                pools.made += counts.made;
                pools.late += counts.late;
            }
        }
        SamplingStats {
            drawn: self.drawn.load(Ordering::Relaxed),
            pools: pools.made,
            late_pools: pools.late,
            postponed: self.postponed.load(Ordering::Relaxed),
            strayed: self.strayed.load(Ordering::Relaxed),
        }
    }

    /// Prepares `samples` samples (`prepare_sample` of [thesis §4.3.3]); returns at once. `stream` names the
    /// randomness, e.g. [`intendant_core::random::stream`] of seed, epoch and example; with
    /// [`Scheme::Independent`] equal streams give equal samples in every run.
    ///
    /// # Errors
    /// If the distribution is not registered here.
    #[inline(never)]
    pub fn prepare<L: Locality>(
        &self,
        id: DistributionId,
        samples: usize,
        stream: u64,
        place: &L,
    ) -> Result<Handle, SampleError> {
        let entry = self.sampler.entry(id)?;
        let mut later = Vec::new();
        let rng = || Pcg64Mcg::seed_from_u64(stream);
        let independent = || Source::Chosen(entry.distribution.draw_all(&mut rng(), samples));
        let source = match (entry.scheme, &self.memories[id.index()]) {
            (Scheme::Independent, _) => independent(),
            // A node that is alone has all keys.
            (Scheme::Local, _) if place.nodes() == 1 => independent(),
            (Scheme::Reuse(_) | Scheme::Postponing(_), Memory::Pools(pools)) => {
                let mut keys = VecDeque::with_capacity(samples);
                lock(pools).take(samples, place, &mut keys, &mut later);
                match entry.scheme {
                    Scheme::Postponing(_) => Source::Postponing { keys, fresh: samples },
                    Scheme::Independent | Scheme::Reuse(_) | Scheme::Local | Scheme::Repurposing => {
                        Source::Chosen(keys)
                    }
                }
            }
            (Scheme::Local, Memory::Share(share)) => {
                let (mut rng, nodes) = (rng(), place.nodes());
                let near = place.near().and_then(|near| near.of(id));
                let elsewhere = match near {
                    Some(near) => share::elsewhere(near.share(), nodes),
                    None => share.elsewhere(nodes),
                };
                let many = if elsewhere > 0.0 {
                    (0..samples).filter(|_| rng.random_bool(elsewhere)).count()
                } else {
                    0
                };
                let chosen = entry.distribution.draw_all(&mut rng, many);
                if near.is_none() {
                    let is_accepted = |key: &&Key| accepts(place.part(**key), nodes, &mut rng);
                    let accepted = chosen.iter().filter(is_accepted).count() as u32;
                    share.record(Looks { all: many as u32, accepted }, nodes);
                }
                Source::Local { chosen, left: samples - many, rng }
            }
            (Scheme::Repurposing, _) => Source::Repurposing { left: samples, rng: rng() },
            (Scheme::Reuse(_) | Scheme::Postponing(_) | Scheme::Local, _) => {
                unreachable!("a distribution has what its scheme remembers")
            }
        };
        Ok(Handle { distribution: id, source, later })
    }

    /// Appends the next `samples` keys of `handle` to `keys`, right before they are pulled, and to `near` the
    /// keys that should be moved here because of it.
    ///
    /// # Errors
    /// If fewer are left, or the handle's distribution is not registered here; then nothing is drawn.
    #[inline(never)]
    pub fn draw<L: Locality>(
        &self,
        handle: &mut Handle,
        samples: usize,
        place: &L,
        keys: &mut Vec<Key>,
        near: &mut Vec<Key>,
    ) -> Result<(), SampleError> {
        let entry = self.sampler.entry(handle.distribution)?;
        let left = handle.left();
        if samples > left {
            return Err(SampleError::HandleExhausted { wanted: samples, left });
        }
        self.drawn.fetch_add(samples as u64, Ordering::Relaxed);
        match &mut handle.source {
            Source::Chosen(chosen) => take(chosen, samples, keys),
            Source::Postponing { keys: chosen, fresh } => {
                self.draw_postponing(chosen, fresh, samples, place, keys, near);
            }
            Source::Local { chosen, left, rng } => {
                let Memory::Share(share) = &self.memories[handle.distribution.index()] else {
                    unreachable!("a distribution that is drawn locally remembers the share of its node")
                };
                let before = keys.len();
                take(chosen, samples.min(chosen.len()), keys);
                let more = samples - (keys.len() - before);
                *left -= more;
                if let Some(near) = place.near().and_then(|near| near.of(handle.distribution)) {
                    near.draw(rng, more, keys);
                    // No key is here of those that the distribution draws.
                    let missing = samples - (keys.len() - before);
                    keys.extend((0..missing).map(|_| entry.distribution.draw(rng)));
                    if missing > 0 {
                        self.strayed.fetch_add(missing as u64, Ordering::Relaxed);
                    }
                    return Ok(());
                }
                let mut looks = Looks::default();
                self.draw_local(&entry.distribution, rng, place, more, keys, &mut looks);
                share.record(looks, place.nodes());
            }
            Source::Repurposing { left, rng } => {
                *left -= samples;
                let Memory::Recent(recent) = &self.memories[handle.distribution.index()] else {
                    unreachable!("a distribution that repurposes remembers pulls")
                };
                let recent = lock(recent);
                keys.extend((0..samples).map(|_| {
                    // At the start of a run nothing was pulled yet.
                    recent.draw(rng).unwrap_or_else(|| entry.distribution.draw(rng))
                }));
            }
        }
        Ok(())
    }

    /// Moves samples that are not here to the end of the handle, each once at most. So every sample is used
    /// at some point, with the right frequency.
    fn draw_postponing(
        &self,
        chosen: &mut VecDeque<Key>,
        fresh: &mut usize,
        samples: usize,
        place: &impl Locality,
        keys: &mut Vec<Key>,
        near: &mut Vec<Key>,
    ) {
        let mut wanted = samples;
        while wanted > 0 {
            let Some(key) = chosen.pop_front() else {
                unreachable!("as many are left as are wanted");
            };
            let here = place.is_local(key);
            if *fresh > 0 {
                *fresh -= 1;
                if !here {
                    chosen.push_back(key);
                    near.push(key);
                    self.postponed.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
            }
            self.strayed.fetch_add(u64::from(!here), Ordering::Relaxed);
            keys.push(key);
            wanted -= 1;
        }
    }

    /// Appends samples to `keys`: of each, the first of some independent draws that this node accepts; if it
    /// accepts none, the last draw. It accepts a key in proportion to its part of the key. That leaves π's
    /// proportions among the keys that are here, and over all nodes.
    ///
    /// If every copy counted as much as a main copy, hot keys, which have replicas on all nodes, would be
    /// drawn up to N times as often as π says. If main copies alone counted, the node that owns most hot keys
    /// would draw each of them too rarely. [`Share`] is for nodes that have few keys nevertheless.
    fn draw_local(
        &self,
        distribution: &Distribution,
        rng: &mut Pcg64Mcg,
        place: &impl Locality,
        samples: usize,
        keys: &mut Vec<Key>,
        looks: &mut Looks,
    ) {
        // Keys are drawn, looked up and accepted by the block: the memory accesses of a block overlap, and
        // there is no branch for each key, which no processor could predict. Keys that are accepted beyond
        // those that are wanted are thrown away. That has no influence on the others, which come first.
        let nodes = place.nodes();
        let (mut block, mut parts) = ([Key(0); BLOCK], [0; BLOCK]);
        let (end, mut rejected) = (keys.len() + samples, 0);
        while keys.len() < end {
            let wanted = end - keys.len();
            // A node accepts one of N draws, if it has its share.
            let drawn = wanted.saturating_mul(nodes as usize).min(BLOCK);
            let (block, parts) = (&mut block[..drawn], &mut parts[..drawn]);
            distribution.fill(rng, block);
            place.find_parts(block, parts);
            let accepted = accept(block, parts, nodes, rng);
            (looks.all, looks.accepted) = (looks.all + drawn as u32, looks.accepted + accepted as u32);
            keys.extend_from_slice(&block[..accepted.min(wanted)]);
            rejected = if accepted > 0 { 0 } else { rejected + drawn as u32 };
            if rejected >= LOCAL_DRAWS * nodes {
                rejected = 0;
                self.strayed.fetch_add(1, Ordering::Relaxed);
                keys.push(distribution.draw(rng));
            }
        }
    }

    /// Whether samples are the keys that are here when they are drawn, with every distribution. One that has
    /// left before it is used need not be used, but counted ([`Manager::count_strayed`]).
    #[inline]
    pub fn draws_near(&self) -> bool {
        self.draws_near
    }

    /// Counts samples that had left when they were to be used.
    pub fn count_strayed(&self, samples: u64) {
        self.strayed.fetch_add(samples, Ordering::Relaxed);
    }

    /// Whether to call [`Manager::observe`] for direct accesses.
    #[inline]
    pub fn observes(&self) -> bool {
        self.observes
    }

    /// `keys` were pulled, not as samples: [`Scheme::Repurposing`] chooses among the latest of them.
    pub fn observe(&self, keys: &[Key]) {
        for memory in &self.memories {
            if let Memory::Recent(recent) = memory {
                lock(recent).add(keys);
            }
        }
    }
}

/// Moves the first `samples` keys of `chosen` to the end of `keys`. (A function by itself, compiled here: its
/// callers are compiled with others.)
#[inline(never)]
fn take(chosen: &mut VecDeque<Key>, samples: usize, keys: &mut Vec<Key>) {
    let (front, back) = chosen.as_slices();
    let of_front = samples.min(front.len());
    keys.extend_from_slice(&front[..of_front]);
    keys.extend_from_slice(&back[..samples - of_front]);
    chosen.drain(..samples);
}

/// Whether a node with `part` of `nodes` parts of a key draws it locally, now that it is the next independent
/// draw.
#[inline]
fn accepts(part: u32, nodes: u32, rng: &mut Pcg64Mcg) -> bool {
    let nth = (u64::from(rng.next_u32()) * u64::from(nodes)) >> 32;
    nth < u64::from(part)
}

/// Moves the keys of a block that a node accepts to its front; their number. `parts` are those of the keys.
#[inline(never)]
fn accept(block: &mut [Key], parts: &[u32], nodes: u32, rng: &mut Pcg64Mcg) -> usize {
    let mut accepted = 0;
    for (at, part) in parts.iter().enumerate() {
        block[accepted] = block[at];
        accepted += usize::from(accepts(*part, nodes, rng));
    }
    accepted
}
