//! Proximal steps on blocks of features; the owners of keys apply a rule. On processes and in simulation.

use crate::train::{LR, QUALITY};
use intendant_apptest::schema;
use serde_json::Value;

const TASK: [&str; 4] = ["--data", "builtin:sparse:3000x400x10", "--optimizer", "proximal"];

fn run(more: &[&str]) -> Value {
    LR.report(&[&TASK[..], more].concat())
}

fn objective(report: &Value) -> f64 {
    report["test"]["objective"].as_f64().unwrap()
}

fn number(report: &Value, path: &str) -> f64 {
    report.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number {path}"))
}

/// Without staleness, a step covers all rows, however they are divided among workers.
#[test]
fn steps_do_not_depend_on_the_number_of_workers() {
    let of = |more: &[&str]| {
        let flags = ["--technique", "essp", "--staleness", "0", "--epochs", "10", "--intercept"];
        run(&[&flags[..], &["--float", "f64"], more].concat())
    };
    let alone = of(&[]);
    let losses = |report: &Value| -> Vec<f64> {
        let epochs = report["epochs"].as_array().unwrap().iter();
        epochs.map(|epoch| epoch["loss"].as_f64().unwrap()).collect()
    };
    assert!(losses(&alone).is_sorted_by(|before, after| before > after), "{:?}", losses(&alone));
    for cluster in [["--nodes", "2", "--workers", "1"], ["--nodes", "2", "--workers", "2"]] {
        let together = of(&cluster);
        schema::check(&together, &QUALITY, 1);
        for (a, b) in losses(&alone).iter().zip(losses(&together)) {
            assert!(
                (a - b).abs() < 1e-9 * a,
                "{cluster:?}: {:?}, not {:?}",
                losses(&together),
                losses(&alone)
            );
        }
        assert!((objective(&alone) - objective(&together)).abs() < 1e-6 * objective(&alone));
        assert_eq!(alone["data_digest"], together["data_digest"]);
        assert_eq!(alone["test"]["nonzeros"], together["test"]["nonzeros"]);
    }
}

/// FTRL and proximal steps minimise the same objective, with each technique that supports rules.
#[test]
fn techniques_lead_to_the_optimum_of_ftrl() {
    let ftrl = LR.report(&["--data", TASK[1], "--technique", "classic", "--epochs", "200"]);
    for technique in ["classic", "lapse", "ssp"] {
        let report = run(&["--technique", technique, "--nodes", "2", "--epochs", "60"]);
        let (here, there) = (objective(&report), objective(&ftrl));
        assert!((here / there - 1.0).abs() < 0.01, "{technique}: {here}, not {there}");
    }
}

/// Filters and packed messages in a simulated cluster, whose counts are the same in every run.
#[test]
fn the_kkt_filter_and_packed_messages_save_traffic() {
    let of = |more: &[&str]| {
        let flags = ["--simulate", "--nodes", "4", "--technique", "ssp", "--staleness", "0"];
        run(&[&flags[..], &["--epochs", "40", "--c", "0.2", "--valid-every", "0"], more].concat())
    };
    let plain = of(&[]);
    let filtered = of(&["--kkt", "0.1"]);
    let packed = of(&["--key-caching", "--compress"]);
    let pushes = |report: &Value| number(report, "/access/push_keys");
    assert!(pushes(&filtered) < 0.8 * pushes(&plain), "{} of {}", pushes(&filtered), pushes(&plain));
    assert_eq!(number(&filtered, "/access/pull_keys"), number(&plain, "/access/pull_keys"));
    assert!((objective(&filtered) / objective(&plain) - 1.0).abs() < 1e-3);
    // Packing changes no value, but it changes the times of messages, and with them the order of sums.
    assert!((objective(&packed) / objective(&plain) - 1.0).abs() < 1e-9);
    assert_eq!(pushes(&packed), pushes(&plain));
    let bytes = |report: &Value| number(report, "/network/bytes");
    assert!(bytes(&packed) < 0.8 * bytes(&plain), "{} of {}", bytes(&packed), bytes(&plain));
    assert!(number(&packed, "/network/saved_by_key_lists") > 0.0, "{}", packed["network"]);
    assert_eq!(number(&plain, "/network/saved_by_key_lists"), 0.0);
    assert_eq!(number(&plain, "/network/saved_by_compression"), 0.0);
    assert!(number(&plain, "/network/unpacked_bytes") >= bytes(&plain));
}

/// Checkpoints are made between epochs, and restore the state: a run continues as if it had not stopped.
#[test]
fn a_run_goes_on_from_a_checkpoint_and_from_an_export() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (cuts, model) = (path("cuts"), path("model"));
    let flags = ["--technique", "ssp", "--staleness", "0"];
    let whole = run(&[&flags[..], &["--epochs", "6"]].concat());
    let _first = run(&[&flags[..], &["--epochs", "2", "--checkpoint", &cuts]].concat());
    let resumed = run(&[&flags[..], &["--epochs", "6", "--checkpoint", &cuts, "--resume"]].concat());
    assert_eq!(resumed["test"], whole["test"]);
    let exported = run(&[&flags[..], &["--epochs", "6", "--export", &model]].concat());
    assert_eq!(exported["test"], whole["test"]);
    let tested = LR.report(&["--data", TASK[1], "--model", &model, "--epochs", "0", "--technique", "single"]);
    assert!((objective(&tested) / objective(&whole) - 1.0).abs() < 1e-6);
}

