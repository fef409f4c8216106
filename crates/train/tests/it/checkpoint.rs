//! Runs that end early and go on from their checkpoints; checkpoints that cannot be used.

use crate::command_line::{Folder, end, output, pid, regression, report, succeeded};
use intendant_apptest::{finish, start};
use intendant_train::Report;
use rustix::process::{Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

pub(crate) fn pause() {
    let (_keep, nothing) = mpsc::channel::<()>();
    let _ = nothing.recv_timeout(Duration::from_millis(1));
}

/// A run that makes a checkpoint whenever it can.
pub(crate) struct Run {
    pub(crate) folder: Folder,
    epochs: u32,
}

impl Run {
    pub(crate) fn new(epochs: u32) -> Self {
        Self { folder: Folder::new(), epochs }
    }

    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.folder.path("checkpoints")
    }

    /// The lines of the exported model. They are in no particular order.
    pub(crate) fn model(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path("model/model.txt")).expect("exported");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    }

    /// The flags of a run with checkpoints.
    pub(crate) fn flags(&self, more: &str) -> String {
        format!(
            "--checkpoint {} --checkpoint-seconds 0 {} {more}",
            self.checkpoints().display(),
            self.outputs()
        )
    }

    pub(crate) fn outputs(&self) -> String {
        format!(
            "--float f64 --epochs {} --report {} --export {}",
            self.epochs,
            self.folder.path("r.json").display(),
            self.folder.path("model").display()
        )
    }

    pub(crate) fn report(&self) -> Report {
        report(&self.folder.path("r.json"))
    }

    /// Numbers of the checkpoints.
    pub(crate) fn cuts(&self) -> Vec<u64> {
        let Ok(entries) = std::fs::read_dir(self.checkpoints()) else { return Vec::new() };
        let cut = |path: PathBuf| {
            let number = path.file_name()?.to_str()?.strip_prefix("cut-")?.parse().ok()?;
            path.join("manifest.json").exists().then_some(number)
        };
        let mut cuts: Vec<u64> = entries.filter_map(|entry| cut(entry.ok()?.path())).collect();
        cuts.sort_unstable();
        cuts
    }

    /// Starts a run and kills it when it has made two more checkpoints, or lets it end.
    fn run_and_kill(&self, more: &str) {
        let before = self.cuts().last().copied().unwrap_or(0);
        let mut child = start(regression(&self.flags(more)));
        while child.try_wait().expect("its state").is_none() {
            if self.cuts().last().is_some_and(|last| *last >= before + 2) {
                // It may have ended meanwhile.
                let _ = kill_process(pid(&child), Signal::KILL);
                break;
            }
            pause();
        }
        let _ = child.wait();
    }

    fn newest(&self) -> PathBuf {
        self.checkpoints().join(format!("cut-{:06}", self.cuts().last().expect("there is one")))
    }
}

pub(crate) fn assert_same_course(one: &Report, other: &Report) {
    assert_eq!(one.data_digest, other.data_digest);
    assert_eq!(one.epochs.len(), other.epochs.len());
    for (one, other) in one.epochs.iter().zip(&other.epochs) {
        assert_eq!((one.epoch, one.examples), (other.epoch, other.examples));
        assert_eq!(one.access.counts.pull_keys, other.access.counts.pull_keys, "epoch {}", one.epoch);
    }
}

#[test]
fn a_run_that_is_killed_again_and_again_trains_the_very_model_of_one_that_is_not() {
    let undisturbed = Run::new(12);
    succeeded(&output(&undisturbed.outputs()));
    for technique in ["single", "adaptive", "lapse"] {
        let killed = Run::new(12);
        for _ in 0..5 {
            killed.run_and_kill(&format!("--resume --technique {technique}"));
        }
        succeeded(&output(&killed.flags(&format!("--resume --technique {technique}"))));
        assert!(killed.model() == undisturbed.model(), "{technique}: another model");
        let (one, other) = (undisturbed.report(), killed.report());
        assert_same_course(&one, &other);
        for (one, other) in one.epochs.iter().zip(&other.epochs) {
            assert_eq!((one.loss.to_bits(), &one.quality), (other.loss.to_bits(), &other.quality));
        }
        assert_eq!(one.test, other.test);
        let made = other.checkpoints.expect("it had some");
        assert!(made.count >= 1 && made.bytes > 8000, "{made:?}");
        assert_eq!(killed.cuts().len(), 2, "two are kept");
    }
}

