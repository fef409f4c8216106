//! Commands that ask a trained model.

use intendant_apptest::App;
use kge::data::{Dataset, Known, Triple};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

pub(crate) const KGE: App = App::new(env!("CARGO_BIN_EXE_intendant-kge"));
pub(crate) const GRAPH: &str = "synthetic:300x4x3000";

/// Trains and exports a model. Returns its report.
pub(crate) fn train(folder: &Path, flags: &[&str]) -> Value {
    let (graph, export) = (format!("builtin:{GRAPH}"), folder.join("model"));
    let common =
        ["--data", &graph, "--technique", "single", "--epochs", "3", "--valid-every", "0", "--export"];
    KGE.report(&[&common[..], &[export.to_str().unwrap()], flags].concat())
}

/// Predictions of all entities give the ranks of the evaluation.
#[test]
fn predictions_are_those_of_the_evaluation() {
    for flags in
        [&["--dim", "8"][..], &["--dim", "4", "--model", "rescal", "--reciprocal", "false", "--float", "f64"]]
    {
        let folder = tempfile::tempdir().unwrap();
        let report = train(folder.path(), flags);
        let data = Dataset::builtin(GRAPH).unwrap();
        let known = Known::new(&data);
        let name = |id: u32| data.entities.get(id as usize).unwrap();
        let mut questions = String::new();
        for Triple { subject, relation, object } in &data.test {
            let relation = data.relations.get(*relation as usize).unwrap();
            questions += &format!("{}\t{relation}\t?\n?\t{relation}\t{}\n", name(*subject), name(*object));
        }
        let model = folder.path().join("model");
        let found = KGE.answers(&["predict", model.to_str().unwrap(), "-k", "1000", "--json"], &questions);
        assert_eq!(found.len(), 2 * data.test.len());
        let numbers: BTreeMap<&str, u32> =
            (0..).zip(data.entities.iter()).map(|(id, name)| (name, id)).collect();
        let reciprocal = |asked: &Value, answer: u32, others: Vec<u32>| {
            let scores = asked["answers"].as_array().unwrap().iter().map(|answer| {
                (numbers[answer["entity"].as_str().unwrap()], answer["score"].as_f64().unwrap())
            });
            let scores: BTreeMap<u32, f64> = scores.collect();
            assert_eq!(scores.len(), data.entities.len());
            let rivals = || scores.iter().filter(|(id, _)| **id != answer && !others.contains(id));
            let higher = rivals().filter(|(_, score)| **score > scores[&answer]).count() as f64;
            let equal = rivals().filter(|(_, score)| **score == scores[&answer]).count() as f64;
            1.0 / (1.0 + higher + 0.5 * equal)
        };
        let all = || 0..=u32::MAX;
        let ranks = data.test.iter().zip(found.chunks(2)).map(|(triple, asked)| {
            let objects = known.entities(&known.objects(triple.subject, triple.relation), all()).collect();
            let subjects = known.entities(&known.subjects(triple.relation, triple.object), all()).collect();
            reciprocal(&asked[0], triple.object, objects) + reciprocal(&asked[1], triple.subject, subjects)
        });
        let mrr = ranks.sum::<f64>() / found.len() as f64;
        let reported = report["test"]["mrr_filtered"].as_f64().unwrap();
        assert!((mrr - reported).abs() < 1e-9, "{flags:?}: {mrr}, and the evaluation has {reported}");

        // The command evaluates the data that the model was trained on, unless others are named.
        let evaluate = ["evaluate", model.to_str().unwrap(), "--json"];
        let measured = KGE.answers(&evaluate, "");
        for (name, value) in report["test"].as_object().unwrap() {
            let (found, reported) = (measured[0][name].as_f64().unwrap(), value.as_f64().unwrap());
            assert!((found - reported).abs() <= 1e-12 * reported.abs(), "{name}: {found}, not {reported}");
        }
        assert_eq!(measured[0]["triples"].as_f64(), Some(data.test.len() as f64));
        // The same triples in another order and with numbers of their own.
        let other = folder.path().join("other");
        std::fs::create_dir(&other).unwrap();
        for (file, split) in [("train", &data.train), ("valid", &data.valid), ("test", &data.test)] {
            let line = |triple: &Triple| {
                let relation = data.relations.get(triple.relation as usize).unwrap();
                format!("{}\t{relation}\t{}\n", name(triple.subject), name(triple.object))
            };
            let mut lines: Vec<String> = split.iter().map(line).collect();
            lines.sort_unstable();
            std::fs::write(other.join(format!("{file}.tsv")), lines.concat()).unwrap();
        }
        let again = KGE.answers(&[&evaluate[..], &[other.to_str().unwrap()]].concat(), "");
        let mrr = |measured: &Value| measured["mrr_filtered"].as_f64().unwrap();
        assert!((mrr(&measured[0]) - mrr(&again[0])).abs() < 1e-9, "{again:?}");
        assert_eq!(again[0]["unknown"], 0.0);
        // A line for each relation, whose mean is that of all.
        let by_relation = KGE.answers(&[&evaluate[..], &["--by-relation"]].concat(), "");
        let number = |line: &Value, name: &str| line[name].as_f64().unwrap();
        let triples: f64 = by_relation.iter().map(|line| number(line, "triples")).sum();
        assert_eq!(triples, data.test.len() as f64);
        let mean = by_relation.iter().map(|line| number(line, "triples") * mrr(line)).sum::<f64>() / triples;
        assert!((mean - reported).abs() < 1e-9, "{mean}, not {reported}");
    }
}

