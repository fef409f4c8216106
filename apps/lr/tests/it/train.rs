//! The program, as users run it.

use intendant_apptest::{App, schema};
use lr::data::Generator;
use lr::log_loss;
use serde_json::Value;
use std::fs;

pub(crate) const LR: App = App::new(env!("CARGO_BIN_EXE_intendant-lr"));

/// The members of its quality.
pub(crate) const QUALITY: [&str; 8] =
    ["objective", "nonzeros", "log_loss", "auc", "accuracy", "predicted", "observed", "calibration_error"];

fn report(flags: &[&str]) -> Value {
    LR.report(flags)
}

fn tested(report: &Value, name: &str) -> f64 {
    report["test"][name].as_f64().unwrap()
}

const SMALL: [&str; 2] = ["--data", "builtin:sparse:3000x300x10"];

/// The loss of the true weights is a lower bound, up to chance.
#[test]
fn the_built_in_rows_are_learned() {
    let generator = Generator::named("sparse").unwrap();
    let data = generator.generate();
    let rows = data.test().len() as f64;
    let truth = data.test().iter().map(|row| log_loss(generator.score(row), row.label)).sum::<f64>() / rows;
    let observed = data.test().positives() as f64 / rows;
    let untrained = 2f64.ln();
    for flags in [
        &["--technique", "single"][..],
        &["--technique", "classic", "--workers", "2", "--float", "f64"],
        &["--technique", "single", "--optimizer", "adagrad", "--intercept", "--c", "0.2"],
        &["--technique", "single", "--optimizer", "sgd", "--c", "0.2"],
        &["--l1", "0", "--l2", "5", "--technique", "single"],
    ] {
        let report = report(flags);
        schema::check(&report, &QUALITY, 1);
        let loss = tested(&report, "log_loss");
        assert!(loss > truth - 0.01, "{flags:?}: {loss}, the truth has {truth}");
        assert!(loss < truth + 0.15 * (untrained - truth), "{flags:?}: {loss}, the truth has {truth}");
        assert!((tested(&report, "observed") - observed).abs() < 1e-12);
        assert!((tested(&report, "predicted") - observed).abs() < 0.03, "{}", report["test"]);
        assert!(tested(&report, "calibration_error") < 0.05, "{}", report["test"]);
        let last = report["epochs"].as_array().unwrap().last().unwrap();
        assert_eq!(last["quality"], report["test"], "there is one set of held-out rows");
        assert!(last["quality"]["objective"].as_f64() < report["epochs"][0]["quality"]["objective"].as_f64());
        assert_eq!(last["examples"], 20_000);
        let nonzeros = tested(&report, "nonzeros");
        assert_eq!(
            nonzeros < 1900.0,
            flags == ["--technique", "single"] || flags[1] == "classic",
            "{flags:?}: {nonzeros}"
        );
    }
    schema::described(&QUALITY);
}

/// C is liblinear's: its inverse is the weight of the penalty.
#[test]
fn c_is_the_inverse_of_the_penalty() {
    let run =
        |flags: &[&str]| report(&[&SMALL[..], &["--epochs", "3", "--technique", "single"], flags].concat());
    let of_c = run(&["--c", "0.5"]);
    assert_eq!(of_c["test"], run(&["--l1", "2"])["test"]);
    assert_ne!(of_c["test"], run(&["--c", "1"])["test"]);
    assert_eq!(run(&[])["config"]["c"], 1.0);
    assert_eq!(
        run(&["--optimizer", "sgd", "--c", "0.5"])["test"],
        run(&["--optimizer", "sgd", "--l2", "2"])["test"]
    );
    assert_eq!(run(&["--l2", "2"])["config"].get("c"), None);
}

