//! Commands that ask a trained model.

use intendant_apptest::App;
use serde_json::Value;
use std::fs;
use std::path::Path;

pub(crate) const MF: App = App::new(env!("CARGO_BIN_EXE_intendant-mf"));

/// Ratings of users for films, a training and a test file.
pub(crate) fn ratings(folder: &Path) {
    let (mut train, mut test) = (String::new(), String::new());
    for user in 0..40u32 {
        for film in 0..30u32 {
            let value = 3.0 + if (user + film) % 2 == 0 { 1.0 } else { -1.0 } + f64::from(film) * 0.01;
            let line = format!("user {user},film {film},{value}\n");
            match (user * 7 + film * 3) % 5 {
                0 => test += &line,
                1 => {}
                _ => train += &line,
            }
        }
    }
    fs::write(folder.join("train.csv"), train).unwrap();
    fs::write(folder.join("test.csv"), test).unwrap();
}

/// Trains and exports a model. Returns its report.
pub(crate) fn train(folder: &Path, flags: &[&str]) -> Value {
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let files = ["--data", &file("train.csv"), "--test", &file("test.csv"), "--export", &file("model")];
    let common = ["--technique", "single", "--epochs", "20", "--rank", "4", "--valid-every", "0"];
    MF.report(&[&files[..], &common, flags].concat())
}

fn number(line: &Value, name: &str) -> f64 {
    line[name].as_f64().unwrap_or_else(|| panic!("no {name} in {line}"))
}

#[test]
fn predictions_are_those_of_the_evaluation() {
    for flags in [&[][..], &["--float", "f64"], &["--bias", "false", "--optimizer", "sgd"]] {
        let folder = tempfile::tempdir().unwrap();
        ratings(folder.path());
        let report = train(folder.path(), flags);
        let (model, test) = (folder.path().join("model"), folder.path().join("test.csv"));
        let (model, test) = (model.to_str().unwrap(), test.to_str().unwrap());
        let cells = fs::read_to_string(test).unwrap();
        let cells: Vec<Vec<&str>> = cells.lines().map(|line| line.split(',').collect()).collect();
        let asked: String = cells.iter().map(|cell| format!("{}\t{}\n", cell[0], cell[1])).collect();
        let predicted = MF.answers(&["predict", model, "--json"], &asked);
        assert_eq!(predicted.len(), cells.len());
        let squares = cells.iter().zip(&predicted).map(|(cell, line)| {
            assert_eq!((line["row"].as_str(), line["column"].as_str()), (Some(cell[0]), Some(cell[1])));
            (cell[2].parse::<f64>().unwrap() - number(line, "prediction")).powi(2)
        });
        let rmse = (squares.sum::<f64>() / cells.len() as f64).sqrt();
        let reported = number(&report["test"], "rmse");
        assert!((rmse - reported).abs() < 1e-12, "{flags:?}: {rmse}, and the evaluation has {reported}");

        let measured = &MF.answers(&["evaluate", model, test, "--json"], "")[0];
        assert_eq!(measured["rmse"], report["test"]["rmse"], "{flags:?}");
        assert_eq!(measured["mae"], report["test"]["mae"], "{flags:?}");
        assert_eq!((number(measured, "cells"), number(measured, "unknown")), (cells.len() as f64, 0.0));
        // For people and for other programs: the same number.
        let line = MF.output(&["predict", model, cells[0][0], cells[0][1]]);
        let text = format!("{}\t{}\t{}\n", cells[0][0], cells[0][1], number(&predicted[0], "prediction"));
        assert_eq!(String::from_utf8(line.stdout).unwrap(), text);

        // A recommendation of all columns has all of these predictions, the largest first.
        let all = MF.answers(&["recommend", model, "user 3", "-k", "1000", "--json"], "");
        let answers = all[0]["answers"].as_array().unwrap();
        assert_eq!(answers.len(), 30);
        for (line, cell) in predicted.iter().zip(&cells).filter(|(_, cell)| cell[0] == "user 3") {
            let answer = answers.iter().find(|answer| answer["column"] == cell[1]).unwrap();
            assert_eq!(answer["prediction"], line["prediction"], "{flags:?}");
        }
        let order: Vec<f64> = answers.iter().map(|answer| number(answer, "prediction")).collect();
        assert!(order.windows(2).all(|two| two[0] >= two[1] - 1e-5), "{flags:?}: {order:?}");
    }
}

