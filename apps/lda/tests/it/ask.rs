//! Commands that use a trained model.

use crate::saved::text;
use intendant_apptest::App;
use serde_json::Value;
use std::fs;
use std::path::Path;

const LDA: App = App::new(env!("CARGO_BIN_EXE_intendant-lda"));

/// Standard output of a command that must succeed, and what it logs.
fn run(flags: &[&str], input: &str) -> (String, String) {
    let output = LDA.output_with(flags, input);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{flags:?}: {said}");
    (String::from_utf8(output.stdout).unwrap(), said)
}

fn printed(flags: &[&str], input: &str) -> String {
    run(flags, input).0
}

/// Trains and exports a model of two topics, and predicts the held-out documents. Returns the report.
fn train(folder: &Path, flags: &[&str]) -> Value {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    fs::write(path("train.txt"), text()).unwrap();
    let held_out: String = text().lines().step_by(7).map(|line| format!("{line} new\n")).collect();
    fs::write(path("test.txt"), held_out).unwrap();
    let files = ["--data", &path("train.txt"), "--test", &path("test.txt")];
    let outputs = ["--export", &path("model"), "--predict", &path("predicted.tsv"), "--overwrite"];
    let common = ["--topics", "2", "--epochs", "20", "--technique", "single"];
    LDA.report(&[&files[..], &outputs, &common, flags].concat())
}

#[test]
fn topics_and_perplexity_are_those_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (model, file) = (path("model"), path("test.txt"));
    for float in ["f32", "f64"] {
        let report = train(folder.path(), &["--float", float]);
        let expected = fs::read_to_string(path("predicted.tsv")).unwrap();
        assert_eq!(expected.lines().count(), 12);
        assert_eq!(printed(&["transform", &model, &file], ""), expected);
        let documents = fs::read_to_string(&file).unwrap();
        let (found, said) = run(&["transform", &model], &documents);
        assert_eq!(found, expected);
        assert!(said.contains("12 of 252 words of the documents are not in the vocabulary"), "{said}");
        let objects = LDA.answers(&["transform", &model, "-", "--json"], &documents);
        for (object, line) in objects.iter().zip(expected.lines()) {
            let topics: Vec<f64> =
                object["topics"].as_array().unwrap().iter().map(|part| part.as_f64().unwrap()).collect();
            assert!((topics.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{object}");
            let shown = format!("{}\t{:.6}\t{:.6}", object["document"], topics[0], topics[1]);
            assert_eq!(shown, line);
        }
        assert_eq!(objects.len(), 12);
        let measured = LDA.answers(&["evaluate", &model, &file, "--json"], "");
        assert_eq!(measured, [report["test"].clone()]);
        let table = printed(&["evaluate", &model, &file], "");
        assert_eq!(table, format!("perplexity  {}\n", report["test"]["perplexity"]));
    }
}

/// The same documents as a bag of words: with names of words, and in another order of words.
#[test]
fn a_bag_of_words_has_the_topics_of_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    train(folder.path(), &[]);
    let model = path("model");
    let (vocabulary, bag) = (path("vocab.txt"), path("docword.txt"));
    fs::write(&vocabulary, "dog2\nunknown\nbank3\ncat1\n").unwrap();
    // The second document is empty.
    fs::write(&bag, "4\n4\n5\n1 3 2\n1 2 5\n3 1 1\n3 4 3\n4 2 1\n").unwrap();
    let text = "bank3 unknown bank3\ncat1 dog2 cat1 cat1\nunknown\n";
    let (of_text, of_bag) = (
        printed(&["transform", &model], text),
        printed(&["transform", &model, &bag, "--vocab", &vocabulary], ""),
    );
    let lines: Vec<&str> = of_text.lines().map(|line| &line[2..]).collect();
    let [banks, cats, unknown] = lines[..] else { panic!("{of_text}") };
    assert_eq!(unknown, "0.500000\t0.500000");
    assert_eq!(of_bag, format!("1\t{banks}\n2\t{unknown}\n3\t{cats}\n4\t{unknown}\n"));
    let from_input = fs::read_to_string(&bag).unwrap();
    let flags = ["transform", &model, "--format", "bag", "--vocab", &vocabulary];
    assert_eq!(printed(&flags, &from_input), of_bag);
    let evaluated = |flags: &[&str]| printed(&[&["evaluate", &model][..], flags].concat(), "");
    fs::write(path("new.txt"), text).unwrap();
    assert_eq!(evaluated(&[&path("new.txt")]), evaluated(&[&bag, "--vocab", &vocabulary]));
    fs::write(&vocabulary, "dog2\nunknown\nbank3\n").unwrap();
    let what = "vocab.txt has 3 words, but ";
    LDA.refuses(&["transform", &model, &bag, "--vocab", &vocabulary], "", what);
}

