//! `cargo xtask-protocol`: generates the code of the control plane's messages from `control.proto`, and
//! compares it with the committed code or replaces that.
//!
//! The generator and its dependencies are behind the feature `generate` of this package, so that tests do not
//! compile them.

use crate::process;
use std::fs;

/// Options of `cargo xtask-protocol`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write the generated code instead of comparing it
    #[arg(long)]
    write: bool,
}

/// Generates the code, and compares or writes it.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    let folder = process::root().join("crates/control/proto");
    // `protox` parses the protocol, so `protoc` need not be installed.
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
        "{} differs from what control.proto generates; update it with `cargo xtask-protocol --write`",
        committed.display()
    ))
}
