//! Layouts of segments, and refused declarations and settings.

use intendant_lapser::{
    CopySlots, Declaration, Directory, DirectoryError, Item, Settings, Variant, WORDS_MAX, Want,
};
use intendant_segment::slot;
use proptest::prelude::*;

fn declared(produce: &[(u64, usize)], consume: &[(u64, usize, u64)]) -> Declaration {
    let produce = produce.iter().map(|(key, words)| Item::new(*key, *words)).collect();
    let want =
        |(key, words, slack): &(u64, usize, u64)| Want { item: Item::new(*key, *words), slack: *slack };
    Declaration { incarnation: 9, produce, consume: consume.iter().map(want).collect() }
}

fn directory(variant: Variant, declarations: &[Declaration]) -> Result<Directory, DirectoryError> {
    Directory::new(Settings::new(variant), declarations)
}

#[test]
fn slots_lie_in_the_order_of_keys_after_the_head() {
    let declarations =
        [declared(&[(9, 1), (2, 5)], &[(4, 12, 1)]), declared(&[(4, 12)], &[(9, 1, 0), (2, 5, 3)])];
    let settings = Settings { head_words: 16, ..Settings::new(Variant::PushBySlack) };
    let directory = Directory::new(settings, &declarations).unwrap();
    assert_eq!([2, 9, 4].map(|key| directory.produced_at(key)), [Some(16), Some(32), Some(16)]);
    let copy = |pushed, landing| Some(CopySlots { pushed: Some(pushed), landing: Some(landing) });
    assert_eq!(directory.copy_at(4, 0), copy(40, 56));
    assert_eq!(directory.copy_at(2, 1), copy(32, 48));
    assert_eq!(directory.copy_at(9, 1), copy(64, 72));
    assert_eq!([0, 1].map(|rank| directory.words(rank)), [Some(88), Some(96)]);
    let farewells = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 2)];
    assert_eq!(
        farewells.map(|(of, rank)| directory.farewell_at(of, rank)),
        [Some(72), Some(80), Some(80), Some(88), None, None]
    );
    assert_eq!((directory.words(2), directory.copy_at(2, 0), directory.producer(3)), (None, None, None));
    assert_eq!((directory.producer(4), directory.value_words(4)), (Some(1), Some(12)));
}

#[test]
fn own_items_and_duplicates_are_dropped() {
    let declarations = [
        declared(&[(1, 4), (1, 4)], &[(1, 4, 0)]),
        declared(&[], &[(1, 4, 8), (1, 4, 2), (1, 4, 8)]),
        declared(&[], &[(1, 4, 5)]),
    ];
    let directory = directory(Variant::Pull, &declarations).unwrap();
    assert_eq!(directory.consumers(1).collect::<Vec<_>>(), [(1, 2), (2, 5)]);
    assert_eq!(
        [0, 1, 2].map(|rank| directory.words(rank)),
        [Some(32); 3],
        "a slot, and the farewells of three nodes"
    );
}

#[test]
fn declarations_that_contradict_each_other_are_refused() {
    let refused = |declarations: &[Declaration]| directory(Variant::Push, declarations).unwrap_err();
    let one = declared(&[(1, 4)], &[]);
    assert_eq!(refused(&[]), DirectoryError::Nodes { nodes: 0 });
    assert_eq!(
        refused(&[one.clone(), one.clone()]),
        DirectoryError::TwoProducers { key: 1, first: 0, second: 1 }
    );
    assert_eq!(
        refused(&[one.clone(), declared(&[], &[(2, 4, 0)])]),
        DirectoryError::NoProducer { key: 2, node: 1 }
    );
    assert_eq!(
        refused(&[one.clone(), declared(&[], &[(1, 5, 0)])]),
        DirectoryError::Sizes { key: 1, node: 1, words: 5, other: 0, other_words: 4 }
    );
    assert_eq!(
        refused(&[declared(&[(1, 4), (1, 5)], &[])]),
        DirectoryError::Sizes { key: 1, node: 0, words: 5, other: 0, other_words: 4 }
    );
    for words in [0, WORDS_MAX + 1, usize::MAX] {
        assert_eq!(
            refused(&[declared(&[(1, words)], &[])]),
            DirectoryError::Length { key: 1, node: 0, words }
        );
    }
    for settings in [
        Settings { hints: 0, ..Settings::new(Variant::Push) },
        Settings { hints: 65_537, ..Settings::new(Variant::Push) },
        Settings { head_words: 4, ..Settings::new(Variant::Push) },
    ] {
        let result = Directory::new(settings, std::slice::from_ref(&one));
        assert!(matches!(result, Err(DirectoryError::Settings { .. })));
    }
}

proptest! {
    /// Slots are aligned, lie within the segment, and do not overlap.
    #[test]
    fn slots_do_not_overlap(
        lengths in prop::collection::vec((1usize..40, 0usize..4), 1..30),
        wanted in prop::collection::vec((0usize..4, 0usize..30), 0..80),
        pushes: bool,
        reads: bool,
    ) {
        let variant = match (pushes, reads) {
            (true, true) => Variant::PushBySlack,
            (true, false) => Variant::Push,
            (false, _) => Variant::Pull,
        };
        let mut declarations = vec![Declaration::default(); 4];
        for (key, (words, producer)) in lengths.iter().enumerate() {
            declarations[*producer].produce.push(Item::new(key as u64, *words));
        }
        for (node, key) in wanted {
            let Some((words, _)) = lengths.get(key) else { continue };
            declarations[node].consume.push(Want { item: Item::new(key as u64, *words), slack: 0 });
        }
        let directory = directory(variant, &declarations).unwrap();
        for rank in 0..4 {
            let mut slots = Vec::new();
            for (key, (words, producer)) in lengths.iter().enumerate() {
                let own = (*producer == rank).then(|| directory.produced_at(key as u64).unwrap());
                let copy = directory.copy_at(key as u64, rank).map(|copy| [copy.pushed, copy.landing]);
                prop_assert_eq!(copy.is_some() && own.is_some(), false);
                let all = own.into_iter().chain(copy.into_iter().flatten().flatten());
                slots.extend(all.map(|at| (at, at + slot::words(*words))));
            }
            let farewells = (0..4).map(|of| directory.farewell_at(of, rank).unwrap());
            slots.extend(farewells.map(|at| (at, at + slot::words(0))));
            slots.sort_unstable();
            slots.push((directory.words(rank).unwrap(), 0));
            for pair in slots.windows(2) {
                prop_assert!(pair[0].1 <= pair[1].0 && pair[0].0 % 8 == 0, "{:?}", slots);
            }
        }
    }
}
