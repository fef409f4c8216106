//! The result as a table for people.

use crate::plan::Plan;
use crate::progress::number;
use crate::report::{Report, in_reading_order};
use indicatif::{HumanBytes, HumanCount};

/// The table that ends a run.
pub(crate) fn render(report: &Report, plan: &Plan) -> String {
    let plural = |n: usize, what: &str| if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") };
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
        ("model", format!("{} keys, {}", HumanCount(report.model.keys), HumanBytes(report.model.bytes))),
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
        rows.push((
            "accesses",
            format!(
                "{} keys, {:.1} % remote",
                HumanCount(report.access.local + report.access.remote),
                100.0 * report.access.remote_share
            ),
        ));
        let has_copies = replicated.is_some_and(|replicated| replicated.keys > 0);
        if let Some(goal) = plan.copies.goal(plan.technique).filter(|_| has_copies) {
            let reached = report.management.syncs_per_second;
            rows.push(("synchronised", format!("{reached:.1} times per second, the goal is {goal:.1}")));
        }
        rows.push((
            "network",
            format!("{} messages, {}", HumanCount(report.network.messages), HumanBytes(report.network.bytes)),
        ));
    }
    let quality: Vec<_> = in_reading_order(&report.test)
        .into_iter()
        .map(|(name, value)| (format!("test {name}"), value))
        .collect();
    rows.extend(quality.iter().map(|(name, value)| (name.as_str(), number(*value))));
    if let Some(path) = &plan.report {
        rows.push(("report", path.display().to_string()));
    }
    if let Some(path) = &plan.export {
        rows.push(("export", path.display().to_string()));
    }
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
}
