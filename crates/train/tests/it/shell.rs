//! Runs of a real task in this process: what is trained, what is reported, and how a run ends that goes
//! wrong.

#[path = "../../examples/regression/task.rs"]
mod task;

use intendant_core::{Element, Key, KeyRange};
use intendant_task::{
    BatchAt, Evaluation, Model, Partition, Prepared, Pulled, Split, StepReport, Subepoch, Task, Update,
};
use intendant_train::{App, AppError, Exporter, Outcome, Plan, Report, TrainError, exit, run};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use task::{Batch, Regression, Settings};

const SETTINGS: Settings = Settings { seed: 5, features: 300, examples: 6_000, batch: 16, rate: 0.1 };

#[derive(clap::Args)]
struct NoFlags {}

fn plan(flags: &str) -> Plan {
    let app = App::new(clap::Command::new("regression"));
    let technique = if flags.contains("--technique") { "" } else { "--technique single" };
    let flags = format!("{technique} --seed 5 --no-progress {flags}");
    app.parse::<NoFlags>(flags.split(' ').filter(|f| !f.is_empty())).expect("valid flags").1
}

fn regression<E: Element>(settings: Settings) -> Arc<Regression<E>> {
    Arc::new(Regression::new(settings).expect("features to sample from"))
}

/// Runs a task whose run must end by itself, and fails if it does not.
fn ends<T: Task>(task: Arc<T>, plan: Plan) -> Result<Outcome, TrainError> {
    let (done, waiting) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // The receiver is gone if it took too long.
        let _ = done.send(run(&task, &plan, None));
    });
    waiting.recv_timeout(std::time::Duration::from_secs(120)).expect("it hangs")
}

fn trained<E: Element>(flags: &str) -> Outcome {
    run(&regression::<E>(SETTINGS), &plan(flags), None).expect("a good run")
}

#[test]
fn it_learns_with_one_worker_and_with_several_in_both_precisions() {
    for outcome in [
        trained::<f32>("--epochs 6"),
        trained::<f32>("--epochs 6 --workers 2"),
        trained::<f64>("--epochs 6 --workers 3 --float f64 --look-ahead 1"),
        trained::<f32>("--epochs 6 --technique classic"),
        trained::<f64>("--epochs 6 --workers 3 --float f64 --technique classic --channels 2"),
    ] {
        let report = outcome.report;
        let (first, last) = (&report.epochs[0], &report.epochs[5]);
        assert!(last.loss < first.loss / 100.0, "loss fell from {} to {} only", first.loss, last.loss);
        assert!(last.quality["squared_error"] < 1e-4, "validation: {:?}", last.quality);
        assert!(report.test["squared_error"] < 1e-4, "test: {:?}", report.test);
    }
}

#[test]
fn every_example_is_trained_exactly_once_per_epoch_by_any_number_of_workers() {
    let mut expected = 0u64;
    for epoch in 0..2 {
        for index in 0..SETTINGS.examples {
            expected = expected.wrapping_add(task::digest(SETTINGS.seed, epoch, index));
        }
    }
    for flags in ["--workers 1", "--workers 2", "--workers 7", "--workers 3 --technique classic"] {
        let report = trained::<f32>(&format!("--epochs 2 {flags}")).report;
        assert_eq!(report.data_digest, format!("{expected:016x}"), "{flags}");
        assert!(report.epochs.iter().all(|e| e.examples == SETTINGS.examples));
    }
}

#[test]
fn accesses_are_those_of_training() {
    let (single, classic) = ("--epochs 2 --workers 2", "--epochs 2 --workers 2 --technique classic");
    for flags in [single, classic] {
        check_accesses(&trained::<f32>(flags).report);
    }
}

fn check_accesses(report: &Report) {
    let batches = SETTINGS.examples / SETTINGS.batch;
    // The constant, four features per example, and the samples; pulled and pushed.
    let keys = 2 * batches * (1 + 4 * SETTINGS.batch + 8);
    let access = report.access;
    assert_eq!(
        (access.counts.pull_keys, access.counts.push_keys, access.counts.sampled),
        (keys, keys, 2 * batches * 8)
    );
    assert_eq!((access.counts.local, access.counts.remote), (2 * keys, 0));
    assert_eq!(
        report.epochs[0].access.counts.local + report.epochs[1].access.counts.local,
        access.counts.local
    );
}

