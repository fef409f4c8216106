//! Exported models: their files, and their results on other documents.

use intendant_apptest::App;
use serde_json::Value;
use std::fs;
use std::path::Path;

const LDA: App = App::new(env!("CARGO_BIN_EXE_intendant-lda"));

/// Text with two subjects: documents at odd lines are about the first one.
pub(crate) fn text() -> String {
    let line = |document: usize| {
        let (a, b) = if document.is_multiple_of(2) { ("cat", "dog") } else { ("bond", "bank") };
        (0..20)
            .map(|i| format!("{}{} ", if i % 2 == 0 { a } else { b }, (document + i) % 5))
            .collect::<String>()
    };
    (0..80).map(|document| line(document) + "\n").collect()
}

fn files(folder: &Path) -> Vec<String> {
    let mut files: Vec<String> =
        fs::read_dir(folder).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    files
}

fn matrix(file: &Path, float: &str) -> (Vec<u64>, Vec<f64>) {
    let bytes = fs::read(file).unwrap();
    let npy = npyz::NpyFile::new(&bytes[..]).unwrap();
    let shape = npy.shape().to_vec();
    let numbers = if float == "f32" {
        npy.into_vec::<f32>().unwrap().into_iter().map(f64::from).collect()
    } else {
        npy.into_vec::<f64>().unwrap()
    };
    (shape, numbers)
}

#[test]
fn an_exported_model_says_the_same_of_documents() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (data, model) = (path("text.txt"), path("model"));
    fs::write(&data, text()).unwrap();
    // The second export replaces the first one.
    for (float, nodes) in [("f32", "1"), ("f64", "2")] {
        let flags = ["--data", &data, "--topics", "2", "--float", float, "--nodes", nodes, "--epochs", "30"];
        let predicted = path("predicted.tsv");
        let trained = LDA.report(&[&flags[..], &["--export", &model, "--predict", &predicted]].concat());
        assert_eq!(trained["config"].get("predict"), None, "an output is no setting");
        let export = Path::new(&model);
        let expected = [
            "document_topic.npy",
            "documents.txt",
            "export.json",
            "model.toml",
            "topics.tsv",
            "vocab.txt",
            "word_topic.npy",
        ];
        assert_eq!(files(export), expected);
        let vocabulary = fs::read_to_string(export.join("vocab.txt")).unwrap();
        let counts: Vec<(&str, f64)> = vocabulary
            .lines()
            .map(|line| line.split_once('\t').unwrap())
            .map(|(w, n)| (w, n.parse().unwrap()))
            .collect();
        assert_eq!(counts.len(), 20);
        let (shape, words) = matrix(&export.join("word_topic.npy"), float);
        assert_eq!(shape, [20, 2]);
        for (row, (word, count)) in words.chunks_exact(2).zip(&counts) {
            assert_eq!(row.iter().sum::<f64>(), *count, "{word}");
        }
        let (shape, documents) = matrix(&export.join("document_topic.npy"), float);
        assert_eq!(shape, [72, 2]);
        assert!(documents.chunks_exact(2).all(|row| row.iter().sum::<f64>() == 20.0));
        for topic in 0..2 {
            let of = |all: &[f64]| all.iter().skip(topic).step_by(2).sum::<f64>();
            assert_eq!(of(&words), of(&documents), "the counts of both matrices agree");
        }
        let names = fs::read_to_string(export.join("documents.txt")).unwrap();
        let names: Vec<usize> = names.lines().map(|line| line.parse().unwrap()).collect();
        let expected: Vec<usize> = (1..=80).filter(|line| line % 10 != 1).collect();
        assert_eq!(names, expected, "lines that are not held out");
        // The topic of a document is that of its words.
        let topic_of = |row: &[f64]| usize::from(row[1] > row[0]);
        let of_cats =
            topic_of(&words[2 * counts.iter().position(|(word, _)| *word == "cat0").unwrap()..][..2]);
        for (row, line) in documents.chunks_exact(2).zip(&names) {
            assert_eq!(topic_of(row) == of_cats, line % 2 == 1, "line {line}: {row:?}");
        }
        let topics = fs::read_to_string(export.join("topics.tsv")).unwrap();
        assert_eq!(topics.lines().count(), 1 + 2 * 10);
        for line in topics.lines().skip(1) {
            let fields: Vec<&str> = line.split('\t').collect();
            let is_of_cats = fields[0] == (of_cats + 1).to_string();
            assert_eq!(is_of_cats, fields[4].starts_with(['c', 'd']), "{line}");
        }

        // The model gives the same results on the held-out lines as the run, and finds the subjects of other
        // documents.
        let held_out: String = text().lines().step_by(10).map(|line| format!("{line}\n")).collect();
        fs::write(path("held_out.txt"), held_out).unwrap();
        let again = path("again.tsv");
        let flags =
            ["--model", &model, "--test", &path("held_out.txt"), "--epochs", "0", "--predict", &again];
        let tested = LDA.report(&[&flags[..], &["--technique", "single", "--float", float]].concat());
        let perplexity = |report: &Value| report["test"]["perplexity"].as_f64().unwrap();
        assert!((perplexity(&tested) / perplexity(&trained) - 1.0).abs() < 1e-9, "{}", tested["test"]);
        let lines = |file: &str| -> Vec<Vec<f64>> {
            let text = fs::read_to_string(file).unwrap();
            text.lines().map(|line| line.split('\t').map(|field| field.parse().unwrap()).collect()).collect()
        };
        let (first, second) = (lines(&predicted), lines(&again));
        assert_eq!((first.len(), second.len()), (8, 8));
        for (place, (a, b)) in first.iter().zip(&second).enumerate() {
            assert_eq!(
                (a[0], b[0]),
                (10.0 * place as f64 + 1.0, place as f64 + 1.0),
                "lines of the two files"
            );
            assert_eq!(a[1..], b[1..]);
            assert!((a[1..].iter().sum::<f64>() - 1.0).abs() < 1e-5);
        }
        fs::write(path("new.txt"), "bank3 bond1 bank3 unknown\n\ncat1 dog2 cat1\n").unwrap();
        let output = LDA.output(&[
            "--model",
            &model,
            "--test",
            &path("new.txt"),
            "--epochs",
            "0",
            "--predict",
            &again,
        ]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("1 of 7 words of the test documents are not in the vocabulary"), "{said}");
        let found = lines(&again);
        assert_eq!((found[0][0], found[1][0]), (1.0, 3.0));
        assert!(found[0][1 + of_cats] < 0.2 && found[1][1 + of_cats] > 0.8, "{found:?}");
    }
}

