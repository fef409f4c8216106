//! The program, as users run it.

mod checkpoints;
mod nodes;
mod simulated;
#[cfg(all(target_os = "linux", feature = "verbs"))]
mod verbs;

use intendant_apptest::{App, schema};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const BPMF: App = App::new(env!("CARGO_BIN_EXE_intendant-bpmf"));

const QUALITY: [&str; 4] = ["rmse", "mae", "interval_coverage", "interval_width"];

/// The noise has a standard deviation of .5: a precision of 4.
const SMALL: [&str; 6] = ["--data", "builtin:zipf:600x100x12000", "--alpha", "4", "--rank", "6"];

fn report(flags: &[&str]) -> Value {
    BPMF.report(flags)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn refused(flags: &[&str]) -> (Option<i32>, String) {
    let output = BPMF.output(flags);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Without --alpha, the noise is estimated. A precision that is far too high makes intervals too narrow, and
/// the run says so.
#[test]
fn the_noise_follows_from_the_data() {
    let data = ["--data", "builtin:zipf:600x100x12000", "--rank", "6", "--epochs", "60", "--burn-in", "15"];
    let test = &report(&data)["test"];
    assert!((0.5..0.62).contains(&number(&test["rmse"])), "{test}");
    assert!((0.93..0.97).contains(&number(&test["interval_coverage"])), "{test}");
    let output = BPMF.output(&[&data[..], &["--alpha", "100", "-q"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("a lower --alpha or more --epochs would widen them"),
        "{said}"
    );
}

/// The error of predicting the mean is 1.12; that of the true factors is .5.
#[test]
fn the_built_in_matrix_is_sampled_and_reported_as_documented() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.json");
    let flags =
        ["--epochs", "60", "--burn-in", "15", "--threads", "2", "-q", "--report", file.to_str().unwrap()];
    let output = BPMF.output(&[&SMALL[..], &flags].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    schema::check(&report, &QUALITY, 1);
    schema::described(&QUALITY);
    schema::check_history(&fs::read_to_string(folder.path().join("r.epochs.jsonl")).unwrap(), &report);
    assert_eq!((&report["task"], &report["technique"]), (&"bpmf".into(), &"lapser-push".into()));
    assert_eq!((&report["model"]["keys"], &report["model"]["bytes"]), (&700.into(), &(700 * 6 * 8).into()));
    assert_eq!(report["config"].get("look-ahead"), None, "settings without effect are left out");
    assert_eq!((&report["config"]["burn-in"], &report["config"]["nu"]), (&15.into(), &6.0.into()));
    let test = &report["test"];
    assert!((0.5..0.62).contains(&number(&test["rmse"])), "{test}");
    assert!((0.9..0.99).contains(&number(&test["interval_coverage"])), "{test}");
    // With the noise alone, the interval would be 1.96.
    assert!((1.96..2.6).contains(&number(&test["interval_width"])), "{test}");
    let epochs = report["epochs"].as_array().unwrap();
    assert_eq!((epochs.len(), &epochs[59]["quality"]), (60, test));
    assert_eq!(epochs[0]["examples"], 12_000);
    // The average predicts better than the last sample alone.
    assert!(number(&epochs[59]["quality"]["rmse"]) < 0.98 * number(&epochs[14]["quality"]["rmse"]));

    // The effective configuration repeats the run.
    let config = folder.path().join("r.config.toml");
    let again = BPMF.report(&["--config", config.to_str().unwrap()]);
    assert_eq!(again["test"], report["test"]);
}

#[test]
fn any_number_of_threads_computes_the_same_bits() {
    let run = |flags: &[&str]| {
        let report = report(&[&SMALL[..], &["--epochs", "9"], flags].concat());
        let losses =
            report["epochs"].as_array().unwrap().iter().map(|epoch| number(&epoch["loss"]).to_bits());
        (losses.collect::<Vec<_>>(), report["test"].clone())
    };
    let one = run(&["--threads", "1"]);
    assert_eq!(one, run(&["--threads", "2", "--valid-every", "0"]));
    assert_eq!(one, run(&["--threads", "5"]));
    assert_ne!(one, run(&["--seed", "2"]));
}

/// The file has the same entries that are held out otherwise, so that both measure the same.
#[test]
fn validation_entries_are_watched_and_not_tested() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, rows: std::ops::Range<u32>| {
        let cell = |row: u32, column: u32| format!("{row},{column},{}\n", (row * 3 + column * 5) % 7);
        let lines = rows.flat_map(|row| (0..9).map(move |column| cell(row, column)));
        let path = folder.path().join(name);
        fs::write(&path, lines.collect::<String>()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (data, one, other) = (file("data.csv", 0..30), file("one.csv", 3..9), file("other.csv", 14..30));
    let run = |flags: &[&str]| {
        let flags = [&["--data", &data, "--rank", "2", "--epochs", "6", "--burn-in", "2"], flags].concat();
        let report = report(&flags);
        (report["epochs"][5]["quality"].clone(), report["test"].clone())
    };
    let (watched, tested) = run(&["--valid", &one, "--test", &other]);
    // A run that is tested at its end on either set.
    assert_eq!(run(&["--test", &one]).1["rmse"], watched["rmse"]);
    assert_eq!(run(&["--test", &other]).1["rmse"], tested["rmse"]);
    assert_ne!(watched["rmse"], tested["rmse"]);
    // Without validation entries, the test entries take their place.
    assert_eq!(run(&["--test", &other]).0, tested);
    assert_eq!(run(&["--valid", &one]).0, watched);
    assert!(run(&["--valid", &one]).1.as_object().unwrap().is_empty(), "there is no test data");
    for nodes in ["2", "3"] {
        assert_eq!(
            run(&["--valid", &one, "--test", &other, "--nodes", nodes]),
            (watched.clone(), tested.clone())
        );
    }
    let never = report(&["--data", &data, "--valid", &one, "--valid-every", "0", "--epochs", "2"]);
    assert!(never["epochs"][1]["quality"].as_object().unwrap().is_empty());
}

#[test]
fn without_iterations_the_prediction_is_the_mean() {
    let folder = tempfile::tempdir().unwrap();
    let (data, test) = (folder.path().join("data.csv"), folder.path().join("test.csv"));
    fs::write(&data, "a,x,1\na,y,2\nb,x,6\n").unwrap();
    fs::write(&test, "b,y,5\n").unwrap();
    let flags = ["--data", data.to_str().unwrap(), "--test", test.to_str().unwrap(), "--epochs", "0"];
    let report = report(&flags);
    assert!(report["epochs"].as_array().unwrap().is_empty());
    assert_eq!(number(&report["test"]["rmse"]), 2.0);
}

/// `name.npy` of an export, `shape` rows and columns.
fn matrix(folder: &Path, name: &str, shape: [u64; 2]) -> Vec<f64> {
    let bytes = fs::read(folder.join(name)).unwrap();
    let npy = npyz::NpyFile::new(&bytes[..]).unwrap();
    assert_eq!((npy.order(), npy.shape()), (npyz::Order::C, &shape[..]), "{name}");
    npy.into_vec::<f64>().unwrap()
}

#[test]
fn an_export_has_posteriors_and_predictions_with_intervals() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("products.csv");
    // The cell in row i, column j has the value (i + 1) · (j + 1) / 10.
    let cells = (0..20).flat_map(|i| (0..12).map(move |j| (i, j)));
    let line = |(i, j): (u32, u32)| format!("row {i},{j},{}\n", f64::from((i + 1) * (j + 1)) / 10.0);
    fs::write(&data, cells.map(line).collect::<String>()).unwrap();
    let export = folder.path().join("model");
    let flags = ["--data", data.to_str().unwrap(), "--test", "0.2", "--rank", "3", "--alpha", "10"];
    let trained = report(&[&flags[..], &["--export", export.to_str().unwrap()]].concat());

    let mut files: Vec<String> =
        fs::read_dir(&export).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    let expected = [
        "column_ids.txt",
        "column_mean.npy",
        "column_variance.npy",
        "export.json",
        "mean.txt",
        "predictions.tsv",
        "row_ids.txt",
        "row_mean.npy",
        "row_variance.npy",
    ];
    assert_eq!(files, expected);
    for (side, rows) in [("row", 20), ("column", 12)] {
        let means = matrix(&export, &format!("{side}_mean.npy"), [rows, 3]);
        let variances = matrix(&export, &format!("{side}_variance.npy"), [rows, 3]);
        assert!(means.iter().all(|x| x.is_finite()) && variances.iter().all(|x| *x > 0.0));
        let ids = fs::read_to_string(export.join(format!("{side}_ids.txt"))).unwrap();
        assert_eq!(ids.lines().count() as u64, rows);
    }
    let text = fs::read_to_string(export.join("predictions.tsv")).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("row\tcolumn\tvalue\tmean\tdeviation\tlow\thigh"));
    let (mut squares, mut covered, mut count) = (0.0, 0.0, 0.0);
    for line in lines {
        let fields: Vec<&str> = line.split('\t').collect();
        let numbers: Vec<f64> = fields[2..].iter().map(|x| x.parse().unwrap()).collect();
        let [value, mean, deviation, low, high] = numbers[..] else { panic!("{line}") };
        let row: f64 = fields[0].strip_prefix("row ").unwrap().parse().unwrap();
        let column: f64 = fields[1].parse().unwrap();
        assert!((value - (row + 1.0) * (column + 1.0) / 10.0).abs() < 1e-9, "{line}");
        assert!((high - low - 2.0 * 1.959_963_984_540_054 * deviation).abs() < 1e-6, "{line}");
        squares += (value - mean).powi(2);
        covered += f64::from(u8::from((low..=high).contains(&value)));
        count += 1.0;
    }
    // The report contains the same numbers.
    assert!((number(&trained["test"]["rmse"]) - (squares / count).sqrt()).abs() < 1e-9);
    assert!((number(&trained["test"]["interval_coverage"]) - covered / count).abs() < 1e-12);
    assert!(number(&trained["test"]["rmse"]) < 1.0, "{}", trained["test"]);
}

#[test]
fn mistakes_end_with_exit_code_2_and_say_what_is_wrong() {
    for (flags, said) in [
        (&["--channels", "2"][..], "unexpected argument '--channels'"),
        (
            &["--patience", "2"],
            "for '--patience <PATIENCE>': no iteration of a chain has the best model, as predictions are averages",
        ),
        (&["--checkpoint", "c", "--keep", "best"], "no iteration of a chain has the best model"),
        (&["--simulate", "--checkpoint", "c"], "cannot be used with"),
        (&["--resume"], "--checkpoint"),
        (
            &["--max-restarts", "2"],
            "--max-restarts: a restart continues from a checkpoint; add --checkpoint DIR",
        ),
        (&["--valid", "1e-12"], "--valid: "),
        (&["--float", "f32"], "samples are drawn and averaged in f64"),
        (&["--rank", "0"], "--rank is 0; it must be a number from 1 to 256"),
        (&["--burn-in", "120"], "--burn-in is 120; it must be below 120"),
        (&["--nu", "15"], "--nu is 15; it must be a number above 15"),
        (&["--interval", "1"], "--interval is 1; it must be a probability"),
        (&["--alpha", "0"], "--alpha is 0; it must be"),
        (&["--data", "does/not/exist"], "cannot read does/not/exist"),
        (&["--data", "builtin:other"], "there are builtin:zipf and builtin:uniform"),
        (&["--test", "1e-12"], "--test: "),
    ] {
        let (code, error) = refused(flags);
        assert_eq!(code, Some(2), "{flags:?}: {error}");
        assert!(error.contains(said), "{flags:?}: {error}");
    }
    let help = BPMF.output(&["--help"]);
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(
        help.contains("--burn-in") && help.contains("--threads") && !help.contains("--channels"),
        "{help}"
    );
    assert!(!help.contains("--technique") && !help.contains("--float"), "{help}");
}

/// Flags that other programs have, and this one had, with another meaning.
#[test]
fn flags_by_their_old_names_are_refused_with_the_new_ones() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("old.toml");
    let config_path = config.to_str().unwrap();
    for (old, value, new) in [
        ("technique", "lapser-pull", "exchange"),
        ("workers", "2", "threads"),
        ("transport", "shm", "memory"),
    ] {
        let says = |(code, error): (Option<i32>, String)| {
            assert_eq!(code, Some(2), "{old}: {error}");
            assert!(error.contains(old) && error.contains(&format!("give --{new} instead")), "{error}");
        };
        says(refused(&[&format!("--{old}"), value]));
        fs::write(&config, format!("{old} = '{value}'\n")).unwrap();
        says(refused(&["--config", config_path]));
        let mut command = BPMF.command(&["--epochs", "0"]);
        command.env(format!("INTENDANT_{}", old.to_uppercase()), value);
        let output = intendant_apptest::finish(intendant_apptest::start(command));
        says((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned().to_lowercase()));
    }
    let flags = ["--exchange", "one-sided", "--memory", "shm", "--threads", "2", "--epochs", "1"];
    let report = report(&[&SMALL[..], &flags].concat());
    assert_eq!((&report["technique"], &report["workers_per_node"]), (&"one-sided".into(), &2.into()));
    let settings = ["exchange", "memory", "threads"].map(|name| report["config"][name].clone());
    assert_eq!(settings, ["one-sided".into(), "shm".into(), Value::from(2)]);
    for gone in ["technique", "workers", "transport", "float", "net"] {
        assert_eq!(report["config"].get(gone), None, "{gone}");
    }
}

#[test]
fn values_beyond_the_range_of_numbers_end_with_exit_code_3() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("huge.csv");
    fs::write(&data, "a,x,1e200\nb,x,-1e200\na,y,1e200\n").unwrap();
    let (code, error) = refused(&["--data", data.to_str().unwrap()]);
    assert_eq!(code, Some(3), "{error}");
    assert!(error.contains("diverged: the precision of") && error.contains("scale the data"), "{error}");
}

/// Real data that is not part of the project. An environment variable names its folder. Predicting the mean
/// has an error of 1.365, ridge regression with biases an error of 1.002.
#[test]
fn a_published_matrix_is_predicted_better_than_by_biases() {
    let root = std::env::var_os("INTENDANT_TEST_DATA").map(PathBuf::from);
    let file = |split: &str| {
        let file = root.as_ref()?.join(format!("mf/chembl_ic50.{split}.tsv.zst"));
        file.is_file().then(|| file.to_str().unwrap().to_owned())
    };
    let (Some(train), Some(test)) = (file("train"), file("test")) else {
        eprintln!("skipped: no mf/chembl_ic50; set INTENDANT_TEST_DATA to the folder with the data sets");
        return;
    };
    let flags = ["--data", &train, "--test", &test, "--epochs", "120", "--burn-in", "40", "--threads", "2"];
    let report = report(&flags);
    assert!(number(&report["test"]["rmse"]) <= 0.91, "{}", report["test"]);
}
