//! Assignments against sets of keys.

use intendant_core::{Key, Layout};
use intendant_techniques::assignment::{Assignment, AssignmentError, FACTOR, KeyTechnique};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn layout(keys: u64) -> Layout {
    Layout::builder().range("a", keys.div_ceil(2), 1).range("b", keys / 2, 3).build().expect("valid")
}

fn keys(assignment: &Assignment, keys: u64) -> Vec<u64> {
    assignment.resolve(&layout(keys)).iter().map(|key| key.0).collect()
}

/// Keys close to each other and to the smallest and largest key.
fn some_key() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0u64..24, 1 => (u64::MAX - 3)..=u64::MAX]
}

fn choices() -> impl Strategy<Value = Vec<(u64, bool)>> {
    prop::collection::vec((some_key(), any::<bool>()), 0..120)
}

fn assign(start: Assignment, choices: &[(u64, bool)]) -> Assignment {
    choices.iter().fold(start, |mut assignment, (key, replicate)| {
        let technique = if *replicate { KeyTechnique::Replicate } else { KeyTechnique::Relocate };
        assignment.set_technique(Key(*key), technique);
        assignment
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn choices_are_a_set_of_keys(all: bool, choices in choices()) {
        let start = || if all { Assignment::all() } else { Assignment::none() };
        let assignment = assign(start(), &choices);
        let near: Vec<u64> = (0..30).chain(u64::MAX - 8..=u64::MAX).collect();
        let mut model: BTreeSet<u64> = near.iter().copied().filter(|_| all).collect();
        for (key, replicate) in &choices {
            if *replicate { model.insert(*key) } else { model.remove(key) };
        }
        for key in &near {
            let replicated = assignment.technique(Key(*key)) == KeyTechnique::Replicate;
            prop_assert_eq!(replicated, model.contains(key), "key {}", key);
        }
        prop_assert_eq!(assignment.technique(Key(1 << 40)) == KeyTechnique::Replicate, all);
        let expected: Vec<u64> = model.range(..26).copied().collect();
        prop_assert_eq!(&keys(&assignment, 26), &expected);
        prop_assert_eq!(assignment.count(&layout(26)), expected.len() as u64);
        prop_assert_eq!(assignment.is_none(), model.is_empty());

        // The same set, made in another way, is the same assignment.
        let mut last = std::collections::BTreeMap::new();
        choices.iter().for_each(|(key, replicate)| { last.insert(*key, *replicate); });
        let directly: Vec<(u64, bool)> = last.into_iter().rev().collect();
        let again = assign(start(), &directly);
        prop_assert_eq!(&again, &assignment);
        prop_assert_eq!(again.digest(), assignment.digest());
        if !all {
            let collected: Assignment = model.iter().map(|key| Key(*key)).collect();
            prop_assert_eq!(&collected, &assignment);
        }
        // A set with one key more or less is another assignment.
        let key = Key(choices.first().map_or(7, |(key, _)| *key));
        let mut other = assignment.clone();
        other.set_technique(key, match assignment.technique(key) {
            KeyTechnique::Replicate => KeyTechnique::Relocate,
            KeyTechnique::Relocate => KeyTechnique::Replicate,
        });
        prop_assert_ne!(other.digest(), assignment.digest());
    }

    #[test]
    fn text_is_read_back(all: bool, choices in choices()) {
        let assignment = assign(if all { Assignment::all() } else { Assignment::none() }, &choices);
        let text = assignment.to_text();
        prop_assert_eq!(Assignment::parse(&text), Ok(assignment), "{}", text);
    }

    #[test]
    fn ranges_in_any_order_are_their_union(ranges in prop::collection::vec((0u64..40, 1u64..12), 0..12)) {
        let line = |(first, keys): &(u64, u64)| format!("{first}..{}\n", first + keys);
        let text: String = ranges.iter().map(line).collect();
        let union: BTreeSet<u64> = ranges.iter().flat_map(|(first, keys)| *first..first + keys).collect();
        let assignment = Assignment::parse(&text).unwrap();
        prop_assert_eq!(keys(&assignment, 60), union.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(assignment, union.into_iter().map(Key).collect());
    }

    #[test]
    fn any_text_is_an_assignment_or_an_error(text in "([0-9]{0,21}|\\.\\.|\\*|#|-|\\+|\r?\n| |\t|é|\\PC){0,40}") {
        match Assignment::parse(&text) {
            Ok(assignment) => prop_assert_eq!(Assignment::parse(&assignment.to_text()), Ok(assignment)),
            Err(AssignmentError::Line { line, .. }) => prop_assert!(line <= text.lines().count()),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn the_heuristics_pick_by_frequency(
        counts in prop::collection::vec(0u32..50, 1..40),
        factor in 0.0f64..5.0,
        count in 0usize..50,
    ) {
        let given = || counts.iter().enumerate().map(|(key, count)| (Key(key as u64), f64::from(*count)));
        let all = counts.len() as u64 + 20;
        let mean = f64::from(counts.iter().sum::<u32>()) / all as f64;
        let expected: Vec<u64> =
            given().filter(|(_, count)| *count > factor * mean).map(|(key, _)| key.0).collect();
        prop_assert_eq!(keys(&Assignment::above(given(), all, factor), all), expected);

        let top = Assignment::top(given(), count);
        prop_assert_eq!(top.count(&layout(all)), count.min(counts.len()) as u64);
        for (key, count) in given() {
            let better = given().filter(|(k, c)| *c > count || (*c == count && *k < key)).count();
            let replicated = top.technique(key) == KeyTechnique::Replicate;
            prop_assert_eq!(replicated, better < top.count(&layout(all)) as usize, "{:?}", key);
        }

        // Neither the order of frequencies nor giving them in halves changes the choice.
        let half = |(key, count)| (key, count / 2.0);
        let halves = || given().chain(given()).map(half).collect::<Vec<_>>().into_iter().rev();
        prop_assert_eq!(Assignment::above(halves(), all, factor), Assignment::above(given(), all, factor));
        prop_assert_eq!(Assignment::top(halves(), count), top);
    }
}

#[test]
fn the_untuned_choice_is_a_hundred_times_the_mean() {
    // 1000 keys, one access of each on average.
    let frequencies = [(Key(3), 100.0), (Key(9), 101.0), (Key(5), 799.0)];
    assert_eq!(keys(&Assignment::above(frequencies, 1000, FACTOR), 1000), [5, 9]);
    assert!(Assignment::above([], 1000, FACTOR).is_none());
    assert!(Assignment::above([], 0, FACTOR).is_none());
    let broken = [(Key(1), f64::NAN), (Key(2), f64::INFINITY), (Key(3), -1e9), (Key(4), 1.0)];
    assert_eq!(keys(&Assignment::above(broken, 1000, FACTOR), 1000), [4]);
    assert_eq!(keys(&Assignment::top(broken, 2), 1000), [1, 4]);
}

#[test]
fn a_file_says_keys_and_ranges() {
    let text = "\u{feff}# hot keys\n\n7\r\n 10..12 # two\n3 .. 5\n7\n11..13\n";
    let assignment = Assignment::parse(text).unwrap();
    assert_eq!(keys(&assignment, 100), [3, 4, 7, 10, 11, 12]);
    assert_eq!(assignment.to_text(), "3..5\n7\n10..13\n");
    assert_eq!(Assignment::parse("  # nothing\n").unwrap(), Assignment::none());
    assert_eq!(Assignment::parse("*").unwrap(), Assignment::all());
    assert_eq!(Assignment::parse("0..").unwrap(), Assignment::all());
    assert_eq!(Assignment::parse("0..5\n5..").unwrap(), Assignment::all());
    assert_eq!(Assignment::parse("4\n95..").unwrap().to_text(), "4\n95..\n");
    assert_eq!(Assignment::default(), Assignment::none());
    let refused = |text: &str| Assignment::parse(text).unwrap_err().to_string();
    assert!(refused("1\n2\nthree # 3\n").starts_with("line 3, 'three': not a number; write a key"));
    assert!(refused("5..5").contains("'5..5': the range is empty"));
    assert!(refused("5..3").contains("the range is empty"));
    assert!(refused("0..0").contains("the range is empty"));
    assert!(refused("18446744073709551616").contains("larger than any key"));
    for text in
        ["-1", "+1", "1e3", "..", "..5", "1...5", "1,2", "1 2", "**", "*..5", "0x10", "1..=5", "\0", "１"]
    {
        assert!(refused(text).contains("not a number"), "{text}: {}", refused(text));
    }
    assert!(refused(&"\u{1b}x".repeat(1 << 20)).len() < 500, "only the beginning is repeated, escaped");
}

#[test]
fn keys_that_do_not_exist_are_named() {
    let check = |text: &str, keys| Assignment::parse(text).unwrap().check(&layout(keys));
    assert_eq!(check("0..10\n", 10), Ok(()));
    assert_eq!(check("*", 10), Ok(()));
    assert_eq!(check("12..", 10), Ok(()), "all further keys: none");
    assert_eq!(Assignment::none().check(&layout(10)), Ok(()));
    let missing = |key| Err(AssignmentError::NoSuchKey { key: Key(key), last: Key(9) });
    assert_eq!(check("0..11", 10), missing(10));
    assert_eq!(check("3\n12..14\n", 10), missing(12));
    assert_eq!(check("18446744073709551615", 10), missing(u64::MAX));
    let error = check("0..11", 10).unwrap_err().to_string();
    assert_eq!(error, "key 10 is to be replicated, but the model has keys 0 to 9 only");
    let most = u64::from(u32::MAX);
    assert_eq!(check("*", most), Ok(()));
    assert_eq!(check("*", most + 1), Err(AssignmentError::TooManyKeys { keys: most + 1 }));
    // A million single keys and as many choices take little time.
    let odd: Assignment = (0..1_000_000).map(|key| Key(2 * key + 1)).collect();
    let mut chosen = Assignment::all();
    (0..=1_000_000).for_each(|key| chosen.set_technique(Key(2 * key), KeyTechnique::Relocate));
    assert_eq!(odd.count(&layout(2_000_000)), 1_000_000);
    assert_eq!(odd.resolve(&layout(2_000_000)), chosen.resolve(&layout(2_000_000)));
}
