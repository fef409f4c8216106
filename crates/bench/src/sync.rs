//! Static replicas: the cost of synchronising the replicas of two processes.
//!
//! In a round, each node adds to some keys, and then all copies get the updates of both nodes.

use crate::error::BenchError;
use crate::keys::distinct;
use crate::limit::Plain;
use crate::measure::{Spread, micros, now, quantile};
use crate::pair::{Loads, Pair};
use crate::row::Row;
use crate::settings::Settings;
use intendant::{Assignment, Element, Key, NodeConfig, StaticReplicaPace};

const EXCHANGE: &str = "exchange of the same bytes, after a plain add and before a plain add of what came";

/// The update of each element. Much smaller updates would not change the elements, and copies that did not
/// change need no synchronisation.
const STEP: f64 = 0.25;

/// Sets of keys that take turns in rounds in which a node does not add to all keys.
const SETS: usize = 64;

/// All keys have static replicas, which are synchronised when workers ask.
pub(crate) fn configure<E: Element>(config: &mut NodeConfig<E>) {
    config.cluster.replication.assignment = Assignment::all();
    config.cluster.replication.pace = StaticReplicaPace::Asked;
}

pub(crate) fn rows<E: Element>(settings: &Settings, pair: &mut Pair<E>) -> Result<Vec<Row>, BenchError> {
    let few = row(settings, pair, "round", settings.batch)?;
    Ok(vec![few, row(settings, pair, "round-of-all", settings.keys as usize)?])
}

fn row<E: Element>(
    settings: &Settings,
    pair: &mut Pair<E>,
    op: &str,
    batch: usize,
) -> Result<Row, BenchError> {
    let time = settings.turn();
    let sets = if batch == settings.keys as usize { 1 } else { SETS };
    let seed = 17 + u64::from(pair.node.rank().0);
    let mut adder = Adder {
        sets: (0..sets as u64)
            .map(|set| distinct(settings.dist, settings.keys, batch, seed + 2 * set))
            .collect(),
        steps: [STEP, -STEP].map(|step| vec![E::from_f64(step); batch * settings.len]),
        begun: 0,
    };
    let mut plain = Plain::new(settings.keys, settings.len);
    let before = pair.node.management()?;
    // The nodes determine once how many rounds fit into a turn. Both get the same number.
    let first = pair.turn(|pair| adder.ours(pair, 2, &mut Vec::new()))?;
    let count = |loads: &Loads| {
        let wall_ns = loads.wall_ns() / loads.0[0].calls;
        (time.as_nanos() as f64 / wall_ns).clamp(1.0, 1e9) as usize
    };
    let ours_count = count(&first);
    let sizes = pair.turn(|pair| adder.ours(pair, ours_count, &mut Vec::new()))?;
    let bytes = [0, 1].map(|node| sizes.bytes_per_call(node));
    let own = usize::from(!pair.is_first());
    let (send, receive) = (bytes[own], bytes[1 - own]);
    let first = pair.turn(|pair| adder.limit(pair, &mut plain, 2, send, receive))?;
    let limit_count = count(&first);
    pair.turn(|pair| adder.limit(pair, &mut plain, limit_count, send, receive))?;
    let (mut rounds, mut times) = (Vec::new(), Vec::new());
    for _ in 0..settings.rounds {
        let limit = pair.turn(|pair| adder.limit(pair, &mut plain, limit_count, send, receive))?;
        rounds.push((limit, pair.turn(|pair| adder.ours(pair, ours_count, &mut times))?));
    }
    let spent = pair.node.management()?.since(&before);
    let expected = ((settings.rounds + 1) * ours_count + 2) as u64;
    if spent.sync_rounds < expected || spent.synced_keys < expected * batch as u64 {
        return Err(BenchError::Other(format!(
            "{} keys were brought in step in {} rounds, but there should have been {expected} rounds of {batch} keys or more",
            spent.synced_keys, spent.sync_rounds
        )));
    }

    let mut row = Row::new(settings, op, pair.raw.limit(EXCHANGE));
    row.batch = batch;
    let median = |of: &dyn Fn(&(Loads, Loads)) -> f64| Spread::of(rounds.iter().map(of)).median;
    let wall = |loads: &Loads| loads.wall_ns() / (loads.0[0].calls * batch as f64);
    // CPU time is that of both processes, so it is divided by the keys of both.
    let cpu = |loads: &Loads| loads.cpu_ns() / (2.0 * loads.0[0].calls * batch as f64);
    row.wall_ns_per_key = median(&|(_, ours)| wall(ours));
    row.limit_wall_ns_per_key = median(&|(limit, _)| wall(limit));
    row.cpu_ns_per_key = median(&|(_, ours)| cpu(ours));
    row.limit_cpu_ns_per_key = median(&|(limit, _)| cpu(limit));
    row.set_ratio(rounds.iter().map(|(limit, ours)| wall(ours) / wall(limit)));
    row.keys_per_s = 1e9 / row.wall_ns_per_key;
    times.sort_by(f64::total_cmp);
    (row.p50_us, row.p99_us) = (quantile(&times, 0.5), quantile(&times, 0.99));
    row.more.insert("bytes_per_key", bytes[0] as f64 / batch as f64);
    Ok(row)
}

/// The updates of a node's worker.
struct Adder<E> {
    sets: Vec<Vec<Key>>,
    /// The update up, and the update down again.
    steps: [Vec<E>; 2],
    /// Rounds so far.
    begun: usize,
}

impl<E: Element> Adder<E> {
    /// The keys and the updates of the next round. When all sets have had their turn, the updates are taken
    /// back, so that values stay small.
    fn next(&mut self) -> (&[Key], &[E]) {
        let (set, cycle) = (self.begun % self.sets.len(), self.begun / self.sets.len());
        self.begun += 1;
        (&self.sets[set], &self.steps[cycle % 2])
    }

    /// Runs rounds. Appends the times of synchronisation to `times`.
    fn ours(&mut self, pair: &mut Pair<E>, rounds: usize, times: &mut Vec<f64>) -> Result<u64, BenchError> {
        for _ in 0..rounds {
            let (keys, values) = self.next();
            pair.worker.push(keys, values)?;
            let start = now();
            pair.worker.synchronize()?;
            times.push(micros(start.elapsed()));
        }
        Ok(rounds as u64)
    }

    fn limit(
        &self,
        pair: &mut Pair<E>,
        plain: &mut Plain<E>,
        rounds: usize,
        send: usize,
        receive: usize,
    ) -> Result<u64, BenchError> {
        for keys in self.sets.iter().cycle().take(rounds) {
            plain.add(keys, &self.steps[0]);
            pair.raw.exchange(send, receive)?;
            plain.add(keys, &self.steps[1]);
        }
        Ok(rounds as u64)
    }
}
