//! Every technique on one, two and four node processes, and every sampling scheme on two; see [`Matrix`].
//!
//! Ten runs each of classic and lapse learned .997 to 1.002 of what one process learns (`measure`). The other thresholds are not
//! measured yet, and nothing shows yet that copies which are never in step would be noticed here.

use intendant_apptest::{App, Matrix, Setting, case};

/// How much less four nodes may learn than one process.
const NOISE: f64 = 0.1;
/// The same where copies may be old.
const STALENESS: f64 = 0.35;

/// Sentences with topics, small vectors: a second. Frequent words are hot: with a larger learning rate, the steps that several
/// nodes make at once would add up to too large ones.
static MATRIX: Matrix = Matrix::new(Setting {
    app: App::new(env!("CARGO_BIN_EXE_word2vec")),
    task: &["--data", "builtin:topics:1000x40000", "--dim", "16", "--sample", "0.01"],
    epochs: "2",
    quality: &["heldout_loss"],
    measure: |test| -test["heldout_loss"].as_f64().unwrap(),
    same: &["/access/pull_keys", "/access/push_keys", "/access/sampled"],
    noise: NOISE,
});

#[test]
fn classic() {
    MATRIX.check(&case::CLASSIC, NOISE);
}

#[test]
fn lapse() {
    MATRIX.check(&case::LAPSE, NOISE);
}

#[test]
fn ssp() {
    MATRIX.check(&case::SSP, NOISE);
    MATRIX.check(&case::SSP_LOOSE, STALENESS);
}

#[test]
fn essp() {
    MATRIX.check(&case::ESSP, NOISE);
}

#[test]
fn nups() {
    MATRIX.check(&case::NUPS, NOISE);
}

#[test]
fn full_replication_in_the_background() {
    MATRIX.check(&case::FULL_REPLICATION, STALENESS);
}

#[test]
fn synchronous_full_replication() {
    MATRIX.check(&case::SYNCHRONOUS, NOISE);
}

#[test]
fn samples_of_every_scheme() {
    MATRIX.check_schemes(
        &[case::CLASSIC, case::LAPSE, case::SSP, case::ESSP, case::NUPS, case::FULL_REPLICATION],
        0.5,
    );
}

#[test]
#[ignore = "prints what the thresholds are made of, with --nocapture; minutes"]
fn measure() {
    MATRIX.measure(&[&case::ALL[..], &case::NEVER].concat(), 10);
}
