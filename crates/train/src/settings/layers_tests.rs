//! Precedence, refusals and the effective configuration, through an application with flags of its own.

use super::{Environment, SettingsError};
use crate::{App, TrainError, exit};
use crate::{DataSource, Plan, Technique, flag};
use std::ffi::OsString;
use std::path::Path;

/// Not what it is about.
#[derive(clap::Args, Debug, PartialEq)]
struct Flags {
    #[arg(long, default_value_t = 64)]
    dim: usize,
    #[arg(long, default_value_t = 0.1)]
    rate: f64,
    #[arg(long, default_value_t = true)]
    reciprocal: bool,
    #[arg(long)]
    shuffle: bool,
    #[arg(long)]
    negatives: Option<u32>,
    #[arg(long = "layer")]
    layers: Vec<u32>,
    #[arg(long, required = true)]
    label: String,
    #[arg(long, conflicts_with = "shuffle")]
    sorted: bool,
}

fn app() -> App {
    App::new(clap::Command::new("app").about("What it is about"))
        .default("epochs", 30)
        .default("data", "builtin:tiny")
}

fn read(argv: &[&str], environment: &[(&str, &str)]) -> Result<(Flags, Plan), SettingsError> {
    let argv: Vec<OsString> = ["app"].iter().chain(argv).map(OsString::from).collect();
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value)));
    app().plan(&argv, &environment.collect(), || Ok(None))
}

fn good(argv: &[&str], environment: &[(&str, &str)]) -> (Flags, Plan) {
    read(argv, environment).unwrap_or_else(|e| panic!("{argv:?} is refused: {e:?}"))
}

/// The error and its exit code.
fn bad(argv: &[&str], environment: &[(&str, &str)]) -> String {
    match read(argv, environment) {
        Ok(read) => panic!("{argv:?} is accepted: {read:?}"),
        Err(SettingsError::CommandLine(error)) => {
            assert!(error.use_stderr());
            error.to_string()
        }
        Err(SettingsError::Train(error)) => {
            assert_eq!(error.exit_code(), exit::USAGE);
            error.to_string()
        }
    }
}

struct File(tempfile::NamedTempFile);

impl File {
    fn with(text: &str) -> Self {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        Self(file)
    }

    fn path(&self) -> &str {
        self.0.path().to_str().expect("a plain name")
    }
}

#[test]
fn defaults_are_below_the_file_the_file_below_the_environment_and_flags_above_all() {
    let file = File::with("label = 'f'\nepochs = 1\nseed = 1\ndim = 1\nworkers = 2\n");
    let environment = [("INTENDANT_SEED", "2"), ("INTENDANT_DIM", "2"), ("INTENDANT_LABEL", "e")];
    let (flags, plan) = good(&["--config", file.path(), "--dim", "3"], &environment);
    assert_eq!((plan.valid_every, plan.epochs, plan.seed, flags.dim), (1, 1, 2, 3));
    assert_eq!((flags.label.as_str(), plan.workers, flags.rate), ("e", 2, 0.1));
    let (_, plan) = good(&["--label", "x"], &[]);
    assert_eq!(plan.epochs, 30, "the application's default");
    assert_eq!(plan.data, Some(DataSource::Builtin("tiny".to_owned())));
}

#[test]
fn the_environment_can_name_the_file() {
    let file = File::with("label = 'f'\nseed = 9\n");
    let (_, plan) = good(&[], &[("INTENDANT_CONFIG", file.path())]);
    assert_eq!(plan.seed, 9);
    let other = File::with("label = 'o'\nseed = 8\n");
    let (_, plan) = good(&["--config", other.path()], &[("INTENDANT_CONFIG", file.path())]);
    assert_eq!(plan.seed, 8);
}

#[test]
fn switches_can_be_overruled_in_both_directions() {
    let file = File::with("label = 'f'\nreciprocal = false\nshuffle = true\n");
    let (flags, _) = good(&["--config", file.path()], &[]);
    assert_eq!((flags.reciprocal, flags.shuffle), (false, true));
    let (flags, _) = good(&["--config", file.path(), "--reciprocal", "--shuffle=false"], &[]);
    assert_eq!((flags.reciprocal, flags.shuffle), (true, false));
    let (flags, _) = good(&["--config", file.path()], &[("INTENDANT_SHUFFLE", "0")]);
    assert!(!flags.shuffle);
    // A switch takes its value with '=' only, or it would swallow what follows.
    assert!(bad(&["--label", "x", "--shuffle", "false"], &[]).contains("unexpected argument 'false'"));
}

