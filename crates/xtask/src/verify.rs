//! `cargo xtask verify`: runs all checks of CI, those that fail fastest first.

use crate::process::{self, cargo};
use crate::{clock, figure, instructions, plant, sim, tidy};
use intendant_techniques::Technique;
use std::time::Duration;

/// Crates that the simulator uses: they must not depend on threads, sockets or clocks.
const PURE: &[&str] = &[
    "intendant-core",
    "intendant-segment",
    "intendant-lapser",
    "intendant-trace",
    "intendant-wire",
    "intendant-store",
    "intendant-techniques",
    "intendant-engine",
    "intendant-intent",
    "intendant-sampling",
    "intendant-task",
    "intendant-views",
    "intendant-sim",
    "intendant-checkers",
];
/// Packages that they must not depend on, directly or indirectly.
const BANNED: [&str; 5] = ["tokio", "tonic", "mio", "socket2", "intendant-transport"];

/// Options of `cargo xtask verify`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// 10,000 seeds per mode instead of 500, 500 long runs instead of 10, and planted bugs
    #[arg(long)]
    full: bool,
    /// Run the tests as well
    #[arg(long)]
    tests: bool,
}

/// Length of the runs of a set, and with it the number of seeds.
#[derive(Clone, Copy)]
enum Length {
    Usual,
    Long,
}

/// Techniques without a set in which seeds draw all options: [`SIMULATIONS`] has sets for their options.
const ENUMERATED: [Technique; 3] = [Technique::Classic, Technique::Lapse, Technique::FullReplication];

/// The simulated sets besides those of single techniques: name, options of `cargo xtask sim` besides the
/// seeds, length. The sets of lapse are the columns of [thesis Tab. 3.2], and one with chained operations,
/// which make the last column consistent.
const SIMULATIONS: [(&str, &str, Length); 32] = [
    ("classic sync fifo", "--technique classic --mode sync --order fifo", Length::Usual),
    ("classic sync chain", "--technique classic --mode sync --order chain", Length::Usual),
    ("classic async fifo", "--technique classic --mode async --order fifo", Length::Usual),
    ("classic async chain", "--technique classic --mode async --order chain", Length::Usual),
    ("lapse sync", "--technique lapse --mode sync --caches off --order fifo", Length::Usual),
    ("lapse sync caches", "--technique lapse --mode sync --caches on --order fifo", Length::Usual),
    ("lapse async", "--technique lapse --mode async --caches off --order fifo", Length::Usual),
    ("lapse async caches chain", "--technique lapse --mode async --caches on --order chain", Length::Usual),
    (
        "lapse async caches fifo",
        "--technique lapse --mode async --caches on --order fifo --expect inconsistent",
        Length::Usual,
    ),
    ("location requests", "--technique lapse --location request", Length::Usual),
    ("broadcast relocations", "--technique lapse --location broadcast-relocations", Length::Usual),
    ("broadcast operations", "--technique lapse --location broadcast-operations", Length::Usual),
    (
        "by owners async",
        "--technique lapse --initiator owner --mode async --caches on --order chain",
        Length::Usual,
    ),
    ("by owners sync", "--technique lapse --initiator owner --mode sync", Length::Usual),
    ("replicas and moves", "--technique hub", Length::Usual),
    ("nups, broadcasts", "--technique nups --location broadcast-relocations", Length::Usual),
    ("full replication", "--technique full-replication --pace every", Length::Usual),
    ("synchronous replication", "--technique full-replication --pace asked", Length::Usual),
    ("adaptive, long runs", "--technique adaptive --ops 10000", Length::Long),
    ("replicas, long runs", "--technique hub --ops 10000", Length::Long),
    ("ssp, long runs", "--technique ssp --ops 10000", Length::Long),
    ("lapse, long runs", "--technique lapse --ops 10000", Length::Long),
    ("by owners, long runs", "--technique lapse --initiator owner --ops 10000", Length::Long),
    ("crashes and restarts", "--restarts", Length::Usual),
    ("nodes change", "--views --technique adaptive", Length::Usual),
    ("nodes change, classic", "--views --technique classic", Length::Usual),
    ("nodes change, ssp", "--views --technique ssp", Length::Usual),
    ("nodes change, nups", "--views --technique nups", Length::Usual),
    ("search for views", "--muster", Length::Usual),
    ("lapser, push", "--technique lapser --variant push", Length::Usual),
    ("lapser, push by slack", "--technique lapser --variant push-by-slack", Length::Usual),
    ("lapser, pull", "--technique lapser --variant pull", Length::Usual),
];

