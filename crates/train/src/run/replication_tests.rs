use super::*;
use crate::app::App;
use intendant::{StaticReplicaPace, Tick};
use intendant_apptest::pages::compare;
use intendant_core::Precision;
use intendant_sampling::Sampler;
use std::fmt::Write as _;
use std::num::NonZeroU32;

#[derive(clap::Args)]
struct NoFlags {}

fn plan(flags: &str) -> Result<Plan, String> {
    let app = App::new(clap::Command::new("task"));
    let flags = flags.split(' ').filter(|flag| !flag.is_empty());
    app.parse::<NoFlags>(flags).map(|(_, plan)| plan).map_err(|error| {
        assert_eq!(error.exit_code(), crate::error::exit::USAGE);
        error.to_string()
    })
}

#[track_caller]
fn refused(flags: &str, what: &str) {
    let error = plan(flags).expect_err("refused");
    assert!(error.contains(what), "{flags}: {error}");
}

/// Which techniques take a flag is tried with each technique, and stands in the page on flags.
#[test]
fn a_flag_is_for_the_techniques_that_make_something_of_it() {
    let flags = [
        "staleness 3",
        "clock-every 10",
        "sync-every-ms 10",
        "sync-batches 2",
        "clip-updates 2",
        "significant 0.1",
        "delta-type bf16",
        "replicate-above 10",
        "replicate-scale 4",
        "replicate-top 5",
        "replicate-file no-such-file",
        "rounds-per-second 100",
        "intent-quantile 0.9",
        "intent-smoothing 0.2",
        "intent-initial 5",
    ];
    let mut table = "| flag | techniques |\n| --- | --- |\n".to_owned();
    for flag in flags {
        let mut taken = Vec::new();
        let name = flag.split(' ').next().expect("a name");
        for technique in ["single"].into_iter().chain(intendant::Technique::names(|_| true)) {
            match plan(&format!("--technique {technique} --{flag}")) {
                Ok(_) => taken.push(format!("`{technique}`")),
                Err(error) if error.contains("no-such-file: cannot be read") => {
                    taken.push(format!("`{technique}`"));
                }
                Err(error) => {
                    let why = format!("; it has no effect with technique {technique}: leave it out");
                    assert!(error.contains(&format!("--{name} is for ")) && error.contains(&why), "{error}");
                }
            }
        }
        writeln!(table, "| `--{name}` | {} |", taken.join(", ")).expect("memory");
    }
    compare("crates/train/README.md", "flags", &table);
}

#[test]
fn elements_travel_as_they_are_or_as_bf16() {
    let precision = |flags: &str| plan(flags).map(|plan| plan.replication.precision);
    for flags in ["", "--float f64", "--delta-type exact --float f64", "--delta-type f64 --float f64"] {
        assert_eq!(precision(flags), Ok(Precision::Exact), "{flags}");
    }
    assert_eq!(precision("--delta-type f32"), Ok(Precision::Exact));
    assert_eq!(precision("--delta-type bf16"), Ok(Precision::Bf16));
    refused("--delta-type bf16 --float f64", "--delta-type bf16 has the range of f32, and --float is f64: ");
    refused("--delta-type f64", "--delta-type is f64, and --float is f32: ");
    refused("--delta-type f32 --float f64", "--delta-type is f32, and --float is f64: ");
    for name in ["f16", "bf-16", "0"] {
        refused(&format!("--delta-type {name}"), "must be exact, the type of --float, or bf16");
    }
}

#[test]
fn what_contradicts_itself_or_makes_no_sense_is_refused() {
    refused(
        "--technique full-replication --sync-every-ms 10 --sync-batches 2",
        "--sync-every-ms and --sync-batches",
    );
    refused(
        "--technique nups --replicate-top 10 --replicate-above 2",
        "--replicate-above and --replicate-top",
    );
    refused(
        "--technique nups --replicate-top 10 --replicate-scale 2",
        "--replicate-scale and --replicate-top",
    );
    refused(
        "--technique nups --replicate-file x --replicate-scale 2",
        "--replicate-scale and --replicate-file",
    );
    refused("--technique nups --sync-every-ms 0", "--sync-every-ms is 0; it must be above 0");
    refused("--technique nups --sync-every-ms 1e9", "at most 3600000");
    refused("--technique nups --clip-updates nan", "--clip-updates is NaN");
    refused("--technique nups --replicate-above=-1", "--replicate-above");
    refused("--technique full-replication --sync-batches 0", "--sync-batches");
    refused("--technique essp --order fifo", "technique essp chains operations");
    assert!(plan("--technique essp --order chain").is_ok());
}

#[test]
fn a_file_of_keys_is_read_before_anything_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("keys");
    std::fs::write(&file, "# hot\n3\n10..12\n").expect("written");
    let flags = format!("--technique nups --replicate-file {}", file.display());
    let found = plan(&flags).expect("a file of keys").replication.choice;
    assert_eq!(found, Choice::Given([3, 10, 11].map(Key).into_iter().collect()));
    std::fs::write(&file, "3\nfour\n").expect("written");
    refused(&flags, "keys: line 2, 'four': not a number");
}

#[test]
fn the_effective_configuration_says_what_is_used() {
    let of = |flags: &str, name: &str| plan(flags).expect("fine").config.get(name).cloned();
    assert_eq!(of("--technique ssp", "staleness"), Some(1.into()));
    assert_eq!(of("--technique essp --staleness 0", "staleness"), Some(0.into()));
    assert_eq!(of("--technique nups", "sync-every-ms"), Some(40.0.into()));
    assert_eq!(of("--technique nups", "replicate-above"), Some(100.0.into()));
    assert_eq!(of("--technique essp", "clock-every"), Some(1.into()));
    assert_eq!(of("--technique essp --clock-every 0", "clock-every"), Some(0.into()));
    for name in ["staleness", "clock-every", "sync-every-ms", "replicate-above", "replicate-scale"] {
        assert_eq!(of("--technique lapse", name), None);
    }
    assert_eq!(of("--technique full-replication --sync-batches 4", "sync-every-ms"), None);
    assert_eq!(of("--technique nups --replicate-top 7", "replicate-above"), None);
}

