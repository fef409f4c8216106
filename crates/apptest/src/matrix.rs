//! Runs every technique on one, two and four node processes. Checks that the examples are the same, that the
//! report is as documented, that the technique does what it is for, and that the model learns as much as the
//! technique's consistency allows. With one process, the results of all techniques are equal.

use crate::{App, Case, case, schema};
use serde_json::Value;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How an application is run and judged.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its program.
    pub app: App,
    /// Flags of a task that takes about a second, without `--epochs` and `--valid-every`.
    pub task: &'static [&'static str],
    /// `--epochs`: so few that the model is far from convergence, and lost updates are visible.
    pub epochs: &'static str,
    /// The members of the quality in its report.
    pub quality: &'static [&'static str],
    /// Computes, from the quality on the test data, a number that grows with what the model has learnt.
    pub measure: fn(&Value) -> f64,
    /// Places in the report, besides the digest of the data, that are equal for all numbers of workers and
    /// nodes.
    pub same: &'static [&'static str],
    /// The fraction by which several nodes may learn more than one process.
    pub noise: f64,
}

/// A setting, with the baseline runs that all other runs are compared with.
#[derive(Debug)]
pub struct Matrix {
    setting: Setting,
    baseline: OnceLock<Baseline>,
}

#[derive(Debug)]
struct Baseline {
    single: Value,
    /// The measures of the untrained model and of `single`.
    measures: [f64; 2],
}

const SCHEMES: [&str; 5] = ["independent", "reuse", "postponing", "local", "repurposing"];

fn losses(report: &Value) -> Vec<&Value> {
    report["epochs"].as_array().expect("an array").iter().map(|epoch| &epoch["loss"]).collect()
}

/// Whether the scheme makes sense with the case: postponing waits for keys that are on their way.
fn is_allowed(case: &Case, scheme: &str) -> bool {
    scheme != "postponing" || case.mechanisms().moves
}

impl Matrix {
    /// Runs nothing yet.
    #[must_use]
    pub const fn new(setting: Setting) -> Self {
        Self { setting, baseline: OnceLock::new() }
    }

    /// The report of a run. It is validated once, at its end.
    #[must_use]
    #[track_caller]
    pub fn report(&self, flags: &[&str]) -> Value {
        let Setting { app, task, epochs, quality, .. } = self.setting;
        let report = app.report(&[task, &["--epochs", epochs, "--valid-every", epochs], flags].concat());
        let epochs = epochs.parse().expect("a number");
        assert_eq!(losses(&report).len(), epochs);
        schema::check(&report, quality, epochs);
        report
    }

    fn baseline(&self) -> &Baseline {
        self.baseline.get_or_init(|| {
            let Setting { app, task, quality, measure, .. } = self.setting;
            schema::described(quality);
            let single = self.report(&["--technique", "single"]);
            let untrained = app.report(&[task, &["--epochs", "0", "--technique", "single"]].concat());
            let measures = [&untrained, &single].map(|report| measure(&report["test"]));
            assert!(measures[0] < measures[1], "something is learnt: {measures:?}");
            Baseline { single, measures }
        })
    }

    /// How much a run has learnt, as a fraction of what one process learns: 0 is the untrained model, 1 is
    /// one process.
    fn learnt(&self, report: &Value) -> f64 {
        let [untrained, single] = self.baseline().measures;
        ((self.setting.measure)(&report["test"]) - untrained) / (single - untrained)
    }

