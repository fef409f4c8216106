//! A model over HTTP.

use crate::ask::{MF, ratings, train};
use intendant_apptest::Service;
use serde_json::{Value, json};

#[test]
fn answers_are_those_of_the_commands() {
    for flags in [&[][..], &["--float", "f64", "--bias", "false"]] {
        let folder = tempfile::tempdir().unwrap();
        ratings(folder.path());
        train(folder.path(), flags);
        let (model, seen) = (folder.path().join("model"), folder.path().join("seen.csv"));
        let (model, seen) = (model.to_str().unwrap(), seen.to_str().unwrap());
        let service = Service::start(MF, &[model]);
        let command = |words: &[&str], input: &str| {
            Value::Array(MF.answers(&[&words[..1], &[model, "--json"], &words[1..]].concat(), input))
        };
        let sizes = &service.get("/v1/model").json()["sizes"];
        assert_eq!(*sizes, json!({ "rows": 40, "columns": 30, "rank": 4 }));

        let cells: Vec<(String, String)> =
            (0..150).map(|at| (format!("user {}", at % 40), format!("film {}", at % 30))).collect();
        let lines: String = cells.iter().map(|(row, column)| format!("{row}\t{column}\n")).collect();
        let batch: Vec<Value> =
            cells.iter().map(|(row, column)| json!({ "row": row, "column": column })).collect();
        let expected = command(&["predict"], &lines);
        assert_eq!(service.ask("/v1/predict", &batch[7]), expected[7], "{flags:?}");
        assert_eq!(service.ask("/v1/predict", &Value::Array(batch)), expected, "{flags:?}");

        let users: String = (0..40).map(|user| format!("user {user}\n")).collect();
        let batch: Vec<Value> =
            (0..40).map(|user| json!({ "row": format!("user {user}"), "k": 7 })).collect();
        let expected = command(&["recommend", "-k", "7"], &users);
        assert_eq!(service.ask("/v1/recommend", &batch[3]), expected[3], "{flags:?}");
        assert_eq!(service.ask("/v1/recommend", &Value::Array(batch)), expected, "{flags:?}");
        let best = [0, 2].map(|at| expected[3]["answers"][at]["column"].as_str().unwrap().to_owned());
        std::fs::write(seen, best.each_ref().map(|film| format!("user 3,{film},1\n")).concat()).unwrap();
        let found =
            service.ask("/v1/recommend", &json!({ "row": "user 3", "exclude": [best[1], "none", best[0]] }));
        assert_eq!(found, command(&["recommend", "user 3", "--exclude", seen], "")[0], "{flags:?}");

        // Rows and columns in one request.
        let batch =
            json!([{ "column": "film 4" }, { "row": "user 1" }, { "column": "film 5" }, { "row": "x" }]);
        let found = service.ask("/v1/similar", &batch);
        let columns = command(&["similar"], "film 4\nfilm 5\n");
        assert_eq!([&found[0], &found[2]], [&columns[0], &columns[1]], "{flags:?}");
        assert_eq!(found[1], command(&["similar", "--rows"], "user 1\n")[0], "{flags:?}");
        assert!(found[3]["error"].as_str().unwrap().contains("there is no row 'x'"), "{found}");
        assert_eq!(service.end(), (Some(0), String::new()));
    }
}

#[test]
fn wrong_questions_are_told_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    ratings(folder.path());
    train(folder.path(), &[]);
    let service = Service::start(MF, &[folder.path().join("model").to_str().unwrap()]);
    for (path, question, reason) in [
        ("predict", json!({ "row": "user 1", "column": "film 99" }), "there is no column 'film 99'"),
        ("predict", json!({ "row": "user 99", "column": "film 1" }), "there is no row 'user 99'"),
        ("predict", json!({ "row": "user 1" }), "missing field `column`"),
        ("predict", json!({ "row": "user 1", "column": "film 1", "k": 3 }), "unknown field `k`"),
        ("recommend", json!({ "row": "user 99" }), "there is no row 'user 99'"),
        ("recommend", json!({ "row": "user 1", "exclude": "film 1" }), "expected a sequence"),
        ("similar", json!({}), "a column or a row, and not both"),
        ("similar", json!({ "row": "user 1", "column": "film 1" }), "a column or a row, and not both"),
        ("similar", json!({ "row": "film 1" }), "there is no row 'film 1'"),
    ] {
        let refused = service.post(&format!("/v1/{path}"), &question);
        assert_eq!(refused.status, 422, "{question}");
        assert!(refused.error().contains(reason), "{question}: {}", refused.error());
    }
}
