//! Tests of the history checker: it rejects hand-made inconsistent histories, and agrees with a search over
//! all orders on small random histories.

use intendant_checkers::history::{History, Inconsistency, TextError};
use intendant_core::Key;
use proptest::prelude::*;

const KEY: Key = Key(7);

/// An operation in a hand-made history: a push, or a pull of these lanes.
#[derive(Clone, Debug)]
enum Operation {
    Push,
    Pull(Vec<u32>),
}

fn pull(lanes: &[u32]) -> Operation {
    Operation::Pull(lanes.to_vec())
}

/// A history of operations on one key, given as (worker, operation) in program order.
fn history(workers: usize, operations: &[(usize, Operation)]) -> History {
    let mut history = History::new(workers);
    for (worker, operation) in operations {
        match operation {
            Operation::Push => {
                let id = history.push(*worker, KEY, None);
                history.pushed(id, None);
            }
            Operation::Pull(lanes) => {
                let id = history.pull(*worker, KEY, None);
                history.pulled(id, lanes, None);
            }
        }
    }
    history
}

#[test]
fn consistent_histories_are_accepted() {
    let ok = history(
        2,
        &[
            (0, Operation::Push),
            (1, pull(&[0, 0])),
            (1, pull(&[1, 0])),
            (1, Operation::Push),
            (0, pull(&[1, 1])),
        ],
    );
    let summary = ok.check().unwrap();
    assert_eq!((summary.keys, summary.pushes, summary.pulls), (1, 2, 3));
    // A pull need not see the newest value: only the order per key counts, not real time.
    assert!(history(2, &[(0, Operation::Push), (0, Operation::Push), (1, pull(&[0, 0]))]).check().is_ok());
    assert!(History::new(3).check().is_ok());
}

#[test]
fn a_lost_update_is_refused() {
    let mut lost = history(2, &[(0, Operation::Push), (1, Operation::Push), (1, Operation::Push)]);
    lost.ended(KEY, &[1, 1]);
    let expected = Inconsistency::Final { key: KEY, lane: 1, found: 1, issued: 2, acknowledged: 2 };
    assert_eq!(lost.check(), Err(expected));
    let mut unknown = history(2, &[]);
    unknown.ended(KEY, &[0, 1]);
    assert!(matches!(unknown.check(), Err(Inconsistency::Final { .. })), "a push from nowhere");
}

#[test]
fn an_update_of_unknown_outcome_may_be_there_or_not() {
    for (lanes, ok) in [([1], true), ([2], true), ([0], false), ([3], false)] {
        let mut history = history(1, &[(0, Operation::Push)]);
        // Issued but never acknowledged, as if its node had died.
        let _ = history.push(0, KEY, None);
        history.ended(KEY, &lanes);
        assert_eq!(history.check().is_ok(), ok, "{lanes:?}");
    }
}

#[test]
fn an_update_applied_twice_is_refused() {
    let twice = history(2, &[(0, Operation::Push), (1, pull(&[2, 0]))]);
    assert!(matches!(twice.check(), Err(Inconsistency::Phantom { lane: 0, seen: 2, pushed: 1, .. })));
}

#[test]
fn workers_see_their_own_pushes() {
    let unseen = history(2, &[(0, Operation::Push), (0, pull(&[0, 0]))]);
    assert!(matches!(unseen.check(), Err(Inconsistency::OwnPushes { seen: 0, pushed: 1, .. })));
    let early = history(2, &[(0, pull(&[1, 0])), (0, Operation::Push)]);
    assert!(
        matches!(early.check(), Err(Inconsistency::OwnPushes { seen: 1, pushed: 0, .. })),
        "reordered own operations"
    );
}

#[test]
fn a_stale_read_is_refused() {
    let back = history(2, &[(0, Operation::Push), (1, pull(&[1, 0])), (1, pull(&[0, 0]))]);
    assert!(matches!(back.check(), Err(Inconsistency::Backwards { lane: 0, seen: 0, before: 1, .. })));
}

