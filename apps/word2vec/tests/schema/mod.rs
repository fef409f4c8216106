//! What is documented of reports (docs/report.md), to be compared with what is in them.

use serde_json::Value;
use std::collections::BTreeSet;

const RUN: [&str; 15] = [
    "schema",
    "task",
    "technique",
    "seed",
    "nodes",
    "workers_per_node",
    "simulated",
    "config",
    "data_digest",
    "model",
    "epochs",
    "test",
    "access",
    "management",
    "network",
];
const EPOCH: [&str; 9] =
    ["epoch", "seconds", "cpu_seconds", "examples", "loss", "access", "management", "network", "quality"];
const ACCESS: [&str; 7] =
    ["pull_keys", "push_keys", "local", "remote", "sampled", "remote_share", "remote_share_after_5_percent"];
const MANAGEMENT: [&str; 12] = [
    "relocations",
    "replica_setups",
    "replica_drops",
    "localization_conflicts",
    "sync_rounds",
    "syncs_per_second",
    "synced_keys",
    "stale_reads",
    "relocation_ms",
    "blocking_ms",
    "queued",
    "forwards",
];
const QUALITY: [&str; 1] = ["heldout_loss"];

/// The report of a run of processes has the documented members and no others. Whether what is replicated is told depends on the
/// technique.
pub(crate) fn check(report: &Value) {
    let replicates = ["nups", "full-replication"].map(Value::from).contains(&report["technique"]);
    let size = ["keys", "values", "bytes"];
    let model = if replicates { [&size[..], &["replicated"]].concat() } else { size.to_vec() };
    let places: [(&str, &[&str]); 9] = [
        ("", &RUN),
        ("/model", &model),
        ("/epochs/0", &EPOCH),
        ("/epochs/0/access", &ACCESS),
        ("/epochs/0/management", &MANAGEMENT),
        ("/access", &ACCESS),
        ("/management", &MANAGEMENT),
        ("/network", &["messages", "bytes"]),
        ("/test", &QUALITY),
    ];
    for (place, documented) in places {
        let found: BTreeSet<&str> =
            report.pointer(place).unwrap().as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(found, documented.iter().copied().collect(), "{place}");
    }
    for epoch in report["epochs"].as_array().unwrap() {
        let quality = epoch["quality"].as_object().unwrap();
        assert!(
            quality.is_empty() || quality.keys().eq(report["test"].as_object().unwrap().keys()),
            "{epoch}"
        );
    }
    assert_eq!(report["schema"], "intendant.report/1");
}