    /// Runs a case, and checks it. On several nodes, it may learn less than one process by the fraction
    /// `loss`.
    ///
    /// # Panics
    /// If a check fails.
    #[track_caller]
    pub fn check(&self, case: &Case, loss: f64) {
        let single = &self.baseline().single;
        let flags = case.flags();
        for (nodes, layout) in
            [("1", &[][..]), ("2", &["--channels", "2", "--storage", "sparse"]), ("4", &[])]
        {
            let report = self.report(&[&flags[..], &["--nodes", nodes], layout].concat());
            let what = format!("{flags:?}, {nodes} nodes: {}, {}", report["test"], report["management"]);
            assert_eq!(
                (&report["technique"], report["nodes"].to_string()),
                (&case.technique.into(), nodes.to_owned())
            );
            for place in ["/data_digest"].iter().chain(self.setting.same) {
                let of = |report: &Value| report.pointer(place).expect(place).clone();
                assert_eq!(of(&report), of(single), "{place}: {what}");
            }
            let access = |name: &str| report["access"][name].as_u64().expect(name);
            assert_eq!(
                access("local") + access("remote"),
                access("pull_keys") + access("push_keys"),
                "{what}"
            );
            if nodes == "1" {
                assert_eq!((losses(&report), &report["test"]), (losses(single), &single["test"]), "{what}");
                assert_eq!(report["network"]["messages"], 0, "{what}");
                for nothing in ["relocations", "replica_setups", "synced_keys"] {
                    assert_eq!(case::did(&report, nothing), 0, "{what}");
                }
                // A worker's clock travels through its node's channels, and the worker's next access may be
                // there before it.
                assert!(access("remote") == 0 || case.mechanisms().is_clocked, "{what}");
            } else {
                // All nodes are on one host.
                if cfg!(target_os = "linux") && report["simulated"] == false {
                    assert_eq!(report["network"]["unix_bytes"], report["network"]["bytes"], "{what}");
                }
                let learnt = self.learnt(&report);
                let allowed = 1.0 - loss..1.0 + self.setting.noise;
                assert!(allowed.contains(&learnt), "{learnt:.3} of single, {allowed:?} is allowed: {what}");
                (case.works)(&report);
            }
        }
    }

