//! Valid files, and invalid ones.

use intendant_task::Split;
use lr::data::{
    Columns, Dataset, Format, HeldOut, Naming, Normalize, Reading, Rows, Source, Transform, slot,
};
use proptest::prelude::*;
use std::fmt::Write;
use std::fs;
use std::path::Path;

fn csv() -> Reading {
    Reading { format: Format::Csv, hash_bits: 12, ..Reading::default() }
}

fn open(path: &Path, reading: &Reading) -> Result<Dataset, String> {
    Dataset::open(&Source::File(path), &[], reading).map_err(|error| error.to_string())
}

/// Writes `text` to a file and reads it.
fn read(text: &str, reading: &Reading) -> Result<Dataset, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f");
    fs::write(&file, text).unwrap();
    open(&file, reading).map_err(|error| error.replace(folder.path().to_str().unwrap(), "DIR"))
}

/// Labels and entries of all rows.
fn content(rows: &Rows) -> Vec<(bool, Vec<(u32, f32)>)> {
    rows.iter().map(|row| (row.label, row.entries().collect())).collect()
}

#[track_caller]
fn refused(text: &str, reading: &Reading, expected: &str) {
    assert_eq!(read(text, reading).unwrap_err(), expected, "{text}");
}

#[test]
fn libsvm_files_are_read() {
    let text = "\u{feff}+1 1:0.5 3:-2e0 # a comment\r\n\n# another\n-1\n-1.0  2:1\t7:0\n1 4:3";
    let data = read(text, &Reading::default()).unwrap();
    let expected = vec![
        (true, vec![(0, 0.5), (2, -2.0)]),
        (false, vec![]),
        (false, vec![(1, 1.0)]),
        (true, vec![(3, 3.0)]),
    ];
    assert_eq!(content(data.train()), expected);
    assert_eq!(data.features(), 7, "a feature that is zero is one");
    assert!(matches!(data.naming(), Naming::Numbers));
    let zeros = read("0 1:1\n1 1:1\n", &Reading::default()).unwrap();
    assert_eq!(zeros.train().positives(), 1);
    refused(
        "1 4294967293:1\n",
        &Reading::default(),
        "DIR/f: 4294967293 features, of which at most 1 occur; number them without large gaps (at most 16777233 of \
         them here)",
    );
}

#[test]
fn libsvm_lines_that_are_wrong_are_named() {
    let error = |line: &str, problem: &str| {
        refused(&format!("1 1:1\n{line}\n"), &Reading::default(), &format!("DIR/f, line 2: {problem}"));
    };
    error("2 1:1", "the label is '2'; labels are 0 and 1, or -1 and 1");
    error("x", "the label is 'x'; labels are 0 and 1, or -1 and 1");
    error("a,b", "the label is 'a,b'; labels are 0 and 1, or -1 and 1; if this is a table, add --format csv");
    error("nan 1:1", "the label is 'nan'; labels are 0 and 1, or -1 and 1");
    error("1:1 2:1", "the label is missing: the line begins with '1:1'");
    error("1 5", "'5' is no feature; expected INDEX:VALUE");
    error("1 0:1", "the index is 0; indices begin with 1");
    error("1 qid:3 1:1", "the index is 'qid'; expected a number from 1 to 4294967293");
    error("1 -1:1", "the index is '-1'; expected a number from 1 to 4294967293");
    error("1 4294967294:1", "the index is '4294967294'; expected a number from 1 to 4294967293");
    error("1 3:1 2:1", "index 2 follows index 3; indices must ascend");
    error("1 3:1 3:1", "index 3 follows index 3; indices must ascend");
    error("1 1:", "the value of feature 1 is '', which is no number");
    error("1 1:x", "the value of feature 1 is 'x', which is no number");
    error("1 1:inf", "the value of feature 1 is inf; it must be finite in single precision");
    error("1 1:1e39", "the value of feature 1 is 1e39; it must be finite in single precision");
    refused(
        "0 1:1\n1 1:1\n-1 1:1\n",
        &Reading::default(),
        "DIR/f, line 3: labels are 0 and -1; they must be 0 and 1, or -1 and 1",
    );
    refused(
        "\n# nothing\n",
        &Reading::default(),
        "DIR/f holds no rows; expected a label and features on each line",
    );
    let log1p = Reading { transform: Transform::Log1p, ..Reading::default() };
    refused(
        "1 1:-3\n",
        &log1p,
        "DIR/f, line 1: a value is -3; --transform log1p takes numbers of at least 0",
    );
    let error = open(Path::new("no/such"), &Reading::default()).unwrap_err();
    assert!(error.starts_with("cannot read no/such: "), "{error}");
}

