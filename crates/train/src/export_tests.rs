//! Folders of models: replaced as a whole, by one run at a time, and never if they hold anything else.

use super::*;
use std::sync::Barrier;

fn manifest(program: &str) -> Manifest {
    Manifest::new(program, "1.0", "00", serde_json::json!({ "seed": 1 }))
}

/// Any model may be replaced.
fn any() -> Heir {
    Heir { program: String::new(), data: None, overwrites: true }
}

/// Exports two files that both hold `text`.
fn export(path: &Path, text: &str) -> io::Result<()> {
    export_of(path, text, any())
}

fn export_of(path: &Path, text: &str, heir: Heir) -> io::Result<()> {
    let staging = Staging::create(path, heir)?;
    for name in ["a", "b"] {
        fs::write(staging.folder().join(name), text)?;
    }
    staging.publish(manifest(text))
}

fn content(folder: &Path) -> Vec<(String, String)> {
    let mut names = names(folder).expect("a folder");
    names.sort();
    names
        .into_iter()
        .map(|name| (fs::read_to_string(folder.join(&name)).expect("text"), name))
        .map(|(t, n)| (n, t))
        .collect()
}

fn is_model(folder: &Path, text: &str) -> bool {
    let content = content(folder);
    let files: Vec<_> = content.iter().map(|(name, _)| name.as_str()).collect();
    let manifest: Manifest =
        serde_json::from_slice(&fs::read(folder.join(MANIFEST)).expect("a manifest")).expect("its schema");
    files == ["a", "b", MANIFEST]
        && content[..2].iter().all(|(_, found)| found == text)
        && (manifest.program.as_str(), manifest.files["a"]) == (text, text.len() as u64)
}

#[test]
fn a_model_replaces_the_earlier_one_as_a_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("new/model");
    export(&place, "one").expect("exported");
    assert!(is_model(&place, "one"), "{:?}", content(&place));
    // A part of an export changes nothing and leaves nothing.
    let staging = Staging::create(&place, any()).expect("created");
    fs::write(staging.folder().join("a"), "half").expect("written");
    drop(staging);
    assert!(is_model(&place, "one"));
    export(&place, "two").expect("exported");
    assert!(is_model(&place, "two"), "{:?}", content(&place));
    // A link to the folder stays one.
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("new/model", &link).expect("linked");
    export(&link, "three").expect("exported");
    assert!(is_model(&place, "three"));
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    assert_eq!(names(place.parent().expect("a parent")).expect("listed"), ["model"]);
    fs::create_dir(folder.path().join("empty")).expect("created");
    export(&folder.path().join("empty"), "four").expect("exported");
}

#[test]
fn a_folder_with_anything_else_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("model");
    export(&place, "one").expect("exported");
    fs::write(place.join("notes.txt"), "mine").expect("written");
    let refused = export(&place, "two").expect_err("it has notes").to_string();
    assert!(refused.contains("it holds notes.txt, which is not of an earlier export"), "{refused}");
    assert_eq!(fs::read_to_string(place.join("notes.txt")).expect("there"), "mine");
    assert_eq!(fs::read_to_string(place.join("a")).expect("there"), "one");
    // The notes may also come while the model is written.
    fs::remove_file(place.join("notes.txt")).expect("removed");
    let staging = Staging::create(&place, any()).expect("created");
    fs::write(place.join("notes.txt"), "mine").expect("written");
    assert!(staging.publish(manifest("two")).is_err());
    assert_eq!(names(folder.path()).expect("listed"), ["model"]);
}

#[test]
fn a_model_of_another_program_or_of_other_data_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("model");
    let heir = |program: &str, data: Option<&str>| Heir {
        program: program.to_owned(),
        data: data.map(str::to_owned),
        overwrites: false,
    };
    export_of(&place, "one", heir("one", Some("d1"))).expect("the first one");
    export_of(&place, "one", heir("one", Some("d1"))).expect("the same program and data");
    let refused = |heir: &Heir| check_earlier(&place, heir).expect_err("refused").to_string();
    let other = refused(&heir("two", Some("d1")));
    assert!(other.contains("it holds a model of one 1.0, and this program is two"), "{other}");
    assert!(other.contains("--overwrite"), "{other}");
    let other = refused(&heir("one", Some("d2")));
    assert!(other.contains("other data: their digest is d1, that of these data is d2"), "{other}");
    for other in [heir("two", None), heir("two", Some("d1")), heir("one", Some("d2"))] {
        assert!(export_of(&place, "two", other).is_err());
        assert!(is_model(&place, "one"), "{:?}", content(&place));
    }
    // Before the data are read, and for models of earlier versions.
    check_earlier(&place, &heir("one", None)).expect("the data may be the same");
    let manifest = fs::read_to_string(place.join(MANIFEST)).expect("a manifest");
    let without = manifest.lines().filter(|line| !line.contains("\"data\":")).collect::<Vec<_>>().join("\n");
    fs::write(place.join(MANIFEST), without).expect("written");
    check_earlier(&place, &heir("one", Some("d2"))).expect("the model does not say what data it is of");
    // Another run may put its model there while this one trains.
    let staging = Staging::create(&place, heir("one", Some("d1"))).expect("created");
    export(&place, "two").expect("it overwrites");
    let error = staging.publish(self::manifest("one")).expect_err("it is of another program").to_string();
    assert!(error.contains("it holds a model of two"), "{error}");
    assert!(is_model(&place, "two"));
}

#[test]
fn exports_at_the_same_time_do_not_mix() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("model");
    // Staging folders are named after processes; threads of one process stand for them here.
    let stage = |thread: usize| {
        let folder = folder.path().join(format!(".model.{thread}.partial"));
        fs::create_dir(&folder).expect("created");
        Staging { place: place.clone(), folder, heir: any() }
    };
    let texts = ["one", "two", "three", "four"];
    for _ in 0..20 {
        let start = &Barrier::new(texts.len());
        std::thread::scope(|scope| {
            for (thread, text) in texts.iter().enumerate() {
                let staging = stage(thread);
                scope.spawn(move || {
                    for name in ["a", "b"] {
                        fs::write(staging.folder().join(name), text).expect("written");
                    }
                    start.wait();
                    staging.publish(manifest(text)).expect("published");
                });
            }
        });
        assert!(texts.iter().any(|text| is_model(&place, text)), "{:?}", content(&place));
        assert_eq!(names(folder.path()).expect("listed"), ["model"]);
    }
}

#[test]
fn what_cannot_be_replaced_is_known_before_training() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |path: &Path, report: Option<&Path>, inputs: &[Input]| {
        check(("--export", path), any(), report, inputs).expect_err("refused").to_string()
    };
    let place = folder.path().join("deep/model");
    check(("--export", &place), any(), None, &[]).expect("it can be written");
    assert!(names(&folder.path().join("deep")).expect("listed").is_empty(), "the probe is gone");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("written");
    assert!(refused(&file, None, &[]).contains("cannot write this folder: it is not a folder"));
    assert!(refused(Path::new("/proc/no/such"), None, &[]).contains("cannot write this folder"));
    assert!(refused(Path::new("."), None, &[]).contains("this program was started in it"));
    assert!(refused(Path::new("/"), None, &[]).contains("this program was started in it"));
    assert!(refused(Path::new("/proc"), None, &[]).contains("mount point"));
    let data = Input { flag: "--data".to_owned(), path: file };
    assert!(refused(folder.path(), None, &[data]).contains("--data reads "));
    fs::create_dir(&place).expect("created");
    let report = place.join("r.json");
    assert!(refused(&place, Some(&report), &[]).contains("--report writes into it"));
}
