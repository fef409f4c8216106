//! `intendant scale`: asks a run with copies to go on with another number of nodes.

use crate::args::ScaleArgs;
use crate::program;
use intendant::Rendezvous;
use intendant::control::standby::ScaleError;
use std::process::ExitCode;

/// Asks, and says what follows.
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
    match intendant::scale(&args.run, args.nodes, token.as_ref(), tls.as_ref()) {
        Ok(now) if args.nodes == now => {
            println!("the run has {now} nodes");
            ExitCode::SUCCESS
        }
        Ok(now) if args.nodes < now => {
            println!(
                "the run has {now} nodes; {} of them leave at the next meeting of its workers",
                now - args.nodes
            );
            ExitCode::SUCCESS
        }
        Ok(now) => {
            println!(
                "the run has {now} nodes; a launcher of its own starts {} more. Otherwise start the program with the flags \
                 of the run and --join {}",
                args.nodes - now,
                args.run
            );
            ExitCode::SUCCESS
        }
        Err(error @ ScaleError::Unresolved { .. }) => refused(&error),
        Err(error) => {
            eprintln!("intendant: {error}");
            ExitCode::FAILURE
        }
    }
}
