//! Compiles the control plane's protocol. `protox` parses it, so that no `protoc` has to be installed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let proto = "proto/control.proto";
    println!("cargo:rerun-if-changed={proto}");
    let files = protox::compile([proto], ["proto"])?;
    // Payloads become reference-counted bytes: the coordinator hands one payload to every node without copying it.
    tonic_prost_build::configure().bytes(".").emit_rerun_if_changed(false).compile_fds(files)?;
    Ok(())
}
