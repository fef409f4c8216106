//! Intents: the cost for a worker of announcing the keys that it will use, and what its node does about them.

use crate::announce::Announcer;
use crate::error::BenchError;
use crate::measure::{Spent, Spread};
use crate::pair::Pair;
use crate::row::Row;
use crate::settings::Settings;
use intendant::{Element, ManagementStats};

const LIST: &str = "appending the keys to a list (ratio of the worker's CPU time)";

pub(crate) fn rows<E: Element>(settings: &Settings, pair: &mut Pair<E>) -> Result<Vec<Row>, BenchError> {
    let mut announcer = Announcer::new(settings, pair);
    let one = row(settings, pair, &mut announcer, "intent", false)?;
    Ok(vec![one, row(settings, pair, &mut announcer, "intent-both", true)?])
}

/// A turn of the limit and one of the measurement, at the first node.
struct Round {
    limit: Spent,
    ours: Spent,
    /// CPU time of the node's other threads, per key announced.
    node_cpu_ns: f64,
    /// Keys announced per second, while they are also used.
    keys_per_s: f64,
}

fn row<E: Element>(
    settings: &Settings,
    pair: &mut Pair<E>,
    announcer: &mut Announcer<E>,
    op: &str,
    both: bool,
) -> Result<Row, BenchError> {
    let (time, batch) = (settings.turn(), settings.batch as f64);
    let mut ours = |pair: &mut Pair<E>| {
        pair.turn(|pair| if both || pair.is_first() { announcer.work(&mut pair.worker, time) } else { Ok(0) })
            .map(|loads| (loads, announcer.spent, announcer.append(time)))
    };
    // By the end of this turn, keys that no other worker wants are here.
    ours(pair)?;
    let before = pair.node.management()?;
    let (mut rounds, mut announced) = (Vec::new(), 0.0);
    for _ in 0..settings.rounds {
        let (loads, spent, (batches, limit)) = ours(pair)?;
        let load = loads.0[0];
        let keys = load.calls * batch;
        announced += keys;
        let per_key =
            |spent: Spent, keys: f64| Spent { wall_ns: spent.wall_ns / keys, cpu_ns: spent.cpu_ns / keys };
        rounds.push(Round {
            limit: per_key(limit, batches as f64 * batch),
            ours: per_key(spent, keys),
            node_cpu_ns: (load.cpu_ns - load.worker_cpu_ns).max(0.0) / keys,
            keys_per_s: keys / load.wall_ns * 1e9,
        });
    }
    let managed = pair.node.management()?.since(&before);
    let mut row = Row::new(settings, op, LIST);
    let median = |of: fn(&Round) -> f64| Spread::of(rounds.iter().map(of)).median;
    row.wall_ns_per_key = median(|round| round.ours.wall_ns);
    row.cpu_ns_per_key = median(|round| round.ours.cpu_ns);
    row.limit_wall_ns_per_key = median(|round| round.limit.wall_ns);
    row.limit_cpu_ns_per_key = median(|round| round.limit.cpu_ns);
    row.set_ratio(rounds.iter().map(|round| round.ours.cpu_ns / round.limit.cpu_ns));
    row.keys_per_s = median(|round| round.keys_per_s);
    row.more.insert("node_cpu_ns_per_key", median(|round| round.node_cpu_ns));
    let share = |of: fn(&ManagementStats) -> u64| of(&managed) as f64 / announced;
    row.more.insert("acted_share", share(|managed| managed.intents));
    row.more.insert("relocated_share", share(|managed| managed.relocations));
    row.more.insert("replicated_share", share(|managed| managed.replica_setups));
    Ok(row)
}
