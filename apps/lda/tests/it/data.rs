//! KOS, a bag of words from UCI that is not part of the project. An environment variable names its folder.

use intendant_apptest::App;
use std::path::PathBuf;

const LDA: App = App::new(env!("CARGO_BIN_EXE_intendant-lda"));

/// The file, if there is one; otherwise reports that a test is skipped.
fn kos() -> Option<String> {
    let root = std::env::var_os("INTENDANT_TEST_DATA").map(PathBuf::from);
    let file = root.map(|root| root.join("lda/docword.kos.txt.zst")).filter(|file| file.is_file());
    if file.is_none() {
        eprintln!(
            "skipped: no lda/docword.kos.txt.zst; set INTENDANT_TEST_DATA to the folder with the data sets"
        );
    }
    file.map(|file| file.to_str().unwrap().to_owned())
}

/// Perplexity after some epochs. Another implementation has 1,644 after 300 epochs with 20 topics.
fn perplexity(file: &str, flags: &[&str]) -> f64 {
    let report = LDA.report(&[&["--data", file, "--valid-every", "0"], flags].concat());
    assert_eq!(report["epochs"][0]["examples"], 421_465);
    report["test"]["perplexity"].as_f64().unwrap()
}

/// At most 2 % worse than the other implementation, and not suspiciously better.
#[track_caller]
fn check(file: &str, topics: &str, reference: f64) {
    for flags in [&["--technique", "single"][..], &["--nodes", "4"]] {
        let found = perplexity(file, &[&["--topics", topics, "--epochs", "300"], flags].concat());
        assert!((0.95..1.02).contains(&(found / reference)), "{topics} topics, {flags:?}: {found}");
    }
}

/// After a tenth of the epochs, the perplexity is far below 2,590, that of predicting words by their
/// frequencies.
#[test]
fn kos_is_learned() {
    let Some(file) = kos() else { return };
    for flags in [&["--technique", "single"][..], &["--nodes", "4"]] {
        let found = perplexity(&file, &[&["--topics", "20", "--epochs", "30"], flags].concat());
        assert!((1650.0..2000.0).contains(&found), "{flags:?}: {found}");
    }
}

#[test]
#[ignore = "takes a minute, and several on a busy machine"]
fn kos_is_predicted_as_others_do() {
    let Some(file) = kos() else { return };
    for (topics, reference) in [("20", 1644.0), ("50", 1522.0), ("100", 1411.0)] {
        check(&file, topics, reference);
    }
}