#[test]
fn a_model_that_cannot_be_used_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (data, model) = (path("text.txt"), path("model"));
    fs::write(&data, text()).unwrap();
    let train = ["--data", &data, "--topics", "2", "--epochs", "2", "--technique", "single", "-q"];
    assert!(LDA.output(&[&train[..], &["--export", &model]].concat()).status.success());
    let refused = |flags: &[&str]| {
        let output = LDA.output(&[flags, &["--technique", "single"]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
        said
    };
    let test = ["--model", &model[..], "--test", &data, "--epochs", "0"];
    let said = refused(&test[..2]);
    assert!(said.contains("--model is tested on the documents of a file: add --test FILE"), "{said}");
    let said = refused(&test[..4]);
    assert!(
        said.contains("--model is tested, not trained, as it has no assignments: add --epochs 0"),
        "{said}"
    );
    let said = refused(&[&test[..], &["--topics", "3"]].concat());
    assert!(said.contains("--topics is 3 here and 2 in the model of --model: leave it out"), "{said}");
    let said = refused(&[&test[..], &["--predict", &format!("{model}/vocab.txt")]].concat());
    assert!(said.contains("--model reads this file; name another one"), "{said}");
    fs::write(path("other.txt"), "nothing known\n").unwrap();
    let said = refused(&["--model", &model, "--test", &path("other.txt"), "--epochs", "0"]);
    assert!(said.contains("other.txt has none of the 20 words of the model"), "{said}");
    let with = |name: &str, bytes: &[u8]| {
        let file = Path::new(&model).join(name);
        let before = fs::read(&file).unwrap();
        fs::write(&file, bytes).unwrap();
        let said = refused(&test);
        fs::write(&file, before).unwrap();
        said
    };
    let said = with(
        "model.toml",
        b"schema = \"intendant.lda/9\"\ntopics = 2\nalpha = 0.1\neta = 0.01\nwords = 20\n",
    );
    assert!(
        said.contains("model.toml: the schema is 'intendant.lda/9'; this version reads intendant.lda/1"),
        "{said}"
    );
    let said = with("vocab.txt", b"cat0\t1\ncat1\n");
    assert!(said.contains("vocab.txt, line 2: expected a word and a number, separated by a tab"), "{said}");
    let said = with("vocab.txt", b"cat0\t1\n");
    assert!(said.contains("vocab.txt: there are 1 words; model.toml says 20"), "{said}");
    let mut bytes = fs::read(Path::new(&model).join("word_topic.npy")).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&1.5f32.to_le_bytes());
    let said = with("word_topic.npy", &bytes);
    assert!(said.contains("word_topic.npy: a count is 1.5, which is no whole number from 0"), "{said}");
    let said = with("word_topic.npy", &bytes[..end - 8]);
    assert!(said.contains("cannot read ") && said.contains("word_topic.npy"), "{said}");
    // An undamaged model can be used.
    assert!(LDA.output(&test).status.success());
}