#[test]
fn seen_columns_are_left_out_and_similar_ones_are_others() {
    let folder = tempfile::tempdir().unwrap();
    ratings(folder.path());
    train(folder.path(), &[]);
    let (model, seen) = (folder.path().join("model"), folder.path().join("train.csv"));
    let (model, seen) = (model.to_str().unwrap(), seen.to_str().unwrap());
    let text = fs::read_to_string(seen).unwrap();
    let new = MF.answers(&["recommend", model, "-k", "30", "--json", "--exclude", seen], "user 5\nuser 6\n");
    for (user, line) in ["user 5", "user 6"].iter().zip(&new) {
        assert_eq!(line["row"], *user);
        let rated = text.lines().filter(|line| line.starts_with(&format!("{user},"))).count();
        let answers = line["answers"].as_array().unwrap();
        assert_eq!(answers.len(), 30 - rated);
        let is_seen = |film: &str| text.contains(&format!("{user},{film},"));
        assert!(answers.iter().all(|answer| !is_seen(answer["column"].as_str().unwrap())));
    }
    // Even films are alike, and odd ones.
    let near = MF.answers(&["similar", model, "film 4", "-k", "5", "--json"], "");
    for answer in near[0]["answers"].as_array().unwrap() {
        let film: u32 = answer["column"].as_str().unwrap().strip_prefix("film ").unwrap().parse().unwrap();
        assert!(film != 4 && film.is_multiple_of(2), "{near:?}");
    }
    let rows = MF.answers(&["similar", model, "--rows", "-k", "3", "--json"], "user 1\n");
    assert_eq!(rows[0]["answers"].as_array().unwrap().len(), 3);
    assert!(rows[0]["answers"][0]["row"].is_string(), "{rows:?}");
}

#[test]
fn cells_that_the_model_does_not_know_are_refused_or_counted() {
    let folder = tempfile::tempdir().unwrap();
    ratings(folder.path());
    train(folder.path(), &[]);
    let model = folder.path().join("model");
    let model = model.to_str().unwrap();
    MF.refuses(&["predict", model, "user 1", "film 99"], "", "there is no column 'film 99'");
    MF.refuses(&["predict", model], "user 1\n", "standard input, line 1: expected row and column, separated");
    MF.refuses(&["recommend", model, "user 99"], "", "there is no row 'user 99'");
    MF.refuses(&["recommend", model, "user 1", "--exclude", "/none"], "", "--exclude: ");
    MF.refuses(&["similar", model, "--rows", "film 1"], "", "there is no row 'film 1'");
    MF.refuses(
        &["evaluate", folder.path().to_str().unwrap(), model],
        "",
        "name a folder that --export wrote",
    );

    // As in a training in which they have no entries: the mean, and the bias of the other one.
    let file = folder.path().join("new.csv");
    fs::write(&file, "user 1,film 99,3\nnew,film 98,3\n").unwrap();
    let measured = &MF.answers(&["evaluate", model, file.to_str().unwrap(), "--json"], "")[0];
    assert_eq!((number(measured, "cells"), number(measured, "unknown")), (2.0, 2.0));
    let mean: f64 = fs::read_to_string(folder.path().join("model/mean.txt")).unwrap().trim().parse().unwrap();
    assert!(number(measured, "mae") >= (3.0 - mean).abs() / 2.0, "{measured}");

    // A file of the model that is damaged.
    fs::write(folder.path().join("model/mean.txt"), "x\n").unwrap();
    MF.refuses(
        &["predict", model, "user 1", "film 1"],
        "",
        "mean.txt: it has 2 bytes, and was exported with",
    );
}
