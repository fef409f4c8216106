//! Draws local samples again and again, at a node that keeps its share of the keys: `draws PATH NODES CALLS`,
//! where PATH is `uniform` or `skewed`, the distribution of the samples. Each call prepares and draws
//! [`BATCH`] samples. Everything runs in one thread and is the same in each run, so that the instructions of
//! a call can be counted: `cargo xtask instructions` subtracts those of two runs with different numbers of
//! calls.

use intendant_core::random::stream;
use intendant_core::{Key, Tick};
use intendant_sampling::{
    Conformity, Distribution, DistributionId, Locality, Manager, NearKeys, Sampler, Scheme,
};
use std::error::Error;

const KEYS: u64 = 100_000;
/// Samples of a call.
const BATCH: usize = 128;
const SEED: u64 = 7;

/// A node that owns every N-th key, for N nodes, and has no replicas.
struct Share {
    nodes: u32,
    near: NearKeys,
}

impl Share {
    fn new(sampler: &Sampler, nodes: u32) -> Self {
        let near = NearKeys::new(sampler, nodes);
        (0..KEYS).step_by(nodes as usize).for_each(|key| near.set(Key(key), nodes));
        Self { nodes, near }
    }
}

impl Locality for Share {
    fn is_local(&self, key: Key) -> bool {
        self.part(key) > 0
    }

    fn part(&self, key: Key) -> u32 {
        if key.0.is_multiple_of(u64::from(self.nodes)) { self.nodes } else { 0 }
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

fn distribution(path: &str) -> Result<Distribution, Box<dyn Error>> {
    match path {
        "uniform" => Ok(Distribution::uniform(0..KEYS)?),
        // Counts follow Zipf's law, in a random order: the keys that the node owns are as frequent as any
        // others.
        "skewed" => {
            let count = |key| KEYS / (1 + stream(SEED, &[key]) % KEYS);
            Ok(Distribution::unigram(Key(0), &(0..KEYS).map(count).collect::<Vec<_>>(), 0.75)?)
        }
        _ => Err(format!("there is no path '{path}'").into()),
    }
}

fn draw(
    manager: &Manager,
    id: DistributionId,
    call: u64,
    place: &Share,
    keys: &mut Vec<Key>,
) -> Result<(), Box<dyn Error>> {
    keys.clear();
    let mut handle = manager.prepare(id, BATCH, stream(SEED, &[call]), place)?;
    manager.draw(&mut handle, BATCH, place, keys, &mut Vec::new())?;
    let elsewhere = keys.iter().filter(|key| !place.is_local(**key)).count();
    // A node that has its share draws nearly all samples locally.
    if keys.len() != BATCH || elsewhere > BATCH / 2 {
        return Err(format!("{} samples, {elsewhere} of them elsewhere", keys.len()).into());
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, nodes, calls] = &arguments[..] else {
        return Err("usage: draws PATH NODES CALLS".into());
    };
    let mut builder = Sampler::builder();
    let id = builder.register_with(distribution(path)?, Conformity::Overall, Scheme::Local)?;
    let sampler = builder.build();
    let place = Share::new(&sampler, nodes.parse()?);
    let manager = Manager::new(sampler, SEED, 0);
    let mut keys = Vec::with_capacity(BATCH);
    (0..calls.parse()?).try_for_each(|call| draw(&manager, id, call, &place, &mut keys))
}