#[test]
fn values_and_rows_are_transformed() {
    let text = "1 1:3 2:4\n0\n";
    let with = |transform, normalize| {
        content(read(text, &Reading { transform, normalize, ..Reading::default() }).unwrap().train())
    };
    assert_eq!(with(Transform::None, Normalize::L2)[0].1, [(0, 0.6), (1, 0.8)]);
    let (a, b) = (4f64.ln(), 5f64.ln());
    assert_eq!(with(Transform::Log1p, Normalize::None)[0].1, [(0, a as f32), (1, b as f32)]);
    let norm = a.hypot(b);
    assert_eq!(with(Transform::Log1p, Normalize::L2)[0].1, [(0, (a / norm) as f32), (1, (b / norm) as f32)]);
    assert_eq!(with(Transform::Log1p, Normalize::L2)[1].1, []);
}

#[test]
fn tables_are_hashed() {
    let reading = csv();
    let expected = |rows: &[(bool, &[(&str, f32)])]| {
        let row = |(label, entries): &(bool, &[(&str, f32)])| {
            let mut entries: Vec<(u32, f32)> = entries.iter().map(|(name, x)| (slot(name, 12), *x)).collect();
            entries.sort_by_key(|(slot, _)| *slot);
            (*label, entries)
        };
        rows.iter().map(row).collect::<Vec<_>>()
    };
    let named = expected(&[
        (true, &[("age", 39.0), ("job=clerk, senior", 1.0), ("code", 7.0)]),
        (false, &[("age=unknown", 1.0), ("job=clerk, senior", 1.0)]),
    ]);
    for text in [
        "y,age,job,code\n1,39,\"clerk, senior\",7\n-1,unknown,\"clerk, senior\",\n",
        "y\tage\tjob\tcode\r\n1\t39\tclerk, senior\t7\r\n-1\tunknown\tclerk, senior\t\r\n",
        "y;age;job;code\n1; 39 ;clerk, senior;7\n-1;unknown;clerk, senior;0\n",
    ] {
        let data = read(text, &reading).unwrap();
        assert_eq!(content(data.train()), named, "{text}");
        assert_eq!(data.features(), 1 << 12);
        assert_eq!(data.naming().find("age=unknown"), Some(slot("age=unknown", 12)));
    }
    // The label has a name, or is in another place.
    let columns = |label: &str| Columns { label: label.to_owned(), ..Columns::default() };
    for label in ["y", "2"] {
        let reading = Reading { columns: columns(label), ..csv() };
        let data = read("age,y\n5,1\n", &reading).unwrap();
        assert_eq!(content(data.train()), expected(&[(true, &[("age", 5.0)])]));
    }
    // Without a header, columns are numbers.
    let categorical = Columns { categorical: vec!["3".to_owned()], ..Columns::default() };
    let data = read("1,5,7\n0,6,8\n", &Reading { columns: categorical, ..csv() }).unwrap();
    assert_eq!(
        content(data.train()),
        expected(&[(true, &[("2", 5.0), ("3=7", 1.0)]), (false, &[("2", 6.0), ("3=8", 1.0)])])
    );
    // Within a line, a carriage return is a character of a field, quoted or not.
    let data = read("y,a,b\n1,x\rz,\"c\"\n", &csv()).unwrap();
    assert_eq!(content(data.train()), expected(&[(true, &[("a=x\rz", 1.0), ("b=c", 1.0)])]));
    // Names that share a slot are one feature.
    let data = read("y,a,b\n1,2,3\n", &Reading { hash_bits: 1, ..csv() }).unwrap();
    let slots = [slot("a", 1), slot("b", 1)];
    if slots[0] == slots[1] {
        assert_eq!(content(data.train())[0].1, [(slots[0], 5.0)]);
    } else {
        assert_eq!(content(data.train())[0].1.len(), 2);
    }
}

