//! The `intendant` command: runs training programs, starts clusters, and looks at machines and at running
//! clusters.
//!
//! `args` is the command line; `program` runs `intendant-NAME`; `doctor` checks the machine; `checkpoint`
//! reads checkpoints; `trace` reads traces; `dashboard` shows traces and clusters in a browser; `certs` makes
//! certificates; `scale` asks a run for another number of nodes; `stdout` prints results. The library
//! launches clusters, because programs do that as well (`--nodes N`).
#![forbid(unsafe_code)]

mod args;
mod certs;
mod checkpoint;
mod dashboard;
mod doctor;
mod program;
mod scale;
mod stdout;
mod trace;

use args::{Args, Command, LaunchArgs, MetricsTokenArgs};
use intendant::Rendezvous;
use intendant::launch::Launch;
use std::process::ExitCode;
use std::time::Duration;
use stdout::{print, printed};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

fn main() -> ExitCode {
    let args = match Args::of(std::env::args_os().collect()) {
        Ok(args) => args,
        // Wrong usage goes to standard error.
        Err(error) if error.use_stderr() => {
            let _ = error.print();
            return ExitCode::from(program::USAGE);
        }
        Err(help) => return printed(help.print(), ExitCode::SUCCESS),
    };
    match args.command {
        // The training program has a log of its own.
        Command::Program(words) => program::run(words),
        Command::Launch(args) => {
            log_to_stderr();
            launch(args)
        }
        Command::Doctor(args) => {
            log_to_stderr();
            doctor::run(&args)
        }
        Command::Checkpoint(args) => {
            log_to_stderr();
            checkpoint::run(args)
        }
        Command::Trace(args) => trace::run(args),
        Command::Certs(args) => certs::run(&args.folder, args.days),
        Command::MetricsToken(MetricsTokenArgs {}) => metrics_token(),
        Command::Scale(args) => scale::run(&args),
        Command::Dashboard(args) => {
            log_to_stderr();
            dashboard::run(args)
        }
    }
}

/// Logs warnings, or what `RUST_LOG` asks for.
fn log_to_stderr() {
    let mut targets = Targets::new().with_default(LevelFilter::WARN);
    if let Ok(wanted) = std::env::var("RUST_LOG")
        && !wanted.is_empty()
    {
        match wanted.parse() {
            Ok(wanted) => targets = wanted,
            Err(error) => eprintln!(
                "intendant: RUST_LOG is '{wanted}': {error}; it is ignored. Write a level, or TARGET=LEVEL separated by commas"
            ),
        }
    }
    let stderr = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    tracing_subscriber::registry().with(targets).with(stderr).init();
}

/// Prints the token for readers of metrics.
fn metrics_token() -> ExitCode {
    let token = match Rendezvous::token_from_env() {
        Ok(Some(token)) => token.of_readers().to_hex(),
        Ok(None) => {
            eprintln!(
                "intendant: there is no token of a cluster from which that of its readers is made; set INTENDANT_TOKEN \
                 or INTENDANT_TOKEN_FILE to that of the cluster"
            );
            return ExitCode::from(program::USAGE);
        }
        Err(error) => {
            eprintln!("intendant: {error}");
            return ExitCode::from(program::USAGE);
        }
    };
    print(&format!("{token}\n"), 0)
}

fn launch(args: LaunchArgs) -> ExitCode {
    let mut command = args.command.into_iter();
    // The command-line parser requires at least one word.
    let program = command.next().unwrap_or_default();
    let mut launch = Launch::new(args.nodes, program).args(command).max_restarts(args.max_restarts);
    launch = launch.survives(args.survive);
    // Programs that read the metrics of nodes must know the token.
    match Rendezvous::token_from_env() {
        Ok(token) => launch = token.into_iter().fold(launch, Launch::token),
        Err(error) => {
            eprintln!("intendant: {error}");
            return ExitCode::from(program::USAGE);
        }
    }
    match launch.grace(Duration::from_secs(args.grace_seconds.into())).run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("intendant: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
