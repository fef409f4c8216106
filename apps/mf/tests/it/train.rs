//! The program, as users run it.

use intendant_apptest::App;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const MF: App = App::new(env!("CARGO_BIN_EXE_intendant-mf"));

fn report(flags: &[&str]) -> Value {
    MF.report(flags)
}

fn rmse(report: &Value) -> f64 {
    report["test"]["rmse"].as_f64().unwrap()
}

const SMALL: [&str; 2] = ["--data", "builtin:zipf:600x100x12000"];

/// The error of predicting the mean is 1.12; that of the true factors is .5.
#[test]
fn the_built_in_matrix_is_learned() {
    for flags in [
        &["--technique", "single"][..],
        &["--technique", "single", "--algorithm", "blocks", "--workers", "3", "--float", "f64"],
        &["--technique", "single", "--optimizer", "sgd", "--bold-driver"],
        &["--technique", "classic", "--bias", "false", "--l2-scope", "use", "--l2", "0.02"],
    ] {
        let report = report(&[flags, &["--epochs", "12"]].concat());
        assert!((0.5..0.58).contains(&rmse(&report)), "{flags:?}: {}", report["test"]);
        assert_eq!(report["epochs"][11]["examples"], 250_000);
        let last = &report["epochs"][11];
        assert_eq!(last["quality"], report["test"], "there is one set of held-out entries");
        assert!(report["test"]["mae"].as_f64().unwrap() < rmse(&report));
        assert!(last["loss"].as_f64() < report["epochs"][0]["loss"].as_f64());
    }
}

#[test]
fn a_model_that_is_worse_than_biases_alone_is_told() {
    let said = |flags: &[&str]| {
        let output = MF.output(&[&["--technique", "single", "--epochs", "3"][..], flags].concat());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(said(&["--lr", "0.000001"]).contains("and biases alone reach 1.1"));
    assert!(!said(&[]).contains("biases alone"));
    let report = report(&["--technique", "single", "--epochs", "3"]);
    let baseline = &report["baseline"];
    assert_eq!((&baseline["name"], &baseline["metric"]), (&"biases".into(), &"rmse".into()));
    // The untrained model, which predicts the mean, has 1.1374: these entries follow factors, not biases.
    assert!((1.0..1.2).contains(&baseline["value"].as_f64().unwrap()), "{baseline}");
}

/// Epochs are evaluated on entries that are neither trained nor tested.
#[test]
fn validation_entries_are_held_out() {
    let flags = [&SMALL[..], &["--technique", "single", "--epochs", "4"]].concat();
    let with = |more: &[&str]| report(&[&flags[..], more].concat());
    let (without, held_out) = (with(&[]), with(&["--valid", "0.2"]));
    let examples = |report: &Value| report["epochs"][0]["examples"].as_u64().unwrap();
    assert_eq!(examples(&without), 12_000);
    assert!((9_000..10_200).contains(&examples(&held_out)), "{}", examples(&held_out));
    assert_eq!(
        without["epochs"][3]["quality"], without["test"],
        "without, the test entries are all there is"
    );
    assert_ne!(held_out["epochs"][3]["quality"], held_out["test"]);
    assert_eq!(held_out["config"]["valid"], "0.2");
    assert_eq!(without["config"].get("valid"), None);
    // The same from a file: the training and test entries stay the same.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("valid.tsv");
    fs::write(&file, "0\t0\t9.5\n1\t1\t9.5\n").unwrap();
    let from_file = with(&["--valid", file.to_str().unwrap()]);
    assert_eq!((&from_file["data_digest"], &from_file["test"]), (&without["data_digest"], &without["test"]));
    let error = from_file["epochs"][3]["quality"]["mae"].as_f64().unwrap();
    assert!(error > 5.0, "values of this size do not occur: {error}");
    for (valid, said) in
        [("2", "a fraction must be"), ("/no/such", "--valid: cannot read /no/such"), ("1e-9", "--valid: ")]
    {
        let refused = MF.output(&[&flags[..], &["--valid", valid]].concat());
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert!(text.contains(said), "{text}");
    }
    let path = file.to_str().unwrap();
    let refused = MF.output(&[&flags[..], &["--valid", path, "--report", path]].concat());
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("which --valid reads"), "{text}");
}

