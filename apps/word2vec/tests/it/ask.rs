//! Commands that ask trained word vectors.

use intendant_apptest::App;
use serde_json::Value;
use std::fs;
use std::path::Path;

pub(crate) const WORD2VEC: App = App::new(env!("CARGO_BIN_EXE_intendant-word2vec"));

/// Trains and exports vectors of a generated text. Returns its report.
pub(crate) fn train(folder: &Path, flags: &[&str]) -> Value {
    let model = folder.join("model").to_str().unwrap().to_owned();
    let data = ["--data", "builtin:topics:1000x40000", "--dim", "16", "--epochs", "2", "--sample", "0.01"];
    WORD2VEC.report(&[&data[..], &["--technique", "single", "--export", &model], flags].concat())
}

pub(crate) fn words(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("model/vocab.txt")).unwrap();
    text.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

fn answers(line: &Value) -> Vec<(String, f64)> {
    let answers = line["answers"].as_array().unwrap().iter();
    answers
        .map(|answer| (answer["word"].as_str().unwrap().to_owned(), answer["similarity"].as_f64().unwrap()))
        .collect()
}

#[test]
fn answers_and_measures_are_those_of_the_evaluation() {
    for flags in [&[][..], &["--optimizer", "adagrad", "--float", "f64"]] {
        let folder = tempfile::tempdir().unwrap();
        // Which words there are is known after a first run.
        train(folder.path(), flags);
        let words = words(folder.path());
        let (analogies, pairs) = (folder.path().join("analogies.txt"), folder.path().join("pairs.tsv"));
        let question =
            |at: usize| format!("{} {} {} {}", words[at], words[at + 1], words[at + 2], words[at + 3]);
        let questions: Vec<String> = (0..200).map(question).collect();
        fs::write(&analogies, format!(": all\n{}\n", questions.join("\n"))).unwrap();
        let pair = |at: usize| format!("{}\t{}\t{}\n", words[at], words[2 * at + 1], at * 37 % 101);
        fs::write(&pairs, (0..100).map(pair).collect::<String>()).unwrap();
        let files = ["--analogies", analogies.to_str().unwrap(), "--similarity", pairs.to_str().unwrap()];
        let report = train(folder.path(), &[flags, &files[..], &["--overwrite"]].concat());
        let model = folder.path().join("model");
        let model = model.to_str().unwrap();
        let measured = &WORD2VEC.answers(&[&["evaluate", model, "--json"][..], &files].concat(), "")[0];
        for name in ["analogies", "analogies_in_all", "similarity", "similarity_pairs", "analogies_questions"]
        {
            assert!(report["test"][name].is_number(), "no {name} in {}", report["test"]);
            assert_eq!(measured[name], report["test"][name], "{flags:?}: {name}");
        }
        // The share of right answers, from the command that answers.
        let asked: String = questions
            .iter()
            .map(|line| line.split(' ').take(3).collect::<Vec<_>>().join("\t") + "\n")
            .collect();
        let found = WORD2VEC.answers(&["analogy", model, "-k", "1", "--json"], &asked);
        let right = questions.iter().zip(&found);
        let right = right.filter(|(line, found)| answers(found)[0].0 == line.rsplit(' ').next().unwrap());
        let share = right.count() as f64 / questions.len() as f64;
        let reported = report["test"]["analogies"].as_f64().unwrap();
        assert!((share - reported).abs() < 0.011, "{flags:?}: {share}, and the evaluation has {reported}");
    }
}

#[test]
fn similar_words_are_others_in_order() {
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), &[]);
    let (words, model) = (words(folder.path()), folder.path().join("model"));
    let model = model.to_str().unwrap();
    let input = format!("{}\n{}\n", words[3], words[500]);
    let found = WORD2VEC.answers(&["similar", model, "-k", "5", "--json"], &input);
    for (word, line) in [&words[3], &words[500]].into_iter().zip(&found) {
        assert_eq!(line["word"], **word);
        let answers = answers(line);
        assert!(answers.len() == 5 && answers.iter().all(|(found, _)| found != word), "{line}");
        assert!(answers.is_sorted_by(|a, b| a.1 >= b.1) && answers[0].1 <= 1.0 + 1e-6, "{line}");
    }
    let table = WORD2VEC.output(&["similar", model, &words[3], "-k", "5"]);
    let text = String::from_utf8(table.stdout).unwrap();
    assert!(text.starts_with(&format!("{}\n   1  ", words[3])) && text.lines().count() == 6, "{text}");
    // No word of a question is an answer.
    let analogy = ["analogy", model, &words[1], &words[2], &words[3], "-k", "2000", "--json"];
    let found = answers(&WORD2VEC.answers(&analogy, "")[0]);
    assert_eq!(found.len(), words.len() - 3);
    assert!(found.iter().all(|(word, _)| !words[1..4].contains(word)));
}

#[test]
fn questions_that_cannot_be_answered_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), &[]);
    let model = folder.path().join("model");
    let model = model.to_str().unwrap();
    let refuses = |flags: &[&str], input: &str, what: &str| WORD2VEC.refuses(flags, input, what);
    refuses(
        &["similar", model, "no-such-word"],
        "",
        "there is no word 'no-such-word'; the model's vocab.txt",
    );
    refuses(&["analogy", model], "a\tb\n", "standard input, line 1: expected three words, separated by tabs");
    refuses(&["evaluate", model], "", "--analogies");
    refuses(&["evaluate", model, "--analogies", "/none"], "", "/none");
    let vocabulary = folder.path().join("model/vocab.txt");
    let text = fs::read_to_string(&vocabulary).unwrap();
    let first = text.lines().next().unwrap();
    // Of the same length, so that the list of files is right.
    fs::write(&vocabulary, text.replacen(first, &"x".repeat(first.len()), 1)).unwrap();
    refuses(&["similar", model, "x"], "", "vocab.txt: line 1 is not a word and its count");
}
