//! The program, as users run it.

use intendant_apptest::App;
use serde_json::Value;
use std::fs;
use std::path::Path;

const LDA: App = App::new(env!("CARGO_BIN_EXE_intendant-lda"));

const SMALL: [&str; 4] = ["--data", "builtin:topics:300x200x5", "--topics", "5"];

fn report(epochs: &str, flags: &[&str]) -> Value {
    LDA.report(&[&SMALL[..], &["--epochs", epochs], flags].concat())
}

fn perplexity(report: &Value) -> f64 {
    report["test"]["perplexity"].as_f64().unwrap()
}

fn said(flags: &[&str]) -> (Option<i32>, String, String) {
    let output = LDA.output(flags);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// All words are equally probable before the training: a perplexity of 200.
#[test]
fn the_built_in_documents_are_learned() {
    for flags in [
        &["--technique", "single"][..],
        &["--technique", "single", "--float", "f64", "--workers", "3", "--batch", "3"],
        &["--technique", "classic", "--workers", "2", "--batch", "100"],
    ] {
        let report = report("30", &[flags, &["--valid-every", "10"]].concat());
        assert!((30.0..60.0).contains(&perplexity(&report)), "{flags:?}: {}", report["test"]);
        let epochs = report["epochs"].as_array().unwrap();
        assert!(epochs.iter().all(|epoch| epoch["examples"] == epochs[0]["examples"]));
        assert_eq!(epochs[29]["quality"], report["test"]);
        assert_eq!(epochs[28]["quality"].as_object().unwrap().len(), 0);
        assert!(epochs[29]["loss"].as_f64() < epochs[0]["loss"].as_f64());
    }
    let untrained = report("0", &["--technique", "single"]);
    assert!((perplexity(&untrained) - 200.0).abs() < 1e-6);
}

#[test]
fn the_words_of_topics_are_printed_at_the_end() {
    let flags = [&SMALL[..], &["--technique", "single", "--no-progress", "--epochs"]].concat();
    let (code, printed, _) = said(&[&flags[..], &["30", "--top-words", "3"]].concat());
    assert_eq!(code, Some(0));
    let (_, table) = printed.split_once("topic  share  words\n").unwrap();
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 5, "{table}");
    let mut topics: Vec<&str> = lines.iter().map(|line| line[0]).collect();
    topics.sort();
    assert_eq!(topics, ["1", "2", "3", "4", "5"]);
    let share = |line: &Vec<&str>| line[1].strip_suffix('%').unwrap().parse::<f64>().unwrap();
    assert!((lines.iter().map(share).sum::<f64>() - 100.0).abs() < 0.5, "{table}");
    assert!(lines.windows(2).all(|two| share(&two[0]) >= share(&two[1])), "{table}");
    // The name of a generated word begins with its topic; a few words are common.
    let of = |word: &str| word.split_once('-').map(|(topic, _)| topic.to_owned());
    let is_pure = |line: &&Vec<&str>| {
        let mut owners: Vec<String> = line[2..].iter().filter_map(|word| of(word)).collect();
        owners.retain(|owner| owner != "common");
        owners.dedup();
        owners.len() == 1
    };
    assert!(lines.iter().all(|line| line.len() == 2 + 3), "{table}");
    assert!(lines.iter().filter(is_pure).count() >= 3, "{table}");
    let (_, printed, _) = said(&[&flags[..], &["1", "--top-words", "0"]].concat());
    assert!(!printed.contains("words"), "{printed}");
}

#[test]
fn what_is_trained_does_not_depend_on_who_trains_it() {
    let digest = |topics: &str, flags: &[&str]| {
        let all = [&SMALL[..2], &["--epochs", "3", "--topics", topics], flags].concat();
        LDA.report(&all)["data_digest"].as_str().unwrap().to_owned()
    };
    let one = digest("5", &["--technique", "single"]);
    assert_eq!(one, digest("5", &["--technique", "single", "--workers", "3", "--batch", "1"]));
    assert_eq!(one, digest("5", &["--technique", "classic", "--workers", "2", "--float", "f64"]));
    assert_eq!(one, digest("7", &["--nodes", "3", "--seed", "2"]));
    assert_ne!(one, digest("5", &["--technique", "single", "--test", "0.2"]));
}

#[test]
fn one_worker_gives_the_same_model_every_time() {
    let run = |technique| {
        let report = report("30", &["--technique", technique]);
        (report["epochs"][29]["loss"].as_f64().unwrap().to_bits(), perplexity(&report).to_bits())
    };
    assert_eq!(run("single"), run("single"));
    assert_eq!(run("single"), run("adaptive"), "with one worker, the server is exactly a shared array");
}

