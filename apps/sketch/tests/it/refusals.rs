//! Flags and files that cannot be used: exit code 2, and a message with the reason.

use crate::count::SKETCH;
use std::fs;

fn refused(flags: &[&str]) -> String {
    let output = SKETCH.output(flags);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
    assert!(output.stdout.is_empty(), "{flags:?}");
    said
}

#[test]
fn flags_without_sense_are_refused() {
    for (flags, said) in [
        (&["--epsilon", "0"][..], "--epsilon is 0; it must be a number between 0 and 1, both excluded"),
        (&["--depth", "256"], "--depth is 256; it must be a number from 1 to 255"),
        (&["--epsilon", "0.1", "--width", "9"], "'--epsilon <PART>' cannot be used with '--width <CELLS>'"),
        (
            &["--exact", "2"],
            "--exact is 2; it must be a part of the distinct items, from 0 (none) to 1 (all)",
        ),
        (&["--top", "1001"], "--top is 1001; it must be a number from 0 to 1000"),
        (&["--batch-bytes", "0"], "--batch-bytes is 0; it must be a number from 1 to 1073741824"),
        (
            &["--test", "0.1"],
            "--test: nothing of a stream is held out; --exact PART compares estimates with true counts",
        ),
        (&["--from", "x"], "--from: the cells of a checkpoint are of no use without their hash functions"),
        (
            &["--technique", "full-replication", "--clip-updates", "2"],
            "--clip-updates: counts that are scaled down no longer add up; leave it out",
        ),
        (&["--patience", "2"], "--patience: task sketch has no validation data to compare epochs by"),
        (&["--items", "words"], "builtin streams are of integers without counts"),
        (&["--counts"], "builtin streams are of integers without counts"),
        (&["--ngrams", "2"], "--ngrams is about words, and items are integers: leave it out"),
        (&["--data", "builtin:wiki"], "there is no builtin:wiki; there is builtin:zipf"),
        (
            &["--float", "f32", "--epochs", "20"],
            "--float f32 counts exactly up to 16777216, and builtin:zipf may have 20000000 items in 20 epochs; leave --float out",
        ),
        (&["--sketch", "/no/such"], "--sketch: cannot read /no/such/sketch.json: "),
        (&["--query", "/no/such"], "--query: cannot read /no/such: "),
        (&["--data", "/no/such"], "cannot read /no/such: "),
        (&["--sampling", "bounded"], "task sketch draws no samples"),
    ] {
        let error = refused(flags);
        assert!(error.contains(said), "{flags:?}: {error}");
    }
}

#[test]
fn malformed_lines_end_the_run_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("n.txt");
    let data = path.to_str().unwrap();
    fs::write(&path, "1\n2\n".repeat(5000) + "3\nfour\n").unwrap();
    let flags = ["--data", data, "--items", "integers", "--batch-bytes", "500"];
    let expected = format!("{data}, line 10002: 'four' is no integer from 0 to 18446744073709551615");
    for more in [&[][..], &["--workers", "2"], &["--simulate", "--nodes", "2"], &["--technique", "single"]] {
        let error = refused(&[&flags[..], more].concat());
        assert!(error.contains(&expected), "{more:?}: {error}");
        assert!(!error.contains("diverged"), "{error}");
    }
    // Several processes: the one that reads the line reports the error, and ends all of them.
    let output = SKETCH.output(&[&flags[..], &["--nodes", "2"]].concat());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains(&expected), "{error}");
    fs::write(&path, "a\t1\nb\tx\n").unwrap();
    let error = refused(&["--data", data, "--items", "lines", "--counts"]);
    let expected =
        format!("{data}, line 2: the count is 'x'; expected an integer from 1 to 9007199254740992");
    assert!(error.contains(&expected), "{error}");
    let error = refused(&["--data", data, "--items", "lines", "--counts", "--float", "f32"]);
    let expected = format!("and the counts of {data} may add up to more; leave --float out");
    assert!(error.contains(&expected), "{error}");
    fs::write(&path, "a\t9007199254740992\nb\t1\n").unwrap();
    let error = refused(&["--data", data, "--items", "lines", "--counts"]);
    assert!(error.contains(&format!("the counts of {data} add up to more than 9007199254740992")), "{error}");
    fs::write(&path, "1\nx\n").unwrap();
    let error = refused(&["--data", "builtin:zipf:100x10", "--query", data]);
    assert!(error.contains(&format!("--query: {data}, line 2: 'x' is no integer")), "{error}");
}

#[test]
fn an_empty_file_has_nothing_to_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.txt");
    fs::write(&path, "").unwrap();
    let report =
        SKETCH.report(&["--data", path.to_str().unwrap(), "--exact", "1", "--top", "3", "--nodes", "2"]);
    assert_eq!((&report["test"]["inserted"], &report["test"]["items"]), (&0.0.into(), &0.0.into()));
    assert_eq!(report["epochs"][0]["examples"], 0);
}
