//! Before the first batch all workers compare what they are about to do. Nodes that were started with different settings
//! would wait for each other forever, or train something that nobody asked for.

use crate::error::TrainError;
use crate::plan::Plan;
use intendant_task::Task;

const NAMES: [&str; 9] =
    ["task", "technique", "epochs", "valid-every", "seed", "workers", "batches", "keys", "export"];

/// The settings that must be equal on all nodes, as `NAMES` lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms(Vec<String>);

impl Terms {
    pub(crate) fn new<T: Task>(task: &T, plan: &Plan) -> Self {
        let batches = if plan.epochs > 0 { task.batches(0) } else { 0 };
        Self(vec![
            task.name().to_owned(),
            plan.technique.name().to_owned(),
            plan.epochs.to_string(),
            plan.valid_every.to_string(),
            plan.seed.to_string(),
            plan.workers.to_string(),
            batches.to_string(),
            task.model().keys().to_string(),
            if plan.export.is_some() { "given" } else { "absent" }.to_owned(),
        ])
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        self.0.join("\n").into_bytes()
    }

    /// Compares with the terms of all workers.
    pub(crate) fn check(&self, all: &[Vec<u8>], workers_per_node: usize) -> Result<(), TrainError> {
        for (worker, bytes) in all.iter().enumerate() {
            let text = String::from_utf8_lossy(bytes);
            let mut theirs = text.split('\n');
            for (what, here) in NAMES.into_iter().zip(&self.0) {
                let there = theirs.next().unwrap_or("absent");
                if there != here {
                    let node = worker / workers_per_node;
                    let (here, there) = (here.clone(), there.to_owned());
                    return Err(TrainError::Disagreement { node, what, here, there });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_that_differs_and_the_node_are_named() {
        let terms = |epochs: &str| {
            Terms(["t", "classic", epochs, "1", "7", "2", "10", "100", "absent"].map(str::to_owned).to_vec())
        };
        let all =
            |last: &Terms| vec![terms("3").encode(), terms("3").encode(), terms("3").encode(), last.encode()];
        terms("3").check(&all(&terms("3")), 2).expect("they agree");
        let error = terms("3").check(&all(&terms("4")), 2).expect_err("they do not");
        assert_eq!(
            error.to_string(),
            "this node and node 1 were started differently: epochs is 3 here and 4 there"
        );
        assert_eq!(error.exit_code(), crate::error::exit::USAGE);
    }
}