#[test]
fn a_run_goes_on_with_other_nodes_workers_and_techniques() {
    let undisturbed = Run::new(6);
    succeeded(&output(&undisturbed.outputs()));
    let moving = Run::new(6);
    for flags in ["--workers 3 --technique single", "--workers 2 --technique adaptive"] {
        moving.run_and_kill(&format!("--resume {flags}"));
    }
    for (flags, epochs) in [
        ("--nodes 2 --technique lapse", 3),
        ("--nodes 3 --technique classic --channels 2", 5),
        ("--nodes 4 --technique full-replication --workers 2", 6),
    ] {
        // Later flags would be refused: the number of epochs is given once.
        let part = Run { folder: Folder::new(), epochs };
        let flags = format!(
            "--checkpoint {} --checkpoint-seconds 0 --resume {flags}",
            moving.checkpoints().display()
        );
        succeeded(&output(&format!("{flags} {}", part.outputs())));
        // Replicas that meet rarely may overshoot: the sum of four corrections is applied to one error.
        // Where that is possible, only the course is the same.
        if epochs == 5 {
            assert!(part.report().test["squared_error"] < 0.01, "{:?}", part.report().test);
        } else if epochs == 6 {
            assert_same_course(&undisturbed.report(), &part.report());
        }
    }
}

#[test]
fn the_parameters_of_a_checkpoint_are_those_of_the_model_on_any_number_of_nodes() {
    let run = Run::new(2);
    succeeded(&output(&run.flags("--nodes 4 --workers 2")));
    let model = run.model();
    for nodes in [1, 2, 7] {
        succeeded(&output(&run.flags(&format!("--resume --nodes {nodes}"))));
        assert!(run.model() == model, "{nodes} nodes: another model");
        // The parameters alone: nothing is trained.
        let other = Run::new(0);
        let from = format!("--from {} --nodes {nodes} --seed 5 {}", run.newest().display(), other.outputs());
        succeeded(&output(&from));
        assert!(other.model() == model, "{nodes} nodes: another model");
    }
}

/// What a run with these flags says when it ends with this code.
#[track_caller]
fn refused(flags: &str, code: i32) -> String {
    let (found, said) = end(&output(flags));
    assert_eq!(found, Some(code), "{said}");
    said
}

#[test]
fn what_is_not_of_the_run_is_refused_and_stays() {
    let run = Run::new(1);
    succeeded(&output(&run.flags("")));
    let cuts = run.cuts();
    for (flags, reason) in [
        ("", "there are checkpoints of an earlier run; add --resume to continue it, or name another folder"),
        (
            "--resume --seed 2",
            "is not of this run: --seed is 2 here and 1 there; --from begins a new run with its parameters",
        ),
        ("--resume --rate 0.01", "--rate is 0.01 here and"),
        ("--resume --features 999", "--features is 999 here and 1000 there; name another folder"),
    ] {
        let said = refused(&run.flags(flags), 2);
        assert!(said.contains(reason), "{said}");
    }
    let floats = run.flags("--resume").replace("--float f64", "--float f32");
    assert!(refused(&floats, 2).contains("--float is f32 here and f64 there"));
    let from = format!("--from {} --float f64 --features 999", run.checkpoints().display());
    let said = refused(&from, 2);
    let lengths = "the model has 999 weight of length 2, 1 constant of length 1 here and 1000 weight";
    assert!(said.contains(lengths), "{said}");
    let from = format!("--from {} --epochs 0", run.folder.path("nothing").display());
    assert!(refused(&from, 2).contains("there is no checkpoint"));
    assert!(refused("--resume", 2).contains("--checkpoint"));
    for flags in ["--checkpoint gs://bucket/run", "--from gs://bucket/run"] {
        let said = refused(flags, 2);
        assert!(said.contains(&format!("{flags}: checkpoints lie in local folders, or in S3-com")), "{said}");
    }
    let said = refused("--export s3://bucket/model", 2);
    assert!(said.contains("--export s3://bucket/model: models are written to local folders"), "{said}");
    assert!(refused(&format!("{} --simulate", run.flags("")), 2).contains("cannot be used with"));
    assert_eq!(run.cuts(), cuts);
}

fn edit(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).expect("a file");
    change(&mut bytes);
    std::fs::write(path, bytes).expect("written");
}