#[test]
fn tables_that_are_wrong_are_refused() {
    let error = |text: &str, expected: &str| refused(text, &csv(), expected);
    error("1\n", "DIR/f, line 1: expected a label and features, separated by tabs, commas or semicolons");
    error("y,a\n1,2\n1\n", "DIR/f, line 3: found 1 columns, expected 2 as on the first line");
    error("y,a\n1,2\n\n", "DIR/f, line 3: the line is empty, expected 2 as on the first line");
    error("y,a\n3,2\n", "DIR/f, line 2: the label is '3'; labels are 0 and 1, or -1 and 1");
    error("y,a\n,2\n", "DIR/f, line 2: the label is ''; labels are 0 and 1, or -1 and 1");
    error(
        "y,a\n1,inf\n",
        "DIR/f, line 2: the value of column 'a' is inf; it must be finite in single precision",
    );
    error("y,a\n1,\"2\n", "DIR/f, line 2: a quoted field does not end on this line");
    error("y,a,a\n1,2,3\n", "DIR/f, line 1: two columns are called 'a'");
    error("y,a,\n1,2,3\n", "DIR/f, line 1: column 3 has no name");
    error("y,a\n", "DIR/f holds no rows; expected a label and features on each line");
    let columns = |label: &str, categorical: &[&str], numeric: &[&str]| {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let columns = Columns {
            label: label.to_owned(),
            categorical: owned(categorical),
            numeric: owned(numeric),
            trained: None,
        };
        Reading { columns, ..csv() }
    };
    refused("y,a\n1,2\n", &columns("z", &[], &[]), "DIR/f, line 1: there is no column 'z'; there are y, a");
    refused(
        "y,a\n1,2\n",
        &columns("y", &["b"], &[]),
        "DIR/f, line 1: there is no column 'b'; there are y, a",
    );
    refused(
        "1,2\n",
        &columns("1", &[], &["a"]),
        "DIR/f, line 1: there is no column 'a'; the file has no header, so its columns are numbers from 1 to 2",
    );
    refused(
        "y,a\n1,2\n",
        &columns("y", &["a"], &["2"]),
        "DIR/f, line 1: column 'a' cannot be both categorical and numeric",
    );
    refused(
        "y,a\n1,x\n",
        &columns("y", &[], &["a"]),
        "DIR/f, line 2: the value of column 'a' is 'x', which is no number",
    );
}

#[test]
fn the_name_of_a_file_says_its_format() {
    for (name, format) in [
        ("a.csv", Format::Csv),
        ("a.TSV", Format::Csv),
        ("a.csv.zst", Format::Csv),
        ("csv", Format::Libsvm),
        ("a.libsvm", Format::Libsvm),
        ("a.csv.libsvm.zst", Format::Libsvm),
    ] {
        assert_eq!(Format::of(Path::new(name)), format, "{name}");
    }
}

/// A further file may have other features; the columns of a table may be in another order.
#[test]
fn held_out_files_are_of_the_same_model() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let (train, test) = (write("train", "1 2:1\n-1 1:1\n"), write("test", "0 5:2\n"));
    let data =
        Dataset::open(&Source::File(&train), &[(Split::Test, HeldOut::File(&test))], &Reading::default())
            .unwrap();
    assert_eq!((data.features(), content(data.test())), (5, vec![(false, vec![(4, 2.0)])]));
    assert_eq!((data.unseen(), data.uses()), (1, &[1, 1, 0, 0, 0][..]));
    let (train, test) = (write("train.csv", "y,a,b\n1,2,x\n"), write("test.csv", "b,y,a\nx,1,2\n"));
    let columns = Columns { label: "y".to_owned(), ..Columns::default() };
    let reading = Reading { columns, ..csv() };
    let data =
        Dataset::open(&Source::File(&train), &[(Split::Valid, HeldOut::File(&test))], &reading).unwrap();
    assert_eq!(content(data.valid()), content(data.train()));
}

