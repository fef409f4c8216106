//! KOS, a bag of words from UCI that is not part of the project: in a folder that the environment names.

use intendant_apptest::App;
use std::path::PathBuf;

const LDA: App = App::new(env!("CARGO_BIN_EXE_intendant-lda"));

/// The file, if there is one; else says that a test is skipped.
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

#[test]
fn kos_is_predicted_as_others_do() {
    let Some(file) = kos() else { return };
    let of = |flags: &[&str]| perplexity(&file, &[&["--topics", "20", "--epochs", "300"], flags].concat());
    for flags in [&["--technique", "single"][..], &["--nodes", "4"]] {
        let found = of(flags);
        assert!((found / 1644.0 - 1.0).abs() < 0.02, "{flags:?}: {found}");
    }
}

#[test]
#[ignore = "takes minutes"]
fn kos_with_more_topics_is_predicted_as_others_do() {
    let Some(file) = kos() else { return };
    for (topics, reference) in [("50", 1522.0), ("100", 1411.0)] {
        for flags in [&["--technique", "single"][..], &["--nodes", "4"]] {
            let found = perplexity(&file, &[&["--topics", topics, "--epochs", "300"], flags].concat());
            assert!((found / reference - 1.0).abs() < 0.02, "{topics}, {flags:?}: {found}");
        }
    }
}
