//! Every technique on one, two and four node processes; see [`Matrix`]. Four of the techniques that act on
//! intents run nightly only: the other applications run them at each push.
//!
//! The progress of four nodes as a share of the progress of one process, in ten runs of each case on an
//! overloaded machine with two cores (`measure`):
//!
//! | case | least | most | may be lost |
//! | --- | --- | --- | --- |
//! | classic | 1.000 | 1.002 | [`NOISE`] |
//! | lapse | 1.000 | 1.002 | [`NOISE`] |
//! | ssp, a clock per batch | 1.000 | 1.000 | [`NOISE`] |
//! | ssp, up to 25 batches old | 1.000 | 1.003 | [`NOISE`] |
//! | essp | 1.000 | 1.000 | [`NOISE`] |
//! | nups, 20 keys | 1.000 | 1.001 | [`NOISE`] |
//! | nups, the default | 1.000 | 1.001 | [`NOISE`] |
//! | bips, 20 keys | 1.000 | 1.002 | [`NOISE`] |
//! | full replication after each batch | 1.000 | 1.000 | [`NOISE`] |
//! | adaptive, on many rows | .897 | .929 | [`STALENESS`] |
//! | replicate-on-intent, on many rows | .905 | .935 | [`STALENESS`] |
//! | relocate-on-intent, on many rows | .983 | .999 | [`STALENESS`] |
//! | immediate-action, on many rows | .883 | .913 | [`STALENESS`] |
//! | replicate-everywhere, on many rows | .881 | .930 | [`STALENESS`] |
//! | home-decides, on many rows | .913 | .940 | [`STALENESS`] |
//! | naive-intents, on many rows | .861 | .916 | [`STALENESS`] |
//!
//! In simulations, the controls lose all possible progress: where nodes do not see each other's steps of
//! plain gradient descent, these add up to steps that are too long. FTRL, whose updates also shorten later
//! steps, reaches .86 to .89 of the progress of one process with the same controls.

use crate::train::{LR, QUALITY};
use intendant_apptest::{Matrix, Setting, case};

/// Ten times the largest loss or gain that was measured.
const NOISE: f64 = 0.03;
/// The same where copies may be old and only time bounds their age: a node that the machine does not schedule
/// delays the others.
const STALENESS: f64 = 0.35;

/// Plain gradient descent, which suffers most from old copies. The intercept is a hot key.
const SETTING: Setting = Setting {
    app: LR,
    task: &[
        "--data",
        "builtin:sparse:20000x2000x20",
        "--optimizer",
        "sgd",
        "--lr",
        "0.001",
        "--intercept",
        "--batch",
        "50",
    ],
    epochs: "2",
    quality: &QUALITY,
    measure: |test| -test["log_loss"].as_f64().unwrap(),
    same: &["/access/pull_keys", "/access/push_keys"],
    noise: NOISE,
};

static MATRIX: Matrix = Matrix::new(SETTING);

/// FTRL, in an epoch of many small steps. By default, techniques that act on intents synchronise replicas
/// every 40 ms at most, which is a large part of an epoch in the other setting.
static LONG: Matrix = Matrix::new(Setting {
    task: &["--data", "builtin:sparse:200000x2000x20", "--lr", "0.005", "--intercept", "--batch", "50"],
    epochs: "1",
    ..SETTING
});

intendant_apptest::technique_tests!(MATRIX, noise: NOISE, loose: NOISE);

#[test]
fn nups_by_default() {
    MATRIX.check(&case::NUPS_DEFAULT, NOISE);
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
    LONG.check_all(&case::BY_INTENT, STALENESS);
}

#[test]
fn synchronous_full_replication() {
    MATRIX.check(&case::SYNCHRONOUS, NOISE);
}

#[test]
fn copies_that_are_never_in_step_are_noticed() {
    MATRIX.check_controls(STALENESS);
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
    LONG.measure(&[&[case::FULL_REPLICATION][..], &case::BY_INTENT].concat(), 10);
}