/// All simulated sets: those of each technique, and [`SIMULATIONS`].
fn simulations() -> impl Iterator<Item = (&'static str, String, Length)> {
    let drawn = Technique::ALL.into_iter().filter(|technique| !ENUMERATED.contains(technique));
    let of_techniques = drawn.map(|technique| {
        let name = technique.policy().name;
        (name, format!("--technique {name}"), Length::Usual)
    });
    of_techniques.chain(SIMULATIONS.map(|(name, options, length)| (name, options.to_owned(), length)))
}

type Step = (&'static str, Box<dyn Fn() -> Result<(), String>>);

/// Runs the steps, up to the first that fails.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    let mut lines = Vec::new();
    let mut failure = None;
    for (name, act) in steps(args) {
        if failure.is_some() {
            lines.push(format!("{name:<24} not run"));
            continue;
        }
        println!("== {name}");
        let (result, took): (_, Duration) = clock::timed(act);
        let status = if result.is_ok() { "ok" } else { "FAILED" };
        lines.push(format!("{name:<24} {status:<8} {:>7.1} s", took.as_secs_f64()));
        failure = result.err();
    }
    println!("\n{}", lines.join("\n"));
    failure.map_or(Ok(()), Err)
}

fn steps(args: &Args) -> Vec<Step> {
    let mut steps: Vec<Step> = vec![
        ("formatting", Box::new(|| run_cargo(&["fmt", "--all", "--check"], &[]))),
        ("sources", Box::new(|| tidy::run(&tidy::Args::verify()))),
        ("planted bugs fit", Box::new(|| plant::run(&plant::Args::check()))),
        ("dependency rule", Box::new(|| dependencies().and_then(|()| layers()))),
        (
            "clippy",
            Box::new(|| {
                run_cargo(
                    &[
                        "clippy",
                        "--workspace",
                        "--all-targets",
                        "--features",
                        "xtask/generate",
                        "--quiet",
                        "--",
                        "-D",
                        "warnings",
                    ],
                    &[],
                )
            }),
        ),
        ("protocol", Box::new(|| run_cargo(&["xtask-protocol"], &[]))),
        (
            "documentation",
            Box::new(|| {
                run_cargo(&["doc", "--workspace", "--no-deps", "--quiet"], &[("RUSTDOCFLAGS", "-D warnings")])
            }),
        ),
    ];
    steps.push(("instructions", Box::new(|| instructions::run(&instructions::Args::compare()))));
    if args.tests {
        steps.push(("tests", Box::new(|| run_cargo(&["test", "--workspace", "--quiet"], &[]))));
    }
    for (name, options, length) in simulations() {
        let seeds = match (length, args.full) {
            (Length::Usual, false) => 500,
            (Length::Usual, true) => 10_000,
            (Length::Long, false) => 10,
            (Length::Long, true) => 500,
        };
        let run = move || {
            let options: Vec<&str> = options.split_whitespace().collect();
            sim::run(&sim::Args::of(&options, seeds)?)
        };
        steps.push((name, Box::new(run)));
    }
    steps.push(("figures, ci scale", Box::new(|| figure::run(&figure::Args::ci()))));
    if args.full {
        steps.push(("planted bugs", Box::new(|| plant::run(&plant::Args::all()))));
    }
    steps
}

fn run_cargo(arguments: &[&str], environment: &[(&str, &str)]) -> Result<(), String> {
    process::run(cargo(&process::root()).args(arguments).envs(environment.iter().copied()))
}

