//! Every technique on one, two and four node processes; see [`Matrix`]. Four of the techniques that act on
//! intents run nightly only: the other applications run them at each push.
//!
//! The progress of four nodes as a share of the progress of one process, in ten runs of each case on an
//! overloaded machine with two cores (`measure`):
//!
//! | case | least | most | may be lost |
//! | --- | --- | --- | --- |
//! | classic | .992 | 1.024 | [`NOISE`] |
//! | lapse | .991 | 1.012 | [`NOISE`] |
//! | ssp, a clock per batch | 1.005 | 1.007 | [`NOISE`] |
//! | ssp, up to 25 batches old | 1.002 | 1.010 | [`NOISE`] |
//! | essp | 1.005 | 1.007 | [`NOISE`] |
//! | nups, 20 keys | .997 | 1.020 | [`NOISE`] |
//! | nups, the default, on the square matrix | .943 | .972 | [`STALENESS`] |
//! | full replication | .856 | 1.007 | [`STALENESS`] |
//! | full replication after each batch | 1.007 | 1.007 | [`NOISE`] |
//! | the controls | .146 | .883 | |
//! | adaptive, on the long matrix | .938 | .949 | [`STALENESS`] |
//! | replicate-on-intent, on the long matrix | .931 | .938 | [`STALENESS`] |
//! | relocate-on-intent, on the long matrix | .941 | .963 | [`STALENESS`] |
//! | immediate-action, on the long matrix | .934 | .946 | [`STALENESS`] |
//! | replicate-everywhere, on the long matrix | .819 | .869 | [`STALENESS`] |
//!
//! In simulations, the controls learn .11, .12 and .12.

use intendant_apptest::{App, Matrix, Setting, case};

/// More than twice the largest loss or gain that was measured.
const NOISE: f64 = 0.08;
/// The same where copies may be old and only time bounds their age: a node that the machine does not schedule
/// delays the others.
const STALENESS: f64 = 0.35;

/// A skewed matrix and such large steps that one epoch teaches much. A run takes a second.
const SETTING: Setting = Setting {
    app: App::new(env!("CARGO_BIN_EXE_intendant-mf")),
    task: &["--data", "builtin:zipf:2000x500x150000", "--lr", "0.2"],
    epochs: "1",
    quality: &["rmse", "mae"],
    measure: |test| -test["rmse"].as_f64().unwrap(),
    // How often a key is pulled depends on which entries are in the same batch.
    same: &[],
    noise: NOISE,
};

static MATRIX: Matrix = Matrix::new(SETTING);
/// In the other matrix, no column has 100 times as many entries as the mean column: it has too few rows.
static SQUARE: Matrix =
    Matrix::new(Setting { task: &["--data", "builtin:zipf:5000x5000x150000", "--lr", "0.2"], ..SETTING });

/// By default, techniques that act on intents synchronise replicas every 40 ms at most. Epochs of the other
/// matrices are shorter than that. This matrix has so many entries, each of which teaches so little, that
/// `single` takes half a second on an idle machine.
static LONG: Matrix =
    Matrix::new(Setting { task: &["--data", "builtin:zipf:5000x5000x4500000", "--lr", "0.017"], ..SETTING });

intendant_apptest::technique_tests!(MATRIX, noise: NOISE, loose: NOISE);

/// By default, the technique replicates columns with more than 100 times as many entries as the mean column.
#[test]
fn nups_by_default() {
    SQUARE.check(&case::NUPS_DEFAULT, STALENESS);
}

#[test]
fn full_replication_in_the_background() {
    MATRIX.check(&case::FULL_REPLICATION, STALENESS);
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
    // Clocked replicas are set up at their first use; in a long epoch, this transfers much of what other
    // nodes have learnt. Techniques that act on intents are not clocked.
    LONG.check_control(&case::NEVER[0], STALENESS);
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
    SQUARE.measure(&[case::NUPS_DEFAULT], 10);
    LONG.measure(&case::BY_INTENT, 10);
}
