//! Before the first batch all workers compare their settings and data. Nodes that differ in them would wait
//! for each other forever, or train a model that the user did not ask for.
//!
//! All settings are compared, apart from those that may differ: how far loaders look ahead, what is shown,
//! and the places of data and results. Data are compared by content ([`Task::digest`]), not by place. The
//! replicated keys were compared when the nodes joined. The comparison is by name, so that the error names
//! the setting; a hash at joining could not.

use crate::error::TrainError;
use crate::report::metrics::Place;
use crate::settings::Plan;
use intendant_task::{Partition, Subepoch, Task};
use serde::{Deserialize, Serialize};

/// The value of a setting that a node does not have.
const ABSENT: &str = "absent";

/// Names and values that must be equal on all nodes, causes before their consequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms(Vec<(String, String)>);

impl Terms {
    /// Those of a [`Program`](crate::Program), whose data have this digest.
    pub(crate) fn of_program(name: &str, digest: u64, plan: &Plan) -> Self {
        let mut terms = Self::common(name, &[], plan);
        terms.0.push(("digest of the data".to_owned(), format!("{digest:016x}")));
        terms
    }

    pub(crate) fn new<T: Task>(task: &T, plan: &Plan) -> Self {
        let (technique, workers) = (plan.technique.name().to_owned(), plan.workers.to_string());
        let managed = [("technique", technique), ("workers", workers)];
        let Self(mut terms) = Self::common(task.name(), &managed, plan);
        // Batches of the first epoch if one worker trained it alone: all nodes compute the same number.
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

    /// The settings, under which the task of this name trains, with those about who manages parameters.
    fn common(name: &str, managed: &[(&str, String)], plan: &Plan) -> Self {
        let export = if plan.export.is_some() { "given" } else { ABSENT };
        let checkpoint = if plan.checkpoints.folder.is_some() { "given" } else { ABSENT };
        let common = [
            ("task", name.to_owned()),
            ("epochs", plan.epochs.to_string()),
            ("valid-every", plan.valid_every.to_string()),
            ("seed", plan.seed.to_string()),
            ("export", export.to_owned()),
            ("checkpoint", checkpoint.to_owned()),
        ];
        let all = common.iter().chain(managed);
        let mut terms: Vec<_> = all.map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        for (name, value) in plan.config.settings() {
            if !plan.config.is_own(name) && terms.iter().all(|term| term.0 != name) {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                terms.push((name.to_owned(), value));
            }
        }
        Self(terms)
    }

    /// The same for joining a cluster, with flags named as the user types them.
    pub(crate) fn settings(&self, plan: &Plan) -> Vec<(String, String)> {
        let named = |name: &String| {
            if plan.config.is_flag(name) { format!("--{name}") } else { name.clone() }
        };
        self.0.iter().map(|(name, value)| (named(name), value.clone())).collect()
    }

    /// A number that two processes have in common if they can be nodes of one run, whatever their number.
    pub(crate) fn digest(&self) -> u64 {
        let numbers = |text: &str| text.bytes().map(u64::from).collect::<Vec<_>>();
        let terms = self.0.iter().filter(|(name, _)| name != "nodes");
        terms.fold(0, |digest, (name, value)| {
            intendant_core::random::stream(digest, &[numbers(name), vec![u64::MAX], numbers(value)].concat())
        })
    }

    /// The words of a worker, which has its metrics at `metrics`.
    pub(crate) fn encode(&self, metrics: Option<Place>) -> Vec<u8> {
        let greeting = Greeting { terms: self.0.clone(), metrics };
        serde_json::to_vec(&greeting).expect("strings are valid JSON")
    }

    /// Where the nodes of all workers serve their metrics.
    pub(crate) fn places(all: &[Vec<u8>], workers_per_node: usize) -> Vec<Option<Place>> {
        all.iter().step_by(workers_per_node).map(|bytes| Greeting::decode(bytes).metrics).collect()
    }

    /// Compares with the terms of all workers.
    pub(crate) fn check(&self, all: &[Vec<u8>], workers_per_node: usize) -> Result<(), TrainError> {
        for (worker, bytes) in all.iter().enumerate() {
            let theirs = Self(Greeting::decode(bytes).terms);
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

/// What a worker tells all others before the first batch.
#[derive(Default, Serialize, Deserialize)]
struct Greeting {
    terms: Vec<(String, String)>,
    metrics: Option<Place>,
}

impl Greeting {
    /// A greeting that cannot be decoded is of another version: all of its terms differ.
    fn decode(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_default()
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
        let all = [here.encode(None), here.encode(None), here.encode(None), there.encode(None)];
        let error = here.check(&all, 2).expect_err("they differ");
        assert_eq!(error.exit_code(), crate::error::exit::USAGE);
        error.to_string()
    }

    #[test]
    fn the_setting_that_differs_and_the_node_are_named() {
        let three = [("technique", "classic"), ("epochs", "3")];
        let agreed = terms(&three);
        agreed.check(&[agreed.encode(None), agreed.encode(None)], 1).expect("they agree");
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

    #[test]
    fn nodes_learn_where_the_metrics_of_others_are() {
        let place = |port: u16, only_on: Option<&str>| {
            Some(Place { address: format!("127.0.0.1:{port}"), only_on: only_on.map(str::to_owned) })
        };
        let told = [place(1, Some("a")), place(2, Some("b")), place(3, None), None];
        let terms = terms(&[("epochs", "3")]);
        let all: Vec<_> =
            told.iter().flat_map(|place| [terms.encode(place.clone()), terms.encode(None)]).collect();
        terms.check(&all, 2).expect("they agree");
        let places = Terms::places(&all, 2);
        assert_eq!(places, told);
        let from = |host: &str| -> Vec<Option<String>> {
            places.iter().map(|place| place.as_ref().and_then(|place| place.reached_from(host))).collect()
        };
        let (one, two, three) = ("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3");
        assert_eq!(
            from("a").iter().map(Option::as_deref).collect::<Vec<_>>(),
            [Some(one), None, Some(three), None]
        );
        assert_eq!(
            from("b").iter().map(Option::as_deref).collect::<Vec<_>>(),
            [None, Some(two), Some(three), None]
        );
    }
}
