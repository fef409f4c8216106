//! Clocks of nodes: the true offsets are within the stated errors.

use crate::made::{Act, History, NODES, acts, header};
use intendant_analysis::{Allocation, Method, Run};
use intendant_core::{ChannelId, Tick};
use intendant_trace::{Event, Filter, Header, Trace, What};
use proptest::prelude::*;
use std::sync::Arc;

const NODE_COUNT: usize = NODES as usize;

/// By how much the estimates are wrong, and the stated errors; relative to node 0.
fn errors(run: &Run, offsets: &[u64; NODE_COUNT]) -> Vec<(u64, Option<u64>)> {
    let first = run.nodes()[0].offset_us;
    let error = |(info, offset): (&intendant_analysis::NodeInfo, &u64)| {
        let truth = *offset as i64 - offsets[0] as i64;
        ((info.offset_us - first).abs_diff(truth), info.error_us)
    };
    run.nodes().iter().zip(offsets).map(error).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn true_offsets_are_within_the_stated_errors(
        mut acts in acts(120),
        offsets in proptest::array::uniform3(0..1_000_000u64),
        meetings in proptest::collection::vec(any::<proptest::sample::Index>(), 1..4),
    ) {
        for index in meetings {
            let at = index.index(acts.len() + 1);
            acts.insert(at, (1, Act::Meet));
        }
        let history = History::of(&acts, 2_000_000);
        let run = Run::of_traces(history.traces(&offsets, 1)).unwrap();
        let alignment = run.alignment();
        prop_assert_eq!(alignment.method, Method::Events);
        prop_assert_eq!(alignment.contradiction_us, 0);
        prop_assert!(alignment.meetings > 0);
        for (wrong, stated) in errors(&run, &offsets) {
            prop_assert!(stated.is_some_and(|stated| wrong <= stated), "{} and {:?}", wrong, stated);
            // A meeting takes 10 us, so it bounds the error at least this tightly.
            prop_assert!(stated.is_some_and(|stated| stated <= 8), "{:?}", stated);
        }
        // The estimates contradict none of the orders from which the bounds follow, except for rounding.
        let allocation = Allocation::of(&Arc::new(run), &Filter::All);
        prop_assert_eq!(allocation.inconsistencies().arrivals, 0);
        prop_assert_eq!(allocation.inconsistencies().departures, 0);
    }

    #[test]
    fn keys_that_move_bound_offsets_as_well(
        acts in acts(200),
        offsets in proptest::array::uniform3(0..1_000_000u64),
    ) {
        let history = History::of(&acts, 2_000_000);
        let mut traces = history.traces(&offsets, 1);
        let is_meeting = |event: &Event| matches!(event.what, What::Came { .. } | What::WentOn { .. });
        traces.iter_mut().for_each(|trace| trace.events.retain(|event| !is_meeting(event)));
        let run = Run::of_traces(traces).unwrap();
        prop_assert_eq!(run.alignment().meetings, 0);
        for (wrong, stated) in errors(&run, &offsets) {
            prop_assert!(stated.is_none_or(|stated| wrong <= stated), "{} and {:?}", wrong, stated);
        }
    }
}

/// Traces of three nodes that meet at the given times of their own clocks.
fn meeting(times: [&[(u64, u64)]; NODE_COUNT], epochs: [u64; NODE_COUNT]) -> Run {
    let event = |at, what| Event { at: Tick(at), channel: ChannelId(0), key: None, what };
    let trace = |node: u16, times: &[(u64, u64)], epoch_us: u64| Trace {
        header: Header { epoch_us, ..header(node) },
        events: (0..)
            .zip(times)
            .flat_map(|(meeting, (came, went_on))| {
                [event(*came, What::Came { meeting }), event(*went_on, What::WentOn { meeting })]
            })
            .collect(),
        dropped: 0,
        unknown: 0,
        lost_bytes: 0,
        damaged_bytes: 0,
    };
    let nodes = (0..).zip(times.into_iter().zip(epochs));
    Run::of_traces(nodes.map(|(node, (times, epoch_us))| trace(node, times, epoch_us)).collect()).unwrap()
}

fn offsets(run: &Run) -> Vec<(i64, Option<u64>)> {
    run.nodes().iter().map(|info| (info.offset_us, info.error_us)).collect()
}

#[test]
fn clocks_that_drift_are_told_apart() {
    // The clock of node 1 is 1000 us behind at first and 1100 us at last, so the best fixed offset is wrong
    // by 50 us.
    let run = meeting(
        [&[(5000, 5010), (9000, 9010)], &[(4000, 4010), (7900, 7910)], &[(5000, 5010), (9000, 9010)]],
        [1, 1, 1],
    );
    let contradiction = run.alignment().contradiction_us;
    assert!((35..=50).contains(&contradiction), "{contradiction}");
    let (offset, error) = offsets(&run)[1];
    assert!((1040..=1060).contains(&offset), "{offset}");
    assert!(error.is_some_and(|error| (35..=60).contains(&error)), "{error:?}");
    let problems = run.problems();
    assert!(problems[0].text.contains("the clocks of the nodes have drifted"), "{problems:?}");
}

#[test]
fn without_common_events_the_wall_clocks_decide_and_the_error_is_not_known() {
    let run = meeting([&[(5, 6)], &[(5, 6)], &[]], [1_000_000, 1_000_300, 999_000]);
    assert_eq!(run.alignment().method, Method::WallClocks);
    // The clock of node 2 started 1 ms before that of node 0. It has no events, so its negative offset shifts
    // no times.
    assert_eq!(offsets(&run), [(0, Some(0)), (0, Some(2)), (-1000, None)]);
    let problems = run.problems();
    assert!(problems.iter().any(|problem| problem.node == Some(2)), "{problems:?}");
    let run = meeting([&[], &[(5, 6)], &[(5, 6)]], [1_000_000, 1_000_300, 999_000]);
    let moved = [(995, Some(0)), (995 + 300, None), (995 - 1000, None)];
    assert_eq!(offsets(&run), moved, "all times are later, so that none is before 0");
    assert_eq!(run.span_us(), (0, 995 + 306));
}

#[test]
fn simulated_nodes_have_one_clock() {
    let run = meeting([&[(5000, 5010)], &[(4000, 4010)], &[]], [0, 0, 0]);
    assert_eq!(run.alignment().method, Method::OneClock);
    assert_eq!(offsets(&run), [(0, Some(0)); 3]);
}