#[test]
fn validation_rows_are_held_out() {
    let flags = [&SMALL[..], &["--technique", "single", "--epochs", "4"]].concat();
    let with = |more: &[&str]| report(&[&flags[..], more].concat());
    let (without, held_out) = (with(&[]), with(&["--valid", "0.2"]));
    let examples = |report: &Value| report["epochs"][0]["examples"].as_u64().unwrap();
    assert_eq!(examples(&without), 3000);
    assert!((2200..2600).contains(&examples(&held_out)), "{}", examples(&held_out));
    assert_eq!(without["epochs"][3]["quality"], without["test"]);
    assert_ne!(held_out["epochs"][3]["quality"]["log_loss"], held_out["test"]["log_loss"]);
    assert_eq!(held_out["epochs"][3]["quality"]["objective"], held_out["test"]["objective"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("valid");
    fs::write(&file, "1 1:1\n1 2:1\n").unwrap();
    let from_file = with(&["--valid", file.to_str().unwrap()]);
    assert_eq!((&from_file["data_digest"], &from_file["test"]), (&without["data_digest"], &without["test"]));
    assert_eq!(from_file["epochs"][3]["quality"]["observed"], 1.0);
    assert_eq!(from_file["epochs"][3]["quality"].get("auc"), None, "all rows have one label");
    let patient = with(&["--valid", "0.2", "--patience", "1"]);
    assert_eq!(patient["validation"]["metric"], "log_loss");
    let refused = LR.output(&[&flags[..], &["--patience", "1"]].concat());
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("--patience: task lr has no validation data"), "{text}");
}

#[test]
fn a_table_of_probabilities_is_in_the_test() {
    let flags = [&SMALL[..], &["--technique", "single", "--epochs", "3", "--reliability", "4"]].concat();
    let report = report(&flags);
    let of = |name: &str, bin: u32| report["test"][format!("reliability_{name}_{bin}")].as_f64();
    assert_eq!((1..=4).map(|bin| of("rows", bin).unwrap()).sum::<f64>(), 600.0);
    for bin in 1..=4 {
        let (low, high) = (f64::from(bin - 1) / 4.0, f64::from(bin) / 4.0);
        assert!(of("predicted", bin).is_none_or(|mean| (low..=high).contains(&mean)));
    }
    assert_eq!(of("rows", 5), None);
    assert_eq!(report["epochs"][2]["quality"].get("reliability_rows_1"), None);
}

#[test]
fn what_is_trained_does_not_depend_on_who_trains_it() {
    let digest = |flags: &[&str]| {
        let report = report(&[&SMALL[..], &["--epochs", "2"], flags].concat());
        report["data_digest"].as_str().unwrap().to_owned()
    };
    let one = digest(&["--technique", "single"]);
    assert_eq!(one, digest(&["--technique", "single", "--workers", "3", "--batch", "7"]));
    assert_eq!(one, digest(&["--technique", "classic", "--workers", "2", "--float", "f64"]));
    assert_eq!(one, digest(&["--nodes", "2", "--workers", "2", "--optimizer", "adagrad"]));
    assert_eq!(one, digest(&["--technique", "single", "--seed", "2"]));
    let other = report(&["--data", "builtin:sparse:3000x300x11", "--epochs", "2", "--technique", "single"]);
    assert_ne!(one, other["data_digest"]);
}

#[test]
fn one_worker_gives_the_same_model_every_time() {
    let run = |technique| {
        let report =
            report(&[&SMALL[..], &["--epochs", "4", "--technique", technique, "--intercept"]].concat());
        (report["epochs"][3]["loss"].as_f64().unwrap().to_bits(), report["test"].clone())
    };
    assert_eq!(run("single"), run("single"));
    assert_eq!(run("single"), run("classic"), "with one worker, the server is exactly a shared array");
    assert_eq!(run("single"), run("adaptive"));
}

/// Each batch has a hot key, that of the intercept.
#[test]
fn a_batch_is_a_pull_and_a_push_of_its_features() {
    let flags = ["--technique", "classic", "--epochs", "2", "--batch", "1000", "--intercept"];
    let report = report(&[&SMALL[..], &flags].concat());
    let access = |name: &str| report["access"][name].as_u64().unwrap();
    assert_eq!(access("pull_keys"), access("push_keys"));
    assert_eq!(report["model"]["keys"], 301);
    assert_eq!(report["model"]["values"], 3 * 301);
    // Two epochs of three batches. Each batch has nearly all of the 300 features, and the intercept.
    assert!((1500..=1806).contains(&access("pull_keys")), "{}", access("pull_keys"));
}

#[test]
fn mistakes_end_with_exit_code_2_and_say_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let broken = write("broken.libsvm", "1 1:1\n1 2:1 1:1\n");
    let table = write("table.csv", "y,a\n1,2\n0,3\n");
    let bare = write("bare.libsvm", "1\n0\n");
    for (flags, message) in [
        (&["--data", &broken][..], "broken.libsvm, line 2: index 1 follows index 2; indices must ascend"),
        (&["--data", "does/not/exist"], "cannot read does/not/exist: "),
        (&["--data", "builtin:other"], "there is no data set builtin:other; there is builtin:sparse"),
        (&["--data", &bare], "no row has a feature: there is nothing to learn from"),
        (&["--data", &table, "--label", "b"], "table.csv, line 1: there is no column 'b'; there are y, a"),
        (&["--data", &table, "--features", "9"], "--features is about libsvm files"),
        (&["--data", &broken, "--hash-bits", "9"], "--hash-bits is about tables, and the format is libsvm"),
        (&["--label", "b"], "--label is about tables"),
        (&["--format", "csv"], "--format is csv, but generated rows are as those of libsvm files"),
        (&["--c", "1", "--l1", "1"], "--c 1 is --l1 1; give one of them"),
        (&["--optimizer", "sgd", "--c", "4", "--l2", "1"], "--c 4 is --l2 0.25; give one of them"),
        (&["--c", "0"], "--c is 0; it must be a number above 0"),
        (
            &["--optimizer", "adagrad", "--l1", "1"],
            "--l1 is 1; it must be 0 or left out with adagrad and sgd",
        ),
        (&["--lr", "-1"], "--lr is -1; it must be a number above 0"),
        (&["--batch", "0"], "--batch is 0; it must be a number from 1 to"),
        (&["--reliability", "1001"], "--reliability is 1001; it must be at most 1000"),
        (&["--test", "0.0000001"], "leaves nothing to train on or to evaluate"),
        (&["--test", &broken], "broken.libsvm, line 2: index 1 follows"),
        (&["--model", "no/such"], "--model: cannot read no/such/model.toml: "),
        (&["--predict", "no/such/file"], "--predict no/such/file: cannot write there: "),
        (&["--data", &table, "--predict", &table], "--data reads this file; name another one"),
        (
            &["--data", &table, "--predict", "p"],
            "--predict is about the test data, and there is none: add --test",
        ),
        (&["--hash-bits", "40"], "40 is not in 1..=31"),
    ] {
        let output = LR.output(&[flags, &["--technique", "single"]].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {error}");
        assert!(error.contains(message), "{flags:?}: {error}");
    }
}

#[test]
fn an_absurd_learning_rate_ends_with_exit_code_3() {
    let flags = ["--optimizer", "sgd", "--lr", "1e38", "--technique", "single", "-q", "--c", "1e-3"];
    let output = LR.output(&[&SMALL[..], &flags].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("diverged in epoch 1"), "{error}");
}

#[test]
fn without_test_rows_only_the_objective_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows");
    fs::write(&file, "1 1:1\n0 2:1\n1 1:1 3:1\n").unwrap();
    let data = ["--data", file.to_str().unwrap(), "--technique", "single"];
    let trained = report(&[&data[..], &["--epochs", "2"]].concat());
    schema::check(&trained, &["objective", "nonzeros"], 1);
    let output = LR.output(&[&data[..], &["--epochs", "1", "-q"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("there is no test data: --test 0.1 holds out a tenth"), "{said}");
}

#[test]
fn the_effective_configuration_starts_the_same_run() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table.csv");
    let rows: String = (0..200u32).map(|i| format!("{},{},w{}\n", i % 2, i * 7 % 5, i % 2 + i % 3)).collect();
    fs::write(&table, format!("y,n,w\n{rows}")).unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (first, second) = (path("a.json"), path("b.json"));
    let flags = ["--data", table.to_str().unwrap(), "--test", "0.2", "--label", "y", "--categorical", "n,w"];
    let more =
        ["--hash-bits", "8", "--c", "2", "--intercept", "--normalize", "l2", "--technique", "single", "-q"];
    let run = |flags: &[&str]| {
        let output = LR.output(flags);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(&[&flags[..], &more, &["--report", &first, "--predict", &path("p")]].concat());
    run(&["--config", &path("a.config.toml"), "--report", &second, "-q"]);
    let read = |file: &str| serde_json::from_slice::<Value>(&fs::read(file).unwrap()).unwrap();
    assert_eq!(read(&first)["test"], read(&second)["test"]);
    assert_eq!(read(&first)["config"], read(&second)["config"]);
    assert_eq!(read(&first)["config"].get("predict"), None, "an output is no setting of a run");
}
