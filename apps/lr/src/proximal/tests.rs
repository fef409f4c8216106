//! Proximal steps by themselves: workers take turns on plain rows.

use super::coordinate::OPERAND;
use super::*;
use crate::data::Generator;
use intendant_core::SharedRule;
use intendant_task::Subepoch;

const L1: f64 = 0.5;

fn data() -> Arc<Dataset> {
    Arc::new(Generator::named("sparse:300x40x6").unwrap().generate())
}

fn blocks(data: &Arc<Dataset>, blocks: u32, kkt: Option<f64>) -> Blocks {
    Blocks::new(Arc::clone(data), (true, 1), (blocks, 0), (L1, kkt))
}

/// The rows of all keys, and their rules.
struct Server {
    rows: Vec<Vec<f64>>,
    rules: Vec<SharedRule>,
    pushed: usize,
}

impl Server {
    fn new(data: &Dataset) -> Self {
        let mut server = Self { rows: Vec::new(), rules: Vec::new(), pushed: 0 };
        let features = data.uses().iter().map(|uses| (f64::from(*uses), L1, 0.1));
        for (uses, l1, l2) in features.chain([(data.train().len() as f64, 0.0, 0.0)]) {
            let rule = SharedRule::new(Coordinate { rate: 1.0, l1, l2 }, VISIBLE);
            let mut row = vec![0.0; rule.row()];
            row[VISIBLE - 1] = uses;
            server.rows.push(row);
            server.rules.push(rule);
        }
        server
    }

    fn pull(&self, keys: &[Key]) -> Vec<f64> {
        keys.iter().flat_map(|key| self.rows[key.index()][..VISIBLE].to_vec()).collect()
    }

    fn push(&mut self, keys: &[Key], operands: &[f64]) {
        for (key, operand) in keys.iter().zip(operands.chunks_exact(OPERAND)) {
            if operand.iter().any(|element| *element != 0.0) {
                self.rules[key.index()].push(&mut self.rows[key.index()], operand, false);
                self.pushed += 1;
            }
        }
    }

    fn objective(&self, data: &Dataset) -> f64 {
        let weight = |feature: u32| self.rows[feature as usize][0];
        let constant = weight(data.features());
        let loss = data.train().iter().map(|row| {
            let score = row.entries().map(|(feature, value)| weight(feature) * f64::from(value)).sum::<f64>();
            log_loss(constant + score, row.label)
        });
        let penalty = (0..data.features()).map(|feature| {
            let weight = weight(feature);
            L1 * weight.abs() + 0.1 / 2.0 * weight * weight
        });
        loss.sum::<f64>() + penalty.sum::<f64>()
    }
}

/// Trains `workers` workers block by block: first all pull, then all push. Returns the initial loss of each
/// epoch.
fn train(blocks: &Blocks, server: &mut Server, workers: u32, epochs: Range<u32>) -> Vec<f64> {
    let mut scores = vec![Scores::default(); workers as usize];
    let mut losses = Vec::new();
    for epoch in epochs {
        for index in 0..blocks.batches() {
            let mut pushes = Vec::new();
            let mut loss = 0.0;
            for (worker, scores) in (0..).zip(&mut scores) {
                let partition = Partition { worker, workers, nodes: 1, threads: 1 };
                let at = BatchAt { subepoch: Subepoch { epoch, index: 0 }, partition, index };
                let prepared = blocks.prepare(at);
                let values = server.pull(&prepared.keys);
                let mut operands = vec![0.0; prepared.keys.len() * OPERAND];
                let pulled =
                    Pulled { keys: &prepared.keys, values: &values, sample_keys: &[], sample_values: &[] };
                let update = &mut Update { values: &mut operands, sample_values: &mut [] };
                loss += blocks.compute(scores, &prepared.batch, pulled, update).loss;
                pushes.push((prepared.keys, operands));
            }
            pushes.iter().for_each(|(keys, operands)| server.push(keys, operands));
            if index == 0 {
                losses.push(loss);
            }
        }
    }
    losses
}