/// A run that ends and is resumed equals an uninterrupted one, because assignments are in the checkpoint.
#[test]
fn a_run_that_is_resumed_is_as_if_it_had_not_stopped() {
    for (technique, nodes) in [("single", "1"), ("classic", "1"), ("adaptive", "2")] {
        let folder = tempfile::tempdir().unwrap();
        let checkpoint = ["--checkpoint", folder.path().to_str().unwrap()];
        let flags = ["--technique", technique, "--nodes", nodes];
        let first = report("12", &[&flags[..], &checkpoint].concat());
        // The program checks the invariant of counts at the end.
        let second = report("20", &[&flags[..], &checkpoint, &["--resume"]].concat());
        let epochs = |report: &Value| report["epochs"].as_array().unwrap().len();
        assert_eq!((epochs(&first), epochs(&second)), (12, 20));
        let whole = report("20", &flags);
        if nodes == "1" {
            assert_eq!(second["test"], whole["test"], "{technique}");
            assert_eq!(second["epochs"][19]["loss"], whole["epochs"][19]["loss"]);
        } else {
            // The threads of two nodes race, and sampling ends in one of two optima, of which one is 1.2
            // times the other.
            let close = |report: &Value| (perplexity(report) / perplexity(&whole)).ln().abs() < 0.3;
            assert!(close(&second), "{}", second["test"]);
            // The run continues with another number of nodes, with the same assignments and counts.
            let third = report("25", &[&checkpoint[..], &["--resume", "--nodes", "1"]].concat());
            assert!(close(&third), "{}", third["test"]);
        }
        assert_eq!(second["data_digest"], whole["data_digest"]);
    }
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn mistakes_end_with_exit_code_2_and_say_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let broken = write(folder.path(), "docword.broken.txt", "2\n2\n2\n1 1 1\n1 2\n");
    let bag = write(folder.path(), "docword.good.txt", "2\n2\n3\n1 1 1\n1 2 1\n2 2 1\n");
    let vocabulary = write(folder.path(), "vocab.txt", "one\n");
    let text = write(folder.path(), "text.txt", "a b\nb c\n");
    let xz = write(folder.path(), "text.xz", "");
    fs::write(&xz, b"\xfd7zXZ\0\0\0").unwrap();
    for (flags, message) in [
        (&["--data", &broken][..], "docword.broken.txt, line 5: found '1 2', expected three numbers"),
        (&["--data", &bag, "--vocab", &vocabulary], "vocab.txt has 1 words, but "),
        (
            &["--data", &text],
            "text.txt occurs 5 times (distinct words: 3, the largest count: 2); lower --min-count",
        ),
        (
            &["--data", &text, "--vocab", &vocabulary],
            "--vocab names the words of a bag of words, and the documents are text",
        ),
        (&["--data", &xz], "text.xz is compressed by xz; decompress it"),
        (&["--data", "does/not/exist"], "cannot read does/not/exist: "),
        (
            &["--data", "builtin:other"],
            "there is no builtin:other; there is builtin:topics, or builtin:topics:",
        ),
        (
            &["--min-count", "2"],
            "--min-count is about files of documents, and these are generated: leave it out",
        ),
        (&["--topics", "0"], "--topics is 0; it must be a number from 1 to"),
        (&["--alpha", "-1"], "--alpha is -1; it must be a number from"),
        (&["--test", "0.7"], "--test is 0.7; at most half of the documents can be held out"),
        (&["--data", &bag, "--test", "does/not/exist"], "cannot read does/not/exist: "),
        (&["--data", &bag, "--test", &broken], "docword.broken.txt, line 5: found '1 2'"),
        (
            &["--model", "does/not/exist", "--test", &text, "--epochs", "0"],
            "--model: cannot read does/not/exist/model.toml",
        ),
        (&["--predict", "/no/such/file"], "--predict /no/such/file: cannot write there: "),
        (&["--data", &bag, "--predict", &bag], "--data reads this file; name another one"),
    ] {
        let (code, _, error) = said(&[flags, &["--technique", "single"]].concat());
        assert_eq!(code, Some(2), "{flags:?}: {error}");
        assert!(error.contains(message), "{flags:?}: {error}");
    }
    let (code, _, error) = said(&["--technique", "full-replication", "--clip-updates", "2"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("--clip-updates would make counts wrong: leave it out"), "{error}");
}

#[test]
fn more_tokens_than_single_precision_counts_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let large = write(folder.path(), "docword.large", "2\n1\n2\n1 1 1\n2 1 16777217\n");
    let (code, _, error) = said(&["--data", &large, "--float", "f32", "--technique", "single"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(
        error.contains("there are 16777217 tokens, but f32 counts exactly up to 16777216 only"),
        "{error}"
    );
}
