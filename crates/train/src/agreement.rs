//! Before the first batch all workers compare what they are about to do. Nodes that were started with different settings or
//! data would wait for each other forever, or train something that nobody asked for.
//!
//! Everything is compared but what may well differ: how far loaders look ahead, what is shown, and where data and results are.
//! Not the place of the data counts, but its content, by [`Task::digest`]; which keys are replicated was compared at the door. The
//! comparison is by name, so that the error can name what differs; hence it is made here, not by a hash at the door of the cluster.

use crate::error::TrainError;
use crate::plan::Plan;
use intendant_task::{Partition, Subepoch, Task};

/// Settings that each node may choose for itself, or that are compared in another way.
const NODES_OWN: [&str; 6] = ["look-ahead", "look-ahead-keys", "data", "test", "replicate-file", "data-port"];

/// What stands for a setting that a node does not have.
const ABSENT: &str = "absent";

/// What must be equal on all nodes: names and values, the causes before what follows from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms(Vec<(String, String)>);

impl Terms {
    pub(crate) fn new<T: Task>(task: &T, plan: &Plan) -> Self {
        let export = if plan.export.is_some() { "given" } else { ABSENT };
        let common = [
            ("task", task.name().to_owned()),
            ("technique", plan.technique.name().to_owned()),
            ("epochs", plan.epochs.to_string()),
            ("valid-every", plan.valid_every.to_string()),
            ("seed", plan.seed.to_string()),
            ("workers", plan.workers.to_string()),
            ("export", export.to_owned()),
        ];
        let mut terms: Vec<_> = common.map(|(name, value)| (name.to_owned(), value)).into();
        for (name, value) in plan.config.settings() {
            if !NODES_OWN.contains(&name) && terms.iter().all(|term| term.0 != name) {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                terms.push((name.to_owned(), value));
            }
        }
        // Of the whole first epoch, as one worker alone would train it: the same number on all nodes.
        let alone = Partition::alone();
        let subepochs = if plan.epochs > 0 { task.subepochs(0, alone) } else { 0 };
        let batches: u64 =
            (0..subepochs).map(|index| task.batches(Subepoch { epoch: 0, index }, alone)).sum();
        let derived = [
            ("digest of the data", format!("{:016x}", task.digest())),
            ("batches", batches.to_string()),
            ("keys", task.model().keys().to_string()),
        ];
        terms.extend(derived.map(|(name, value)| (name.to_owned(), value)));
        Self(terms)
    }

    /// The same for joining a cluster, with flags named as the user types them.
    pub(crate) fn settings(&self, plan: &Plan) -> Vec<(String, String)> {
        let named = |name: &String| {
            let is_flag = name == "export" || plan.config.get(name).is_some();
            if is_flag { format!("--{name}") } else { name.clone() }
        };
        self.0.iter().map(|(name, value)| (named(name), value.clone())).collect()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(&self.0).expect("pairs of strings are valid JSON")
    }

    /// Compares with the terms of all workers.
    pub(crate) fn check(&self, all: &[Vec<u8>], workers_per_node: usize) -> Result<(), TrainError> {
        for (worker, bytes) in all.iter().enumerate() {
            // Terms that cannot be read are those of another version: all of them differ.
            let theirs = Self(serde_json::from_slice(bytes).unwrap_or_default());
            for (what, _) in self.0.iter().chain(&theirs.0) {
                let (here, there) = (self.get(what), theirs.get(what));
                if here != there {
                    return Err(TrainError::Disagreement {
                        node: worker / workers_per_node,
                        what: what.clone(),
                        here: here.to_owned(),
                        there: there.to_owned(),
                    });
                }
            }
        }
        Ok(())
    }

    fn get(&self, name: &str) -> &str {
        self.0.iter().find(|term| term.0 == name).map_or(ABSENT, |term| &term.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(terms: &[(&str, &str)]) -> Terms {
        Terms(terms.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    fn error(here: &[(&str, &str)], there: &[(&str, &str)]) -> String {
        let (here, there) = (terms(here), terms(there));
        let all = [here.encode(), here.encode(), here.encode(), there.encode()];
        let error = here.check(&all, 2).expect_err("they do not agree");
        assert_eq!(error.exit_code(), crate::error::exit::USAGE);
        error.to_string()
    }

    #[test]
    fn the_setting_that_differs_and_the_node_are_named() {
        let three = [("technique", "classic"), ("epochs", "3")];
        let agreed = terms(&three);
        agreed.check(&[agreed.encode(), agreed.encode()], 1).expect("they agree");
        let four = [("technique", "classic"), ("epochs", "4")];
        let text = "this node and node 1 were started differently: epochs is 3 here and 4 there";
        assert_eq!(error(&three, &four), text);
    }

    #[test]
    fn a_setting_that_only_one_node_has_differs() {
        let (plain, ordered) = ([("epochs", "3")], [("epochs", "3"), ("order", "chain")]);
        assert!(error(&plain, &ordered).ends_with("order is absent here and chain there"));
        assert!(error(&ordered, &plain).ends_with("order is chain here and absent there"));
    }
}
