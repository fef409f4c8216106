//! The table of results, for people.

use super::numbers::{in_reading_order, number};
use super::schema::{Baseline, Report};
use crate::settings::Plan;
use indicatif::{HumanBytes, HumanCount};

/// The table that ends a run.
pub(crate) fn render(report: &Report, plan: &Plan) -> String {
    let plural = |n: usize, what: &str| crate::logging::counted(n as u64, what);
    let mut rows = vec![
        ("task", report.task.clone()),
        (
            "technique",
            format!(
                "{}, {} of {}",
                report.technique,
                plural(report.nodes, "node"),
                plural(report.workers_per_node, "worker")
            ),
        ),
        (
            "model",
            format!(
                "{}, {}",
                crate::logging::counted(report.model.keys, "key"),
                HumanBytes(report.model.bytes)
            ),
        ),
    ];
    let replicated = report.model.replicated.filter(|_| report.nodes > 1);
    if let Some(replicated) = replicated {
        rows.push(("replicated", replicated.to_string()));
    }
    if let Some(last) = report.epochs.last() {
        let seconds: f64 = report.epochs.iter().map(|e| e.seconds).sum();
        let cpu_seconds: f64 = report.epochs.iter().map(|e| e.cpu_seconds).sum();
        rows.push((
            "training",
            format!(
                "{} in {seconds:.1} s{} ({cpu_seconds:.1} CPU-s)",
                plural(report.epochs.len(), "epoch"),
                if report.simulated { " of virtual time" } else { "" }
            ),
        ));
        rows.push(("loss", number(last.loss)));
        let accesses = report.access.counts.local + report.access.counts.remote;
        // A program without a parameter server has none.
        if accesses > 0 {
            rows.push((
                "accesses",
                format!(
                    "{}, {:.1} % remote",
                    crate::logging::counted(accesses, "key"),
                    100.0 * report.access.remote_share
                ),
            ));
        }
        let has_copies = replicated.is_some_and(|replicated| replicated.keys > 0);
        if let Some(goal) = plan.replication.goal(plan.technique).filter(|_| has_copies) {
            let reached = report.management.syncs_per_second;
            rows.push(("synchronised", format!("{reached:.1} times per second, the goal is {goal:.1}")));
        }
        let managed = &report.management.counts;
        if managed.relocations + managed.replica_setups > 0 {
            rows.push((
                "managed",
                format!(
                    "{}, {} set up, {} given up",
                    crate::logging::counted(managed.relocations, "relocation"),
                    crate::logging::counted(managed.replica_setups, "replica"),
                    HumanCount(managed.replica_drops)
                ),
            ));
        }
        if accesses > 0 || report.network.messages > 0 {
            rows.push((
                "network",
                format!(
                    "{}, {}",
                    crate::logging::counted(report.network.messages, "message"),
                    HumanBytes(report.network.bytes)
                ),
            ));
        }
        rows.extend(report.bound.as_ref().map(|bound| ("sent", bound.describe())));
    }
    if let Some(validation) = &report.validation {
        rows.push(("validation", validation.describe(report.epochs.len())));
    }
    let quality: Vec<_> = in_reading_order(&report.test)
        .into_iter()
        .map(|(name, value)| (format!("test {name}"), value))
        .collect();
    rows.extend(quality.iter().map(|(name, value)| (name.as_str(), number(*value))));
    if let Some(Baseline { name, metric, value }) = &report.baseline {
        rows.push(("baseline", format!("{metric} {} by {name} alone", number(*value))));
    }
    if let Some(path) = &plan.report {
        rows.push(("report", path.display().to_string()));
    }
    if let Some(path) = &plan.export {
        rows.push(("export", path.display().to_string()));
    }
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
}