#[test]
fn the_test_entries_do_not_end_the_training() {
    let flags = [&SMALL[..], &["--technique", "single", "--epochs", "60", "--patience", "1"]].concat();
    let refused = MF.output(&flags);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{text}");
    assert!(text.contains("--patience: task mf has no validation data"), "{text}");
    let report = report(&[&flags[..], &["--valid", "0.1"]].concat());
    assert_eq!(report["validation"]["metric"], "rmse");
    let epochs = report["epochs"].as_array().unwrap().len() as u64;
    assert_eq!(report["validation"]["ended_early"], epochs < 60);
    assert!(report["validation"]["best_epoch"].as_u64().unwrap() <= epochs);
}

#[test]
fn there_is_nothing_to_sample() {
    for flags in [&["--sampling", "bounded"][..], &["--sampling-scheme", "local"], &["--pool-keys", "10"]] {
        let refused = MF.output(&[&SMALL[..], flags].concat());
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("task mf draws no samples"), "{said}");
        assert!(said.contains(flags[0]), "{said}");
    }
}

/// With batches of one entry, the accesses are those of the papers: two keys for each entry, pulled and
/// pushed.
#[test]
fn an_entry_is_two_keys() {
    let flags = ["--technique", "classic", "--epochs", "2", "--batch", "1"];
    for algorithm in ["columns", "blocks"] {
        let report = report(&[&SMALL[..], &flags, &["--algorithm", algorithm]].concat());
        let access = |name: &str| report["access"][name].as_u64().unwrap();
        assert_eq!((access("pull_keys"), access("push_keys")), (2 * 2 * 12_000, 2 * 2 * 12_000));
        assert_eq!(report["model"]["keys"], 700);
        assert_eq!(report["model"]["values"], 700 * 19, "factors, bias and two accumulators");
    }
}

#[test]
fn what_is_trained_does_not_depend_on_who_trains_it() {
    let digest = |flags: &[&str]| {
        let report = report(&[&SMALL[..], &["--epochs", "3"], flags].concat());
        report["data_digest"].as_str().unwrap().to_owned()
    };
    let one = digest(&["--technique", "single"]);
    assert_eq!(one, digest(&["--technique", "single", "--workers", "3", "--batch", "1"]));
    assert_eq!(one, digest(&["--technique", "classic", "--workers", "2", "--float", "f64"]));
    assert_eq!(one, digest(&["--nodes", "2", "--workers", "2", "--algorithm", "blocks"]));
    assert_eq!(one, digest(&["--nodes", "3", "--algorithm", "columns", "--optimizer", "sgd"]));
    assert_eq!(
        one,
        digest(&["--technique", "single", "--seed", "2"]),
        "the data is the same, whatever the order"
    );
    let other =
        report(&["--data", "builtin:uniform:600x100x12000", "--epochs", "3", "--technique", "single"]);
    assert_ne!(one, other["data_digest"]);
}

#[test]
fn one_worker_gives_the_same_model_every_time() {
    let run = |technique| {
        let report = report(&[&SMALL[..], &["--epochs", "5", "--technique", technique]].concat());
        (report["epochs"][4]["loss"].as_f64().unwrap().to_bits(), rmse(&report).to_bits())
    };
    assert_eq!(run("single"), run("single"));
    assert_eq!(run("single"), run("classic"), "with one worker, the server is exactly a shared array");
}

/// Workers that share nothing within a subepoch cannot disturb each other, so their timing does not matter.
#[test]
fn blocked_training_is_the_same_for_any_number_of_threads_and_nodes() {
    let run = |flags: &[&str]| {
        let blocks = ["--epochs", "5", "--algorithm", "blocks", "--float", "f64"];
        let report = report(&[&SMALL[..], &blocks, flags].concat());
        let losses = report["epochs"].as_array().unwrap().iter().map(|e| e["loss"].as_f64().unwrap());
        (losses.collect::<Vec<_>>(), rmse(&report))
    };
    let (losses, rmse) = run(&["--technique", "single", "--workers", "4"]);
    for flags in [
        &["--technique", "single", "--workers", "4", "--batch", "7"][..],
        &["--technique", "classic", "--workers", "4"],
        &["--technique", "classic", "--nodes", "2", "--workers", "2"],
        &["--technique", "classic", "--nodes", "4", "--synchronous"],
    ] {
        let (others, other) = run(flags);
        // Sums of losses are added in a different order, and differences of values are rounded.
        let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
        assert!(
            losses.iter().zip(&others).all(|(a, b)| close(*a, *b)),
            "{flags:?}: {losses:?} and {others:?}"
        );
        assert!(close(rmse, other), "{flags:?}: {rmse} and {other}");
    }
}

