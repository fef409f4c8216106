use super::*;
use std::path::Path;

fn history(path: PathBuf) -> History {
    History { path, file: None, pending: Vec::new(), written: 0, has_warned: false, channels: 1 }
}

fn quality(value: f64) -> BTreeMap<String, f64> {
    BTreeMap::from([("rank".to_owned(), value)])
}

fn line(value: f64) -> String {
    format!("{{\"test\":{{\"rank\":{value:?}}}}}\n")
}

#[test]
fn it_lies_beside_the_report() {
    assert_eq!(history_path(Path::new("out/r.json")).as_deref(), Some(Path::new("out/r.epochs.jsonl")));
    assert_eq!(history_path(Path::new("/dev/null")), None, "a device has no file next to it");
}

#[test]
fn lines_follow_each_other_and_replace_those_of_an_earlier_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.epochs.jsonl");
    std::fs::write(&path, "earlier\n").expect("written");
    let mut history = history(path.clone());
    for (lines, value) in [(1, 1.5), (2, 2.5)] {
        history.end(&quality(value));
        let found = std::fs::read_to_string(&path).expect("written at once");
        assert_eq!(found, [line(1.5), line(2.5)][..lines].concat());
    }
}

#[test]
fn what_cannot_be_written_comes_with_the_next_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("later/r.epochs.jsonl");
    let mut history = history(path.clone());
    history.end(&quality(1.5));
    history.end(&quality(2.5));
    assert!(history.has_warned && history.file.is_none());
    std::fs::create_dir(folder.path().join("later")).expect("created");
    history.end(&quality(3.5));
    assert_eq!(std::fs::read_to_string(&path).expect("written"), [line(1.5), line(2.5), line(3.5)].concat());
}
