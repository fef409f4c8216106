//! Valid files, and invalid ones.

use intendant_task::Split;
use mf::data::{Dataset, Entry, Ids};
use std::fs;
use std::path::{Path, PathBuf};

/// Writes `text` to a file called `name` and reads it.
fn read(name: &str, text: &str) -> Result<Dataset, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    fs::write(&file, text).unwrap();
    Dataset::read(&file).map_err(|error| error.to_string().replace(folder.path().to_str().unwrap(), "DIR"))
}

fn entries(data: &Dataset) -> Vec<(u32, u32, f64)> {
    data.train().iter().map(|e| (e.row, e.column, e.value)).collect()
}

fn names(ids: &Ids) -> Vec<String> {
    (0..ids.len()).map(|i| ids.get(i).unwrap().into_owned()).collect()
}

#[track_caller]
fn error(text: &str, expected: &str) {
    let error = read("f", text).unwrap_err();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn all_separators_and_headers_give_the_same_table() {
    let expected = vec![(0, 1, 3.5), (2, 0, -1.0), (0, 1, 2e-3)];
    for (separator, quote) in
        [("\t", ""), ("::", ""), (",", ""), (";", ""), (" ", ""), (",", "\""), (";", "\"")]
    {
        for header in ["", "user,film,rating,time\n", "\u{feff}user,film,rating,time\r\n"] {
            let lines = ["0,1,3.5,77\r\n", "2,0,-1,78\n", "0,1,2e-3,79"];
            let text: String = [header].into_iter().chain(lines).collect();
            let quoted = |field: &str| format!("{quote}{field}{quote}");
            let line = |line: &str| line.split(',').map(quoted).collect::<Vec<_>>().join(separator);
            let text = text.lines().map(line).collect::<Vec<_>>().join("\n");
            // A byte order mark comes first.
            let text = if header.starts_with('\u{feff}') {
                format!("\u{feff}{}", text.replace('\u{feff}', ""))
            } else {
                text
            };
            let data = read("table.csv", &text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(entries(&data), expected, "{text}");
            assert_eq!(
                (names(data.rows()).len(), names(data.columns())),
                (3, vec!["0".to_owned(), "1".to_owned()])
            );
        }
    }
}

#[test]
fn names_are_numbered_by_first_appearance() {
    let data =
        read("t.csv", "\"Doe, \"\"J\"\" \",Brazil,1\n7, Alien ,2\n\"Doe, \"\"J\"\"\",Alien,3\n").unwrap();
    assert_eq!(entries(&data), [(0, 0, 1.0), (1, 1, 2.0), (0, 1, 3.0)]);
    assert_eq!(names(data.rows()), ["Doe, \"J\"", "7"]);
    assert_eq!(names(data.columns()), ["Brazil", "Alien"]);
    // Rows may be numbers while columns have names.
    let data = read("t.tsv", "3\tx\t1\n0\ty\t2\n").unwrap();
    assert_eq!((entries(&data), data.rows().len()), (vec![(3, 0, 1.0), (0, 1, 2.0)], 4));
}

#[test]
fn tables_that_are_wrong_are_refused() {
    error("0\t1\n", "DIR/f, line 1: expected a row, a column and a value, separated by");
    error("0\t1\t2\n3\t4\n", "DIR/f, line 2: found 2 columns, expected 3 as on the first line");
    error("0,1,2\n3,4,5,6\n", "DIR/f, line 2: found 4 columns, expected 3");
    error("0\t1\t2\n\n3\t4\t5\n", "DIR/f, line 2: the line is empty, expected 3");
    error("0\t1\t2\n3\t4\tx\n", "DIR/f, line 2: the value is 'x', which is no number");
    error("0\t1\t2\n3\t4\tinf\n", "DIR/f, line 2: the value is inf; it must be finite");
    error("0\t1\tNaN\n", "DIR/f, line 1: the value is NaN; it must be finite");
    error("0\t1\t2\n\t4\t5\n", "DIR/f, line 2: the row is empty");
    error("0\t1\t2\n4\t \t5\n", "DIR/f, line 2: the column is empty");
    error("0,1,2\n\"4,1,5\n", "DIR/f, line 2: a quoted field does not end on this line");
    error("", "DIR/f holds no entries");
    error("row\tcolumn\tvalue\n", "DIR/f holds no entries");
    assert!(
        Dataset::read(Path::new("does/not/exist"))
            .unwrap_err()
            .to_string()
            .contains("cannot read does/not/exist")
    );
    assert!(Dataset::read(&std::env::temp_dir()).is_err(), "a folder");
}

const HEADER: &str = "%%MatrixMarket matrix coordinate real general\n";

#[test]
fn matrix_market_files_are_read() {
    let text = format!("{HEADER}% a comment\n%\n\n3 4 3\n1 1 0.5\n 3  4\t-2 \n% another\n1 1 7e1\n");
    let data = read("m.mtx", &text).unwrap();
    assert_eq!(entries(&data), [(0, 0, 0.5), (2, 3, -2.0), (0, 0, 70.0)]);
    assert_eq!(
        (names(data.rows()), data.columns().len()),
        (vec!["1".to_owned(), "2".to_owned(), "3".to_owned()], 4)
    );
    let pattern = "%%matrixmarket MATRIX Coordinate pattern symmetric\n3 3 3\n1 1\n3 1\n2 3\n";
    let data = read("m.mtx", pattern).unwrap();
    assert_eq!(entries(&data), [(0, 0, 1.0), (2, 0, 1.0), (0, 2, 1.0), (1, 2, 1.0), (2, 1, 1.0)]);
    let integer = "%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 -3\n";
    assert_eq!(entries(&read("m.mtx", integer).unwrap()), [(0, 0, -3.0)]);
}

#[test]
fn matrix_market_files_that_are_wrong_are_refused() {
    let kind = |kind: &str| format!("%%MatrixMarket {kind}\n1 1 1\n1 1 1\n");
    error(
        &kind("matrix coordinate real"),
        "line 1: expected '%%MatrixMarket matrix coordinate FIELD SYMMETRY'",
    );
    error(&kind("matrix array real general"), "line 1: 'matrix array' cannot be factorised here");
    error(&kind("matrix coordinate complex general"), "line 1: values are complex; they must be real");
    error(&kind("matrix coordinate real hermitian"), "line 1: the matrix is hermitian; it must be general");
    let with = |rest: &str| format!("{HEADER}{rest}");
    error(&with("3 x 1\n"), "line 2: the number of columns is 'x', which is no number");
    error(&with("3 1\n"), "line 2: the number of entries is missing");
    error(&with("0 1 1\n"), "line 2: 0 rows; allowed are 1 to 4294967294");
    error(&with("4294967295 1 1\n"), "line 2: 4294967295 rows; allowed are 1 to");
    error(&with("2 2 1\n0 1 1\n"), "line 3: the row is '0'; expected a number from 1 to 2");
    error(&with("2 2 1\n1 3 1\n"), "line 3: the column is '3'; expected a number from 1 to 2");
    error(&with("2 2 1\n1 1\n"), "line 3: the value is missing");
    error(&with("2 2 1\n1 1 nan\n"), "line 3: the value is NaN; it must be finite");
    error(&with("2 2 1\n1 1 1 1\n"), "line 3: '1' is one word too many");
    error(&with("2 2 2\n1 1 1\n"), "announces 2 entries but holds 1; copy it again");
    error(&with("2 2 0\n"), "holds no entries");
    error(&with("2147483647 1 1\n1 1 1\n"), "2147483647 rows, of which at most 1 occur; number them without");
    error(
        &with("1 2147483647 1\n1 1 1\n"),
        "2147483647 columns, of which at most 1 occur; number them without",
    );
    error(&with(""), "holds no entries");
    error(
        "%%MatrixMarket matrix coordinate real symmetric\n2 3 1\n",
        "line 2: a symmetric matrix with 2 rows and 3",
    );
}

/// Reads `train`, then test entries from `test`.
fn with_test(train: &str, test: &str) -> Result<Dataset, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test");
    fs::write(&file, test).unwrap();
    let mut data = read("train", train).unwrap();
    let done = data.held_out_from(Split::Test, &file).map_err(|error| error.to_string());
    done.map_err(|error| error.replace(folder.path().to_str().unwrap(), "DIR"))?;
    Ok(data)
}

#[test]
fn a_test_file_uses_the_numbers_of_the_training_file() {
    let data = with_test("b\tx\t1\na\ty\t2\n", "c\ty\t3\na\tx\t4\n").unwrap();
    assert_eq!(
        data.test(),
        [Entry { row: 1, column: 0, value: 4.0 }, Entry { row: 2, column: 1, value: 3.0 }]
    );
    assert_eq!(
        (names(data.rows()), data.unseen()),
        (vec!["b".to_owned(), "a".to_owned(), "c".to_owned()], 1)
    );
    let data = with_test("0 1 5\n", "3 0 5\n").unwrap();
    assert_eq!((data.rows().len(), data.columns().len(), data.row_uses()), (4, 2, &[1, 0, 0, 0][..]));
    let market = |text: &str| format!("{HEADER}{text}");
    let data = with_test(&market("3 3 1\n1 1 1\n"), &market("2 3 1\n2 3 1\n")).unwrap();
    assert_eq!((data.test().len(), data.rows().len(), data.test()[0].column), (1, 3, 2));

    let refused = |train: &str, test: &str| with_test(train, test).unwrap_err();
    assert!(
        refused("0 1 5\n", "0 x 5\n").contains("DIR/test, line 1: 'x' is not a number, as all others are")
    );
    assert!(
        refused("0 1 5\n", "0 90000 5\n").contains("DIR/test, line 1: '90000' is far above the 2 numbers")
    );
    let larger = refused(&market("2 2 1\n1 1 1\n"), &market("3 2 1\n1 1 1\n"));
    assert_eq!(larger, "DIR/test: 3 rows, but the training data has 2");
    assert!(refused("0 1 5\n", &market("3 2 1\n1 1 1\n")).contains("is a MatrixMarket file, other than"));
    assert!(refused(&market("2 2 1\n1 1 1\n"), "0 1 5\n").contains("is not a MatrixMarket file, other than"));
}

/// Real data sets that are not part of the project. An environment variable names their folder.
fn shared(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("INTENDANT_TEST_DATA").map(PathBuf::from);
    let file = root.map(|root| root.join("mf").join(name)).filter(|file| file.is_file());
    if file.is_none() {
        eprintln!("skipped: no mf/{name}; set INTENDANT_TEST_DATA to the folder with the data sets");
    }
    file
}

#[test]
fn published_matrices_have_their_sizes() {
    for (name, rows, columns, train, test) in
        [("movietweetings100k", 16_554, 10_506, 89_971, 10_029), ("chembl_ic50", 15_073, 346, 53_181, 6_099)]
    {
        let file = |split: &str| shared(&format!("{name}.{split}.tsv.zst"));
        let (Some(train_file), Some(test_file)) = (file("train"), file("test")) else { continue };
        let mut data = Dataset::read(&train_file).unwrap();
        data.held_out_from(Split::Test, &test_file).unwrap();
        let sizes = (data.rows().len(), data.columns().len(), data.train().len(), data.test().len());
        assert_eq!(sizes, (rows, columns, train, test), "{name}");
    }
}