#[test]
fn workers_must_not_disagree_about_the_order() {
    // Each worker sees its own push and not the other's, so neither can be first.
    let split =
        history(2, &[(0, Operation::Push), (0, pull(&[1, 0])), (1, Operation::Push), (1, pull(&[0, 1]))]);
    let Err(Inconsistency::Cycle { key, cycle }) = split.check() else { panic!("accepted") };
    assert_eq!(key, KEY);
    assert!(cycle.contains("worker 0") && cycle.contains("worker 1"), "{cycle}");
    // Two readers that see two pushes in different orders.
    let readers = history(
        4,
        &[(0, Operation::Push), (1, Operation::Push), (2, pull(&[1, 0, 0, 0])), (3, pull(&[0, 1, 0, 0]))],
    );
    assert!(matches!(readers.check(), Err(Inconsistency::Cycle { .. })));
}

#[test]
fn lost_and_doubled_updates_are_distinguished_from_wrong_order() {
    let mut swapped = history(2, &[(0, Operation::Push), (0, pull(&[0, 0]))]);
    swapped.ended(KEY, &[1, 0]);
    assert_eq!(swapped.check_sums(), Ok(()), "eventually consistent");
    assert!(swapped.check().unwrap_err().is_of_order());
    swapped.ended(Key(9), &[0, 1]);
    assert!(!swapped.check_sums().unwrap_err().is_of_order(), "a push from nowhere");
    let mut lost = history(2, &[(0, Operation::Push), (0, pull(&[0, 0])), (1, Operation::Push)]);
    lost.ended(KEY, &[1, 0]);
    let expected = Inconsistency::Final { key: KEY, lane: 1, found: 0, issued: 1, acknowledged: 1 };
    assert_eq!(lost.check_sums(), Err(expected));
    let twice = history(2, &[(0, Operation::Push), (0, pull(&[0, 0])), (1, pull(&[2, 0]))]);
    assert!(matches!(twice.check_sums(), Err(Inconsistency::Phantom { seen: 2, pushed: 1, .. })));
    let (mut missing, mut unknown) = (History::new(1), History::new(1));
    let id = missing.push(0, KEY, None);
    missing.pushed(id, None);
    assert_eq!(missing.check_sums(), Ok(()), "final values were not looked at");
    let _ = unknown.push(0, KEY, None);
    unknown.ended(KEY, &[0]);
    assert_eq!(unknown.check_sums(), Ok(()), "its node may have died");
}

#[test]
fn keys_are_independent() {
    // Across the two keys this is not sequentially consistent; per key it is, which is all that is
    // guaranteed.
    let mut history = History::new(2);
    for (worker, own, other) in [(0, Key(1), Key(2)), (1, Key(2), Key(1))] {
        let id = history.push(worker, own, None);
        history.pushed(id, None);
        let id = history.pull(worker, other, None);
        history.pulled(id, &[0, 0], None);
    }
    assert_eq!(history.check().unwrap().keys, 2);
}

#[test]
fn histories_with_times_must_be_linearizable() {
    let timed = |pull_starts: u64| {
        let mut history = History::new(2);
        let push = history.push(0, KEY, Some(10));
        history.pushed(push, Some(20));
        let pull = history.pull(1, KEY, Some(pull_starts));
        history.pulled(pull, &[0, 0], Some(40));
        history.check()
    };
    assert!(timed(20).is_ok(), "they overlapped");
    assert!(matches!(timed(21), Err(Inconsistency::Cycle { .. })), "the push had ended before");
}

#[test]
fn histories_are_written_and_read_as_text() {
    let mut history = History::new(2);
    let push = history.push(1, KEY, Some(5));
    history.pushed(push, Some(9));
    let pull = history.pull(0, KEY, Some(6));
    history.pulled(pull, &[0, 1], Some(8));
    let push = history.push(0, Key(3), None);
    history.pushed(push, None);
    let _ = history.push(0, Key(4), Some(12));
    history.ended(KEY, &[0, 1]);
    let mut text = Vec::new();
    history.write(&mut text).unwrap();
    let lines = String::from_utf8(text.clone()).unwrap();
    assert_eq!(
        lines,
        "lanes-history 1 workers 2\npush 1 7 5 9\npull 0 7 6 8 0,1\npush 0 3 - -\npush 0 4 12 ?\nfinal 7 0,1\n"
    );
    let mut back = History::new(2);
    back.read(&text[..]).unwrap();
    assert_eq!(back, history);
    for (bad, line) in [
        ("", None),
        ("nonsense\n", Some(1)),
        ("lanes-history 1 workers 3\n", Some(1)),
        ("lanes-history 1 workers 2\npush 2 7 - -\n", Some(2)),
        ("lanes-history 1 workers 2\npull 0 7 - - 1\n", Some(2)),
        ("lanes-history 1 workers 2\npull 0 7 - - 1,x\n", Some(2)),
        ("lanes-history 1 workers 2\n\nmoved 0 7\n", Some(3)),
    ] {
        match (History::new(2).read(bad.as_bytes()), line) {
            (Ok(()), None) => {}
            (Err(TextError::Line { line: found, .. }), Some(line)) => assert_eq!(found, line, "{bad:?}"),
            (result, _) => panic!("{bad:?}: {result:?}"),
        }
    }
}