/// Real data that is not part of the project. An environment variable names its folder. Two nodes with
/// relocation learn as well as one process. A prediction from the biases of rows and columns alone has an
/// error of 1.515 and 1.002 (ridge regression).
#[test]
fn published_matrices_are_predicted_better_than_by_biases() {
    let root = std::env::var_os("INTENDANT_TEST_DATA").map(PathBuf::from);
    let more =
        [("movietweetings100k", &["--lr", "0.4", "--l2", "20"][..], 1.515), ("chembl_ic50", &[], 0.93)];
    for (name, flags, limit) in more {
        let file = |split: &str| {
            let file = root.as_ref()?.join(format!("mf/{name}.{split}.tsv.zst"));
            file.is_file().then(|| file.to_str().unwrap().to_owned())
        };
        let (Some(train), Some(test)) = (file("train"), file("test")) else {
            eprintln!("skipped: no mf/{name}; set INTENDANT_TEST_DATA to the folder with the data sets");
            continue;
        };
        for algorithm in ["columns", "blocks"] {
            let data = ["--data", &train, "--test", &test, "--algorithm", algorithm];
            let trained = |more: &[&str]| rmse(&report(&[&data[..], more, flags].concat()));
            let single = trained(&["--technique", "single", "--workers", "2"]);
            assert!(single < limit, "{name}, {algorithm}: {single}");
            let moved = trained(&["--technique", "lapse", "--nodes", "2"]);
            assert!(
                (moved / single - 1.0).abs() < 0.01,
                "{name}, {algorithm}: {moved} on two nodes, not {single}"
            );
        }
    }
}