/// A clock of several batches delays reads by as many batches.
#[test]
fn clocks_may_have_several_batches() {
    let of = |more: &[&str]| {
        let flags = ["--simulate", "--nodes", "2", "--technique", "ssp", "--staleness", "0", "--c", "0.2"];
        objective(&run(&[&flags[..], &["--epochs", "20"], more].concat()))
    };
    let (one, four) = (of(&[]), of(&["--clock-every", "4"]));
    assert!((four / one - 1.0).abs() < 0.01, "{four}, not {one}");
}

/// Workers in step wait for the slowest worker of each step.
#[test]
fn workers_wait_where_batches_are_uneven_and_less_with_staleness() {
    let of = |uneven: &str, staleness: &str| {
        let flags = ["--simulate", "--nodes", "4", "--technique", "essp", "--charge-compute", "3000"];
        let more = ["--epochs", "3", "--uneven", uneven, "--staleness", staleness, "--valid-every", "0"];
        let report = run(&[&flags[..], &more].concat());
        let seconds: f64 =
            report["epochs"].as_array().unwrap().iter().map(|epoch| number(epoch, "/seconds")).sum();
        (number(&report, "/simulation/worker_busy"), seconds)
    };
    let ((even, fast), (uneven, slow), (loose, faster)) = (of("1", "0"), of("4", "0"), of("4", "8"));
    assert!(even > uneven + 0.1 && loose > uneven + 0.1, "busy: {even}, {uneven}, {loose}");
    assert!((0.0..=1.0).contains(&even) && slow > 2.0 * fast && faster < slow, "{fast}, {slow}, {faster} s");
    assert_eq!(of("4", "0"), (uneven, slow), "the same seed");
}

/// Parts of a snapshot may have no key: if homes are ranges of keys, a range is at one node.
#[test]
fn evaluations_need_not_read_from_every_node() {
    for flags in [&["--technique", "classic"][..], &["--technique", "lapse", "--optimizer", "ftrl"]] {
        let cluster = ["--simulate", "--nodes", "4", "--key-order", "range", "--epochs", "2"];
        let data = ["--data", "builtin:sparse:400x40x5", "--optimizer", "proximal"];
        let data = if flags.contains(&"ftrl") { &data[..2] } else { &data[..] };
        let report = LR.report(&[data, &cluster, flags].concat());
        assert!(objective(&report) > 0.0);
    }
}

#[test]
fn what_proximal_steps_do_not_have_is_refused() {
    for (flags, expected) in [
        (&["--optimizer", "proximal", "--technique", "single"][..], "technique single has no owners"),
        (
            &["--optimizer", "proximal"],
            "technique adaptive has copies that are brought in step every so many",
        ),
        (&["--optimizer", "proximal", "--technique", "nups"], "use ssp, essp, classic or lapse"),
        (&["--optimizer", "proximal", "--technique", "ssp", "--clock-every", "0"], "leave --clock-every out"),
        (&["--optimizer", "proximal", "--technique", "ssp", "--lr", "2"], "--lr is 2; it must be below 2"),
        (
            &["--optimizer", "proximal", "--technique", "ssp", "--l2", "1", "--kkt", "0.1"],
            "--kkt is 0.1; it must be left out without --l1",
        ),
        (
            &[
                "--optimizer",
                "proximal",
                "--technique",
                "ssp",
                "--staleness",
                "9",
                "--blocks",
                "8",
                "--kkt",
                "0",
            ],
            "--kkt is 0; it must be left out with a staleness of more than 8 blocks",
        ),
        (&["--uneven", "2"], "--uneven is about simulated clusters"),
        (&["--simulate", "--uneven", "0.5"], "--uneven is 0.5; it must be between 1 and 1000"),
        (&["--blocks", "4"], "--blocks is about blocks of features"),
        (&["--kkt", "0.5", "--optimizer", "sgd"], "--kkt is about blocks of features"),
        (
            &["--optimizer", "proximal", "--technique", "ssp", "--kkt", "2"],
            "--kkt is 2; it must be a number from 0 to 1",
        ),
        (
            &["--optimizer", "proximal", "--technique", "ssp", "--blocks", "0"],
            "--blocks is 0; it must be a number from 1 to",
        ),
        (
            &["--technique", "single", "--compress"],
            "--compress shortens messages, and technique single has none",
        ),
        (&["--technique", "single", "--key-caching"], "--key-caching shortens messages"),
        (
            &["--technique", "ssp", "--significant", "0.1"],
            "--significant is for techniques that act on intents",
        ),
        (&["--significant", "2"], "--significant is 2; it must be above 0 and at most 1"),
    ] {
        let output = LR.output(flags);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {text}");
        assert!(text.contains(expected), "{flags:?}: {text}");
    }
}

/// The significantly modified filter sends less. The model converges to the same objective, if more slowly.
#[test]
fn updates_that_are_not_significant_stay_behind() {
    let of = |more: &[&str]| {
        let flags =
            ["--data", TASK[1], "--simulate", "--nodes", "4", "--technique", "adaptive", "--epochs", "40"];
        LR.report(&[&flags[..], more].concat())
    };
    let (plain, filtered) = (of(&[]), of(&["--significant", "0.1"]));
    let held_back = |report: &Value| number(report, "/management/held_back");
    assert_eq!(held_back(&plain), 0.0);
    assert!(held_back(&filtered) > 100.0, "{}", filtered["management"]);
    let synced = |report: &Value| number(report, "/management/synced_keys");
    assert!(synced(&filtered) < 0.95 * synced(&plain), "{} of {}", synced(&filtered), synced(&plain));
    assert!(
        (objective(&filtered) / objective(&plain) - 1.0).abs() < 0.01,
        "{} and {}",
        objective(&filtered),
        objective(&plain)
    );
}
