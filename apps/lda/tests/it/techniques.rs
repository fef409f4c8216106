//! Every technique on one, two and four node processes; see [`Matrix`]. Each run ends with the check that
//! counts of words, totals and assignments agree exactly.
//!
//! The progress of four nodes as a share of the progress of one process was from .999 to 1.000 with classic,
//! lapse, ssp and essp, in five runs of each (`measure`): chains that see outdated counts learn as much. In a
//! later run of all tests it was .94 in two of them. One of these used lapse, whose counts are never
//! outdated: a chain can keep two topics joined for many epochs. There are no controls: if copies were never
//! in step, the tests of other applications would detect it.

use intendant_apptest::{App, Matrix, Setting, case};

/// More than twice the largest loss that was measured.
const NOISE: f64 = 0.15;
/// For techniques whose copies may be old, where only time bounds their age: a node that the machine does not
/// schedule delays the others.
const STALENESS: f64 = 0.2;

/// Documents of few topics, so that much is learnt in few epochs.
const SETTING: Setting = Setting {
    app: App::new(env!("CARGO_BIN_EXE_intendant-lda")),
    task: &["--data", "builtin:topics:800x400x8", "--topics", "8", "--batch", "4"],
    epochs: "25",
    quality: &["perplexity"],
    measure: |test| -test["perplexity"].as_f64().unwrap().ln(),
    // How often a word is pulled depends on which documents are in the same batch.
    same: &["/epochs/0/examples"],
    noise: NOISE,
};

static MATRIX: Matrix = Matrix::new(SETTING);

intendant_apptest::technique_tests!(MATRIX, noise: NOISE, loose: NOISE);

/// By default, the technique replicates keys that are used more than 100 times as often as the mean key: the
/// totals.
#[test]
fn nups_by_default() {
    MATRIX.check(&case::NUPS_DEFAULT, STALENESS);
}

#[test]
fn full_replication_in_the_background() {
    MATRIX.check(&case::FULL_REPLICATION, STALENESS);
}

#[test]
fn techniques_that_act_on_intents() {
    for case in [case::ADAPTIVE, case::REPLICATE_ON_INTENT, case::RELOCATE_ON_INTENT] {
        MATRIX.check(&case, STALENESS);
    }
}

#[test]
#[ignore = "takes a minute and runs nightly; other applications run all of them at each push"]
fn all_techniques_that_act_on_intents() {
    MATRIX.check_all(&case::BY_INTENT, STALENESS);
}

#[test]
fn synchronous_full_replication() {
    MATRIX.check(&case::SYNCHRONOUS, NOISE);
}

#[test]
#[ignore = "prints what the thresholds are made of, with --nocapture; minutes"]
fn measure() {
    MATRIX.measure(&[&case::WITHOUT_INTENTS[..], &case::BY_INTENT, &case::NEVER].concat(), 5);
}
