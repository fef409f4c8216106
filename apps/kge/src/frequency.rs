//! How often keys are accessed in an epoch, according to the triples.
//!
//! A batch accesses each of its entities and relations once, and each sample as often as it is drawn. The
//! triples of a batch and the samples differ from epoch to epoch; numbers of accesses are averages over all
//! orders and all samples. With a hundred negatives for each side of a triple, almost all accesses are
//! uniform samples, and hardly any key is accessed much more often than the mean; the uses show which keys
//! are popular in the graph. If each score is a step of its own, the accesses show it as well.

use crate::cluster::Clusters;
use crate::config::{Config, Loss};
use crate::data::{Dataset, Triple};
use intendant_core::Key;
use intendant_task::{Frequency, expected_batches};

/// Counts of a key.
#[derive(Clone, Copy, Default)]
struct Count {
    accesses: f64,
    uses: u64,
    /// Nodes that train triples with it.
    nodes: u32,
}

/// Frequencies of all keys that are accessed at all, if `nodes` nodes train. `relations` are the first keys
/// of the relations and of their reciprocals.
pub(crate) fn frequencies(
    data: &Dataset,
    config: &Config,
    (clusters, nodes): (Option<&Clusters>, u32),
    relations: (u64, Option<u64>),
) -> Vec<Frequency> {
    let (entities, batch) = (data.entities.len(), config.batch as u64);
    let mut counts = vec![Count::default(); entities + data.relations.len()];
    let mut uses = vec![0; counts.len()];
    let mut samples = 0;
    // Each score of a triple reads the triple's keys again, except the one that is replaced.
    let again = if config.separate { config.negatives as f64 } else { 0.0 };
    let mut add = |triples: &mut dyn Iterator<Item = &Triple>| {
        uses.fill(0);
        let mut examples = 0;
        for triple in triples {
            examples += 1;
            uses[triple.subject as usize] += 1;
            if triple.object != triple.subject {
                uses[triple.object as usize] += 1;
            }
            uses[entities + triple.relation as usize] += 1;
            counts[triple.subject as usize].accesses += again;
            counts[triple.object as usize].accesses += again;
            counts[entities + triple.relation as usize].accesses += 2.0 * again;
        }
        for (count, uses) in counts.iter_mut().zip(&uses).filter(|(_, uses)| **uses > 0) {
            count.accesses += expected_batches(examples, batch, *uses);
            count.uses += *uses;
            count.nodes += 1;
        }
        samples += config.negatives as u64
            * match config.loss {
                Loss::Softmax => examples.div_ceil(batch),
                Loss::Logistic => 2 * examples,
            };
    };
    match clusters {
        None => add(&mut data.train.iter()),
        Some(clusters) => (0..nodes).for_each(|node| {
            add(&mut clusters.triples(node).iter().map(|number| &data.train[*number as usize]));
        }),
    }

    let of_each = samples as f64 / entities as f64;
    let (of_entities, of_relations) = counts.split_at(entities);
    let of_entities = (0..).zip(of_entities).map(|(key, count)| Frequency {
        key: Key(key),
        accesses: count.accesses + of_each,
        uses: count.uses,
        // All nodes sample all entities.
        shared: nodes > 1,
    });
    let of_relations = [Some(relations.0), relations.1].into_iter().flatten().flat_map(|first| {
        (first..).zip(of_relations).map(|(key, count)| Frequency {
            key: Key(key),
            accesses: count.accesses,
            uses: count.uses,
            shared: if clusters.is_some() { count.nodes > 1 } else { nodes > 1 },
        })
    });
    of_entities.chain(of_relations).filter(|frequency| frequency.accesses > 0.0).collect()
}
