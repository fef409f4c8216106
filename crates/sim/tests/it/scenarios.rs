//! The examples of key management in [AdaPS Fig. 5 b–d and 6], as tables in `scenarios/`.
//!
//! Columns are phases of [`PHASE`] clocks; all workers advance together. A `node` row has the intents of the
//! node's worker, one per run of `x`, all of them signalled at the start. Below follow, by technique, the
//! owner of the key and the holders of replicas in the middle of each phase, and the number of relocations.
//! With `not`, the technique must behave differently.
//!
//! In each phase of its intent, a node pulls and pushes the key without a message. At the end, the value has
//! all pushes.

use crate::still;
use intendant_checkers::checker::{Checked, holders};
use intendant_core::{Clock, Key, Layout, NodeId};
use intendant_sim::cluster::{Caller, ClusterConfig, Wait};
use intendant_sim::{Network, Spread};
use intendant_techniques::Technique;
use std::ops::Range;

const NODES: usize = 4;
/// Clocks per phase: enough for an action in time to end within the phase before.
const PHASE: u32 = 40;
/// Clocks before the first phase, in which channels learn that clocks advance one by one.
const WARM_UP: u32 = 80;

/// The expected behaviour of a technique.
struct Expected {
    technique: Technique,
    /// Whether the technique must behave differently from the table.
    otherwise: bool,
    owners: Vec<String>,
    copies: Vec<String>,
    moves: Option<u64>,
}

/// A table.
struct Scenario {
    home: usize,
    intents: Vec<(usize, Range<u32>)>,
    phases: u32,
    expected: Vec<Expected>,
}

fn parse(text: &str) -> Scenario {
    let mut scenario = Scenario { home: 0, intents: Vec::new(), phases: 0, expected: Vec::new() };
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (head, row) = line.split_once('|').unwrap_or((line, ""));
        let head: Vec<&str> = head.split_whitespace().collect();
        let cells: Vec<String> = row.split_whitespace().map(str::to_owned).collect();
        if !cells.is_empty() {
            let phases = cells.len() as u32;
            assert!(
                scenario.phases == 0 || scenario.phases == phases,
                "{line}: the rows have different numbers of phases"
            );
            scenario.phases = phases;
        }
        let last = scenario.expected.last_mut();
        match (&head[..], last) {
            (["home", node], _) => scenario.home = node.parse().expect("a node"),
            (["node", node], _) => {
                let node = node.parse().expect("a node");
                let mut wanted = cells.iter().map(|cell| cell == "x").chain([false]);
                let mut start = None;
                for phase in 0..=scenario.phases {
                    match (wanted.next().expect("a cell per phase"), start) {
                        (true, None) => start = Some(phase),
                        (false, Some(from)) => {
                            scenario.intents.push((node, clock_of(from)..clock_of(phase)));
                            start = None;
                        }
                        (true, Some(_)) | (false, None) => {}
                    }
                }
            }
            (["owner"], Some(last)) => last.owners = cells,
            (["copies"], Some(last)) => last.copies = cells,
            (["moves", moves], Some(last)) => last.moves = Some(moves.parse().expect("a number")),
            ([technique, rest @ ..], _) if rest.is_empty() || rest == ["not"] => {
                scenario.expected.push(Expected {
                    technique: technique.parse().expect("a technique"),
                    otherwise: !rest.is_empty(),
                    owners: Vec::new(),
                    copies: Vec::new(),
                    moves: None,
                });
            }
            _ => panic!("unknown row '{line}'"),
        }
    }
    scenario
}

fn clock_of(phase: u32) -> u32 {
    WARM_UP + phase * PHASE
}

fn cluster(technique: Technique) -> Checked<f32> {
    let layout = Layout::builder().range("keys", NODES as u64, 2).nodes(NODES);
    let network = Network { latency: Spread::fixed(20_000), byte_ps: 80, frame_bytes: 50 };
    still::checked(ClusterConfig { policy: technique.policy(), ..still::config(layout, network) })
}