#[test]
fn more_workers_than_batches_is_fine() {
    let settings = Settings { examples: 40, ..SETTINGS };
    let report =
        run(&regression::<f32>(settings), &plan("--epochs 1 --workers 5"), None).expect("a good run").report;
    assert_eq!(report.epochs[0].examples, 40);
}

#[test]
fn no_epochs_evaluate_the_initial_model() {
    let report = trained::<f32>("--epochs 0").report;
    assert!(report.epochs.is_empty());
    assert!(report.test["squared_error"] > 0.1, "{:?}", report.test);
}

#[test]
fn validation_follows_its_schedule() {
    let report = trained::<f32>("--epochs 5 --valid-every 2").report;
    let validated: Vec<bool> = report.epochs.iter().map(|e| !e.quality.is_empty()).collect();
    assert_eq!(validated, [false, true, false, true, false]);
    assert!(trained::<f32>("--epochs 1 --valid-every 0").report.epochs[0].quality.is_empty());
}

#[test]
fn one_worker_repeats_itself_bit_by_bit_with_every_technique() {
    let losses = |flags: &str| {
        trained::<f32>(flags).report.epochs.iter().map(|e| e.loss.to_bits()).collect::<Vec<_>>()
    };
    let single = losses("--epochs 3");
    assert_eq!(losses("--epochs 3"), single);
    for technique in
        ["classic", "lapse", "ssp", "essp", "full-replication", "full-replication --sync-batches 3"]
    {
        assert_eq!(losses(&format!("--epochs 3 --technique {technique}")), single, "{technique}");
    }
}

#[test]
fn divergence_is_told_with_epoch_step_and_key() {
    for flags in ["--workers 1", "--workers 3", "--workers 3 --technique classic"] {
        let task = regression::<f32>(Settings { rate: 1e30, ..SETTINGS });
        let error = ends(task, plan(&format!("--epochs 3 {flags}"))).expect_err("it diverges");
        assert_eq!(error.exit_code(), exit::DIVERGED);
        let text = error.to_string();
        assert!(text.starts_with("diverged in epoch 1, step ") && text.contains("key "), "{text}");
    }
}

fn simulated(flags: &str) -> Report {
    trained::<f32>(&format!("--simulate {flags}")).report
}

#[test]
fn a_simulated_cluster_trains_the_same_examples_and_learns() {
    let digest = trained::<f32>("--epochs 3").report.data_digest;
    for flags in [
        "--technique single --workers 3",
        "--technique classic --nodes 4 --workers 2",
        "--technique lapse --nodes 3 --localize-ahead 3",
        "--technique ssp --nodes 3 --workers 2 --staleness 2",
        "--technique essp --nodes 3 --workers 2",
        "--technique full-replication --nodes 4 --sync-every-ms 1",
        "--technique full-replication --nodes 3 --sync-batches 2",
    ] {
        let report = simulated(&format!("--epochs 3 {flags}"));
        assert_eq!(report.data_digest, digest, "{flags}");
        // Of values that are a thousandth of a second old, all nodes have learnt the same at once.
        let bound = if flags.contains("--sync-every-ms") { 1e-2 } else { 1e-3 };
        assert!(report.test["squared_error"] < bound, "{flags}: {:?}", report.test);
        assert_eq!(
            report.access.counts.local + report.access.counts.remote,
            report.access.counts.pull_keys + report.access.counts.push_keys
        );
        let everywhere = flags.contains("full-replication");
        assert_eq!(report.access.counts.remote > 0, report.nodes > 1 && !everywhere, "{flags}");
    }
}