#[test]
fn known_answers_are_left_out_and_neighbours_are_others() {
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), &["--dim", "8"]);
    let model = folder.path().join("model");
    let model = model.to_str().unwrap();
    let data = Dataset::builtin(GRAPH).unwrap();
    let Triple { subject, relation, .. } = data.train[0];
    let (subject, relation) =
        (data.entities.get(subject as usize).unwrap(), data.relations.get(relation as usize).unwrap());
    let names = |found: &Value| -> Vec<String> {
        let answers = found["answers"].as_array().unwrap().iter();
        answers.map(|answer| answer["entity"].as_str().unwrap().to_owned()).collect()
    };
    let all = KGE.answers(&["predict", model, subject, relation, "?", "-k", "1000", "--json"], "");
    // The first three answers, as data.
    let best = &names(&all[0])[..3];
    let file = folder.path().join("known.tsv");
    let lines: String = best.iter().map(|object| format!("{subject}\t{relation}\t{object}\n")).collect();
    std::fs::write(&file, lines).unwrap();
    let without =
        ["predict", model, subject, relation, "?", "-k", "2", "--json", "--exclude", file.to_str().unwrap()];
    assert_eq!(names(&KGE.answers(&without, "")[0]), names(&all[0])[3..5]);

    // All triples of the graph.
    let graph = format!("builtin:{GRAPH}");
    let new = ["predict", model, subject, relation, "?", "-k", "1000", "--json", "--exclude", &graph];
    let mut expected = names(&all[0]);
    let triples = data.train.iter().chain(&data.valid).chain(&data.test);
    let known: Vec<&str> = triples
        .filter(|triple| (triple.subject, triple.relation) == (data.train[0].subject, data.train[0].relation))
        .map(|triple| data.entities.get(triple.object as usize).unwrap())
        .collect();
    expected.retain(|name| !known.contains(&name.as_str()));
    assert!(!known.is_empty());
    assert_eq!(names(&KGE.answers(&new, "")[0]), expected);

    let near = KGE.answers(&["neighbors", model, "-k", "4", "--json"], &format!("{subject}\n"));
    assert_eq!(near[0]["entity"], subject);
    let found = names(&near[0]);
    assert!(found.len() == 4 && !found.contains(&subject.to_owned()), "{found:?}");
    let similarity: Vec<f64> =
        near[0]["answers"].as_array().unwrap().iter().map(|a| a["similarity"].as_f64().unwrap()).collect();
    assert!(
        similarity.is_sorted_by(|a, b| a >= b) && similarity.iter().all(|s| (-1.0..=1.001).contains(s)),
        "{similarity:?}"
    );
    // For people.
    let table = KGE.output(&["neighbors", model, subject, "-k", "4"]);
    let text = String::from_utf8(table.stdout).unwrap();
    assert!(text.starts_with(&format!("{subject}\n   1  ")) && text.lines().count() == 5, "{text}");
}

#[test]
fn questions_that_cannot_be_answered_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), &["--dim", "8"]);
    let model = folder.path().join("model");
    let model = model.to_str().unwrap();
    let data = Dataset::builtin(GRAPH).unwrap();
    let (entity, relation) = (data.entities.get(0).unwrap(), data.relations.get(0).unwrap());
    let refused = |flags: &[&str], input: &str, what: &str| KGE.refuses(flags, input, what);
    refused(&["predict", model, entity, relation, entity], "", "subject or object must be '?'");
    refused(&["predict", model, "?", relation, "?"], "", "subject or object must be '?'");
    refused(&["predict", model, "unknown", relation, "?"], "", "there is no entity 'unknown'");
    refused(&["predict", model, entity, "likes", "?"], "", "there is no relation 'likes'");
    refused(&["predict", model], "a b c\n", "standard input, line 1: expected subject, relation and object");
    refused(&["neighbors", model], "unknown\n", "standard input, line 1: there is no entity 'unknown'");
    refused(&["neighbors", folder.path().to_str().unwrap(), entity], "", "name a folder that --export wrote");
    refused(&["neighbors"], "", "MODEL");
    refused(&["evaluate", model, "builtin:none"], "", "DATA: there is no data set builtin:none");
    let file = folder.path().join("strange.tsv");
    std::fs::write(&file, "a\tb\tc\n").unwrap();
    refused(&["evaluate", model, file.to_str().unwrap()], "", "there are no test triples");
}

/// The test triples that a run has held out are found again.
#[test]
fn triples_that_were_held_out_at_random_are_evaluated_again() {
    let folder = tempfile::tempdir().unwrap();
    let report = train(folder.path(), &["--dim", "8", "--test", "0.2", "--seed", "7"]);
    let model = folder.path().join("model");
    let measured = KGE.answers(&["evaluate", model.to_str().unwrap(), "--json"], "");
    assert_eq!(measured[0]["mrr_filtered"], report["test"]["mrr_filtered"]);
}
