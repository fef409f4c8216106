//! The model of the best validation: it is kept, tested and exported.

use crate::command_line::{Folder, end, output, report, succeeded};
use intendant_apptest::schema;
use intendant_train::Report;
use std::fs;

/// More features than examples: with a rate of 1.5, the error on other examples is least long before the end.
/// With a rate above 2, training diverges.
const FLAGS: &str = "--float f64 --features 200 --examples 100 -q --checkpoint-seconds 0";
const EPOCHS: usize = 30;

fn run(folder: &Folder, flags: &str) -> (Report, String) {
    let (path, model) = (folder.path("r.json"), folder.path("model"));
    let outputs = format!("--report {} --export {}", path.display(), model.display());
    let done = output(&format!("{FLAGS} {outputs} {flags}"));
    succeeded(&done);
    let found = serde_json::from_slice(&fs::read(&path).expect("written")).expect("JSON");
    schema::check(&found, &["squared_error"], 1);
    (report(&path), end(&done).1)
}

/// The lines of the exported model.
fn model(folder: &Folder) -> Vec<String> {
    let text = fs::read_to_string(folder.path("model/model.txt")).expect("exported");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

fn best(report: &Report) -> usize {
    let validation = report.validation.as_ref().expect("epochs are compared");
    validation.best_epoch.expect("there are validations")
}

fn model_epoch(report: &Report) -> Option<usize> {
    report.validation.as_ref().expect("epochs are compared").model_epoch
}

/// The checkpoints of a folder with the epochs that each has trained, and the one with the best model.
fn kept(folder: &Folder) -> Vec<(u64, usize, Option<u64>)> {
    let entries = fs::read_dir(folder.path("checkpoints")).expect("checkpoints");
    let manifest = |path: std::path::PathBuf| {
        let text = fs::read(path.join("manifest.json")).expect("a manifest");
        let found: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let epochs = found["run"]["epochs"].as_array().expect("epochs").len();
        (found["cut"].as_u64().expect("its number"), epochs, found["best"].as_u64())
    };
    let places = entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir());
    let mut kept: Vec<_> = places.map(manifest).collect();
    kept.sort_unstable();
    kept
}

#[test]
fn the_best_model_is_kept_tested_and_exported() {
    let folder = Folder::new();
    let keep = format!("--keep best --checkpoint {}", folder.path("checkpoints").display());
    let (all, _) = run(&folder, &format!("--technique single --rate 1.5 --epochs {EPOCHS} {keep}"));
    let best = best(&all);
    assert!(best + 3 < EPOCHS, "of use for this test: {best}");
    assert_eq!(model_epoch(&all), Some(best));
    let exported = model(&folder);

    check_kept(&folder, best);

    // The same as a run that ends there.
    let alone = Folder::new();
    let (until, _) = run(&alone, &format!("--technique single --rate 1.5 --epochs {best}"));
    assert_eq!((&until.test, model(&alone)), (&all.test, exported.clone()));
    let (last, _) = run(&alone, &format!("--technique single --rate 1.5 --epochs {EPOCHS}"));
    assert_ne!((&last.test, model(&alone)), (&all.test, exported.clone()), "of use for this test");

    // A run that is resumed after the best epoch knows it, also one that has ended.
    let resumed = Folder::new();
    let keep = format!(
        "--technique single --rate 1.5 --keep best --checkpoint {}",
        resumed.path("checkpoints").display()
    );
    let (early, _) = run(&resumed, &format!("{keep} --epochs {best}"));
    assert_eq!(
        (model_epoch(&early), &early.test),
        (Some(best), &all.test),
        "it has the best model in memory"
    );
    run(&resumed, &format!("{keep} --epochs {} --resume", best + 2));
    for _ in 0..2 {
        let (found, said) = run(&resumed, &format!("{keep} --epochs {EPOCHS} --resume"));
        assert_eq!((found.validation, &found.test), (all.validation.clone(), &all.test), "{said}");
        assert_eq!(model(&resumed), exported);
    }
    assert_eq!(check_kept(&resumed, best), 2, "each run has made one at its end");
}

/// Checks that a run has kept the checkpoint of the best epoch and of the last one, and at most one more. All
/// of them name that of the best epoch. How many others.
#[track_caller]
fn check_kept(folder: &Folder, best: usize) -> usize {
    let cuts = kept(folder);
    let (of_best, newest) = cuts.split_first().expect("checkpoints");
    assert_eq!(of_best.1, best, "{cuts:?}");
    assert!(cuts.iter().all(|(_, _, named)| *named == Some(of_best.0)), "{cuts:?}");
    assert_eq!(newest.last().map(|(_, epochs, _)| *epochs), Some(EPOCHS), "the run can go on: {cuts:?}");
    assert!(newest.len() <= 2, "{cuts:?}");
    newest.len()
}

