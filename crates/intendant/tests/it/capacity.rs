//! Nodes that do not fit into this machine are refused before they take memory or start threads.

use intendant::{CapacityError, Error, Layout, Node, NodeConfig};
use std::process::Command;
use std::sync::Arc;

fn config(keys: u64) -> NodeConfig<f32> {
    let layout = Layout::builder().range("value", keys, 16).build().unwrap();
    NodeConfig::new(layout, Arc::new(|_, value: &mut [f32]| value.fill(1.0)))
}

#[test]
fn a_model_that_does_not_fit_is_refused_before_it_takes_memory() {
    let error = Node::start_alone(config(1 << 40)).map(drop).unwrap_err();
    assert!(matches!(error, Error::Capacity(CapacityError::Memory { .. })), "{error}");
    assert_eq!(error.exit_code(), 2);
    let text = error.to_string();
    assert!(text.contains("needs at least 81920.0 GiB") && text.contains("leaves"), "{text}");
}

/// Prints the reason for which a node with 4,096 workers does not start.
#[test]
#[ignore = "the program that the test below starts"]
fn role_many_workers() {
    let mut config = config(100);
    config.workers = 4096;
    let error = Node::start_alone(config).map(drop).unwrap_err();
    eprintln!("{error}");
    assert!(matches!(error, Error::Capacity(CapacityError::Threads { .. })), "{error}");
}

#[test]
fn workers_whose_stacks_exceed_a_limit_are_refused() {
    let this = std::env::current_exe().unwrap();
    for limit in ["the limit of the address space (ulimit -v)", "the limit of data (ulimit -d)"] {
        let flag = if limit.contains("-v") { "-v" } else { "-d" };
        let script = format!(
            "ulimit {flag} 4000000 && exec \"$0\" --ignored --exact --nocapture capacity::role_many_workers"
        );
        let output = Command::new("sh").args(["-c", &script]).arg(&this).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert!(said.contains(&format!("threads do not fit: {limit} leaves")), "{said}");
    }
}