    /// As [`check`](Self::check), for several cases, of which as many run at a time as the machine has cores.
    ///
    /// # Panics
    /// If a check fails.
    pub fn check_all(&self, cases: &[Case], loss: f64) {
        let next = AtomicUsize::new(0);
        let check = || {
            while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.check(case, loss);
            }
        };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(check))));
    }

    /// Runs each case with each sampling scheme on two nodes. Checks that the nodes draw as many samples as
    /// one process, and learn at least the fraction `learnt` of what one process learns (not with local
    /// sampling if keys do not move). Checks that the program refuses combinations that make no sense, with a
    /// reason.
    ///
    /// # Panics
    /// If a check fails.
    #[track_caller]
    pub fn check_schemes(&self, cases: &[Case], learnt: f64) {
        let Setting { app, task, .. } = self.setting;
        let single = &self.baseline().single;
        let sampled = |report: &Value| report["access"]["sampled"].as_u64().expect("a count");
        assert!(sampled(single) > 0, "the task draws samples");
        for (case, scheme) in cases.iter().flat_map(|case| SCHEMES.map(|scheme| (case, scheme))) {
            let flags = [&case.flags()[..], &["--nodes", "2", "--sampling-scheme", scheme]].concat();
            if !is_allowed(case, scheme) {
                let refused = app.output(&[task, &flags[..]].concat());
                let said = String::from_utf8_lossy(&refused.stderr);
                assert_eq!(refused.status.code(), Some(2), "{flags:?}: {said}");
                assert!(said.contains("moves no keys on request"), "{flags:?}: {said}");
                continue;
            }
            let report = self.report(&flags);
            let what = format!("{flags:?}: {}, {}", report["test"], report["sampling"]);
            assert_eq!(report["sampling"]["scheme"], scheme, "{what}");
            assert_eq!(sampled(&report), sampled(single), "{what}");
            assert_eq!(report["sampling"]["drawn"], sampled(&report), "{what}");
            let pooled = ["reuse", "postponing"].contains(&scheme);
            assert_eq!(report["sampling"]["pools"].as_u64() > Some(0), pooled, "{what}");
            let part = self.learnt(&report);
            // If keys do not move, each node draws only from its own keys, which may cost all of the quality
            // [thesis Fig. 4.9].
            let technique = case.mechanisms();
            let stays = scheme == "local" && !technique.moves && !technique.replicates_all;
            assert!(stays || part >= learnt, "{part:.3} of single: {what}");
        }
    }

    /// Simulates [`case::NEVER`]: four nodes that synchronise replicas only at the ends of epochs must lose
    /// more than the fraction `loss`, which is the largest that [`check`](Self::check) is called with. (Real
    /// processes that have finished their batches would synchronise replicas with processes that a busy
    /// machine has not run yet.)
    ///
    /// # Panics
    /// If they do not.
    #[track_caller]
    pub fn check_controls(&self, loss: f64) {
        case::NEVER.iter().for_each(|case| self.check_control(case, loss));
    }

    /// Like [`check_controls`](Self::check_controls), for one case.
    ///
    /// # Panics
    /// If the nodes do not lose more.
    #[track_caller]
    pub fn check_control(&self, case: &Case, loss: f64) {
        let learnt = self.learnt_simulated(case);
        assert!(learnt < 1.0 - loss, "{:?}: {learnt:.3} of single, and {loss} may be lost", case.flags());
    }

    /// Checks that four simulated nodes learn as much as one process, except for the fraction `loss`. The age
    /// of their replicas depends only on virtual time, so bounds can be closer than those of
    /// [`check`](Self::check).
    ///
    /// # Panics
    /// If they learn less, or more than the setting's noise allows.
    #[track_caller]
    pub fn check_simulated(&self, case: &Case, loss: f64) {
        let learnt = self.learnt_simulated(case);
        let allowed = 1.0 - loss..1.0 + self.setting.noise;
        assert!(
            allowed.contains(&learnt),
            "{:?}: {learnt:.3} of single, {allowed:?} is allowed",
            case.flags()
        );
    }

    fn learnt_simulated(&self, case: &Case) -> f64 {
        self.learnt(&self.report(&[&case.flags()[..], &["--nodes", "4", "--simulate"]].concat()))
    }

    /// Checks that, on four simulated nodes, no technique has sent less by the end of an epoch than every
    /// parameter manager must send.
    ///
    /// # Panics
    /// If a technique has sent less, or if nothing has to be sent.
    #[track_caller]
    pub fn check_bound(&self, cases: &[Case]) {
        for case in cases {
            let simulated = ["--nodes", "4", "--simulate", "--bound", "epoch,100"];
            let report = self.report(&[&case.flags()[..], &simulated].concat());
            let (mut sent, mut least) = (0, 0);
            for epoch in report["epochs"].as_array().expect("an array") {
                let bytes = |place: &str| epoch["bound"].pointer(place).and_then(Value::as_u64).expect(place);
                sent += bytes("/sent_bytes");
                least += bytes("/least/0/bytes");
                assert!(least <= sent, "{:?}: {least} of {sent}", case.flags());
                assert!(bytes("/least/1/bytes") > 0, "{:?}: {epoch}", case.flags());
            }
            assert!(least > 0, "{:?}: {}", case.flags(), report["bound"]);
            assert_eq!(report["bound"]["sent_bytes"], sent);
        }
    }

    /// Checks that three nodes learn the same in every run, at any speed of nodes, and also in virtual time.
    ///
    /// # Panics
    /// If they do not.
    #[track_caller]
    pub fn check_repeats(&self, case: &Case) {
        let flags = [&case.flags()[..], &["--nodes", "3"]].concat();
        let first = self.report(&flags);
        for other in [self.report(&flags), self.report(&[&flags[..], &["--simulate"]].concat())] {
            assert_eq!((losses(&first), &first["test"]), (losses(&other), &other["test"]), "{flags:?}");
        }
    }

    /// Prints on standard error how much four nodes learn in `runs` runs of each case, in ascending order.
    /// Thresholds are derived from these numbers.
    pub fn measure(&self, cases: &[Case], runs: usize) {
        eprintln!("untrained and single: {:?}", self.baseline().measures);
        for case in cases {
            self.measure_one(&[&case.flags()[..], &["--nodes", "4"]].concat(), runs);
        }
    }

    /// Like [`measure`](Self::measure), for two nodes with each sampling scheme that the case allows.
    pub fn measure_schemes(&self, cases: &[Case], runs: usize) {
        for (case, scheme) in cases.iter().flat_map(|case| SCHEMES.map(|scheme| (case, scheme))) {
            if is_allowed(case, scheme) {
                let flags = [&case.flags()[..], &["--nodes", "2", "--sampling-scheme", scheme]].concat();
                self.measure_one(&flags, runs);
            }
        }
    }

    fn measure_one(&self, flags: &[&str], runs: usize) {
        let mut learnt: Vec<f64> = (0..runs).map(|_| self.learnt(&self.report(flags))).collect();
        learnt.sort_by(f64::total_cmp);
        let learnt: Vec<String> = learnt.iter().map(|learnt| format!("{learnt:.3}")).collect();
        eprintln!("{}: {}", flags.join(" "), learnt.join(" "));
    }
}