#[test]
fn topics_have_the_words_of_the_export() {
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), &["--top-words", "3"]);
    let model = folder.path().join("model");
    let (topics, model) = (fs::read_to_string(model.join("topics.tsv")).unwrap(), model.to_str().unwrap());
    let objects = LDA.answers(&["topics", model, "-n", "3", "--json"], "");
    let mut lines = String::from("topic\ttopic_tokens\ttopic_share\trank\tword\ttokens\tprobability\n");
    for object in &objects {
        for (rank, word) in (1..).zip(object["words"].as_array().unwrap()) {
            let number = |of: &Value, name: &str| format!("{:.6}", of[name].as_f64().unwrap());
            let (topic, tokens, share) = (&object["topic"], &object["tokens"], number(object, "share"));
            let name = word["word"].as_str().unwrap();
            let (count, probability) = (&word["tokens"], number(word, "probability"));
            lines += &format!("{topic}\t{tokens}\t{share}\t{rank}\t{name}\t{count}\t{probability}\n");
        }
    }
    assert_eq!(lines, topics);
    let table = printed(&["topics", model, "-n", "2"], "");
    assert!(table.starts_with("topic  share  words\n") && table.lines().count() == 3, "{table}");
    for topic in &objects {
        let word = |at: usize| topic["words"][at]["word"].as_str().unwrap();
        assert!(table.contains(&format!("%  {} {}\n", word(0), word(1))), "{table}");
    }
}

#[test]
fn what_is_no_document_or_no_model_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    train(folder.path(), &[]);
    let model = path("model");
    // The documents before a line that is wrong are answered.
    let output =
        LDA.output_with(&["transform", &model, "--format", "bag"], "2\n20\n3\n1 1 1\n2 1 1\n1 2 1\n");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("transform: error: standard input, line 6: document 1 comes after document 2"),
        "{said}"
    );
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1);
    let refused = |flags: &[&str], input: &str, what: &str| LDA.refuses(flags, input, what);
    refused(
        &["transform", &model],
        "nothing known\n",
        "standard input has none of the 20 words of the model",
    );
    refused(&["transform", &model, "--vocab", &path("v")], "", "the documents are text: leave it out");
    refused(&["transform", &model, &path("none.txt")], "", "none.txt");
    refused(&["transform", &path("none")], "", "name a folder that --export wrote");
    refused(&["topics", &path("none")], "", "name a folder that --export wrote");
    refused(&["topics", &model, "-n", "x"], "", "invalid value 'x'");
    refused(&["evaluate", &model], "", "<FILE>");
    fs::write(path("short.txt"), "cat1\nbank3\n").unwrap();
    refused(
        &["evaluate", &model, &path("short.txt")],
        "",
        "short.txt: no document has two words of the model",
    );
    let settings = folder.path().join("model/model.toml");
    let text = fs::read_to_string(&settings).unwrap().replace("topics = 2", "topics = 0");
    fs::write(settings, text).unwrap();
    refused(&["topics", &model], "", "word_topic.npy: the shape is [20, 2]; model.toml says [20, 0]");
}