/// The crates of the workspace that each crate may depend on, directly or indirectly
/// (`docs/architecture.md`): those to its left.
const LAYERS: &[(&str, &[&str])] = &[
    ("intendant-core", &[]),
    ("intendant-segment", &[]),
    ("intendant-lapser", &["segment"]),
    ("intendant-verbs", &["segment"]),
    ("intendant-onesided", &["segment"]),
    ("intendant-formats", &["core"]),
    ("intendant-trained", &["core", "formats"]),
    ("intendant-checkpoint", &["core"]),
    ("intendant-views", &["core"]),
    ("intendant-trace", &["core"]),
    ("intendant-analysis", &["core", "trace"]),
    ("intendant-wire", &["core"]),
    ("intendant-store", &["core"]),
    ("intendant-intent", &["core"]),
    ("intendant-sampling", &["core"]),
    ("intendant-techniques", &["core", "wire"]),
    ("intendant-engine", &["core", "segment", "wire", "store", "intent", "sampling", "techniques", "trace"]),
    ("intendant-task", &["core", "sampling", "store"]),
    ("intendant-ratings", &["core", "formats", "sampling", "store", "task"]),
    ("intendant-transport", &["core", "segment"]),
    ("intendant-metrics", &["core", "segment", "transport"]),
    ("intendant-web", &["core", "segment", "transport"]),
    ("intendant-serve", &["core", "segment", "formats", "trained", "transport", "metrics", "web"]),
    ("intendant-dashboard", &["core", "segment", "trace", "analysis", "transport", "web"]),
    ("intendant-launch", &["core", "segment", "transport"]),
    ("intendant-control", &["core", "segment", "views", "transport", "launch"]),
    ("intendant-membership", &["core", "segment", "views", "transport", "launch", "control"]),
    (
        "intendant",
        &[
            "core",
            "segment",
            "wire",
            "store",
            "intent",
            "sampling",
            "techniques",
            "trace",
            "engine",
            "transport",
            "launch",
            "views",
            "control",
            "membership",
            "onesided",
        ],
    ),
    (
        "intendant-lapser-process",
        &[
            "core",
            "segment",
            "wire",
            "transport",
            "launch",
            "views",
            "control",
            "membership",
            "onesided",
            "lapser",
        ],
    ),
    // Tests of applications run their binaries, so this crate depends on none of them.
    ("intendant-apptest", &[]),
    (
        "intendant-sim",
        &[
            "core",
            "segment",
            "checkpoint",
            "views",
            "wire",
            "store",
            "intent",
            "sampling",
            "techniques",
            "trace",
            "engine",
            "task",
        ],
    ),
    // Training programs run on simulated clusters; they do not use the checkers.
    (
        "intendant-train",
        &[
            "core",
            "segment",
            "checkpoint",
            "wire",
            "store",
            "intent",
            "sampling",
            "techniques",
            "trace",
            "engine",
            "task",
            "transport",
            "sim",
            "onesided",
            "metrics",
            "launch",
            "views",
            "control",
            "membership",
            "intendant",
        ],
    ),
    (
        "intendant-checkers",
        &[
            "core",
            "segment",
            "lapser",
            "checkpoint",
            "views",
            "wire",
            "store",
            "intent",
            "sampling",
            "techniques",
            "trace",
            "engine",
            "task",
            "sim",
        ],
    ),
];

/// Checks that each crate depends only on crates to its left, and on all that are allowed.
fn layers() -> Result<(), String> {
    for &(package, allowed) in LAYERS {
        let mut unused: Vec<&str> = allowed.to_vec();
        for name in depends_on(package)? {
            let Some(other) = name.strip_prefix("intendant").filter(|_| name != package) else { continue };
            // The facade is called `intendant`, without a suffix.
            let layer = other.strip_prefix('-').unwrap_or("intendant");
            if !allowed.contains(&layer) {
                return Err(format!("{package} depends on {name}, which is to the right of it"));
            }
            unused.retain(|allowed| *allowed != layer);
        }
        if !unused.is_empty() {
            return Err(format!(
                "{package} does not depend on {}: take it out of its layers",
                unused.join(", ")
            ));
        }
    }
    Ok(())
}

/// The packages that `package` depends on, including itself.
fn depends_on(package: &str) -> Result<Vec<String>, String> {
    let mut tree = cargo(&process::root());
    tree.args(["tree", "--package", package, "--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    let listed = process::text(&mut tree)?;
    Ok(listed.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
}

/// Checks that no crate of the simulator depends on a banned package, directly or indirectly.
fn dependencies() -> Result<(), String> {
    for &package in PURE {
        let names = depends_on(package)?;
        if let Some(banned) = names.iter().find(|name| BANNED.contains(&name.as_str())) {
            return Err(format!(
                "{package} depends on {banned}: cargo tree -p {package} -e normal -i {banned}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_technique_is_simulated() {
        let sets: Vec<String> = simulations().map(|(_, options, _)| options).collect();
        for technique in Technique::ALL {
            let name = format!("technique {technique}");
            let has = |options: &String| options.split("--").any(|option| option.trim_end() == name);
            assert!(sets.iter().any(has), "no simulations of {technique}");
        }
    }
}
