//! Two nodes in one process, one of which fails when all numbers are known already.

use super::*;
use crate::App;
use intendant::{NodeId, Rendezvous};
use intendant_task::{
    BatchAt, Evaluation, Model, ModelRange, Prepared, Pulled, Split, StepReport, Subepoch, Update,
};
use std::net::TcpListener;

/// One batch of one key. A worker's buffers are dropped after its last meeting with the others, and before
/// its node leaves.
struct Late {
    model: Model<f32>,
    fails: bool,
}

struct Buffers {
    fail: bool,
}

impl Drop for Buffers {
    fn drop(&mut self) {
        assert!(!self.fail, "too late");
    }
}

impl Task for Late {
    type Element = f32;
    type Batch = ();
    type Scratch = Buffers;

    fn name(&self) -> &'static str {
        "late"
    }

    fn model(&self) -> &Model<f32> {
        &self.model
    }

    fn batches(&self, _: Subepoch, partition: Partition) -> u64 {
        partition.share(1)
    }

    fn prepare(&self, _at: BatchAt) -> Prepared<()> {
        let keys = vec![intendant_core::Key(0)];
        Prepared { batch: (), keys, near: Vec::new(), samples: Vec::new(), handles: Vec::new(), digest: 1 }
    }

    fn scratch(&self) -> Buffers {
        Buffers { fail: self.fails }
    }

    fn compute(
        &self,
        _scratch: &mut Buffers,
        (): &(),
        _pulled: Pulled<'_, f32>,
        update: &mut Update<'_, f32>,
    ) -> StepReport {
        update.values[0] = 1.0;
        StepReport { examples: 1, ..StepReport::default() }
    }

    fn evaluation(&self, _split: Split, _partition: Partition) -> Option<Box<dyn Evaluation<f32>>> {
        None
    }
}

#[derive(clap::Args)]
struct NoFlags {}

/// Whether the runs of both nodes ended well, and whether there is a report.
fn ends(fails: bool) -> ([bool; 2], bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.json");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let node = |rank: u16| {
        let app = App::new(clap::Command::new("late"));
        let flags = ["--epochs", "1", "-q", "--report", path.to_str().expect("UTF-8")];
        let (_, mut plan) = app.parse::<NoFlags>(flags).expect("valid flags");
        let rendezvous = Rendezvous::new(NodeId(rank), 2, "127.0.0.1", port);
        plan.nodes = 2;
        plan.rendezvous = Some(match rank {
            0 => rendezvous.listener(listener.try_clone().expect("a descriptor")),
            _ => rendezvous,
        });
        let model = Model {
            ranges: vec![ModelRange::new("only", 2, 1)],
            init: Arc::new(|_, value: &mut [f32]| value.fill(0.0)),
            sampler: Sampler::default(),
        };
        let task = Arc::new(Late { model, fails: fails && rank == 1 });
        move || run(&task, &plan, None).is_ok()
    };
    let (first, second) = (node(0), node(1));
    let ended = thread::scope(|scope| {
        let nodes = [scope.spawn(first), scope.spawn(second)];
        nodes.map(|node| node.join().expect("no panic"))
    });
    (ended, path.exists())
}

#[test]
fn only_a_run_that_ends_well_on_all_nodes_has_a_report() {
    assert_eq!(ends(false), ([true, true], true));
    assert_eq!(ends(true), ([false, false], false));
}
