//! A linear regression over several processes: shards of data, intents, evaluation on a snapshot, export.
//!
//! `cargo run --release --package intendant --example linear_model -- 2 weights.tsv` trains with two
//! processes of this machine. Under `srun` and `mpirun` the same command line works; the launcher then sets
//! the number of nodes.
#![expect(clippy::print_stdout, reason = "the result of the program")]

use intendant::launch::Launch;
use intendant::{Clock, Error, Key, Layout, Node, NodeConfig, Rendezvous, Worker};
use std::process::ExitCode;
use std::sync::Arc;

const FEATURES: u64 = 2_000;
const ACTIVE: u64 = 10;
const EXAMPLES: u64 = 20_000;
const BATCH: usize = 50;
const EPOCHS: u32 = 8;
const RATE: f32 = 0.005;
/// Batches whose keys are announced before they are trained, so that the system can bring them near in time.
const AHEAD: u32 = 32;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    match (args.next().and_then(|nodes| nodes.parse().ok()), args.next()) {
        (Some(nodes), Some(file)) => run(nodes, &file),
        _ => {
            eprintln!("usage: linear_model NODES FILE");
            ExitCode::from(2)
        }
    }
}

/// A node of the cluster if a launcher started this process, else the launcher of `nodes` processes.
pub(crate) fn run(nodes: usize, file: &str) -> ExitCode {
    match Rendezvous::from_env() {
        Ok(None) if nodes > 1 => {
            Launch::this_program(nodes).and_then(Launch::run).map(ExitCode::from).unwrap_or_else(|error| {
                eprintln!("error: {error}");
                ExitCode::from(error.exit_code())
            })
        }
        Ok(place) => intendant::exit(train(place, file)),
        Err(error) => intendant::exit(Err(error.into())),
    }
}

fn train(place: Option<Rendezvous>, file: &str) -> Result<(), Error> {
    let layout = Layout::builder().range("weight", FEATURES, 1).build()?;
    let mut config = NodeConfig::new(layout, Arc::new(|_key, weight: &mut [f32]| weight.fill(0.0)));
    config.workers = 2;
    // Joining refuses nodes that were started with other data or options, and names the difference.
    config.settings = vec![("examples".to_owned(), EXAMPLES.to_string())];
    let mut node = match place {
        Some(place) => Node::join(config, place)?,
        None => Node::start_alone(config)?,
    };
    let (rank, total) = (u64::from(node.rank().0), 2 * node.nodes() as u64);
    let workers = node.workers();
    std::thread::scope(|scope| {
        let work = |worker: Worker<f32>| {
            let shard = 2 * rank + u64::from(worker.id().0);
            move || work(worker, shard, total, file)
        };
        let threads: Vec<_> = workers.into_iter().map(|worker| scope.spawn(work(worker))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a worker does not panic"))
    })?;
    node.shutdown()
}

/// One worker trains its shard of the examples. The first one evaluates after each epoch, and exports.
fn work(mut worker: Worker<f32>, shard: u64, shards: u64, file: &str) -> Result<(), Error> {
    // A program of your own reads this part of its data from a file.
    let examples: Vec<_> = (0..EXAMPLES).filter(|index| index % shards == shard).map(example).collect();
    let batches: Vec<Vec<Key>> = examples
        .chunks(BATCH)
        .map(|batch| batch.iter().flat_map(|(keys, _)| keys).copied().collect())
        .collect();
    let steps = EPOCHS * batches.len() as u32;
    let announce = |worker: &Worker<f32>, step: u32| {
        let keys = &batches[step as usize % batches.len()];
        if step < steps { worker.intent(keys, Clock(step)..Clock(step + 1)) } else { Ok(()) }
    };
    (0..AHEAD).try_for_each(|step| announce(&worker, step))?;
    let (mut step, mut weights, mut updates) = (0, Vec::new(), Vec::new());
    for epoch in 1..=EPOCHS {
        for (keys, examples) in batches.iter().zip(examples.chunks(BATCH)) {
            announce(&worker, step + AHEAD)?;
            weights.resize(keys.len(), 0.0);
            worker.pull(keys, &mut weights)?;
            updates.clear();
            for (weights, (_, label)) in weights.chunks(ACTIVE as usize).zip(examples) {
                let error = label - weights.iter().sum::<f32>();
                updates.extend(weights.iter().map(|_| RATE * error));
            }
            worker.push(keys, &updates)?;
            worker.advance_clock();
            step += 1;
        }
        // From here to the barrier nothing is in flight, and all copies of a weight are equal.
        worker.quiesce()?;
        if shard == 0 {
            let mut model = vec![0.0; FEATURES as usize];
            worker.snapshot(0..FEATURES, &mut |keys, values| {
                keys.iter().zip(values).for_each(|(key, value)| model[key.0 as usize] = *value);
            })?;
            println!("epoch {epoch}: RMSE on 1,000 other examples: {:.4}", error_of(&model));
            if epoch == EPOCHS {
                export(&model, file)?;
            }
        }
        worker.barrier("evaluated")?;
    }
    Ok(())
}

fn error_of(model: &[f32]) -> f64 {
    let squares = (EXAMPLES..EXAMPLES + 1_000).map(example).map(|(keys, label)| {
        let predicted: f32 = keys.iter().map(|key| model[key.0 as usize]).sum();
        f64::from(label - predicted).powi(2)
    });
    (squares.sum::<f64>() / 1_000.0).sqrt()
}

fn export(model: &[f32], file: &str) -> Result<(), Error> {
    let lines: String = model.iter().enumerate().map(|(key, weight)| format!("{key}\t{weight}\n")).collect();
    std::fs::write(file, lines).map_err(|error| Error::Config(format!("cannot write {file}: {error}")))
}

/// The features of an example and its label, which is the sum of the features' true weights.
fn example(index: u64) -> (Vec<Key>, f32) {
    let keys: Vec<Key> = (0..ACTIVE).map(|i| Key(hash(index * ACTIVE + i) % FEATURES)).collect();
    let label = keys.iter().map(|key| (hash(key.0 ^ 0x5eed) % 2_001) as f32 / 1_000.0 - 1.0).sum();
    (keys, label)
}

fn hash(number: u64) -> u64 {
    let mixed = (number ^ (number >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 7
}
