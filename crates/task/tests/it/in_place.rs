//! A task that trains in place: the order of operations, and what stops a run.

use intendant_core::Key;
use intendant_sampling::Sampler;
use intendant_task::{
    BatchAt, Cost, Driver, Evaluation, Event, Loader, LoaderEvent, LoaderOp, Model, ModelRange, Op,
    Partition, Prepared, Row, Rows, Schedule, Split, StepReport, Subepoch, Task,
};
use std::convert::Infallible;
use std::sync::Arc;

const BATCHES: u64 = 3;

/// Doubles two values in each batch; the loss is the sum of their squares.
struct Double(Model<f32>);

impl Task for Double {
    type Element = f32;
    type Batch = ();
    type Scratch = ();

    fn name(&self) -> &'static str {
        "double"
    }
    fn model(&self) -> &Model<f32> {
        &self.0
    }
    fn batches(&self, _: Subepoch, _: Partition) -> u64 {
        BATCHES
    }
    fn prepare(&self, at: BatchAt) -> Prepared<()> {
        let keys = vec![Key(at.index), Key(BATCHES)];
        Prepared { batch: (), keys, near: vec![], samples: vec![], handles: vec![], digest: 1 + at.index }
    }
    fn scratch(&self) {}
    fn trains_in_place(&self) -> bool {
        true
    }
    fn train(&self, (): &mut (), (): &(), keys: &[Key], rows: &mut dyn Rows<f32>) -> StepReport {
        let mut report = StepReport { loss: 0.0, examples: 1, cost: Cost(7) };
        for at in 0..keys.len() {
            let mut row = rows.row(at);
            report.loss += f64::from(row[0] * row[0]);
            if !report.loss.is_finite() {
                break;
            }
            row[0] *= 2.0;
        }
        report
    }
    fn evaluation(&self, _: Split, _: Partition) -> Option<Box<dyn Evaluation<f32>>> {
        None
    }
}

struct Values<'a>(&'a [Key], &'a mut [f32]);

impl Rows<f32> for Values<'_> {
    fn row(&mut self, at: usize) -> Row<'_, f32> {
        Row::unshared(std::slice::from_mut(&mut self.1[self.0[at].index()]))
    }

    fn prefetch(&self, _at: usize) {}
}

/// Trains an epoch on `values`; returns the operations, or the error that stopped the run.
fn train(values: &mut [f32], schedule: Schedule) -> Result<Vec<String>, String> {
    let ranges = vec![ModelRange::new("value", BATCHES + 1, 1)];
    let model = Model { ranges, init: Arc::new(|_, _: &mut [f32]| {}), sampler: Sampler::default() };
    let task = Arc::new(Double(model));
    let mut loader = Loader::new(Arc::clone(&task), Partition::alone(), &schedule);
    let mut driver = Driver::new(task, Partition::alone(), schedule);
    let (mut ops, mut event) = (Vec::new(), Event::Start);
    loop {
        let op = driver.step(event).map_err(|diverged| diverged.to_string())?;
        ops.push(format!("{op:?}"));
        event = match &op {
            Op::NextBatch => {
                assert_eq!(loader.step(LoaderEvent::Start), LoaderOp::Deliver);
                Event::Batch(loader.take())
            }
            Op::Train => {
                let mut all_well = false;
                let cost = driver.train(|keys, act| {
                    all_well = act(&mut Values(keys, values));
                    Ok::<(), Infallible>(())
                });
                assert_eq!(cost, Ok(Cost(7)));
                assert_eq!(all_well, driver.progress().loss.is_finite());
                Event::Done
            }
            Op::Reduce => {
                assert_eq!(driver.reduction().digest, 1 + 2 + 3);
                Event::Reduced(driver.reduction().clone())
            }
            Op::Done => return Ok(ops),
            Op::Quiesce | Op::Barrier | Op::AdvanceClock | Op::Flush => Event::Done,
            Op::Localize { .. }
            | Op::PullSample
            | Op::Pull
            | Op::Compute(_)
            | Op::Push
            | Op::Synchronize
            | Op::Meet
            | Op::Snapshot(_) => panic!("{op:?}"),
        };
    }
}

#[test]
fn a_step_is_one_operation() {
    let mut values = [1.0, 2.0, 3.0, 1.0];
    let batch = ["NextBatch", "Train", "AdvanceClock"];
    let expected = |batch: &[&str]| {
        let batches = (0..BATCHES).flat_map(|_| batch.iter().map(|op| (*op).to_owned()));
        let begin = ["Quiesce", "Barrier"].map(str::to_owned).into_iter();
        begin.chain(batches).chain(["Flush", "Quiesce", "Reduce", "Done"].map(str::to_owned)).collect()
    };
    let schedule = Schedule::epochs(1);
    let ops: Vec<String> = expected(&batch);
    assert_eq!(train(&mut values, schedule), Ok(ops));
    assert_eq!(values, [2.0, 4.0, 6.0, 8.0]);
    let ops: Vec<String> = expected(&["NextBatch", "Train", "Flush", "AdvanceClock"]);
    assert_eq!(train(&mut values, Schedule { synchronous: true, ..schedule }), Ok(ops));
}

#[test]
fn what_diverges_is_named() {
    let mut values = [1.0, f32::INFINITY, 1.0, 1.0];
    let diverged = train(&mut values, Schedule::epochs(1)).unwrap_err();
    assert!(diverged.starts_with("diverged in epoch 1, step 2, key 1: a value is inf"), "{diverged}");
    assert_eq!(values, [2.0, f32::INFINITY, 1.0, 2.0], "the step stopped there");
    let diverged = train(&mut [1e30, 1.0, 1.0, 1.0], Schedule::epochs(1)).unwrap_err();
    assert!(diverged.starts_with("diverged in epoch 1, step 1: the loss is inf"), "{diverged}");
}
