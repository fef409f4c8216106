//! Every technique on one, two and four node processes; see [`Matrix`]. Those that act on intents run nightly
//! only, but for three of them: other applications run all of them at each push.

use crate::train::{LR, QUALITY};
use intendant_apptest::{Matrix, Setting, case};

/// What several nodes may learn less, or more, than one process.
const NOISE: f64 = 0.1;
/// The same where copies may be old, as far as time tells how old: a node that the machine does not let run
/// holds up the others.
const STALENESS: f64 = 0.35;

/// So many rows, with small steps, that much is learnt in one epoch. The intercept is a hot key.
const SETTING: Setting = Setting {
    app: LR,
    task: &["--data", "builtin:sparse:20000x2000x20", "--lr", "0.02", "--intercept", "--batch", "50"],
    epochs: "1",
    quality: &QUALITY,
    measure: |test| -test["log_loss"].as_f64().unwrap(),
    same: &["/access/pull_keys", "/access/push_keys"],
    noise: NOISE,
};

static MATRIX: Matrix = Matrix::new(SETTING);

/// Techniques that act on intents synchronise replicas every 40 ms at most by default: more rows, and smaller
/// steps, so that an epoch takes much longer.
static LONG: Matrix = Matrix::new(Setting {
    task: &["--data", "builtin:sparse:200000x2000x20", "--lr", "0.005", "--intercept", "--batch", "50"],
    ..SETTING
});

intendant_apptest::technique_tests!(MATRIX, noise: NOISE, loose: STALENESS);

#[test]
fn nups_by_default() {
    MATRIX.check(&case::NUPS_DEFAULT, STALENESS);
}

#[test]
fn full_replication_in_the_background() {
    LONG.check(&case::FULL_REPLICATION, STALENESS);
}

#[test]
fn techniques_that_act_on_intents() {
    for case in [case::ADAPTIVE, case::REPLICATE_ON_INTENT, case::RELOCATE_ON_INTENT] {
        LONG.check(&case, STALENESS);
    }
}

#[test]
#[ignore = "takes a minute and runs nightly; the other applications run all of them at each push"]
fn all_techniques_that_act_on_intents() {
    for case in case::BY_INTENT {
        LONG.check(&case, STALENESS);
    }
}

#[test]
fn synchronous_full_replication() {
    MATRIX.check(&case::SYNCHRONOUS, NOISE);
}

#[test]
fn copies_that_are_never_in_step_are_noticed() {
    MATRIX.check_controls(NOISE);
}

/// Synchronous SGD depends neither on the speed of nodes nor on whether time is virtual.
#[test]
fn synchronous_runs_repeat_themselves() {
    MATRIX.check_repeats(&case::SYNCHRONOUS);
}

#[test]
#[ignore = "prints what the thresholds are made of, with --nocapture; minutes"]
fn measure() {
    MATRIX.measure(&[&case::WITHOUT_INTENTS[..], &case::NEVER].concat(), 10);
    LONG.measure(&case::BY_INTENT, 10);
}