/// Executes all events.
fn execute_all(cluster: &mut Checked<f32>) {
    while cluster.next().unwrap().is_some() {}
}

/// Runs a table with a technique. Returns the owner and the holders by phase, and the number of relocations.
fn run(scenario: &Scenario, technique: Technique) -> (Vec<String>, Vec<String>, u64) {
    let (mut cluster, key) = (cluster(technique), Key(scenario.home as u64));
    let name = |nodes: &[NodeId]| match nodes {
        [] => "-".to_owned(),
        _ => nodes.iter().map(|node| node.0.to_string()).collect(),
    };
    for (node, Range { start, end }) in &scenario.intents {
        cluster.intend(*node, &[key], Clock(*start)..Clock(*end), Caller::Loader).unwrap();
        execute_all(&mut cluster);
    }
    let (mut owners, mut copies, mut added) = (Vec::new(), Vec::new(), 0.0);
    for clock in 1..=clock_of(scenario.phases) {
        (0..NODES).for_each(|worker| cluster.advance_clock(worker, Clock(clock)));
        execute_all(&mut cluster);
        if clock < WARM_UP || clock % PHASE != PHASE / 2 {
            continue;
        }
        let (owner, holders) = (cluster.probe().owner(key), holders(&cluster, key));
        for (node, window) in &scenario.intents {
            let local = owner.index() == *node || holders.contains(&NodeId(*node as u16));
            if window.contains(&clock) {
                assert!(local || technique == Technique::RelocateOnIntent, "node {node} at {clock}");
                let pull = cluster.pull(*node, &[key], Wait::Blocking).unwrap();
                assert_eq!(pull.op.is_none(), local, "node {node} reads at {clock}");
                let push = cluster.push(*node, &[key], &[1.0; 2]).unwrap();
                assert!(push.op.is_none() || !local, "node {node} adds at {clock}");
                added += 1.0;
            }
        }
        owners.push(name(&[owner]));
        copies.push(name(&holders));
        execute_all(&mut cluster);
    }
    cluster.check_quiescent().unwrap();
    (0..NODES).for_each(|worker| cluster.retire(worker));
    execute_all(&mut cluster);
    cluster.check_quiescent().unwrap();
    cluster.probe().check_settled().unwrap();
    cluster.idle(10_000_000_000).unwrap();
    assert_eq!(cluster.values()[2 * key.index()..][..2], [added; 2], "{technique}: what was added");
    (owners, copies, cluster.management().relocations)
}

fn check(text: &str) {
    let scenario = parse(text);
    assert!(!scenario.expected.is_empty());
    for Expected { technique, otherwise, owners, copies, moves } in &scenario.expected {
        let found = run(&scenario, *technique);
        if *otherwise {
            assert_ne!((&found.0, &found.1), (owners, copies), "{technique}");
            continue;
        }
        let text = text.lines().next().unwrap_or_default();
        assert_eq!(&found.0, owners, "{technique}, owners: {text}");
        assert_eq!(&found.1, copies, "{technique}, copies: {text}");
        assert_eq!(Some(found.2), *moves, "{technique}, moves: {text}");
    }
}

#[test]
fn two_nodes_one_after_the_other() {
    check(include_str!("scenarios/fig5b.txt"));
}

#[test]
fn overlapping_intents() {
    check(include_str!("scenarios/fig5c.txt"));
}

#[test]
fn several_nodes_alternate() {
    check(include_str!("scenarios/fig5d.txt"));
}

#[test]
fn the_intent_of_the_owner_ends_first() {
    check(include_str!("scenarios/fig6.txt"));
}

#[test]
fn the_home_has_intent() {
    check(include_str!("scenarios/home.txt"));
}

#[test]
fn consecutive_intents_count_as_one() {
    check(include_str!("scenarios/extended.txt"));
}
