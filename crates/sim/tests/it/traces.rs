//! Traces of simulated runs: recording changes nothing, and what is recorded adds up to what is counted.

use crate::likes::Likes;
use intendant_checkers::checker::run_task;
use intendant_core::NodeId;
use intendant_engine::{ClusterSettings, LocalAccess};
use intendant_sim::{Observer, TaskConfig, TaskOutcome};
use intendant_task::Schedule;
use intendant_techniques::{Replicas, Technique};
use intendant_trace::{Access, Event, Filter, Header, What};
use std::sync::Arc;

const SCHEDULE: Schedule = Schedule { localize_ahead: 2, intents: true, ..Schedule::epochs(3) };

/// What a run recorded.
#[derive(Default)]
struct Recorded {
    headers: Vec<Header>,
    events: Vec<(NodeId, Event)>,
}

impl Observer for Recorded {
    fn traces(&mut self, headers: Vec<Header>) {
        self.headers = headers;
    }

    fn records(&mut self, events: Vec<(NodeId, Event)>) {
        self.events.extend(events);
    }
}

impl Recorded {
    fn count(&self, is: impl Fn(&What) -> bool) -> u64 {
        self.events.iter().filter(|(_, event)| is(&event.what)).count() as u64
    }
}

fn config(technique: Technique) -> TaskConfig {
    let mut config = TaskConfig {
        cluster: ClusterSettings::new(technique),
        channels: 2,
        ..TaskConfig::new(3, 2, SCHEDULE)
    };
    config
        .cluster
        .replication
        .assignment
        .set_technique(intendant_core::Key(3), intendant_techniques::KeyTechnique::Replicate);
    config
}

fn run(technique: Technique, trace: Option<Filter>) -> (Recorded, TaskOutcome<f32>) {
    run_with(&TaskConfig { trace, ..config(technique) })
}

fn run_with(config: &TaskConfig) -> (Recorded, TaskOutcome<f32>) {
    let mut recorded = Recorded::default();
    let outcome = run_task(&Arc::new(Likes::<f32>::new(5)), config, &mut recorded).unwrap();
    (recorded, outcome)
}

#[test]
fn what_is_recorded_adds_up_to_what_is_counted() {
    let (mut moved, mut copied, mut in_conflict) = (0, 0, 0);
    for technique in Technique::ALL {
        let (recorded, outcome) = run(technique, Some(Filter::All));
        let (untraced, plain) = run(technique, None);
        assert_eq!((plain.hash, &plain.values), (outcome.hash, &outcome.values), "{technique}");
        assert!(untraced.headers.is_empty() && untraced.events.is_empty());
        let management = &outcome.management;
        let arrived = recorded.count(|what| matches!(what, What::Arrived { .. }));
        assert_eq!(arrived, management.relocations, "{technique}");
        assert_eq!(recorded.count(|what| matches!(what, What::Left { .. })), arrived, "{technique}");
        let set_up = recorded.count(|what| *what == What::ReplicaSetUp);
        assert_eq!(set_up, management.replica_setups, "{technique}");
        let conflicts = recorded.count(|what| *what == What::Conflict);
        assert_eq!(conflicts, management.localization_conflicts, "{technique}");
        assert_eq!(recorded.count(|what| matches!(what, What::Marked { .. })), 3, "{technique}: epochs");
        let sent = |(_, event): &(NodeId, Event)| {
            if let What::Sent { bytes, .. } = event.what { bytes } else { 0 }
        };
        assert_eq!(recorded.events.iter().map(sent).sum::<u64>(), outcome.traffic.bytes, "{technique}");
        (moved, copied, in_conflict) = (moved + arrived, copied + set_up, in_conflict + conflicts);
    }
    assert!(moved > 0 && copied > 0 && in_conflict > 0, "{moved}, {copied}, {in_conflict}");
}

