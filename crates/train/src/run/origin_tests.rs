//! Where a run goes on whose newest checkpoint is damaged.

use super::*;
use crate::App;
use intendant::{NodeId, Rendezvous};
use intendant_checkpoint::{Manifest, Rows};
use std::fs;

#[derive(clap::Args)]
struct NoFlags {}

#[test]
fn every_node_knows_which_checkpoints_are_damaged_and_one_that_takes_the_place_of_node_0_as_well() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("UTF-8");
    let plan = |rank: u16| {
        let app = App::new(clap::Command::new("late"));
        let flags = ["--epochs", "1", "-q", "--checkpoint", path, "--resume"];
        let (_, mut plan) = app.parse::<NoFlags>(flags).expect("valid flags");
        plan.rendezvous = Some(Rendezvous::new(NodeId(rank), 2, "127.0.0.1", 1));
        plan
    };
    let ranges = [KeyRange::new("only", 0..2, 1)];
    let subject = Subject::of_program(("late", 7), &ranges, 1);
    let state = RunState::new(&subject, &plan(0), &[], None);
    // Two checkpoints, of which the newer one is damaged.
    let checkpoints = plan(0).checkpoints.folder.expect("it was named");
    for cut in 1..=2 {
        let ranges: Vec<Range> = ranges.iter().map(Range::from).collect();
        let mut rows = Rows::new(&ranges);
        rows.add(&[Key(0), Key(1)], &[1.0_f64, 2.0]);
        assert_eq!(checkpoints.begin_after(cut - 1).expect("a place"), cut);
        let part = checkpoints.write(cut, "part-0", &rows).expect("written");
        let run = serde_json::to_value(&state).expect("JSON");
        assert_eq!(run.get("damaged"), None, "manifests of other runs do not change");
        checkpoints
            .commit(&Manifest::new(cut, ElementType::F64, ranges, vec![part], run))
            .expect("committed");
    }
    let part = checkpoints.place(2).join("part-0.safetensors");
    let mut bytes = fs::read(&part).expect("a part");
    *bytes.last_mut().expect("it has bytes") ^= 1;
    fs::write(&part, bytes).expect("written");

    let mut told = Vec::new();
    let first = Origin::agree(&subject, &plan(0), |_, word| {
        told.push(word.clone());
        Ok(vec![word.clone(), word])
    });
    let first = first.expect("the older one is whole");
    assert_eq!((first.damaged.as_slice(), first.name().starts_with("checkpoint 1 ")), (&[2][..], true));
    let other = Origin::agree(&subject, &plan(1), |_, word| Ok(vec![told[0].clone(), word]));
    let other = other.expect("it begins where node 0 does");
    assert_eq!((other.damaged.as_slice(), other.name()), (&[2][..], first.name()));

    // Node 0 is lost. What the other one has recorded at a cut is where the next view begins.
    let recorded = RunState { damaged: other.damaged.clone(), ..state };
    let read = serde_json::from_slice(&serde_json::to_vec(&recorded).expect("JSON")).expect("a state");
    let next = Origin::of_copies(&subject, &plan(0), read).expect("it is of this run");
    assert_eq!(next.damaged, [2]);
}