#[test]
fn one_simulated_worker_trains_the_very_model_of_a_real_one() {
    let model = |flags: &str| {
        let mut keep = Values::default();
        let folder = tempfile::tempdir().expect("a folder");
        let plan = plan(&format!("--epochs 2 --export {} {flags}", folder.path().join("model").display()));
        run(&regression::<f64>(SETTINGS), &plan, Some(&mut keep)).expect("a good run");
        keep.0
    };
    let real = model("--float f64");
    assert_eq!(real.len() as u64, SETTINGS.features + 1);
    assert_eq!(model("--float f64 --simulate"), real);
    assert_eq!(model("--float f64 --simulate --technique lapse"), real);
}

/// The bits of all values.
#[derive(Default)]
struct Values(BTreeMap<u64, u64>);

impl Exporter<f64> for Values {
    fn begin(&mut self, _folder: &Path, _ranges: &[KeyRange]) -> Result<(), AppError> {
        Ok(())
    }

    fn part(&mut self, keys: &[Key], values: &[f64]) -> Result<(), AppError> {
        self.0.extend(keys.iter().zip(values).map(|(key, value)| (key.0, value.to_bits())));
        Ok(())
    }

    fn end(&mut self) -> Result<(), AppError> {
        Ok(())
    }
}

#[test]
fn a_seed_is_a_simulated_run_and_evaluation_takes_none_of_its_time() {
    let flags = "--technique lapse --nodes 4 --workers 2 --localize-ahead 2 --epochs 2";
    let validated = simulated(flags);
    assert_eq!(simulated(flags), validated);
    let plain = simulated(&format!("{flags} --valid-every 0"));
    assert!(plain.epochs[0].quality.is_empty() && !validated.epochs[0].quality.is_empty());
    let costs =
        |report: &Report| report.epochs.iter().map(|e| (e.seconds, e.network.messages)).collect::<Vec<_>>();
    let (plain, validated) = (costs(&plain), costs(&validated));
    assert_eq!(plain[0], validated[0], "until the first evaluation nothing differs");
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.1;
    assert!(near(plain[1].0, validated[1].0), "{plain:?} {validated:?}");
    assert!(near(plain[1].1 as f64, validated[1].1 as f64), "{plain:?} {validated:?}");
}

#[test]
fn charged_lengths_make_a_simulated_run_longer_and_nothing_else() {
    let flags = "--technique classic --nodes 3 --epochs 1 --valid-every 0";
    let (short, long) = (simulated(flags), simulated(&format!("{flags} --charge 5000 --charge-compute 1")));
    assert_eq!(short.access.counts.pull_keys, long.access.counts.pull_keys);
    assert!(long.network.bytes > 100 * short.network.bytes, "{:?} {:?}", short.network, long.network);
    assert!(long.epochs[0].seconds > 2.0 * short.epochs[0].seconds);
    let slow = simulated(&format!("{flags} --charge-compute 5000"));
    assert_eq!(slow.network.bytes / short.network.bytes, 1);
    assert!(slow.epochs[0].seconds > 2.0 * short.epochs[0].seconds);
}

#[test]
fn what_fails_in_a_simulation_is_named() {
    for (at, message) in [
        (Where::Prepare, "the simulation panicked: sabotage"),
        (Where::Compute, "the simulation panicked: sabotage"),
        (Where::Sample, "worker 1: distribution 1 is not registered; 1 are"),
        (Where::Evaluation, "the simulation panicked: sabotage"),
    ] {
        let inner = Regression::new(SETTINGS).expect("features to sample from");
        let plan = plan("--epochs 3 --workers 3 --simulate");
        let error = ends(Arc::new(Sabotaged { inner, at }), plan).expect_err("sabotage");
        let code = if message.contains("panicked") { exit::PANICKED } else { exit::OTHER };
        assert_eq!((error.exit_code(), error.to_string().as_str()), (code, message));
    }
}

/// Keeps everything it is given.
#[derive(Default)]
struct Keep {
    ranges: Vec<KeyRange>,
    values: BTreeMap<u64, usize>,
    ended: bool,
}

