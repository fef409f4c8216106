//! The committed code of the control plane's messages is what its generator makes of `proto/control.proto`.

use std::fs;
use std::path::Path;

/// After a change to the protocol, `INTENDANT_GENERATE=1` writes the code instead of comparing it.
const WRITE: &str = "INTENDANT_GENERATE";

#[test]
fn committed_messages_are_generated_from_the_protocol() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    // `protox` parses the protocol, so that no `protoc` has to be installed.
    let files = protox::compile([folder.join("control.proto")], [&folder]).unwrap();
    let out = tempfile::tempdir().unwrap();
    // Payloads become reference-counted bytes: the coordinator hands one payload to every node without
    // copying it.
    let generator = tonic_prost_build::configure().bytes(".").emit_rerun_if_changed(false);
    generator.out_dir(out.path()).compile_fds(files).unwrap();
    let generated = fs::read_to_string(out.path().join("intendant.control.v1.rs")).unwrap();
    let committed = folder.join("control.rs");
    if std::env::var_os(WRITE).is_some() {
        fs::write(committed, generated).unwrap();
        return;
    }
    assert!(
        fs::read_to_string(committed).unwrap() == generated,
        "proto/control.rs is not what control.proto says; write it with\n  \
         {WRITE}=1 cargo test -p intendant-control --test it generated"
    );
}