#[test]
fn the_effective_configuration_reproduces_the_run_and_is_typed() {
    let file = File::with("label = '7'\nlayer = [1, 2]\nrate = 1e-3\n");
    let argv =
        ["--config", file.path(), "--shuffle", "--seed", "18446744073709551615", "--report", "r.json", "-q"];
    let (flags, plan) = good(&argv, &[]);
    let config = plan.config.to_toml();
    for line in [
        "label = \"7\"",
        "layer = [1, 2]",
        "rate = 0.001",
        "shuffle = true",
        "reciprocal = true",
        "dim = 64",
        "epochs = 30",
        "data = \"builtin:tiny\"",
        "technique = \"adaptive\"",
        "seed = \"18446744073709551615\"",
    ] {
        assert!(config.lines().any(|l| l == line), "{line} is not in\n{config}");
    }
    for absent in ["config", "report", "progress", "verbose", "negatives", "charge"] {
        assert!(!config.lines().any(|line| line.starts_with(absent)), "{absent} is in\n{config}");
    }
    let again = File::with(&config);
    let (flags_again, plan_again) = good(&["--config", again.path()], &[]);
    assert_eq!(flags_again, flags);
    assert_eq!(plan_again.config, plan.config);
    assert_eq!(plan_again.config.to_json()["dim"], serde_json::json!(64));
}

#[test]
fn what_the_application_decided_is_part_of_the_configuration() {
    let (_, mut plan) = good(&["--label", "x"], &[]);
    plan.config.set("negatives", 12);
    let file = File::with(&plan.config.to_toml());
    assert_eq!(good(&["--config", file.path()], &[]).0.negatives, Some(12));
}

#[test]
fn a_wrong_key_or_value_is_told_with_file_and_line() {
    for (text, line, message) in [
        ("label = 'f'\n\nepoch = 3\n", 3, "unknown key 'epoch'; did you mean 'epochs'?"),
        ("colour = 3\n", 1, "unknown key 'colour'; keys are the names of flags"),
        ("config = 'other.toml'\n", 1, "'config' works on the command line only"),
        ("label = 'f'\nepochs = 'many'\n", 2, "invalid value 'many' for '--epochs <"),
        ("workers = 0\n", 1, "invalid value '0' for '--workers <"),
        ("technique = 'adaptiv'\n", 1, "no such technique"),
        ("epochs = [1, 2]\n", 1, "'epochs' takes one value, found 2"),
        ("[training]\nepochs = 1\n", 1, "unknown key 'training'"),
        ("epochs = { at = 1 }\n", 1, "expected a string, a number or true/false, found table"),
        ("epochs = 1\nepochs = 2\n", 2, "duplicate key"),
        ("epochs = 1\nseed = \n", 2, ""),
    ] {
        let file = File::with(text);
        let error = bad(&["--config", file.path()], &[]);
        let place = format!("{}:{line}: ", file.path());
        assert!(error.starts_with(&place) && error.contains(message), "{text:?} gives {error}");
    }
    assert!(bad(&["--config", "/no/such/file.toml"], &[]).starts_with("/no/such/file.toml: cannot be read"));
}

#[test]
fn a_wrong_environment_variable_is_named() {
    let error = bad(&["--label", "x"], &[("INTENDANT_VALID_EVERY", "often")]);
    assert!(
        error.starts_with("environment variable INTENDANT_VALID_EVERY: invalid value 'often'"),
        "{error}"
    );
}

#[test]
fn what_is_required_may_come_from_any_layer_but_must_come() {
    assert!(bad(&[], &[]).contains("--label"));
    assert_eq!(good(&[], &[("INTENDANT_LABEL", "e")]).0.label, "e");
    assert!(bad(&["--label", "x", "--sorted", "--shuffle"], &[]).contains("cannot be used with"));
}

#[test]
fn a_misspelt_environment_variable_is_refused_like_a_misspelt_key() {
    for (variable, message) in [
        ("INTENDANT_EPOCH", "there is no flag --epoch; did you mean INTENDANT_EPOCHS?"),
        ("INTENDANT_COLOUR", "there is no flag --colour; unset the variable"),
        ("INTENDANT_VERBOSE", "'verbose' works on the command line only"),
    ] {
        let error = bad(&["--label", "x"], &[(variable, "1")]);
        assert_eq!(error.find(&format!("environment variable {variable}: {message}")), Some(0), "{error}");
    }
    // Variables of launchers are not settings, and other programs have variables, too.
    for variable in ["INTENDANT_TOKEN", "INTENDANT_LAUNCHED", "EPOCH", "OTHER_INTENDANT_EPOCH"] {
        good(&["--label", "x"], &[(variable, "1")]);
    }
}

