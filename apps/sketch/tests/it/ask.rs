//! The command that asks an exported sketch.

use crate::count::SKETCH;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Standard output of a command that must succeed.
fn printed(flags: &[&str], input: &str) -> String {
    let output = SKETCH.output_with(flags, input);
    assert!(output.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Counts a text, and exports the sketch. Returns its folder.
fn count(folder: &Path, text: &str, flags: &[&str]) -> String {
    let (data, sketch) = (folder.join("data.txt"), folder.join("sketch"));
    fs::write(&data, text).unwrap();
    let sketch = sketch.to_str().unwrap().to_owned();
    let files = ["--data", data.to_str().unwrap(), "--export", &sketch, "--overwrite"];
    printed(&[&files[..], flags, &["-q"]].concat(), "");
    sketch
}

const TEXT: &str = "the cat and the hat\n\nthe end\n";

/// Estimates are those that the run itself prints for the same items, also of a sketch so small that they are
/// wrong.
#[test]
fn estimates_are_those_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let query = "hat the\n\nthe cat and\nnothing here\nend";
    let file = folder.path().join("query.txt");
    fs::write(&file, query).unwrap();
    for flags in [
        &[][..],
        &["--width", "2", "--depth", "2", "--block", "1"],
        &["--kind", "count-sketch", "--width", "3", "--depth", "4", "--block", "1", "--float", "f32"],
        &["--ngrams", "2"],
        &["--items", "lines"],
    ] {
        let sketch =
            count(folder.path(), &TEXT.repeat(20), &[flags, &["--query", file.to_str().unwrap()]].concat());
        let expected = fs::read_to_string(Path::new(&sketch).join("query.tsv")).unwrap();
        assert_eq!(printed(&["query", &sketch], query), expected, "{flags:?}");
        let lines: Vec<&str> = expected.lines().skip(1).collect();
        let items: Vec<&str> = lines.iter().map(|line| line.split_once('\t').unwrap().1).collect();
        assert_eq!(printed(&[&["query", &sketch][..], &items].concat(), ""), expected, "{flags:?}");
        let objects = SKETCH.answers(&[&["query", &sketch, "--json"][..], &items].concat(), "");
        let shown: Vec<String> = objects
            .iter()
            .map(|object| {
                let (estimate, item) =
                    (object["estimate"].as_f64().unwrap(), object["item"].as_str().unwrap());
                format!("{estimate}\t{item}")
            })
            .collect();
        assert_eq!(shown, lines, "{flags:?}");
        assert_eq!(SKETCH.answers(&["query", &sketch, "--json"], query), objects, "{flags:?}");
    }
}

#[test]
fn integers_and_bytes_are_items() {
    let folder = tempfile::tempdir().unwrap();
    let sketch = count(folder.path(), "7\n18446744073709551615\n7\n", &["--items", "integers"]);
    let expected = "estimate\titem\n1\t18446744073709551615\n2\t7\n0\t8\n";
    assert_eq!(printed(&["query", &sketch], "18446744073709551615\n 7\r\n\n8"), expected);
    assert_eq!(printed(&["query", &sketch, "18446744073709551615", "7", "8"], ""), expected);
    let what = "standard input, line 2: 'x' is no integer from 0 to 18446744073709551615";
    SKETCH.refuses(&["query", &sketch], "7\nx\n", what);
    SKETCH.refuses(&["query", &sketch, "7", "x"], "", "'x' is no integer from 0 to");
    let refused = SKETCH.output(&["query", &sketch, "7", "x"]);
    assert!(refused.stdout.is_empty(), "arguments are checked first");

    let data = folder.path().join("bytes.txt");
    fs::write(&data, b"\xff\xfe b \xff\xfe").unwrap();
    let sketch = folder.path().join("bytes");
    printed(&["--data", data.to_str().unwrap(), "--export", sketch.to_str().unwrap(), "-q"], "");
    let mut command = SKETCH.command(&["query", sketch.to_str().unwrap()]);
    command.arg(OsStr::from_bytes(b"\xff\xfe"));
    assert_eq!(command.output().unwrap().stdout, b"estimate\titem\n2\t\xff\xfe\n");
}

#[test]
fn what_is_no_item_or_no_sketch_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let sketch = count(folder.path(), TEXT, &[]);
    let refused = |flags: &[&str], what: &str| SKETCH.refuses(flags, "", what);
    refused(&["query", &sketch, "the cat"], "'the cat' is 2 items; an item of this sketch is a word");
    refused(&["query", &sketch, ""], "'' is 0 items; an item of this sketch is a word");
    let sketch = count(folder.path(), TEXT, &["--ngrams", "2"]);
    refused(&["query", &sketch, "the"], "'the' is 0 items; an item of this sketch is 2 neighbouring words");
    refused(&["query", folder.path().to_str().unwrap()], "name a folder that --export of this program wrote");
    refused(&["query"], "<SKETCH>");
    let long = "x".repeat((1 << 20) + 2);
    SKETCH.refuses(&["query", &sketch], &long, "standard input, line 1: it is longer than 1048576 bytes");
    fs::write(Path::new(&sketch).join("counters.npy"), "short").unwrap();
    refused(&["query", &sketch, "the cat"], "counters.npy");
}