/// A matrix that is exactly a product: the cell in row i, column j has the value (i + 1) · (j + 1) / 10.
fn products(folder: &Path) -> String {
    let cell = |i: usize, j: usize| format!("row {i},{j},{}\n", (i + 1) as f64 * (j + 1) as f64 / 10.0);
    let cells = (0..20).flat_map(|i| (0..12).map(move |j| (i, j))).filter(|(i, j)| (i * 5 + j * 3) % 4 > 0);
    let text: String = cells.map(|(i, j)| cell(i, j)).collect();
    let file = folder.join("products.csv");
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn an_export_can_be_read_by_others_and_predicts() {
    // The second export replaces the first one, which has more files.
    let folder = tempfile::tempdir().unwrap();
    for (float, bias) in [("f32", "true"), ("f64", "false")] {
        let data = products(folder.path());
        let export = folder.path().join("model");
        let flags =
            ["--data", &data, "--test", "0.1", "--technique", "single", "--float", float, "--bias", bias];
        let more = ["--rank", "4", "--epochs", "150", "--l2", "0.05", "--l2-bias", "0.05", "--lr", "0.1"];
        let export_flag = ["--export", export.to_str().unwrap()];
        let trained = report(&[&flags[..], &more, &export_flag].concat());
        assert!(rmse(&trained) < 1.0, "{}", trained["test"]);

        let mut files: Vec<String> =
            fs::read_dir(&export).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
        files.sort();
        let with = [
            "column.npy",
            "column_bias.npy",
            "column_ids.txt",
            "export.json",
            "mean.txt",
            "row.npy",
            "row_bias.npy",
            "row_ids.txt",
        ];
        let without = ["column.npy", "column_ids.txt", "export.json", "row.npy", "row_ids.txt"];
        assert_eq!(files, if bias == "true" { with.to_vec() } else { without.to_vec() });
        let ids: Vec<String> = (0..20).map(|i| format!("row {i}")).collect();
        let mut found: Vec<String> =
            fs::read_to_string(export.join("row_ids.txt")).unwrap().lines().map(str::to_owned).collect();
        let place: Vec<usize> = ids.iter().map(|id| found.iter().position(|f| f == id).unwrap()).collect();
        found.sort();
        assert_eq!(found.len(), 20);

        let matrix = |name: &str, shape: [u64; 2]| -> Vec<f64> {
            let bytes = fs::read(export.join(name)).unwrap();
            let npy = npyz::NpyFile::new(&bytes[..]).unwrap();
            assert_eq!((npy.order(), npy.shape()), (npyz::Order::C, &shape[..]));
            if float == "f32" {
                npy.into_vec::<f32>().unwrap().into_iter().map(f64::from).collect()
            } else {
                npy.into_vec::<f64>().unwrap()
            }
        };
        let (rows, columns) = (matrix("row.npy", [20, 4]), matrix("column.npy", [12, 4]));
        let mut squares = 0.0;
        for (i, row) in place.iter().enumerate() {
            for j in 0..12 {
                let mut prediction: f64 = (0..4).map(|k| rows[row * 4 + k] * columns[j * 4 + k]).sum();
                if bias == "true" {
                    let mean: f64 =
                        fs::read_to_string(export.join("mean.txt")).unwrap().trim().parse().unwrap();
                    let biases = (matrix("row_bias.npy", [20, 1]), matrix("column_bias.npy", [12, 1]));
                    prediction += mean + biases.0[*row] + biases.1[j];
                }
                let error = (i + 1) as f64 * (j + 1) as f64 / 10.0 - prediction;
                squares += error * error;
            }
        }
        assert!((squares / 240.0).sqrt() < 1.0, "the exported model is off by {}", (squares / 240.0).sqrt());
    }
}

#[test]
fn mistakes_end_with_exit_code_2_and_say_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.tsv");
    fs::write(&broken, "0\t0\t1\n0\t1\n").unwrap();
    let broken = broken.to_str().unwrap();
    let xz = folder.path().join("ratings.csv.xz");
    fs::write(&xz, b"\xfd7zXZ\0\0\0").unwrap();
    let xz = xz.to_str().unwrap();
    for (flags, message) in [
        (&["--data", broken][..], "broken.tsv, line 2: found 2 columns, expected 3"),
        (&["--data", "does/not/exist"], "cannot read does/not/exist: "),
        (&["--data", "builtin:other"], "there are builtin:zipf and builtin:uniform"),
        (&["--data", "builtin:zipf:9x9x99"], "do not fit into 9 x 9 cells"),
        (&["--rank", "0"], "--rank is 0; it must be a number from 1 to"),
        (&["--bold-driver"], "--bold-driver is true; it must be left out with adagrad"),
        (&["--test", "0.0000001"], "leaves nothing to train on or to evaluate"),
        (&["--test", broken], "broken.tsv, line 2: found 2 columns"),
        (
            &["--data", xz],
            "ratings.csv.xz is compressed by xz; decompress it, or compress it by zstd instead: xz",
        ),
        (&["--lr", "-1"], "--lr is -1; it must be a number above 0"),
        (&["--init-scale", "1e300"], "it must be a number above 0 and at most 1000"),
        (&["--algorithm", "rows"], "[possible values: columns, tiles, blocks]"),
    ] {
        let output = MF.output(&[flags, &["--technique", "single"]].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {error}");
        assert!(error.contains(message), "{flags:?}: {error}");
    }
}

#[test]
fn an_absurd_learning_rate_ends_with_exit_code_3() {
    let output = MF.output(
        &[&SMALL[..], &["--optimizer", "sgd", "--lr", "1e30", "--technique", "single", "-q"]].concat(),
    );
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("diverged in epoch 1"), "{error}");
}

#[test]
fn without_test_entries_quality_is_not_claimed() {
    let folder = tempfile::tempdir().unwrap();
    let data = products(folder.path());
    let report = report(&["--data", &data, "--technique", "single", "--epochs", "2"]);
    assert_eq!(report["test"].as_object().unwrap().len(), 0);
    assert_eq!(report["epochs"][1]["quality"].as_object().unwrap().len(), 0);
    let output = MF.output(&["--data", &data, "--technique", "single", "--epochs", "1", "-q"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no test data: --test 0.1 holds out"));
}

/// A file of test entries may name rows that the training data does not have.
#[test]
fn rows_that_training_never_saw_are_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let (data, test) = (products(folder.path()), folder.path().join("test.csv"));
    let told = |text: &str| {
        fs::write(&test, text).unwrap();
        let flags = ["--data", &data, "--test", test.to_str().unwrap(), "--technique", "single"];
        let output = MF.output(&[&flags[..], &["--workers", "2", "--epochs", "2", "-q"]].concat());
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap().matches("have a row or column without training").count()
    };
    assert_eq!(told("row 0,1,0.2\nRow 3,2,1.2\nRow 4,2,1.5\n"), 1);
    assert_eq!(told("row 0,1,0.2\nrow 3,2,1.2\n"), 0);
}
