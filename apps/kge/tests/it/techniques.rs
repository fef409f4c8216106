//! Every technique on one, two and four node processes; see [`Matrix`].
//!
//! The progress of four nodes as a share of the progress of one process, in ten runs of each case on an
//! overloaded machine with two cores (`measure`):
//!
//! | case | least | most | may be lost |
//! | --- | --- | --- | --- |
//! | classic | .981 | 1.024 | [`NOISE`] |
//! | lapse | .978 | 1.035 | [`NOISE`] |
//! | ssp, a clock per batch | .963 | 1.028 | [`NOISE`] |
//! | ssp, up to 25 batches old | .900 | .955 | [`STALENESS`] |
//! | essp | .968 | 1.026 | [`NOISE`] |
//! | nups, 20 keys | .969 | 1.017 | [`NOISE`] |
//! | nups, the default | .938 | 1.032 | [`STALENESS`] |
//! | full replication | .905 | .993 | [`STALENESS`] |
//! | full replication after each batch | .996 | .996 | [`NOISE`] |
//! | the controls | .111 | .852 | |
//! | adaptive, in long epochs | .962 | .988 | [`STALENESS`] |
//! | replicate-on-intent, in long epochs | .948 | .972 | [`STALENESS`] |
//! | relocate-on-intent, in long epochs | .984 | 1.013 | [`STALENESS`] |
//! | immediate-action, in long epochs | .908 | .968 | [`STALENESS`] |
//! | replicate-everywhere, in long epochs | .922 | .945 | [`STALENESS`] |
//!
//! In simulations, the controls learn .20, .22 and .22.

use intendant_apptest::{App, Case, Matrix, Setting, case};
use kge::data::Dataset;
use std::collections::BTreeMap;

/// More than twice the largest loss or gain that was measured.
const NOISE: f64 = 0.1;
/// The same for techniques with stale replicas.
const STALENESS: f64 = 0.25;

/// CoDEx-S with small vectors: a run takes a second, and the quality rises far above its initial value.
const SETTING: Setting = Setting {
    app: App::new(env!("CARGO_BIN_EXE_intendant-kge")),
    task: &["--dim", "16"],
    epochs: "2",
    quality: &["mrr_filtered", "mean_rank_filtered", "hits_at_1", "hits_at_3", "hits_at_10", "heldout_loss"],
    measure: |test| test["mrr_filtered"].as_f64().unwrap(),
    same: &["/access/pull_keys", "/access/push_keys", "/access/sampled"],
    noise: NOISE,
};

static MATRIX: Matrix = Matrix::new(SETTING);
/// By default, techniques that act on intents synchronise replicas every 40 ms, which is a large part of an
/// epoch in the other setting.
static LONG: Matrix = Matrix::new(Setting { task: &["--dim", "32"], epochs: "4", ..SETTING });

/// Triples that are trained in place.
static IN_PLACE: Matrix = Matrix::new(Setting {
    task: &["--dim", "32", "--loss", "logistic", "--negatives", "10"],
    epochs: "6",
    measure: |test| -test["heldout_loss"].as_f64().unwrap(),
    ..SETTING
});

intendant_apptest::technique_tests!(MATRIX, noise: NOISE, loose: STALENESS);

/// By default, the technique replicates keys that are in more than 100 times as many triples as the mean key.
#[test]
fn nups_by_default() {
    let works = |report: &_| {
        case::nups(report);
        let data = Dataset::builtin("codex-s").unwrap();
        let mut uses = BTreeMap::new();
        let mut count = |key| *uses.entry(key).or_insert(0) += 1;
        for triple in &data.train {
            count(("entity", triple.subject));
            if triple.object != triple.subject {
                count(("entity", triple.object));
            }
            count(("relation", triple.relation));
            count(("reciprocal", triple.relation));
        }
        let keys = data.entities.len() + 2 * data.relations.len();
        let mean = f64::from(uses.values().sum::<u32>()) / keys as f64;
        let hot = uses.values().filter(|uses| f64::from(**uses) > 100.0 * mean).count();
        assert_eq!(report["model"]["replicated"]["keys"], hot);
    };
    MATRIX.check(&Case { works, ..case::NUPS_DEFAULT }, STALENESS);
}

#[test]
fn full_replication_in_the_background() {
    MATRIX.check(&case::FULL_REPLICATION, STALENESS);
}

#[test]
fn techniques_that_act_on_intents() {
    LONG.check_all(&case::BY_INTENT, STALENESS);
}

#[test]
fn rows_in_place() {
    IN_PLACE.check(&case::ADAPTIVE, STALENESS);
}

#[test]
fn synchronous_full_replication() {
    MATRIX.check(&case::SYNCHRONOUS, NOISE);
}

/// Two epochs of such a small model have few samples: the quality varies with the negatives that a triple
/// meets.
#[test]
fn samples_of_every_scheme() {
    MATRIX.check_schemes(&case::SAMPLED, 0.5);
    LONG.check_schemes(&[case::ADAPTIVE], 0.5);
}

#[test]
fn copies_that_are_never_in_step_are_noticed() {
    MATRIX.check_controls(STALENESS);
    LONG.check_controls(STALENESS);
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

#[test]
fn no_technique_sends_less_than_a_manager_that_knows_the_future() {
    MATRIX.check_bound(&case::WITHOUT_INTENTS);
    MATRIX.check_bound(&case::BY_INTENT);
}