#[test]
fn a_damaged_checkpoint_is_passed_over_and_without_another_one_the_run_ends() {
    let run = Run::new(3);
    succeeded(&output(&run.flags("")));
    let (cuts, model) = (run.cuts(), run.model());
    assert_eq!(cuts.len(), 2);
    edit(&run.newest().join("part-0.safetensors"), |bytes| bytes[500] ^= 4);
    let resumed = output(&run.flags("--resume"));
    succeeded(&resumed);
    let said = end(&resumed).1;
    assert!(
        said.contains("a newer checkpoint is passed over") && said.contains("is damaged at byte 0"),
        "{said}"
    );
    assert!(run.model() == model, "what was lost is trained again");

    let version = |bytes: &mut Vec<u8>| {
        let text = String::from_utf8(bytes.clone()).expect("JSON");
        // A sum that this version knows would show that no program wrote this.
        *bytes = text
            .replace("intendant.checkpoint/1", "intendant.checkpoint/9")
            .replace("\"sum\"", "\"seal\"")
            .into();
    };
    edit(&run.newest().join("manifest.json"), version);
    let said = refused(&run.flags("--resume"), 2);
    assert!(said.contains("has the schema 'intendant.checkpoint/9', and this version reads"), "{said}");

    for cut in run.cuts() {
        let part = run.checkpoints().join(format!("cut-{cut:06}/part-0.safetensors"));
        edit(&part, |bytes| bytes.truncate(100));
        edit(&part.with_file_name("manifest.json"), |bytes| {
            let text = String::from_utf8(bytes.clone()).expect("JSON");
            *bytes = text
                .replace("intendant.checkpoint/9", "intendant.checkpoint/1")
                .replace("\"seal\"", "\"sum\"")
                .into();
        });
    }
    let said = refused(&run.flags("--resume"), 5);
    assert!(said.contains("is damaged at byte 100: it has 100 bytes, and was written with"), "{said}");
}

#[test]
fn a_folder_that_vanishes_costs_the_checkpoints_and_not_the_results() {
    let run = Run::new(40);
    let child = start(regression(&run.flags("")));
    while run.cuts().is_empty() {
        pause();
    }
    // A file takes its place, so that it cannot be created again.
    while std::fs::remove_dir_all(run.checkpoints()).is_err() {}
    let _ = std::fs::write(run.checkpoints(), "");
    let ended = finish(child);
    let (code, said) = end(&ended);
    if run.checkpoints().is_file() {
        // The run may have ended before, without a warning.
        assert_eq!(code, Some(i32::from(said.contains("WARN"))), "{said}");
    }
    assert_eq!(run.report().epochs.len(), 40, "the report is written");
    assert!(!run.model().is_empty());
}

#[test]
fn the_checkpoints_of_all_runs_are_counted() {
    let run = Run::new(2);
    let flags = run.flags("").replace("-seconds 0 ", "-seconds 3600 ");
    let count = || run.report().checkpoints.expect("there are some").count;
    succeeded(&output(&flags));
    assert_eq!((count(), run.cuts()), (1, vec![1]), "at the end");
    succeeded(&output(&format!("{flags} --resume")));
    assert_eq!((count(), run.cuts()), (1, vec![1]), "there was nothing to do");
    for (epochs, cuts) in [(3u32, vec![1, 2]), (4, vec![2, 3])] {
        let more = flags.replace("--epochs 2 ", &format!("--epochs {epochs} "));
        succeeded(&output(&format!("{more} --resume")));
        assert_eq!((count(), run.cuts()), (u64::from(epochs) - 1, cuts));
        let made = run.report().checkpoints.expect("there are some");
        assert!(made.stop_ms > 0.0 && made.write_ms > 0.0 && made.bytes > 0, "{made:?}");
    }
}

#[test]
fn a_run_waits_for_another_one_that_writes_to_its_folder() {
    let run = Run::new(100_000);
    let flags = run.flags("");
    let first = start(regression(&flags));
    while run.cuts().is_empty() {
        pause();
    }
    let mut second = start(regression(&flags.replace("--epochs 100000 ", "--epochs 1 --resume ")));
    let mut said = BufReader::new(second.stderr.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("another run uses") {
        line.clear();
        assert!(said.read_line(&mut line).expect("text") > 0, "it ended");
    }
    kill_process(pid(&first), Signal::INT).expect("it runs");
    assert_eq!(end(&finish(first)).0, Some(130));
    let ended = second.wait().expect("its end");
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("text");
    assert!(ended.success() && rest.contains("resuming from"), "{rest}");
}

#[test]
fn a_folder_that_cannot_be_used_is_refused_before_the_training() {
    let run = Run::new(1);
    std::fs::write(run.checkpoints(), "").expect("written");
    let said = refused(&run.flags(""), 2);
    assert!(said.contains("--checkpoint: cannot create") && said.contains("not a directory"), "{said}");
    let said = refused(&run.flags("").replace("checkpoints", "checkpoints/below"), 2);
    assert!(said.contains("--checkpoint: cannot create"), "{said}");
    std::fs::remove_file(run.checkpoints()).expect("removed");

    for clash in [
        run.flags("").replace("model", "checkpoints"),
        run.flags("").replace("checkpoints", "model/checkpoints"),
        run.flags("").replace("r.json", "checkpoints"),
    ] {
        let said = refused(&clash, 2);
        assert!(said.contains("writes there as well"), "{clash}: {said}");
    }

    // What a killed run leaves is no checkpoint.
    std::fs::create_dir_all(run.checkpoints().join("cut-000001")).expect("created");
    let resumed = output(&run.flags("--resume"));
    succeeded(&resumed);
    let said = end(&resumed).1;
    assert!(said.contains("cut-000001 has no manifest.json; a new run begins"), "{said}");
}