/// Each access that was not local is in the trace once: where it was served, and since when it waited.
#[test]
fn each_access_that_was_not_local_is_recorded_once() {
    let mut all = [0; 2];
    for technique in Technique::ALL {
        for access in [LocalAccess::Shared, LocalAccess::Queue] {
            let trace = Some(Filter::All);
            let mut config = TaskConfig { trace, ..config(technique) };
            config.cluster.access = access;
            let (recorded, outcome) = run_with(&config);
            let remote = recorded.count(|what| matches!(what, What::Remote { .. }));
            let waited = recorded.count(|what| matches!(what, What::Waited { .. }));
            let case = format!("{technique}, {access:?}: {remote} and {waited}");
            assert_eq!(remote + waited, outcome.accesses.remote, "{case}");
            if technique.policy().replicas.is_some_and(Replicas::is_clocked) {
                let queued = outcome.management.stale_reads;
                assert!(queued > 0 && waited >= queued, "{case}, {queued} stale reads");
            }
            all = [all[0] + remote, all[1] + waited];
        }
    }
    assert!(all.iter().all(|count| *count > 0), "{all:?}");
}

/// Many nodes localize the same keys, so that accesses of others wait here.
#[test]
fn accesses_of_other_nodes_that_wait_are_recorded_where_their_workers_are() {
    let schedule = Schedule { localize_ahead: 4, ..Schedule::epochs(2) };
    let config =
        TaskConfig { cluster: ClusterSettings::new(Technique::Lapse), ..TaskConfig::new(4, 2, schedule) };
    let (recorded, outcome) = run_with(&TaskConfig { trace: Some(Filter::All), ..config });
    let remote = recorded.count(|what| matches!(what, What::Remote { .. }));
    let waited = recorded.count(|what| matches!(what, What::Waited { .. }));
    assert!(waited < outcome.management.queued, "some waited for another node");
    assert_eq!(remote + waited, outcome.accesses.remote);
}

#[test]
fn every_value_that_is_synchronised_is_recorded() {
    let mut all = 0;
    for technique in Technique::ALL {
        let (recorded, outcome) = run(technique, Some(Filter::All));
        let values = |(_, event): &(NodeId, Event)| {
            if let What::Synced { values } = event.what { values } else { 0 }
        };
        let synced: u64 = recorded.events.iter().map(values).sum();
        assert_eq!(synced, outcome.management.synced_keys, "{technique}");
        all += synced;
    }
    assert!(all > 0);
}

#[test]
fn nodes_record_the_clocks_of_their_workers_and_none_while_these_rest() {
    for technique in Technique::ALL {
        let (recorded, outcome) = run(technique, Some(Filter::All));
        let clocks = recorded
            .events
            .iter()
            .filter_map(|(_, event)| if let What::Clock { clock } = event.what { Some(clock) } else { None });
        let is_clocked = technique.policy().replicas.is_some_and(Replicas::is_clocked);
        assert_eq!(clocks.clone().count() > 0, is_clocked, "{technique}");
        assert!(clocks.max().unwrap_or(0) < 1 << 20, "{technique}: {} events", outcome.events);
    }
}

#[test]
fn remote_accesses_of_a_static_allocation_are_recorded_with_their_durations() {
    let (recorded, outcome) = run(Technique::Classic, Some(Filter::All));
    let remote = recorded.count(|what| matches!(what, What::Remote { .. }));
    assert_eq!(remote, outcome.accesses.remote);
    assert!(recorded.events.iter().all(|(node, event)| {
        let What::Remote { access, by, after } = event.what else { return true };
        let home = recorded.headers[0].layout().unwrap().home(event.key.unwrap());
        by == home && by != *node && after > 0 && access != Access::Set
    }));
}

#[test]
fn headers_tell_who_has_what_at_the_beginning() {
    for (technique, replicas) in [(Technique::Nups, vec![[3, 4]]), (Technique::Lapse, Vec::new())] {
        let (recorded, _) = run(technique, Some("0..5,7".parse().unwrap()));
        assert_eq!(recorded.headers.len(), 3);
        for (node, header) in recorded.headers.iter().enumerate() {
            assert_eq!((header.node as usize, header.nodes, header.channels), (node, 3, 2));
            assert_eq!(
                (header.technique.as_str(), header.filter.as_str()),
                (technique.policy().name, "0..5,7")
            );
            assert_eq!((header.static_replicas.clone(), header.epoch_us), (replicas.clone(), 0));
        }
        let keys = recorded.events.iter().filter_map(|(_, event)| event.key);
        assert!(keys.clone().count() > 0 && keys.into_iter().all(|key| key.0 < 5 || key.0 == 7));
    }
}