#[test]
fn a_configuration_is_for_the_program_that_wrote_it() {
    let (_, plan) = good(&["--label", "x"], &[]);
    let text = plan.config.to_toml();
    assert!(text.lines().any(|line| line == "program = \"app\""), "{text}");
    assert_eq!(plan.config.to_json()["program"], "app");
    let file = File::with(&text.replace("\"app\"", "\"other\""));
    let error = bad(&["--config", file.path()], &[]);
    assert!(error.contains(": this is a configuration of other; this program is app"), "{error}");
    good(&["--config", File::with("program = 'app'\nlabel = 'f'\n").path()], &[]);
    let error = bad(&["--config", File::with("label = 'f'\nprogram = 3\n").path()], &[]);
    assert!(error.contains(":2: this is a configuration of another program"), "{error}");
}

#[test]
fn negative_numbers_are_values() {
    assert_eq!(good(&["--label", "x", "--rate", "-1"], &[]).0.rate, -1.0);
    assert_eq!(good(&["--label", "x", "--rate", "-1e-3"], &[]).0.rate, -1e-3);
    let error = bad(&["--label", "x", "--epochs", "-1"], &[]);
    assert!(error.contains("invalid value '-1' for '--epochs <E>'"), "{error}");
}

#[test]
fn an_output_overwrites_no_input() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a plain name").to_owned();
    let mine = "label = 'f' # mine\n";
    std::fs::write(path("run.config.toml"), mine).expect("written");
    let error = bad(&["--config", &path("run.config.toml"), "--report", &path("run.json")], &[]);
    assert!(error.contains("--report would write the effective configuration over "), "{error}");
    assert!(error.contains("run.config.toml, which --config reads; name another report"), "{error}");
    good(&["--config", &path("run.config.toml"), "--report", &path("other.json")], &[]);
    let report = path("other.json");
    std::fs::write(&report, "").expect("written");
    for (flag, of) in [("--data", ""), ("--test", ""), ("--replicate-file", "nups")] {
        let technique = if of.is_empty() { "adaptive" } else { of };
        let argv = ["--label", "x", "--technique", technique, flag, &report, "--report", &report];
        let error = bad(&argv, &[]);
        assert!(error.contains(&format!("which {flag} reads")), "{error}");
    }
    assert_eq!(std::fs::read_to_string(path("run.config.toml")).expect("there"), mine);
}

#[test]
fn single_means_one_process() {
    let error = bad(&["--label", "x", "--technique", "single", "--nodes", "2"], &[]);
    assert!(error.contains("single") && error.contains("2 nodes"), "{error}");
    let (_, plan) = good(&["--label", "x", "--technique", "single", "--workers", "2"], &[]);
    assert_eq!((plan.technique, plan.nodes, plan.workers), (Technique::Single, 1, 2));
    assert!(!plan.must_launch());
    assert!(good(&["--label", "x", "--nodes", "2"], &[]).1.must_launch());
}

#[test]
fn a_simulation_is_one_process_whatever_the_number_of_nodes() {
    let (_, plan) = good(&["--label", "x", "--simulate", "--nodes", "64"], &[]);
    assert!(!plan.must_launch());
    let simulation = plan.simulation.expect("it was asked for");
    assert_eq!((simulation.net.as_str(), simulation.machine.as_str()), ("10gbe", "xeon-e5-2640v2"));
    let argv = ["--label", "x", "--simulate", "--net", "100gib", "--charge", "62.5"];
    let simulation = good(&argv, &[]).1.simulation.expect("it was asked for");
    assert_eq!((simulation.machine.as_str(), simulation.charge_compute), ("xeon-silver-4216", 62.5));
    assert_eq!(good(&["--label", "x"], &[]).1.simulation, None);
    let rendezvous = || Ok(Some(intendant::Rendezvous::new(intendant::NodeId(0), 2, "127.0.0.1", 1)));
    let argv: Vec<OsString> = ["app", "--label", "x", "--simulate"].map(OsString::from).into();
    match app().plan::<Flags>(&argv, &Environment::new(), rendezvous) {
        Err(SettingsError::Train(error)) => assert!(error.to_string().contains("launcher"), "{error}"),
        other => panic!("{other:?}"),
    }
}

#[derive(clap::Args, Debug)]
struct OwnFlags {
    #[arg(long, default_value_t = 64)]
    dim: usize,
    #[arg(long, group = flag::CLUSTER, default_value_t = 1)]
    threads: usize,
}

