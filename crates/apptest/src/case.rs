//! The techniques that a [`Matrix`](crate::Matrix) runs, and the purpose of each.

use crate::technique::{self, Technique};
use serde_json::Value;

/// A technique with its flags.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// `--technique`.
    pub technique: &'static str,
    /// Flags of the technique.
    pub flags: &'static [&'static str],
    /// Panics if a run on several nodes did not do what the technique is for.
    pub works: fn(&Value),
}

impl Case {
    /// All flags, the technique's name included.
    #[must_use]
    pub fn flags(&self) -> Vec<&'static str> {
        [&["--technique", self.technique], self.flags].concat()
    }

    /// The mechanisms of the technique.
    ///
    /// # Panics
    /// If `docs/report.md` does not have the technique.
    #[must_use]
    pub fn mechanisms(&self) -> Technique {
        technique::named(self.technique).expect("a technique of docs/report.md")
    }
}

/// All cases that need no intents, except the controls.
pub const WITHOUT_INTENTS: [Case; 10] =
    [CLASSIC, LAPSE, SSP, SSP_LOOSE, ESSP, NUPS, NUPS_DEFAULT, BIPS, FULL_REPLICATION, SYNCHRONOUS];

/// All cases that act on intents, with the defaults that users get.
pub const BY_INTENT: [Case; 7] = [
    ADAPTIVE,
    REPLICATE_ON_INTENT,
    RELOCATE_ON_INTENT,
    IMMEDIATE_ACTION,
    REPLICATE_EVERYWHERE,
    HOME_DECIDES,
    NAIVE_INTENTS,
];

/// The cases with which every sampling scheme is tried, besides [`ADAPTIVE`].
pub const SAMPLED: [Case; 6] = [CLASSIC, LAPSE, SSP, ESSP, NUPS, FULL_REPLICATION];

/// A key moves to a node if only this node intends to use it. If several nodes intend to use it, it is
/// replicated at them.
pub const ADAPTIVE: Case = Case {
    technique: "adaptive",
    flags: &[],
    works: |report| {
        has_many(report, &["intents"]);
        changes(report);
    },
};

/// Like [`ADAPTIVE`], but the home of a key decides.
pub const HOME_DECIDES: Case = Case { technique: "home-decides", ..ADAPTIVE };

/// Like [`HOME_DECIDES`], but nodes report every intent.
pub const NAIVE_INTENTS: Case = Case { technique: "naive-intents", ..ADAPTIVE };

/// Checks that keys were moved or copied. Which of the two depends on timing. Moves and copies before the
/// first batch do not count.
#[track_caller]
fn changes(report: &Value) {
    let [moves, setups, drops] =
        ["relocations", "replica_setups", "replica_drops"].map(|what| did(report, what));
    assert!(moves + setups + drops > 100, "{}", report["management"]);
}

/// Keys are replicated at the nodes that intend to use them.
pub const REPLICATE_ON_INTENT: Case = Case {
    technique: "replicate-on-intent",
    flags: &[],
    works: |report| {
        has_many(report, &["intents"]);
        has_none(report, &["relocations"]);
        assert!(
            did(report, "replica_setups") + did(report, "replica_drops") > 20,
            "{}",
            report["management"]
        );
    },
};

/// Keys move to the nodes that intend to use them.
pub const RELOCATE_ON_INTENT: Case = Case {
    technique: "relocate-on-intent",
    flags: &[],
    works: |report| {
        has_many(report, &["intents", "relocations"]);
        has_none(report, &["replica_setups"]);
    },
};

/// The system acts as soon as an intent is signalled, which may be before the first batch.
pub const IMMEDIATE_ACTION: Case = Case { technique: "immediate-action", flags: &[], works: changes };

/// All keys are replicated at all nodes.
pub const REPLICATE_EVERYWHERE: Case = Case {
    technique: "replicate-everywhere",
    flags: &[],
    works: |report| {
        has_many(report, &["synced_keys"]);
        has_none(report, &["relocations", "replica_drops"]);
        assert_eq!(report["access"]["remote"], 0);
    },
};

/// No key moves, and none is replicated.
pub const CLASSIC: Case = Case {
    technique: "classic",
    flags: &[],
    works: |report| has_none(report, &["relocations", "replica_setups", "sync_rounds"]),
};

/// Keys move, some batches ahead by default.
pub const LAPSE: Case = Case {
    technique: "lapse",
    flags: &[],
    works: |report| {
        has_many(report, &["relocations"]);
        has_none(report, &["replica_setups", "sync_rounds"]);
    },
};

/// Replicas are set up and dropped.
pub const SSP: Case = Case { technique: "ssp", flags: &[], works: ssp };

/// Like [`SSP`], but replicas may be 25 batches old.
pub const SSP_LOOSE: Case =
    Case { technique: "ssp", flags: &["--staleness", "5", "--clock-every", "5"], works: ssp };

fn ssp(report: &Value) {
    has_many(report, &["replica_setups", "replica_drops", "synced_keys"]);
    has_none(report, &["relocations"]);
    let [setups, drops] = ["replica_setups", "replica_drops"].map(|what| did(report, what));
    assert!(setups >= drops, "{}", report["management"]);
}

/// Replicas are set up and stay.
pub const ESSP: Case = Case {
    technique: "essp",
    flags: &["--staleness", "1"],
    works: |report| {
        has_many(report, &["replica_setups", "synced_keys"]);
        has_none(report, &["replica_drops", "relocations"]);
    },
};

