//! The example program, with several processes: this test program starts itself as the nodes of the example.

#[path = "../../examples/linear_model.rs"]
#[expect(dead_code, reason = "its `main` reads the command line, which is that of the tests here")]
mod linear_model;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

const FILE: &str = "EXAMPLE_TEST_FILE";

#[test]
#[ignore = "the program that the test below starts"]
fn role_linear_model() {
    let file = std::env::var(FILE).expect("started by a test");
    assert!(linear_model::run(2, &file) == ExitCode::SUCCESS);
}

#[test]
fn the_example_learns_with_two_processes_and_exports_every_weight() {
    let folder = tempfile::tempdir().unwrap();
    let file: PathBuf = folder.path().join("weights.tsv");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", "example::role_linear_model"]).env(FILE, &file);
    for name in ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "INTENDANT_LAUNCHED"] {
        command.env_remove(name);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let error =
        said.split("RMSE on 1,000 other examples: ").last().and_then(|rest| rest.split_whitespace().next());
    let error: f64 = error.expect("the result is printed").parse().unwrap();
    // Labels have a standard deviation of 1.8.
    assert!(error < 0.1, "RMSE {error}");
    let lines = std::fs::read_to_string(&file).unwrap().lines().count();
    assert_eq!(lines, 2_000);
}