#[test]
fn compressed_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let xz = folder.path().join("a.libsvm.xz");
    fs::write(&xz, b"\xfd7zXZ\0\0\0").unwrap();
    let error = open(&xz, &Reading::default()).unwrap_err();
    assert!(error.contains("is compressed by xz; decompress it, or compress it by zstd instead"), "{error}");
    // A Zstandard frame with one raw block.
    let text = b"1 2:1\n";
    let zstd = folder.path().join("a.libsvm.zst");
    let block = (u32::try_from(text.len()).unwrap() << 3 | 1).to_le_bytes();
    let frame = [&[0x28, 0xb5, 0x2f, 0xfd, 0x20, text.len() as u8], &block[..3], text].concat();
    fs::write(&zstd, frame).unwrap();
    assert_eq!(content(open(&zstd, &Reading::default()).unwrap().train()), [(true, vec![(1, 1.0)])]);
}

fn any_rows() -> impl Strategy<Value = Vec<(bool, Vec<(u32, f32)>)>> {
    let value = (-1e6f32..1e6).prop_filter("not zero", |value| *value != 0.0);
    let row = (any::<bool>(), proptest::collection::btree_map(0u32..500, value, 0..12));
    proptest::collection::vec(row.prop_map(|(label, entries)| (label, entries.into_iter().collect())), 1..20)
}

/// Words that do not parse as numbers, unlike "inf" and "nan".
fn any_word() -> impl Strategy<Value = String> {
    "[a-z ,;\"é]{0,8}[a-z]".prop_filter("a number", |word| word.trim().parse::<f64>().is_err())
}

proptest! {
    #[test]
    fn what_is_written_as_libsvm_is_read_again(rows in any_rows(), zeros: bool) {
        let mut text = String::new();
        for (label, entries) in &rows {
            text += if *label { "1" } else if zeros { "0" } else { "-1" };
            entries.iter().for_each(|(feature, value)| write!(text, " {}:{value}", feature + 1).unwrap());
            text.push('\n');
        }
        let data = read(&text, &Reading::default()).unwrap();
        prop_assert_eq!(content(data.train()), rows);
    }

    #[test]
    fn what_is_written_as_a_table_is_read_again(
        rows in proptest::collection::vec((any::<bool>(), -1e6f32..1e6, any_word()), 1..20),
    ) {
        let mut text = "label,number,word\n".to_owned();
        for (label, number, word) in &rows {
            writeln!(text, "{},{number},\"{}\"", u8::from(*label), word.replace('"', "\"\"")).unwrap();
        }
        let data = read(&text, &Reading { hash_bits: 30, ..csv() }).unwrap();
        for (row, (label, number, word)) in data.train().iter().zip(&rows) {
            let name = format!("word={}", word.trim());
            let mut expected = vec![(slot("number", 30), *number), (slot(&name, 30), 1.0)];
            expected.retain(|(_, value)| *value != 0.0);
            expected.sort_by_key(|(slot, _)| *slot);
            prop_assert_eq!((row.label, row.entries().collect::<Vec<_>>()), (*label, expected));
        }
    }

    /// Any file gives rows, or an error that names the file.
    #[test]
    fn no_text_is_too_bad_to_be_refused(text in "[-+01:. #,;\"a\\n\\t]{0,60}", table: bool) {
        let reading = if table { csv() } else { Reading::default() };
        match read(&text, &reading) {
            Ok(data) => prop_assert!(!data.train().is_empty()),
            Err(error) => prop_assert!(error.starts_with("DIR/f"), "{}", error),
        }
    }
}
