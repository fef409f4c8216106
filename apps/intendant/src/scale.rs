//! `intendant scale`: asks a run with copies to continue with another number of nodes.

use crate::args::ScaleArgs;
use crate::program;
use crate::stdout::print;
use intendant::Rendezvous;
use intendant::control::standby::ScaleError;
use std::cmp::Ordering;
use std::process::ExitCode;

/// Asks the run, and prints what follows.
pub(crate) fn run(args: &ScaleArgs) -> ExitCode {
    let refused = |error: &dyn std::fmt::Display| {
        eprintln!("intendant: {error}");
        ExitCode::from(program::USAGE)
    };
    let token = match Rendezvous::token_from_env() {
        Ok(token) => token,
        Err(error) => return refused(&error),
    };
    let tls = match args.tls.load() {
        Ok(tls) => tls,
        Err(error) => return refused(&error),
    };
    let now = match intendant::scale(&args.run, args.nodes, token.as_ref(), tls.as_ref()) {
        Ok(now) => now,
        Err(error @ ScaleError::Unresolved { .. }) => return refused(&error),
        Err(error) => {
            eprintln!("intendant: {error}");
            return ExitCode::FAILURE;
        }
    };
    let more = match args.nodes.cmp(&now) {
        Ordering::Equal => String::new(),
        Ordering::Less => {
            format!("; {} of them leave at the next meeting of its workers", now - args.nodes)
        }
        Ordering::Greater => format!(
            "; a launcher of its own starts {} more. Otherwise start the program with the flags of the run and --join {}",
            args.nodes - now,
            args.run
        ),
    };
    print(&format!("the run has {now} nodes{more}\n"), 0)
}
