//! Several node processes: their common report, and what happens if their flags differ.

use intendant_apptest::{App, finish, ranks, schema, start};
use kge::Clusters;
use kge::data::Dataset;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Output};

const KGE: App = App::new(env!("CARGO_BIN_EXE_intendant-kge"));
const QUALITY: [&str; 6] =
    ["mrr_filtered", "mean_rank_filtered", "hits_at_1", "hits_at_3", "hits_at_10", "heldout_loss"];

/// Runs one process per list of flags, as the nodes of one cluster, to its end.
fn nodes(flags: &[Vec<&str>]) -> Vec<Output> {
    let commands = flags.iter().map(|flags| KGE.command(flags)).collect();
    let children: Vec<Child> = ranks(commands).into_iter().map(start).collect();
    children.into_iter().map(finish).collect()
}

fn report(flags: &[&str]) -> Value {
    KGE.report(flags)
}

#[test]
fn four_nodes_report_what_one_process_does() {
    for (float, bytes) in [("f32", 4), ("f64", 8)] {
        let same = ["--epochs", "1", "--valid-every", "1", "--dim", "8", "--float", float];
        let cluster = ["--nodes", "4", "--workers", "1", "--technique", "classic"];
        let four = report(&[&cluster[..], &same].concat());
        schema::check(&four, &QUALITY, 1);
        assert_eq!((&four["nodes"], &four["workers_per_node"]), (&4.into(), &1.into()));
        assert_eq!(four["model"]["bytes"], (2034 + 2 * 42) * 16 * bytes);
        let access = |name: &str| four["access"][name].as_u64().unwrap();
        assert_eq!(access("local") + access("remote"), access("pull_keys") + access("push_keys"));
        assert!(access("local") > 0 && access("remote") > access("local"), "{}", four["access"]);
        assert!(four["network"]["bytes"].as_u64() > four["access"]["remote"].as_u64());
        assert_eq!(four["epochs"][0]["examples"], 32_888);

        let single = report(&[&["--technique", "single"], &same[..]].concat());
        for place in ["/data_digest", "/model", "/access/pull_keys", "/access/push_keys", "/access/sampled"] {
            assert_eq!(four.pointer(place), single.pointer(place), "{place}");
        }
    }
}

/// Training with replicas that exchange half the bytes reaches the same quality, and the nodes agree on the
/// setting.
#[test]
fn rounded_deltas_teach_the_same_with_fewer_bytes() {
    let flags = ["--nodes", "2", "--workers", "1", "--epochs", "2", "--valid-every", "1", "--dim", "32"];
    let run = |delta_type: &str| report(&[&flags[..], &["--delta-type", delta_type]].concat());
    let (exact, rounded) = (run("f32"), run("bf16"));
    schema::check(&rounded, &QUALITY, 1);
    assert_eq!(
        (&exact["config"]["delta-type"], &rounded["config"]["delta-type"]),
        (&"exact".into(), &"bf16".into())
    );
    let last = |report: &Value, name: &str| report["epochs"][1][name].clone();
    assert_eq!(last(&rounded, "examples"), last(&exact, "examples"));
    let loss = |report: &Value| report["test"]["heldout_loss"].as_f64().unwrap();
    assert!(loss(&rounded) < 1.1 * loss(&exact), "{} instead of {}", loss(&rounded), loss(&exact));
    let bytes = |report: &Value| report["network"]["bytes"].as_f64().unwrap();
    assert!(bytes(&rounded) < 0.9 * bytes(&exact), "{} of {} bytes", bytes(&rounded), bytes(&exact));
    disagree(&["--delta-type", "bf16"], &["--delta-type", "exact"], "delta-type");
}

/// A graph whose held-out triples name nothing new, so that the model is the same with and without them.
fn graph(folder: &Path, splits: &[&str]) -> String {
    fs::create_dir_all(folder).unwrap();
    let line = |i: usize, step: usize| format!("n{i}\tr\tn{}\n", (i + step) % 30);
    for split in splits {
        let text: String = match *split {
            "train" => (0..30).map(|i| line(i, 1)).collect(),
            _ => line(3, 2) + &line(8, 2),
        };
        fs::write(folder.join(format!("{split}.txt")), text).unwrap();
    }
    folder.to_str().unwrap().to_owned()
}

/// Each node ends by itself, with exit code 2 and a message that contains `what`.
#[track_caller]
fn disagree(first: &[&str], second: &[&str], what: &str) {
    let common = ["--epochs", "3", "--valid-every", "1", "--dim", "8", "--batch", "4"];
    let flags = [[&common[..], first].concat(), [&common[..], second].concat()];
    for output in nodes(&flags) {
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("were started differently") && said.contains(what), "{said}");
    }
}

