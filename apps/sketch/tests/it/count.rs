//! The program, as users run it.

use intendant_apptest::{App, schema};
use serde_json::Value;
use std::fs;
use std::path::Path;

pub(crate) const SKETCH: App = App::new(env!("CARGO_BIN_EXE_intendant-sketch"));

/// The members that exact counts add to the quality.
const EXACT: [&str; 7] =
    ["inserted", "row_deviation", "items", "error_max", "error_mean", "error_bound", "over_bound_share"];

fn test(report: &Value, name: &str) -> f64 {
    report["test"][name].as_f64().unwrap_or_else(|| panic!("no {name} in {}", report["test"]))
}

/// Standard output of a run that must succeed.
fn printed(flags: &[&str]) -> String {
    let output = SKETCH.output(&[flags, &["-q"]].concat());
    assert!(output.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn text(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_default_stream_is_counted_within_the_bounds() {
    let report = SKETCH.report(&["--top", "10"]);
    let with_min = [&EXACT[..], &["underestimates", "top_precision"]].concat();
    assert_eq!(report["epochs"][0]["examples"], 1_000_000);
    assert_eq!((test(&report, "inserted"), test(&report, "row_deviation")), (1e6, 0.0));
    assert_eq!(test(&report, "underestimates"), 0.0);
    assert!(test(&report, "error_max") > 0.0 && test(&report, "over_bound_share") <= 0.01);
    assert_eq!(test(&report, "error_bound"), 1e6 * std::f64::consts::E / 27_200.0);
    assert_eq!(test(&report, "top_precision"), 1.0);
    assert_eq!(report["model"]["values"], 5 * 27_200 + 1);
    // The quality after an epoch says nothing about heavy hitters, which are found at the end.
    schema::described(&with_min);
    let all = report["test"].as_object().unwrap().len();
    assert_eq!(all, with_min.len(), "{}", report["test"]);
    let signed = SKETCH.report(&["--kind", "count-sketch", "--epsilon", "0.02"]);
    schema::check(&signed, &EXACT, 1);
    assert_eq!((test(&signed, "row_deviation"), signed["test"].get("underestimates")), (0.0, None));
    assert!(test(&signed, "over_bound_share") <= 0.01, "{}", signed["test"]);
}

#[test]
fn epochs_add_up() {
    let report =
        SKETCH.report(&["--epochs", "3", "--data", "builtin:zipf:50000x1000", "--batch-bytes", "4096"]);
    assert_eq!(test(&report, "inserted"), 150_000.0);
    assert_eq!((test(&report, "row_deviation"), test(&report, "underestimates")), (0.0, 0.0));
    for (epoch, number) in report["epochs"].as_array().unwrap().iter().zip(1..) {
        assert_eq!(epoch["quality"]["inserted"], f64::from(50_000 * number));
        assert_eq!(epoch["quality"]["underestimates"], 0.0);
        assert_eq!(epoch["loss"], 0.0);
    }
    let nothing = SKETCH.report(&["--epochs", "0", "--data", "builtin:zipf:500x10"]);
    assert_eq!((test(&nothing, "inserted"), test(&nothing, "error_max")), (0.0, 0.0));
}

#[test]
fn words_of_a_file_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let data = text(folder.path(), "t.txt", &"the cat and the hat\n\nthe end \u{e9}\n".repeat(300));
    let query = text(folder.path(), "q.txt", "hat the\nnothing\n");
    let flags = ["--data", &data, "--exact", "1", "--batch-bytes", "100", "--query", &query];
    let report = SKETCH.report(&flags);
    assert_eq!((test(&report, "inserted"), test(&report, "items")), (2400.0, 6.0));
    assert_eq!((test(&report, "row_deviation"), test(&report, "error_max")), (0.0, 0.0));
    let said = printed(&[&flags[..], &["--top", "2"]].concat());
    let found = said.split_once("\ntop\n").expect("a list").1;
    assert_eq!(
        found,
        "estimate\titem\n900\tthe\n300\tand\n\nquery\nestimate\titem\n300\that\n900\tthe\n0\tnothing\n"
    );
    let pairs = printed(&["--data", &data, "--ngrams", "2", "--top", "1"]);
    assert!(pairs.ends_with("\ntop\nestimate\titem\n300\tand the\n"), "{pairs}");
    let lines = printed(&["--data", &data, "--items", "lines", "--top", "5"]);
    assert!(lines.ends_with("estimate\titem\n300\tthe cat and the hat\n300\tthe end \u{e9}\n"), "{lines}");
    let without = SKETCH.report(&["--data", &data]);
    schema::check(&without, &["inserted", "row_deviation"], 1);
    assert_eq!(test(&without, "inserted"), 2400.0);
}

#[test]
fn what_is_counted_does_not_depend_on_batches_workers_or_functions() {
    let digest = |flags: &[&str]| {
        let report = SKETCH.report(&[&["--data", "builtin:zipf:30000x500"][..], flags].concat());
        assert_eq!((test(&report, "inserted"), test(&report, "row_deviation")), (30_000.0, 0.0), "{flags:?}");
        report["data_digest"].as_str().unwrap().to_owned()
    };
    let one = digest(&["--technique", "single"]);
    for flags in [
        &["--technique", "single", "--workers", "3", "--aggregate", "false"][..],
        &["--seed", "2", "--width", "100", "--depth", "2", "--block", "1"],
        &["--technique", "classic", "--workers", "2", "--float", "f32"],
        &["--kind", "count-sketch", "--width", "500", "--depth", "3", "--top", "3"],
        &["--nodes", "2", "--workers", "2", "--batch-bytes", "1000"],
        &["--nodes", "3", "--simulate"],
    ] {
        assert_eq!(one, digest(flags), "{flags:?}");
    }
    let other = SKETCH.report(&["--data", "builtin:zipf:30000x501"]);
    assert_ne!(one, other["data_digest"]);
}

/// An exported sketch answers without the stream, and can continue to count.
#[test]
fn an_exported_sketch_is_asked_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let first = text(folder.path(), "1.txt", &"a b\nb c\n".repeat(50));
    let second = text(folder.path(), "2.txt", &"c d c\n".repeat(50));
    let both = text(folder.path(), "3.txt", &(fs::read_to_string(&first).unwrap() + &"c d c\n".repeat(50)));
    let query = text(folder.path(), "q.txt", "d c\nb a\n");
    for kind in ["count-min", "count-sketch"] {
        let size = ["--kind", kind, "--width", "512", "--depth", "3", "--seed", "9"];
        let export = |name: &str, flags: &[&str]| {
            printed(&[flags, &["--export", &path(name), "--overwrite", "--top", "2"]].concat())
        };
        export("one", &[&["--data", &first][..], &size].concat());
        let asked = printed(&["--sketch", &path("one"), "--query", &query]);
        let (table, answers) = asked.split_once("\nquery\n").expect("answers");
        assert_eq!(answers, "estimate\titem\n0\td\n50\tc\n100\tb\n50\ta\n", "{kind}");
        assert!(table.contains("test inserted") && table.contains("200"), "{table}");
        let named = printed(&["--sketch", &path("one"), "--top", "1", "--nodes", "2", "--float", "f32"]);
        assert!(named.ends_with("\ntop\nestimate\titem\n100\tb\n"), "{named}");
        let more = export("more", &["--sketch", &path("one"), "--data", &second, "--nodes", "2"]);
        assert!(more.ends_with("estimate\titem\n150\tc\n100\tb\n"), "{more}");
        export("whole", &[&["--data", &both][..], &size].concat());
        for file in ["counters.npy", "sketch.json", "top.tsv"] {
            let bytes = |name: &str| fs::read(folder.path().join(name).join(file)).unwrap();
            assert!(bytes("more") == bytes("whole"), "{kind}: {file} differs");
        }
    }
    let about: Value =
        serde_json::from_slice(&fs::read(folder.path().join("whole/sketch.json")).unwrap()).unwrap();
    let bytes = fs::read(folder.path().join("whole/counters.npy")).unwrap();
    let npy = npyz::NpyFile::new(&bytes[..]).unwrap();
    assert_eq!(npy.shape(), [3 * 512 / 64, 64]);
    let cells = npy.into_vec::<f64>().unwrap();
    assert_eq!(
        (&about["inserted"], &about["items"], &about["width"]),
        (&350.into(), &"words".into(), &512.into())
    );
    for (row, signed) in cells.chunks(512).zip(about["signed"].as_array().unwrap()) {
        assert_eq!(row.iter().sum::<f64>(), signed.as_f64().unwrap());
    }
    for (flags, said) in [
        (&["--width", "64"][..], "--width is 64 here and 512 in the sketch of --sketch: leave it out"),
        (&["--epsilon", "0.1"], "--epsilon: the sketch of --sketch has its size: leave it out"),
        (&["--items", "lines"], "--items is lines here and words in the sketch of --sketch: leave it out"),
        (&["--ngrams", "2"], "--ngrams is 2 here and 1 in the sketch of --sketch: leave it out"),
        (
            &["--kind", "count-min"],
            "--kind is count-min here and count-sketch in the sketch of --sketch: leave it out",
        ),
        (
            &["--data", &second, "--exact", "1"],
            "--exact: the true counts of what the sketch of --sketch has counted are not known",
        ),
        (&["--export", &path("whole")], "an export replaces the folder as a whole, and --sketch reads"),
    ] {
        let output = SKETCH.output(&[&["--sketch", &path("whole")][..], flags].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {error}");
        assert!(error.contains(said), "{flags:?}: {error}");
    }
}

#[test]
fn one_worker_gives_the_same_sketch_every_time_and_with_every_technique() {
    let folder = tempfile::tempdir().unwrap();
    let cells = |name: &str, flags: &[&str]| {
        let export = folder.path().join(name);
        let small = ["--data", "builtin:zipf:20000x500", "--batch-bytes", "2000", "--export"];
        printed(&[&small[..], &[export.to_str().unwrap()], flags].concat());
        fs::read(export.join("counters.npy")).unwrap()
    };
    let single = cells("single", &["--technique", "single"]);
    assert!(single == cells("again", &["--technique", "single"]));
    assert!(single == cells("server", &[]));
    // Not only with one worker: sums of integers do not depend on their order.
    assert!(single == cells("several", &["--nodes", "2", "--workers", "2"]));
    assert!(single == cells("simulated", &["--nodes", "4", "--simulate", "--technique", "lapse"]));
    assert!(single != cells("other", &["--technique", "single", "--seed", "2"]));
}