#[test]
fn batches_between_synchronisations_are_scheduled_and_have_no_goal() {
    let plan = |flags: &str| plan(flags).expect("fine");
    let asked = plan("--technique full-replication --sync-batches 4");
    assert_eq!(asked.schedule(&Sampler::default()).synchronize, NonZeroU32::new(4));
    assert_eq!(
        (asked.replication.pace, asked.replication.goal(asked.technique)),
        (StaticReplicaPace::Asked, None)
    );
    let paced = plan("--technique nups --sync-every-ms 2.5");
    assert_eq!(paced.schedule(&Sampler::default()).synchronize, None);
    assert_eq!(
        (paced.replication.pace, paced.replication.goal(paced.technique)),
        (StaticReplicaPace::Every(Tick(2_500)), Some(400.0))
    );
    for (flags, every) in [("", 1), ("--clock-every 10", 10), ("--clock-every 0", 0)] {
        let clocked = plan(&format!("--technique ssp {flags}"));
        assert_eq!(
            clocked.schedule(&Sampler::default()).clock_every,
            NonZeroU32::new(every),
            "0: at the end of subepochs only"
        );
    }
    let without = plan("--technique lapse");
    assert_eq!(without.replication.goal(without.technique), None);
}

/// Four hot keys, of which one is not shared, among a hundred.
fn frequencies() -> Vec<Frequency> {
    let of = |key: u64| {
        let uses = match key {
            7 => 900,
            20 => 500,
            21 | 60 => 400,
            _ => key % 3,
        };
        // As if each were sampled ten times.
        Frequency { key: Key(key), accesses: uses as f64 + 10.0, uses, shared: key != 20 }
    };
    (0..90).map(of).collect()
}

fn chosen(flags: &str) -> Vec<u64> {
    let plan = plan(&format!("--technique nups {flags}")).expect("fine");
    let found = choose(&plan.replication.choice, Some(&frequencies()), 100, "task").expect("known");
    let layout = Layout::builder().range("k", 100, 1).build().expect("a layout");
    found.resolve(&layout).iter().map(|key| key.0).collect()
}

#[test]
fn hot_keys_that_several_nodes_use_are_chosen_by_their_uses() {
    // 1,700 + 86 uses of the 99 keys that may be shared.
    assert_eq!(chosen("--replicate-above 10"), [7, 21, 60]);
    assert_eq!(chosen("--replicate-above 22"), [7, 21, 60]);
    assert_eq!(chosen("--replicate-above 23"), [7]);
    assert_eq!(chosen(""), [0; 0], "no key has 100 times the mean");
    assert_eq!(chosen("--replicate-above 10 --replicate-scale 0.34"), [7]);
    assert_eq!(
        chosen("--replicate-above 10 --replicate-scale 2"),
        [2, 5, 7, 8, 21, 60],
        "of equals the lower keys"
    );
    assert_eq!(chosen("--replicate-top 2"), [7, 21]);
    assert_eq!(chosen("--replicate-top 1000").len(), 89, "all but the key that a single node uses");
}

#[test]
fn the_flag_that_chose_no_key_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("keys");
    std::fs::write(&file, "# none yet\n").expect("written");
    let file = format!("--replicate-file {}", file.display());
    for (flags, named) in [
        ("", "--replicate-above"),
        ("--replicate-above 10 --replicate-scale 0.1", "--replicate-scale"),
        ("--replicate-top 0", "--replicate-top is 0"),
        (&file, "--replicate-file names no key"),
    ] {
        assert_eq!(chosen(flags), [0; 0], "{flags}");
        let reason = why_none(&plan(&format!("--technique nups {flags}")).expect("fine").replication.choice);
        assert!(reason.contains(named), "{flags}: {reason}");
    }
}

#[test]
fn who_knows_no_frequencies_must_name_the_keys() {
    let none = |flags: &str| {
        let plan = plan(&format!("--technique nups {flags}")).expect("fine");
        choose(&plan.replication.choice, None, 100, "unknown").map_err(|error| error.to_string())
    };
    for flags in ["", "--replicate-top 3"] {
        let error = none(flags).expect_err("nothing is known");
        assert!(
            error.contains("task unknown does not know") && error.contains("--replicate-file"),
            "{error}"
        );
    }
    let all = Choice::Given(Assignment::all());
    assert_eq!(choose(&all, None, 100, "unknown").expect("given"), Assignment::all());
}

#[test]
fn the_share_is_one_of_accesses() {
    let all = 2_200.0
        + (0..90).filter(|key| ![7, 20, 21, 60].contains(key)).map(|k| k % 3).sum::<u64>() as f64
        + 900.0;
    assert_eq!(share(&frequencies(), &[Key(7), Key(21)]), 1_320.0 / all);
    assert_eq!(share(&frequencies(), &[]), 0.0);
    assert_eq!(share(&[], &[Key(3)]), 0.0);
}

#[test]
fn what_is_replicated_is_told_in_a_line() {
    let replicated = Replicated { keys: 1_200, bytes: 48_000, access_share: Some(0.4111) };
    assert_eq!(replicated.to_string(), "1,200 keys, 46.88 KiB on each node, 41.1 % of accesses");
    let unknown = Replicated { access_share: None, ..replicated };
    assert_eq!(unknown.to_string(), "1,200 keys, 46.88 KiB on each node");
}