/// Whether some order of all operations explains the pulls: tries all orders.
fn explained(programs: &[Vec<Operation>]) -> bool {
    fn search(programs: &[Vec<Operation>], at: &mut [usize], lanes: &mut [u32]) -> bool {
        if (0..programs.len()).all(|worker| at[worker] == programs[worker].len()) {
            return true;
        }
        for worker in 0..programs.len() {
            match programs[worker].get(at[worker]) {
                Some(Operation::Push) => {
                    at[worker] += 1;
                    lanes[worker] += 1;
                    if search(programs, at, lanes) {
                        return true;
                    }
                    lanes[worker] -= 1;
                    at[worker] -= 1;
                }
                Some(Operation::Pull(seen)) if seen == lanes => {
                    at[worker] += 1;
                    if search(programs, at, lanes) {
                        return true;
                    }
                    at[worker] -= 1;
                }
                Some(Operation::Pull(_)) | None => {}
            }
        }
        false
    }
    search(programs, &mut vec![0; programs.len()], &mut vec![0; programs.len()])
}

/// A push, or a pull of these lanes except the worker's own.
type Sketch = Option<[u32; 3]>;

/// Programs of three workers. Pulls see their own pushes, so that most histories get past the simple checks.
fn programs() -> impl Strategy<Value = Vec<Vec<Operation>>> {
    let operation = proptest::option::of([0u32..3, 0u32..3, 0u32..3]);
    let program = proptest::collection::vec(operation, 0..5);
    proptest::collection::vec(program, 3).prop_map(|programs| {
        let one = |(worker, program): (usize, Vec<Sketch>)| {
            let mut own = 0;
            let step = |operation: Sketch| match operation {
                None => {
                    own += 1;
                    Operation::Push
                }
                Some(mut lanes) => {
                    lanes[worker] = own;
                    Operation::Pull(lanes.to_vec())
                }
            };
            program.into_iter().map(step).collect()
        };
        programs.into_iter().enumerate().map(one).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn the_check_agrees_with_a_search_over_all_orders(programs in programs()) {
        let flat: Vec<(usize, Operation)> = programs
            .iter()
            .enumerate()
            .flat_map(|(worker, program)| program.iter().map(move |operation| (worker, operation.clone())))
            .collect();
        prop_assert_eq!(history(3, &flat).check().is_ok(), explained(&programs));
    }
}

#[test]
fn both_answers_of_the_search_occur() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut count = [0; 2];
    for _ in 0..5_000 {
        let tree = programs().new_tree(&mut runner).unwrap();
        count[usize::from(explained(&tree.current()))] += 1;
    }
    assert!(count.iter().all(|n| *n > 250), "{count:?}: the comparison would prove little");
}

/// The check is linear: this takes well under a second.
#[test]
fn a_million_operations_are_checked() {
    let (workers, keys, steps) = (8, 64u64, 125_000);
    let mut history = History::new(workers);
    let mut lanes = vec![vec![0u32; workers]; keys as usize];
    let mut word = 1u64;
    for _ in 0..steps {
        for worker in 0..workers {
            word = intendant_core::random::mix(word);
            let key = Key(word % keys);
            let now = &mut lanes[key.index()];
            if word >> 63 == 0 {
                let id = history.push(worker, key, None);
                history.pushed(id, None);
                now[worker] += 1;
            } else {
                let id = history.pull(worker, key, None);
                history.pulled(id, now, None);
            }
        }
    }
    let summary = history.check().unwrap();
    assert_eq!(summary.pushes + summary.pulls, 1_000_000);
}