#[test]
fn the_objective_falls_with_every_epoch_to_where_no_step_is_left() {
    let data = data();
    let (blocks, mut server) = (blocks(&data, 6, None), Server::new(&data));
    let mut before = server.objective(&data);
    for epoch in 0..60 {
        train(&blocks, &mut server, 1, epoch..epoch + 1);
        let after = server.objective(&data);
        assert!(after <= before + 1e-9, "epoch {epoch}: {before} to {after}");
        before = after;
    }
    train(&blocks, &mut server, 1, 60..400);
    let end = server.objective(&data);
    // The conditions of a minimum, with gradients by finite differences.
    for key in 0..=data.features() as usize {
        let (weight, l1) = (server.rows[key][0], if key < data.features() as usize { L1 } else { 0.0 });
        let mut at = |to: f64| {
            let kept = std::mem::replace(&mut server.rows[key][0], to);
            let objective = server.objective(&data);
            server.rows[key][0] = kept;
            objective
        };
        for step in [1e-3, -1e-3] {
            assert!(at(weight + step) >= end - 1e-6, "key {key}: {end} is no minimum along it");
        }
        assert!(weight != 0.0 || l1 > 0.0, "an intercept is not penalised");
    }
    let zeros = server.rows.iter().filter(|row| row[0] == 0.0).count();
    assert!((3..30).contains(&zeros), "{zeros} weights of 41 are zero");
}

#[test]
fn any_number_of_workers_takes_the_same_steps() {
    let data = data();
    let of = |workers| {
        let mut server = Server::new(&data);
        let losses = train(&blocks(&data, 5, None), &mut server, workers, 0..8);
        (server.rows.iter().map(|row| row[0]).collect::<Vec<_>>(), losses)
    };
    let (alone, losses) = of(1);
    assert!(losses.is_sorted_by(|a, b| a > b) && losses[0] > 200.0, "{losses:?}");
    for workers in [2, 3, 7] {
        let (together, same) = of(workers);
        let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9 * (1.0 + a.abs());
        assert!(alone.iter().zip(&together).all(close), "{workers} workers");
        assert!(losses.iter().zip(&same).all(close), "{workers} workers");
    }
}

#[test]
fn the_kkt_filter_leaves_out_pushes_and_leads_to_the_same_minimum() {
    let data = data();
    let of = |kkt| {
        let mut server = Server::new(&data);
        train(&blocks(&data, 6, kkt), &mut server, 2, 0..300);
        (server.objective(&data), server.pushed)
    };
    let ((plain, all), (filtered, some)) = (of(None), of(Some(0.2)));
    assert!((plain - filtered).abs() < 1e-4 * plain, "{filtered}, not {plain}");
    assert!(some * 10 < all * 9, "{some} of {all} pushes");
    // A margin of 1 leaves nothing out.
    assert_eq!(of(Some(1.0)), (plain, all));
}

/// A batch without the first batch of its epoch does no harm.
#[test]
fn without_scores_nothing_is_pushed() {
    let data = data();
    let (blocks, mut server) = (blocks(&data, 4, None), Server::new(&data));
    train(&blocks, &mut server, 1, 0..3);
    let before = server.rows.clone();
    let at = BatchAt::alone(3, 2);
    let prepared = blocks.prepare(at);
    let values = server.pull(&prepared.keys);
    let mut operands = vec![0.0; prepared.keys.len() * OPERAND];
    let pulled = Pulled { keys: &prepared.keys, values: &values, sample_keys: &[], sample_values: &[] };
    let update = &mut Update { values: &mut operands, sample_values: &mut [] };
    let report = blocks.compute(&mut Scores::default(), &prepared.batch, pulled, update);
    server.push(&prepared.keys, &operands);
    assert_eq!((report, &server.rows), (StepReport::default(), &before));
}
