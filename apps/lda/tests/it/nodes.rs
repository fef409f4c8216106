//! Several node processes: their common report, the keys that move between them, and what they refuse. At the
//! end of each run, the program itself checks that all counts agree.

use intendant_apptest::{App, finish, ranks, schema, start};
use serde_json::Value;
use std::process::Child;

const LDA: App = App::new(env!("CARGO_BIN_EXE_intendant-lda"));

const TASK: [&str; 8] =
    ["--data", "builtin:topics:300x200x5", "--topics", "5", "--epochs", "30", "--valid-every", "30"];

fn report(flags: &[&str]) -> Value {
    LDA.report(&[&TASK[..], flags].concat())
}

fn perplexity(report: &Value) -> f64 {
    report["test"]["perplexity"].as_f64().unwrap()
}

/// Assignments move to the node that trains their documents, and stay there. Moves of an adaptive run before
/// its first batch are not counted, but they have a visible effect: few accesses are remote.
#[test]
fn assignments_move_by_intent() {
    let run = |technique: &str| {
        let report = report(&["--technique", technique, "--nodes", "2", "--workers", "2"]);
        schema::check(&report, &["perplexity"], 30);
        assert_eq!(report["task"], "lda");
        let access = |name: &str| report["access"][name].as_u64().unwrap();
        assert_eq!(access("local") + access("remote"), 2 * access("pull_keys"));
        (
            report["access"]["remote_share"].as_f64().unwrap(),
            report["management"]["relocations"].as_u64().unwrap(),
        )
    };
    let (classic, moved) = run("classic");
    assert!(classic > 0.3 && moved == 0, "{classic} and {moved}");
    let (adaptive, _) = run("adaptive");
    assert!(adaptive < classic / 2.0, "{adaptive}, and {classic} with classic");
    for technique in ["relocate-on-intent", "lapse"] {
        let (_, moved) = run(technique);
        assert!(moved > 100, "{technique}: {moved}");
    }
}

#[test]
fn quality_is_that_of_one_process() {
    let single = perplexity(&report(&["--technique", "single"]));
    for technique in ["classic", "ssp", "lapse", "adaptive"] {
        let four = perplexity(&report(&["--technique", technique, "--nodes", "4"]));
        // Chains end in different places: with other seeds, `single` is up to a tenth better or worse.
        assert!((0.75..1.3).contains(&(four / single)), "{technique}: {four}, not {single}");
    }
}

#[test]
fn a_simulated_cluster_trains_the_same_documents() {
    let single = report(&["--technique", "single"]);
    for technique in ["classic", "adaptive"] {
        let flags = ["--technique", technique, "--nodes", "4", "--workers", "2", "--simulate"];
        let simulated = report(&flags);
        assert_eq!(single["data_digest"], simulated["data_digest"]);
        assert_eq!(simulated["simulated"], true);
        assert!(
            (0.75..1.3).contains(&(perplexity(&simulated) / perplexity(&single))),
            "{}",
            simulated["test"]
        );
        assert_eq!(report(&flags)["test"], simulated["test"], "virtual time repeats itself");
    }
}

#[test]
fn more_workers_than_documents_are_no_problem() {
    for technique in ["classic", "adaptive", "lapse"] {
        let size = ["--data", "builtin:topics:4x10x2", "--topics", "3", "--epochs", "3"];
        let report =
            LDA.report(&[&size[..], &["--technique", technique, "--nodes", "2", "--workers", "4"]].concat());
        assert!(report["epochs"][2]["examples"].as_u64() > Some(100));
    }
}

#[test]
fn nodes_with_different_documents_refuse_each_other() {
    let data = ["builtin:topics:30x20x2", "builtin:topics:31x20x2"];
    let commands = data.map(|data| LDA.command(&["--data", data, "--epochs", "3"])).into();
    let children: Vec<Child> = ranks(commands).into_iter().map(start).collect();
    for output in children.into_iter().map(finish) {
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("were started differently: digest of the data is"), "{said}");
    }
}