/// The hottest keys have replicas, the others move.
pub const NUPS: Case = Case {
    technique: "nups",
    flags: &["--localize-ahead", "4", "--replicate-top", "20", "--sync-every-ms", "2"],
    works: |report| {
        assert_eq!(report["model"]["replicated"]["keys"], 20);
        nups(report);
    },
};

/// NuPS with all defaults: which keys are replicated, how often they are synchronised, how far ahead others
/// move.
pub const NUPS_DEFAULT: Case = Case { technique: "nups", flags: &[], works: nups };

/// The hottest keys have replicas, the others stay at their homes.
pub const BIPS: Case = Case {
    technique: "bips",
    flags: &["--replicate-top", "20", "--sync-every-ms", "2"],
    works: |report| {
        assert_eq!(report["model"]["replicated"]["keys"], 20);
        has_none(report, &["relocations"]);
        assert!(did(report, "sync_rounds") > 0, "{}", report["management"]);
    },
};

/// Checks that some keys, but not all, were replicated and synchronised, and that others moved.
///
/// # Panics
/// If they were not.
pub fn nups(report: &Value) {
    let replicated = &report["model"]["replicated"];
    let share = replicated["access_share"].as_f64().expect("the task knows");
    assert!(share > 0.0 && share < 1.0 && replicated["keys"].as_u64() > Some(0), "{replicated}");
    has_many(report, &["relocations"]);
    // The number of rounds depends on time: on a busy machine, there was one round in a fifth of a second.
    assert!(did(report, "sync_rounds") > 0, "{}", report["management"]);
    assert!(report["management"]["syncs_per_second"].as_f64() > Some(0.0));
}

/// All keys have replicas, which are synchronised in the background.
pub const FULL_REPLICATION: Case = Case {
    technique: "full-replication",
    flags: &["--sync-every-ms", "2"],
    works: |report| {
        all_are_replicated(report);
        assert!(did(report, "sync_rounds") > 0, "{}", report["management"]);
    },
};

/// All keys have replicas, which are synchronised after each batch.
pub const SYNCHRONOUS: Case = Case {
    technique: "full-replication",
    flags: &["--sync-batches", "1"],
    works: |report| {
        all_are_replicated(report);
        assert!(did(report, "sync_rounds") > 50, "{}", report["management"]);
    },
};

/// Controls: replicas that are synchronised at the end of an epoch only. With clocked replicas, clocks that
/// do not advance achieve this; the bound alone does not, as updates are sent with every clock.
pub const NEVER: [Case; 3] = [
    Case { flags: &["--sync-every-ms", "3600000"], works: |_| (), ..FULL_REPLICATION },
    Case { flags: &["--staleness", "1000000", "--clock-every", "0"], works: |_| (), ..SSP },
    Case { flags: &["--staleness", "1000000", "--clock-every", "0"], works: |_| (), ..ESSP },
];

fn all_are_replicated(report: &Value) {
    assert_eq!(report["model"]["replicated"]["bytes"], report["model"]["bytes"]);
    assert_eq!(report["access"]["remote"], 0);
    has_many(report, &["synced_keys"]);
    has_none(report, &["relocations", "replica_setups"]);
}

/// A count of the actions of parameter management.
///
/// # Panics
/// If the report does not have this count.
#[must_use]
#[track_caller]
pub fn did(report: &Value, what: &str) -> u64 {
    report["management"][what].as_u64().expect(what)
}

#[track_caller]
fn has_none(report: &Value, counts: &[&str]) {
    for what in counts {
        assert_eq!(did(report, what), 0, "{what}: {}", report["management"]);
    }
}

/// Checks that each of these counts is large.
#[track_caller]
fn has_many(report: &Value, counts: &[&str]) {
    for what in counts {
        assert!(did(report, what) > 100, "{what}: {}", report["management"]);
    }
}

/// Defines the tests of techniques that every application has, on `$matrix`. `$loose` is the fraction of
/// learning that may be lost with a loose staleness bound, `$noise` the fraction with the other techniques.
#[macro_export]
macro_rules! technique_tests {
    ($matrix:expr, noise: $noise:expr, loose: $loose:expr) => {
        #[test]
        fn classic() {
            $matrix.check(&$crate::case::CLASSIC, $noise);
        }

        #[test]
        fn lapse() {
            $matrix.check(&$crate::case::LAPSE, $noise);
        }

        #[test]
        fn ssp() {
            $matrix.check(&$crate::case::SSP, $noise);
            $matrix.check(&$crate::case::SSP_LOOSE, $loose);
        }

        #[test]
        fn essp() {
            $matrix.check(&$crate::case::ESSP, $noise);
        }

        #[test]
        fn nups() {
            $matrix.check(&$crate::case::NUPS, $noise);
        }

        #[test]
        fn bips() {
            $matrix.check(&$crate::case::BIPS, $noise);
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_technique_has_a_case_in_the_list_that_it_belongs_to() {
        let has = |cases: &[Case], name: &str| cases.iter().any(|case| case.technique == name);
        for Technique { name, acts_on_intents, .. } in technique::all() {
            let lists = (has(&WITHOUT_INTENTS, &name), has(&BY_INTENT, &name));
            assert_eq!(lists, (!acts_on_intents, acts_on_intents), "cases of {name}");
        }
    }
}
