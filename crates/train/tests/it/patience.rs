//! Training that ends when validations no longer improve.

use crate::command_line::{Folder, end, output, report, succeeded};
use intendant_apptest::schema;
use intendant_train::Report;

/// Steps so large that the error soon stops to fall.
const FLAGS: &str = "--float f64 --features 50 --examples 200 --rate 1";
/// So large that training diverges, however workers take turns.
const DIVERGING: &str = "--float f64 --features 200 --examples 100 --rate 2.1";
const PATIENCE: usize = 2;

fn trained(folder: &Folder, settings: &str, flags: &str) -> Report {
    let path = folder.path("r.json");
    succeeded(&output(&format!("{settings} {flags} -q --report {}", path.display())));
    let found = serde_json::from_slice(&std::fs::read(&path).expect("written")).expect("JSON");
    schema::check(&found, &["squared_error"], 1);
    report(&path)
}

fn errors(report: &Report) -> Vec<f64> {
    report.epochs.iter().map(|epoch| epoch.quality["squared_error"]).collect()
}

/// The first of the best epochs, from 1.
fn best(errors: &[f64]) -> usize {
    let least = errors.iter().copied().min_by(f64::total_cmp).expect("there is one");
    errors.iter().position(|error| *error == least).expect("it is one of them") + 1
}

#[test]
fn training_ends_after_so_many_validations_without_a_better_one() {
    let folder = Folder::new();
    let all = errors(&trained(&folder, FLAGS, "--technique single --epochs 300"));
    let end = (1..=300).find(|end| end - best(&all[..*end]) == PATIENCE).expect("the error stops to fall");
    assert!((4..300).contains(&end), "of use for this test: {all:?}");
    let single = trained(&folder, FLAGS, "--technique single --epochs 300 --patience 2");
    assert_eq!(errors(&single), all[..end], "the same epochs, but fewer");
    let validation = single.validation.clone().expect("it was asked for");
    assert_eq!((validation.metric.as_str(), validation.ended_early), ("squared_error", true));
    assert_eq!(validation.best_epoch, Some(end - PATIENCE));
    assert!(!single.test.is_empty(), "the test follows");

    // A run that is resumed counts on, and one that has ended so stays as it is.
    let checkpoint = format!("--technique single --checkpoint {}", folder.path("checkpoints").display());
    trained(&folder, FLAGS, &format!("{checkpoint} --epochs {} --patience 2", end - 1));
    for _ in 0..2 {
        let resumed = trained(&folder, FLAGS, &format!("{checkpoint} --epochs 300 --patience 2 --resume"));
        assert_eq!((errors(&resumed), &resumed.test), (all[..end].to_vec(), &single.test));
        assert_eq!(resumed.validation, single.validation);
    }
    let more = trained(&folder, FLAGS, &format!("{checkpoint} --epochs 300 --patience 300 --resume"));
    assert_eq!(errors(&more), all, "with more patience it goes on");
}

#[test]
fn all_workers_end_after_the_same_epoch() {
    let folder = Folder::new();
    for flags in [
        "--simulate --nodes 3 --workers 2",
        "--nodes 2 --workers 2",
        "--technique lapse --simulate --nodes 2",
    ] {
        let found = trained(&folder, DIVERGING, &format!("{flags} --epochs 200 --patience 2"));
        let validation = found.validation.clone().expect("it was asked for");
        assert!(validation.ended_early, "{flags}: {:?}", errors(&found));
        assert_eq!(validation.best_epoch, Some(best(&errors(&found))), "{flags}");
        assert_eq!(found.epochs.len(), best(&errors(&found)) + PATIENCE, "{flags}");
        assert!(!found.test.is_empty(), "{flags}");
    }
}

#[test]
fn patience_needs_validations() {
    let (code, said) = end(&output("--patience 2 --valid-every 0"));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--patience compares validations"), "{said}");
    assert_eq!(end(&output("--patience 0")).0, Some(2));
}
