//! Every technique on one, two and four node processes, and simulated; see [`Matrix`]. The tests measure N:
//! no technique may lose a count or count twice, at any speed of nodes. There are no controls, because counts
//! add up however old copies are.

use intendant_apptest::{App, Case, Matrix, Setting, case};

/// Sums are exact, and so is the measure.
const NOTHING: f64 = 1e-12;

/// Enough batches that techniques have time to act.
const SETTING: Setting = Setting {
    app: App::new(env!("CARGO_BIN_EXE_intendant-sketch")),
    task: &["--data", "builtin:zipf:300000x20000", "--batch-bytes", "8192"],
    epochs: "2",
    quality: &[
        "inserted",
        "row_deviation",
        "items",
        "error_max",
        "error_mean",
        "error_bound",
        "over_bound_share",
        "underestimates",
    ],
    measure: |test| {
        assert_eq!(test["row_deviation"], 0.0, "{test}");
        assert_eq!(test["underestimates"], 0.0, "{test}");
        assert!(test["over_bound_share"].as_f64() <= Some(0.01), "{test}");
        test["inserted"].as_f64().unwrap()
    },
    same: &["/access/pull_keys", "/access/push_keys", "/test", "/epochs/0/examples", "/epochs/1/examples"],
    noise: NOTHING,
};

static MATRIX: Matrix = Matrix::new(SETTING);

intendant_apptest::technique_tests!(MATRIX, noise: NOTHING, loose: NOTHING);

#[test]
fn full_replication() {
    MATRIX.check(&case::FULL_REPLICATION, NOTHING);
    MATRIX.check(&case::SYNCHRONOUS, NOTHING);
}

/// The key of N is used so much more often than the others that the technique replicates it.
#[test]
fn nups_by_default() {
    let works = |report: &serde_json::Value| {
        assert_eq!(report["model"]["replicated"]["keys"], 1);
        case::nups(report);
    };
    MATRIX.check(&Case { works, ..case::NUPS_DEFAULT }, NOTHING);
}

/// Whether keys move or are copied within such a short run depends on the machine. Other applications test
/// what the techniques do.
#[test]
fn techniques_that_act_on_intents() {
    MATRIX.check_all(&case::BY_INTENT.map(|case| Case { works: |_| (), ..case }), NOTHING);
}

#[test]
fn simulated_techniques() {
    for case in [&case::BY_INTENT[..], &case::WITHOUT_INTENTS].concat() {
        MATRIX.check_simulated(&case, NOTHING);
    }
}

/// Even copies that are never synchronised within an epoch lose nothing.
#[test]
fn copies_that_are_out_of_step_add_up() {
    for case in case::NEVER {
        MATRIX.check_simulated(&case, NOTHING);
    }
}