impl<E: Element> Exporter<E> for Keep {
    fn begin(&mut self, _folder: &Path, ranges: &[KeyRange]) -> Result<(), AppError> {
        self.ranges = ranges.to_vec();
        Ok(())
    }

    fn part(&mut self, keys: &[Key], values: &[E]) -> Result<(), AppError> {
        let mut elements = 0;
        for key in keys {
            let len = self
                .ranges
                .iter()
                .find(|r| r.keys.contains(&key.0))
                .ok_or("a key outside of all ranges")?
                .len;
            elements += len;
            if self.values.insert(key.0, len).is_some() {
                return Err(format!("{key} came twice").into());
            }
        }
        if elements == values.len() { Ok(()) } else { Err("values and keys differ".into()) }
    }

    fn end(&mut self) -> Result<(), AppError> {
        self.ended = true;
        Ok(())
    }
}

#[test]
fn an_export_sees_every_key_once() {
    let settings = Settings { features: 5_000, ..SETTINGS };
    let folder = tempfile::tempdir().expect("a folder");
    for technique in ["single", "classic"] {
        let place = folder.path().join(technique);
        let plan =
            plan(&format!("--epochs 1 --workers 2 --export {} --technique {technique}", place.display()));
        let mut keep = Keep::default();
        run(&regression::<f32>(settings), &plan, Some(&mut keep)).expect("a good run");
        assert!(keep.ended);
        assert!(keep.values.keys().copied().eq(0..5_001));
    }
    let plan = plan(&format!("--epochs 1 --export {}", folder.path().join("model").display()));
    assert!(run(&regression::<f32>(settings), &plan, None).is_err_and(|e| e.exit_code() == exit::USAGE));
}

/// A full disk: the export fails, and the report, whose disk has room, is written nevertheless.
#[test]
fn an_export_that_fails_costs_neither_the_report_nor_an_earlier_model() {
    struct Full;
    impl Exporter<f32> for Full {
        fn begin(&mut self, folder: &Path, _ranges: &[KeyRange]) -> Result<(), AppError> {
            Ok(std::fs::write(folder.join("half"), "of a model")?)
        }

        fn part(&mut self, _keys: &[Key], _values: &[f32]) -> Result<(), AppError> {
            Err("the disk is full".into())
        }

        fn end(&mut self) -> Result<(), AppError> {
            panic!("the end of a failed export")
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (model, report) = (folder.path().join("model"), folder.path().join("r.json"));
    for flags in ["--workers 3", "--technique classic", "--technique classic --simulate --nodes 2"] {
        let outputs = format!("--export {} --report {}", model.display(), report.display());
        let plan = plan(&format!("--epochs 1 {flags} {outputs}"));
        let error = run(&regression::<f32>(SETTINGS), &plan, Some(&mut Full)).expect_err("no space");
        assert_eq!((error.to_string().as_str(), error.exit_code()), ("export failed: the disk is full", 1));
        std::fs::remove_file(&report).expect("the report is there");
        assert!(folder.path().join("r.config.toml").exists());
        let left = std::fs::read_dir(folder.path()).expect("listed").count();
        assert_eq!(left, 2, "report and history; neither a model nor parts of one");
    }
}

#[test]
fn the_element_type_must_be_the_one_asked_for() {
    let error = run(&regression::<f64>(SETTINGS), &plan(""), None).expect_err("f32 was asked for");
    assert_eq!(error.exit_code(), exit::USAGE);
}

/// Where a sabotaged task fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Where {
    Prepare,
    Compute,
    /// It pulls a key that does not exist.
    Key,
    /// It samples from a distribution of another task.
    Sample,
    Evaluation,
    /// After the training.
    Test,
}

/// The regression, but for a fault in one batch of the second epoch.
struct Sabotaged {
    inner: Regression<f32>,
    at: Where,
}

impl Task for Sabotaged {
    type Element = f32;
    type Batch = (Batch, bool);
    type Scratch = ();

    fn name(&self) -> &'static str {
        "sabotaged"
    }

    fn model(&self) -> &Model<f32> {
        self.inner.model()
    }

    fn batches(&self, subepoch: Subepoch, partition: Partition) -> u64 {
        self.inner.batches(subepoch, partition)
    }

    fn prepare(&self, at: BatchAt) -> Prepared<(Batch, bool)> {
        let here = at.subepoch.epoch == 1 && at.global() == 100;
        assert!(!(here && self.at == Where::Prepare), "sabotage");
        let Prepared { batch, mut keys, near, mut samples, handles, digest } = self.inner.prepare(at);
        if here && self.at == Where::Key {
            keys[0] = Key(1 << 40);
        }
        if here && self.at == Where::Sample {
            let mut other = intendant_sampling::Sampler::builder();
            for _ in 0..2 {
                let uniform = intendant_sampling::Distribution::uniform(0..9).expect("not empty");
                samples[0].distribution = other.register(uniform, intendant_sampling::Conformity::Conform);
            }
        }
        Prepared { batch: (batch, here), keys, near, samples, handles, digest }
    }

    fn scratch(&self) {}

    fn compute(
        &self,
        (): &mut (),
        (batch, here): &(Batch, bool),
        pulled: Pulled<'_, f32>,
        update: &mut Update<'_, f32>,
    ) -> StepReport {
        assert!(!(*here && self.at == Where::Compute), "sabotage");
        self.inner.compute(&mut (), batch, pulled, update)
    }

    fn evaluation(&self, split: Split, partition: Partition) -> Option<Box<dyn Evaluation<f32>>> {
        let is_test = split == Split::Test;
        let fails = self.at == Where::Evaluation || self.at == Where::Test && is_test;
        assert!(!fails || partition.worker != 1, "sabotage");
        self.inner.evaluation(split, partition)
    }
}

