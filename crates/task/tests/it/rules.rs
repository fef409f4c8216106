//! A task whose values follow a rule: pulled values have the length of values, pushed ones that of operands,
//! and keys whose update is zero are left out if the task says so.

use intendant_core::{Element, Key, Rule};
use intendant_sampling::Sampler;
use intendant_task::{
    BatchAt, Driver, Evaluation, Event, Loader, LoaderEvent, LoaderOp, Model, ModelRange, Op, Partition,
    Prepared, Pulled, Schedule, Split, StepReport, Subepoch, Task, Update,
};
use std::sync::Arc;

/// Operands have one more element than values: a count.
#[derive(Debug)]
struct Counted;

impl Rule for Counted {
    fn id(&self) -> String {
        "counted".into()
    }
    fn state_len(&self, _visible: usize) -> usize {
        1
    }
    fn operand_len(&self, visible: usize) -> usize {
        visible + 1
    }
    fn apply<E: Element>(&self, visible: &mut [E], state: &mut [E], operand: &[E]) {
        visible.iter_mut().zip(operand).for_each(|(value, more)| *value += *more);
        state[0] += operand[visible.len()];
    }
}

/// One batch of keys 0 to 2, which follow the rule, and key 3, which does not. The updates of 1 and 3 are
/// zero.
struct Mixed {
    model: Model<f64>,
    skips: bool,
    bad: Option<usize>,
}

impl Mixed {
    fn new(skips: bool, bad: Option<usize>) -> Arc<Self> {
        let ranges = vec![ModelRange::with_rule("ruled", 3, 2, Counted), ModelRange::new("plain", 1, 1)];
        let model = Model { ranges, init: Arc::new(|_, _: &mut [f64]| {}), sampler: Sampler::default() };
        Arc::new(Self { model, skips, bad })
    }
}

impl Task for Mixed {
    type Element = f64;
    type Batch = ();
    type Scratch = ();

    fn name(&self) -> &'static str {
        "mixed"
    }
    fn model(&self) -> &Model<f64> {
        &self.model
    }
    fn batches(&self, _: Subepoch, _: Partition) -> u64 {
        1
    }
    fn prepare(&self, _: BatchAt) -> Prepared<()> {
        let keys: Vec<Key> = [0, 1, 2, 3, 2].map(Key).into();
        Prepared { batch: (), keys, near: vec![], samples: vec![], handles: vec![], digest: 1 }
    }
    fn scratch(&self) {}
    fn skips_zeros(&self) -> bool {
        self.skips
    }
    fn compute(
        &self,
        _: &mut (),
        _: &(),
        pulled: Pulled<'_, f64>,
        update: &mut Update<'_, f64>,
    ) -> StepReport {
        assert_eq!((pulled.values.len(), update.values.len()), (4 * 2 + 1, 4 * 3 + 1));
        assert!(update.values.iter().all(|element| *element == 0.0), "updates start at zero");
        (update.values[0], update.values[8], update.values[10]) = (5.0, 1.0, 7.0);
        if let Some(bad) = self.bad {
            update.values[bad] = f64::NAN;
        }
        StepReport { loss: 1.0, examples: 1, ..StepReport::default() }
    }
    fn evaluation(&self, _: Split, _: Partition) -> Option<Box<dyn Evaluation<f64>>> {
        None
    }
}

/// What is pushed for the batch, or the error.
fn pushed(task: Arc<Mixed>) -> Result<(Vec<u64>, Vec<f64>), String> {
    let (alone, schedule) = (Partition::alone(), Schedule::epochs(1));
    let mut loader = Loader::new(Arc::clone(&task), alone, &schedule);
    let mut driver = Driver::new(task, alone, schedule);
    let mut event = Event::Start;
    loop {
        event = match driver.step(event).map_err(|error| error.to_string())? {
            Op::NextBatch => {
                assert_eq!(loader.step(LoaderEvent::Start), LoaderOp::Deliver);
                Event::Batch(loader.take())
            }
            Op::Push => {
                let (keys, update) = driver.push_buffers();
                return Ok((keys.iter().map(|key| key.0).collect(), update.to_vec()));
            }
            Op::Done | Op::Train | Op::Snapshot(_) => panic!("nothing was pushed"),
            Op::Localize { .. }
            | Op::Barrier
            | Op::PullSample
            | Op::Pull
            | Op::Compute(_)
            | Op::AdvanceClock
            | Op::Synchronize
            | Op::Meet
            | Op::Flush
            | Op::Quiesce
            | Op::Reduce => Event::Done,
        };
    }
}

#[test]
fn updates_have_the_lengths_of_operands() {
    let (keys, update) = pushed(Mixed::new(false, None)).unwrap();
    assert_eq!(keys, [0, 1, 2, 3, 2]);
    assert_eq!(update, [5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 7.0, 0.0, 0.0]);
}

#[test]
fn keys_with_updates_of_zero_are_left_out_where_that_is_right() {
    let (keys, update) = pushed(Mixed::new(true, None)).unwrap();
    assert_eq!(keys, [0, 2, 2], "a key may be left out at one place only");
    assert_eq!(update, [5.0, 0.0, 0.0, 0.0, 0.0, 1.0, 7.0, 0.0, 0.0]);
}

#[test]
fn an_update_that_is_not_finite_is_that_of_its_key() {
    for (bad, key) in [(2, "0"), (5, "1"), (9, "3"), (12, "2")] {
        let error = pushed(Mixed::new(true, Some(bad))).unwrap_err();
        assert!(error.contains("an update") && error.contains(&format!("key {key}")), "{bad}: {error}");
    }
}

#[test]
fn a_model_knows_its_lengths_and_its_layout() {
    let task = Mixed::new(false, None);
    let [ruled, plain] = &task.model.ranges[..] else { panic!("two ranges") };
    assert_eq!((ruled.len, ruled.operand(), ruled.row()), (2, 3, 6));
    assert_eq!((plain.len, plain.operand(), plain.row()), (1, 1, 1));
    let layout = task.model.layout().build().unwrap();
    assert_eq!((layout.visible(Key(2)), layout.operand(Key(2)), layout.len(Key(2))), (2, 3, 6));
    assert_eq!((layout.visible(Key(3)), layout.operand(Key(3)), layout.len(Key(3))), (1, 1, 1));
}