#[test]
fn without_a_parameter_server_there_are_no_flags_about_one() {
    let parse = |argv: &[&str]| app().without_server().default("net", "56gib").parse::<OwnFlags>(argv);
    let (flags, plan) = parse(&["--epochs", "3", "--nodes", "2", "--threads", "4"]).expect("it has these");
    assert_eq!((plan.epochs, plan.nodes, flags.dim, flags.threads), (3, 2, 64, 4));
    assert_eq!(plan.technique.policy(), None);
    let has = |name: &str| plan.config.get(name).is_some();
    let of_server = ["technique", "workers", "look-ahead", "key-order", "float", "staleness"];
    assert!(!of_server.into_iter().any(has), "{}", plan.config.to_toml());
    assert!(!has("net"), "nothing is simulated");
    assert!(["program", "nodes", "seed", "dim", "threads"].into_iter().all(has));
    let decides = ["dim", "threads", "nodes", "seed", "unknown"].map(|name| plan.config.decides(name));
    assert_eq!(decides, [true, false, false, true, true]);
    for flag in ["--technique", "--workers", "--channels", "--patience", "--keep", "--bound", "--trace"] {
        let error = parse(&[flag, "1"]).expect_err("another program has it").to_string();
        assert!(error.contains(&format!("unexpected argument '{flag}'")), "{error}");
    }
    let (_, plan) = parse(&["--simulate"]).expect("it can be simulated");
    let simulation = plan.simulation.expect("it was asked for");
    assert_eq!((simulation.net.as_str(), simulation.machine.as_str()), ("56gib", "xeon-e5-36-cores"));
    assert_eq!(plan.config.get("net").and_then(toml::Value::as_str), Some("56gib"));
}

#[test]
fn simulated_networks_and_machines_are_presets_or_files_and_belong_to_a_simulation() {
    let simulated = |more: &[&str]| bad(&[&["--label", "x", "--simulate"], more].concat(), &[]);
    let only_simulated = [
        ["--net", "10gbe"],
        ["--machine", "m.toml"],
        ["--charge", "2"],
        ["--charge-compute", "2"],
        ["--operation-keys", "1"],
    ];
    for flags in only_simulated {
        let error = bad(&[&["--label", "x"], &flags[..]].concat(), &[]);
        assert!(error.contains(flags[0]) && error.contains("add --simulate"), "{error}");
    }
    let error = simulated(&["--net", "10gb"]);
    assert!(error.contains("use 10gbe, 100gib, 56gib, or a file that ends in .toml"), "{error}");
    let error = simulated(&["--machine", "xeon"]);
    assert!(error.contains("xeon-e5-2640v2, xeon-silver-4216"), "{error}");
    assert!(simulated(&["--operation-keys", "0"]).contains("--operation-keys"));
    assert!(simulated(&["--net", "/no/such.toml"]).contains("/no/such.toml: cannot be read"));
    for factor in ["0", "-1", "nan", "1e9"] {
        for flag in ["--charge", "--charge-compute"] {
            let error = simulated(&[&format!("{flag}={factor}")]);
            assert!(error.contains(&format!("{flag} is")) && error.contains("must be between"), "{error}");
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("net.toml");
    let named = path.to_str().expect("a plain name");
    let text =
        "gigabits_per_second = 1.0\nlatency_us = 100\nspread_us = 0\ntail_once_in = 0\nframe_bytes = 90\n";
    std::fs::write(&path, text).expect("written");
    let (_, plan) = good(&["--label", "x", "--simulate", "--net", named], &[]);
    let network = plan.simulation.expect("it was asked for").delays.network;
    assert_eq!((network.byte_ps, network.latency.min_ns, network.latency.max_ns), (8_000, 100_000, 100_000));
    std::fs::write(&path, format!("{text}jitter = 7\n")).expect("written");
    let error = simulated(&["--net", named]);
    assert!(error.starts_with(&format!("{named}:6: ")) && error.contains("jitter"), "{error}");
    std::fs::write(&path, text.replace("latency_us = 100\n", "")).expect("written");
    assert!(simulated(&["--net", named]).contains("latency_us"));
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_training() {
    assert!(
        bad(&["--label", "x", "--report", "/no/such/folder/r.json"], &[])
            .contains("no folder /no/such/folder")
    );
    let folder = tempfile::tempdir().expect("a folder");
    let folder: &Path = folder.path();
    let error = bad(&["--label", "x", "--report", folder.to_str().expect("a plain name")], &[]);
    assert!(error.contains("this is a folder"), "{error}");
}

#[test]
fn help_is_not_an_error() {
    match read(&["--help"], &[]) {
        Err(SettingsError::CommandLine(error)) => {
            assert!(!error.use_stderr());
            let text = error.to_string();
            assert!(
                text.contains("--technique") && text.contains("--dim") && text.contains("INTENDANT_"),
                "{text}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn errors_of_usage_have_their_exit_code() {
    assert_eq!(TrainError::usage("x").exit_code(), exit::USAGE);
    assert_eq!(TrainError::Interrupted(15).exit_code(), 143);
}