#[test]
fn a_run_that_kept_no_best_model_before_compares_the_epochs_after() {
    let folder = Folder::new();
    let flags =
        format!("--technique single --rate 1.5 --checkpoint {}", folder.path("checkpoints").display());
    let (early, _) = run(&folder, &format!("{flags} --epochs 15"));
    assert_eq!(early.validation, None);
    let mut found = Vec::new();
    for epochs in [20, EPOCHS] {
        let (resumed, said) = run(&folder, &format!("{flags} --epochs {epochs} --keep best --resume"));
        let error = |epoch: usize| resumed.epochs[epoch - 1].quality["squared_error"];
        let least = (16..=epochs).min_by(|a, b| error(*a).total_cmp(&error(*b))).expect("some");
        assert!(best(&resumed) < 15, "of use for this test");
        assert_eq!(model_epoch(&resumed), Some(least), "{said}");
        found.push(least);
    }
    assert!(found[1] < EPOCHS, "of use for this test: {found:?}");
}

#[test]
fn a_run_that_keeps_the_last_model_names_no_best_one() {
    let folder = Folder::new();
    let flags =
        format!("--technique single --rate 1.5 --checkpoint {}", folder.path("checkpoints").display());
    let (early, _) = run(&folder, &format!("{flags} --epochs 5 --keep best"));
    assert_eq!(model_epoch(&early), Some(best(&early)));
    run(&folder, &format!("{flags} --epochs 14 --resume"));
    assert!(kept(&folder).iter().any(|(_, epochs, named)| (*epochs, *named) == (14, None)));
    // Better ones have come and gone meanwhile: those after them are compared.
    let (last, said) = run(&folder, &format!("{flags} --epochs {EPOCHS} --keep best --resume"));
    assert!((6..15).contains(&best(&last)), "of use for this test");
    let error = |epoch: usize| last.epochs[epoch - 1].quality["squared_error"];
    let least = (15..=EPOCHS).min_by(|a, b| error(*a).total_cmp(&error(*b))).expect("some");
    assert_eq!(model_epoch(&last), Some(least), "{said}");
    assert!(!said.contains("the last model is tested"), "{said}");
}

#[test]
fn nodes_read_the_best_model_together() {
    for flags in
        ["--nodes 2 --technique adaptive", "--nodes 3 --technique lapse", "--technique single --workers 3"]
    {
        let folder = Folder::new();
        let checkpoints = folder.path("checkpoints");
        let keep = format!("--keep best --checkpoint {}", checkpoints.display());
        let (found, said) = run(&folder, &format!("{flags} --rate 2.1 --epochs {EPOCHS} {keep}"));
        let best = best(&found);
        assert!(best < EPOCHS, "of use for this test: {flags}");
        assert_eq!(model_epoch(&found), Some(best), "{flags}: {said}");
        let cut = kept(&folder)[0];
        assert_eq!(cut.1, best, "{flags}");
        let exported = model(&folder);
        let from = format!("--from {}", checkpoints.join(format!("cut-{:06}", cut.0)).display());
        let (again, _) = run(&folder, &format!("--technique single --epochs 0 {from}"));
        assert_eq!(model(&folder), exported, "{flags}");
        let (error, same) = (found.test["squared_error"], again.test["squared_error"]);
        assert!((error - same).abs() <= 1e-12 * error, "{flags}: {error} and {same}");
    }
}

#[test]
fn the_last_model_takes_the_place_of_a_best_one_that_cannot_be_read() {
    let folder = Folder::new();
    let keep = format!("--keep best --checkpoint {}", folder.path("checkpoints").display());
    let cluster = "--nodes 2 --technique classic --rate 2.1";
    let (all, _) = run(&folder, &format!("{cluster} --epochs {EPOCHS} {keep}"));
    assert!(best(&all) < EPOCHS, "of use for this test");
    let cut = kept(&folder)[0].0;
    let part = folder.path("checkpoints").join(format!("cut-{cut:06}/part-1.safetensors"));
    let mut bytes = fs::read(&part).expect("a part");
    *bytes.last_mut().expect("values") ^= 1;
    fs::write(&part, bytes).expect("written");
    let (found, said) = run(&folder, &format!("{cluster} --epochs {EPOCHS} {keep} --resume"));
    assert_eq!(model_epoch(&found), Some(EPOCHS), "{said}");
    assert_eq!(found.validation.and_then(|validation| validation.best_epoch), Some(best(&all)));
    assert!(said.contains("the last model is tested and exported"), "{said}");
    assert!(said.contains("part-1.safetensors is damaged"), "{said}");
    assert_ne!(found.test, all.test);
}

#[test]
fn the_best_model_needs_checkpoints_and_validations() {
    let folder = Folder::new();
    let checkpoint = format!("--checkpoint {}", folder.path("checkpoints").display());
    for (flags, what) in [
        ("--keep best".to_owned(), "add --checkpoint DIR"),
        (format!("--keep best --valid-every 0 {checkpoint}"), "--keep best compares validations"),
        (format!("--keep most {checkpoint}"), "use last or best"),
        ("--keep best --simulate".to_owned(), "cannot be used with"),
    ] {
        let (code, said) = end(&output(&flags));
        assert_eq!(code, Some(2), "{flags}: {said}");
        assert!(said.contains(what), "{flags}: {said}");
    }
}