#[test]
fn whatever_fails_in_one_thread_ends_all_of_them_and_is_named() {
    let cases = [
        (Where::Prepare, "loader-1 panicked: sabotage"),
        (Where::Compute, "worker-1 panicked: sabotage"),
        (Where::Sample, "worker 1: distribution 1 is not registered; 1 are"),
        (Where::Key, ""),
        (Where::Evaluation, "worker-1 panicked: sabotage"),
    ];
    let cases = cases.iter().flat_map(|case| [("single", case), ("classic", case)]);
    for (technique, &(at, message)) in cases {
        let inner = Regression::new(SETTINGS).expect("features to sample from");
        let task = Arc::new(Sabotaged { inner, at });
        // Batch 100 is the second worker's; the others wait for it at the end of the epoch.
        let error = ends(task, plan(&format!("--epochs 3 --workers 3 --technique {technique}")))
            .expect_err("sabotage");
        let is_panic = matches!(error, TrainError::Panicked { .. });
        assert_eq!(error.exit_code(), if is_panic { exit::PANICKED } else { exit::OTHER }, "{error}");
        match at {
            // The driver looks up the length of a value before it requests the value.
            Where::Key => assert!(matches!(error, TrainError::Panicked { .. }), "{error}"),
            Where::Prepare | Where::Compute | Where::Sample | Where::Evaluation | Where::Test => {
                assert_eq!(error.to_string(), message);
            }
        }
    }
}

#[test]
fn the_last_checkpoint_is_made_before_the_test() {
    for technique in ["single", "classic"] {
        let folder = tempfile::tempdir().expect("a folder");
        let cuts = folder.path().join("cuts");
        let inner = Regression::new(SETTINGS).expect("features to sample from");
        let task = Arc::new(Sabotaged { inner, at: Where::Test });
        let flags = format!("--checkpoint {} --checkpoint-seconds 3600", cuts.display());
        let error = ends(task, plan(&format!("--epochs 3 --workers 3 --technique {technique} {flags}")));
        assert_eq!(error.expect_err("sabotage").to_string(), "worker-1 panicked: sabotage");
        let manifest = std::fs::read(cuts.join("cut-000001/manifest.json")).expect("a checkpoint");
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("JSON");
        assert_eq!(manifest["run"]["epochs"].as_array().map(Vec::len), Some(3), "{technique}");
    }
}
