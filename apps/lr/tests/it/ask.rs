//! Commands that use a trained model.

use crate::predict::Folder;
use crate::train::LR;
use serde_json::Value;
use std::fmt::Write;

/// Standard output of a command that must succeed.
fn printed(flags: &[&str], input: &str) -> String {
    let output = LR.output_with(flags, input);
    assert!(output.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Labels and features of rows. The label mostly follows from the first feature.
fn rows(rows: u32) -> Vec<(bool, String)> {
    let row = |i: u32| {
        let first = if i.is_multiple_of(2) { "1:1 " } else { "" };
        let features = format!("{first}{}:{}", 2 + i % 5, 0.3 + f64::from(i % 7) / 10.0);
        (i.is_multiple_of(2) ^ i.is_multiple_of(11), features)
    };
    (0..rows).map(row).collect()
}

fn labelled(rows: &[(bool, String)]) -> String {
    rows.iter()
        .map(|(label, features)| format!("{} {features}\n", if *label { "+1" } else { "-1" }))
        .collect()
}

/// The log-loss of printed probabilities.
fn log_loss(printed: &str, labels: impl Iterator<Item = bool>) -> f64 {
    let probabilities = printed.lines().map(|line| line.parse::<f64>().unwrap());
    let losses: Vec<f64> =
        probabilities.zip(labels).map(|(p, label)| -(if label { p } else { 1.0 - p }).ln()).collect();
    losses.iter().sum::<f64>() / losses.len() as f64
}

/// Predictions are those of the run to the last digit, and so are all measures.
#[test]
fn predictions_and_measures_are_those_of_the_run() {
    let all = rows(360);
    let (train, test) = all.split_at(300);
    for flags in [
        &[][..],
        &["--float", "f64", "--intercept"],
        &["--optimizer", "adagrad", "--normalize", "l2", "--transform", "log1p", "--intercept"],
        &["--technique", "ssp", "--staleness", "0", "--optimizer", "proximal", "--c", "5"],
    ] {
        let folder = Folder::new();
        let (train, file) = (folder.write("train", &labelled(train)), folder.write("test", &labelled(test)));
        let (model, predicted) = (folder.text("model"), folder.text("p"));
        let technique: &[&str] = if flags.contains(&"ssp") { &[] } else { &["--technique", "single"] };
        let files = ["--data", &train, "--test", &file, "--export", &model, "--predict", &predicted];
        let report = LR.report(&[&files[..], &["--epochs", "10"], technique, flags].concat());
        let expected = std::fs::read_to_string(folder.path("p")).unwrap();
        assert_eq!(printed(&["predict", &model, &file], ""), expected, "{flags:?}");
        // Without labels, from standard input.
        let unlabelled: String = test.iter().map(|(_, features)| format!("{features}\n")).collect();
        assert_eq!(printed(&["predict", &model], &unlabelled), expected, "{flags:?}");
        let found = printed(&["predict", &model, "-"], &format!("# of no class\n\n{}", labelled(test)));
        assert_eq!(found, expected, "{flags:?}");
        let objects = LR.answers(&["predict", &model, &file, "--json"], "");
        let probability = |object: &Value| object["probability"].as_f64().unwrap();
        let objects: String = objects.iter().map(|object| format!("{}\n", probability(object))).collect();
        assert_eq!(objects, expected, "{flags:?}");

        let loss = log_loss(&found, test.iter().map(|(label, _)| *label));
        let reported = report["test"]["log_loss"].as_f64().unwrap();
        assert!((loss - reported).abs() < 1e-12, "{flags:?}: {loss} and {reported}");
        // There is no objective, which is about the training rows.
        let mut reported = report["test"].as_object().unwrap().clone();
        reported.remove("objective").unwrap();
        let measured = LR.answers(&["evaluate", &model, &file, "--json"], "");
        assert_eq!(measured, [Value::Object(reported)], "{flags:?}");
    }
}

#[test]
fn measures_are_shown_as_a_table() {
    let folder = Folder::new();
    let file = folder.write("rows", &labelled(&rows(100)));
    let model = folder.text("model");
    let report = LR.report(&["--data", &file, "--test", &file, "--technique", "single", "--export", &model]);
    let table = printed(&["evaluate", &model, &file], "");
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_ascii_whitespace().collect()).collect();
    assert_eq!(lines.len(), 7, "{table}");
    for line in &lines {
        let [name, value] = line[..] else { panic!("{table}") };
        assert_eq!(report["test"][name].as_f64(), value.parse().ok(), "{name}");
    }
}

/// A table may lack its label, and have its columns in another order.
#[test]
fn tables_without_labels_are_read() {
    let folder = Folder::new();
    let row = |i: u32| (["red", "green"][(i % 2) as usize], i % 7, (i % 2 == 1) ^ i.is_multiple_of(9));
    let write = |header: &str, show: &dyn Fn((&'static str, u32, bool)) -> String| {
        (0..60).fold(format!("{header}\n"), |mut text, i| {
            writeln!(text, "{}", show(row(i))).unwrap();
            text
        })
    };
    let whole = |(colour, size, y): (&'static str, u32, bool)| format!("{},{colour},{size}", u8::from(y));
    let file = folder.write("train.csv", &write("y,colour,size", &whole));
    let (model, predicted) = (folder.text("model"), folder.text("p"));
    // The columns of the training are named in both ways.
    for (label, categorical) in [("y", "size"), ("1", "3")] {
        let how = ["--label", label, "--categorical", categorical, "--hash-bits", "10", "--overwrite"];
        let files = ["--data", &file, "--test", &file, "--export", &model, "--predict", &predicted];
        let report = LR.report(&[&files[..], &how, &["--technique", "single", "--epochs", "5"]].concat());
        let expected = std::fs::read_to_string(folder.path("p")).unwrap();
        for text in [
            write("y,colour,size", &whole),
            write("colour,size", &|(colour, size, _)| format!("{colour},{size}")),
            write("size\tcolour", &|(colour, size, _)| format!("{size}\t{colour}")),
            write("size;y;colour", &|(colour, size, _)| format!("{size};unknown;{colour}")),
        ] {
            assert_eq!(printed(&["predict", &model], &text), expected, "{text}");
        }
        let mut reported = report["test"].as_object().unwrap().clone();
        reported.remove("objective").unwrap();
        assert_eq!(LR.answers(&["evaluate", &model, &file, "--json"], ""), [Value::Object(reported)]);
        let only = folder.write("only.csv", "colour,size\nred,1\n");
        LR.refuses(&["evaluate", &model, &only], "", "only.csv, line 1: there is no column 'y'");
        let what = "standard input, line 1: there is no column 'size'; there are y, colour";
        LR.refuses(&["predict", &model], "y,colour\n1,red\n", what);
        LR.refuses(&["predict", &model], "1 1:1\n", "line 1: there is no column 'size'; there are 1 1:1");
        LR.refuses(&["predict", &model], "colour,size\nred\n", "line 2: found 1 columns, expected 2");
    }
    // Without the header, columns are numbers, and the label is one of them.
    let headless = write("", &whole).trim_start().to_owned();
    let file = folder.write("headless.csv", &headless);
    let files =
        ["--data", &file, "--test", &file, "--export", &model, "--predict", &predicted, "--overwrite"];
    printed(&[&files[..], &["--technique", "single", "--hash-bits", "10", "-q"]].concat(), "");
    let expected = std::fs::read_to_string(folder.path("p")).unwrap();
    assert_eq!(printed(&["predict", &model, &file], ""), expected);
    let unknown: String = headless.lines().map(|line| format!("{}\n", &line[1..])).collect();
    assert_eq!(printed(&["predict", &model], &unknown), expected);
    let what =
        "found 2 columns, expected 3 as in the table that the model was trained on, which has no header";
    LR.refuses(&["predict", &model], "red,1\n", what);
}

#[test]
fn the_only_feature_of_a_table_is_enough() {
    let folder = Folder::new();
    let file = folder.write("train.csv", "y,x\n1,3\n0,1\n1,4\n0,-1\n");
    let model = folder.text("model");
    printed(&["--data", &file, "--technique", "single", "--export", &model, "-q"], "");
    let found = printed(&["predict", &model], "x\n3\n-1\n");
    assert_eq!(found, printed(&["predict", &model], "y,x\n,3\n,-1\n"));
    assert_eq!(found.lines().count(), 2);
    assert_eq!(printed(&["predict", &model], "x\n"), "");
}

#[test]
fn what_cannot_be_predicted_is_refused() {
    let folder = Folder::new();
    let file = folder.write("train", &labelled(&rows(60)));
    let model = folder.text("model");
    printed(&["--data", &file, "--technique", "single", "--export", &model, "-q"], "");
    // Answers before the error are printed. Features that the model does not have weigh nothing.
    let output = LR.output_with(&["predict", &model], "1:1\n4000000000:1\n1:x\n1:2\n");
    assert_eq!(output.status.code(), Some(2));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.lines().count() == 2 && printed.ends_with("\n0.5\n"), "{printed}");
    let said = String::from_utf8_lossy(&output.stderr);
    let expected =
        "predict: error: standard input, line 3: the value of feature 1 is 'x', which is no number";
    assert!(said.contains(expected), "{said}");
    let refused = |input: &str, what: &str| LR.refuses(&["predict", &model], input, what);
    refused("1 1:1\nred,1\n", "line 2: the line begins with 'red,1'; expected INDEX:VALUE, or a number");
    refused("y,x\n", "the model was not trained on a table");
    refused("1 2 3:1\n", "line 1: '2' is no feature; expected INDEX:VALUE");
    refused("1 2:1 1:1\n", "line 1: index 1 follows index 2; indices must ascend");
    LR.refuses(&["predict", &model, &folder.text("none")], "", "cannot read ");
    LR.refuses(&["predict", &folder.text("none")], "", "model.toml: No such file");
    LR.refuses(&["predict", &folder.text("none")], "", "name a folder that --export wrote");
    LR.refuses(&["predict"], "", "<MODEL>");
    let evaluate = |text: &str, what: &str| {
        let file = folder.write("other", text);
        LR.refuses(&["evaluate", &model, &file], "", what);
    };
    evaluate("1 1:1\n2:1\n", "other, line 2: the label is missing: the line begins with '2:1'");
    evaluate("1 1:1\n7 2:1\n", "other, line 2: the label is '7'; labels are 0 and 1, or -1 and 1");
    evaluate("", "other holds no rows");
    std::fs::write(folder.path("model").join("weights.tsv"), "1\tx\n").unwrap();
    refused("1:1\n", "weights.tsv, line 1: the weight is 'x', which is no finite number");
}
