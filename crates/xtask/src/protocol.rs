//! `cargo xtask-protocol`: the committed code of the control plane's messages is what its generator makes of
//! `control.proto`.
//!
//! The generator and what it is built from are the feature `generate` of this package, so that a run of the
//! tests compiles none of it.

use crate::process;
use std::fs;

/// What to do with the generated code.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write the code, after a change to the protocol, instead of comparing it
    #[arg(long)]
    write: bool,
}

/// Generates the code, and compares or writes it.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    let folder = process::root().join("crates/control/proto");
    // `protox` parses the protocol, so that no `protoc` has to be installed.
    let files =
        protox::compile([folder.join("control.proto")], [&folder]).map_err(|error| error.to_string())?;
    let out = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    // Payloads become reference-counted bytes: the coordinator hands one payload to every node without
    // copying it.
    let generator = tonic_prost_build::configure().bytes(".").emit_rerun_if_changed(false);
    generator.out_dir(out.path()).compile_fds(files).map_err(|error| format!("control.proto: {error}"))?;
    let generated = out.path().join("intendant.control.v1.rs");
    let generated = fs::read(&generated).map_err(|error| format!("{}: {error}", generated.display()))?;
    let committed = folder.join("control.rs");
    let of = |error| format!("{}: {error}", committed.display());
    if args.write {
        return fs::write(&committed, generated).map_err(of);
    }
    if fs::read(&committed).map_err(of)? == generated {
        return Ok(());
    }
    Err(format!(
        "{} is not what control.proto says; write it with `cargo xtask-protocol --write`",
        committed.display()
    ))
}