#[test]
fn nodes_with_different_hyperparameters_refuse_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let data = graph(folder.path(), &["train", "valid"]);
    let data = ["--data", &data];
    let with = |flags: &[&'static str]| [&data[..], flags].concat();
    disagree(&with(&[]), &with(&["--lr", "0.2"]), ": --lr is 0.");
    disagree(&with(&["--n3", "0"]), &with(&[]), ": --n3 is 0.");
    disagree(&with(&[]), &with(&["--unseen", "skip"]), ": --unseen is ");
    // Defaults of other settings depend on the loss.
    disagree(&with(&[]), &with(&["--loss", "logistic"]), ": --loss is ");
}

#[test]
fn nodes_with_different_data_refuse_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let whole = graph(&folder.path().join("whole"), &["train", "valid", "test"]);
    let without_valid = graph(&folder.path().join("without"), &["train", "test"]);
    disagree(&["--data", &whole], &["--data", &without_valid], ": digest of the data is ");
}

#[test]
fn nodes_may_keep_the_same_data_in_different_places() {
    let folder = tempfile::tempdir().unwrap();
    let data = ["one", "two"].map(|place| graph(&folder.path().join(place), &["train", "valid", "test"]));
    let flags = data.each_ref().map(|data| vec!["--data", data, "--epochs", "1", "--dim", "8", "-q"]);
    for output in nodes(&flags) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The only difference is where relations are kept: exactly the accesses to moved relations become local.
/// Other keys stay at their homes.
#[test]
fn accesses_to_clustered_relations_are_local() {
    const NODES: u32 = 4;
    let spec = "synthetic:300x12x3000";
    let data = Dataset::builtin(spec).unwrap();
    let clusters = Clusters::by_relation(&data.train, 12, NODES);
    assert_eq!(clusters.split_relations(), 0);
    // With ranges of keys, the first node is home to the first three relations, and so on. Each triple has a
    // pull and a push.
    let elsewhere = |node: u32| {
        let relations = clusters.triples(node).iter().map(|t| data.train[*t as usize].relation);
        2 * relations.filter(move |relation| relation / 3 != node).count() as u64
    };
    let elsewhere: u64 = (0..NODES).map(elsewhere).sum();
    assert!(elsewhere > 1_000);
    for model in kge::ModelKind::ALL.iter().map(|model| model.facts().name) {
        let remote = |technique| {
            let source = format!("builtin:{spec}");
            let cluster =
                ["--nodes", "4", "--workers", "2", "--key-order", "range", "--cluster", "relations"];
            let papers = ["--loss", "logistic", "--negatives", "2", "--dim", "4", "--epochs", "2"];
            let papers = [&papers[..], &["--localize-ahead", "0"]].concat();
            let flags =
                [&cluster[..], &papers, &["--data", &source, "--model", model, "--technique", technique]];
            let report = report(&flags.concat());
            let remote = |epoch: usize| report["epochs"][epoch]["access"]["remote"].as_u64().unwrap();
            [remote(0), remote(1)]
        };
        let (classic, lapse) = (remote("classic"), remote("lapse"));
        assert_eq!(lapse, [classic[0] - elsewhere, classic[1] - elsewhere]);
    }
}

/// The Lapse paper's setting of the README, on a graph that is too small for it: all nodes access the same
/// entities at the same time, but most entities have arrived when they are accessed.
#[test]
fn the_papers_setting_moves_entities_to_where_they_are_used() {
    let base = [
        "--data",
        "builtin:synthetic:2000x12x3000",
        "--nodes",
        "4",
        "--workers",
        "1",
        "--technique",
        "lapse",
    ];
    let papers = ["--loss", "logistic", "--negatives", "10", "--dim", "4", "--epochs", "1"];
    let papers = [&papers[..], &["--sampling", "conform"]].concat();
    let with = |flags: &[&str]| {
        let report = report(&[&base[..], &papers, flags].concat());
        let of = |place: &str| report.pointer(place).and_then(Value::as_u64).unwrap();
        (of("/epochs/0/access/remote"), of("/management/relocations"), of("/access/pull_keys"))
    };
    let ahead = |batches| with(&["--cluster", "relations", "--localize-ahead", batches]);
    let (still, moved) = (ahead("0"), ahead("1"));
    assert!(
        moved.0 * 2 < still.0,
        "{moved:?} remote accesses, relocations, accesses; {still:?} without moving"
    );
    assert!(moved.1 > 10_000 && still.1 < 20, "{moved:?} {still:?}");
}

#[test]
fn the_balance_of_clusters_is_told() {
    let flags = [
        "--data",
        "builtin:synthetic:300x12x3000",
        "--cluster",
        "relations",
        "--nodes",
        "2",
        "--epochs",
        "1",
        "-v",
    ];
    let output = KGE.output(&flags);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let clusters: Vec<&str> = said.lines().filter(|line| line.contains("clusters")).collect();
    assert_eq!(clusters.len(), 1, "one node tells: {said}");
    for part in ["nodes=2", "least_triples=", "most_triples=", "slowest_over_average=", "split_relations=0"] {
        assert!(clusters[0].contains(part), "{}", clusters[0]);
    }
}
