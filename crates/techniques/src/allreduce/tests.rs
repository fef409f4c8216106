//! Tests that need access to private items. All other tests are in `tests/it/allreduce.rs`.

use super::*;
use intendant_core::copy_to_bytes;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn to_bytes(values: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    copy_to_bytes(values, &mut bytes);
    bytes
}

fn to_deltas(updates: &BTreeMap<u32, Vec<f32>>) -> Deltas<f32> {
    Deltas {
        indices: updates.keys().copied().collect(),
        values: updates.values().flatten().copied().collect(),
    }
}

/// Updates of some of 20 keys; key `k` has `k` modulo 4 elements.
fn updates() -> impl Strategy<Value = BTreeMap<u32, Vec<f32>>> {
    let element = prop_oneof![Just(-0.0f32), -1e3..1e3f32];
    proptest::collection::btree_map(0..20u32, proptest::collection::vec(element, 3), 0..20).prop_map(|all| {
        all.into_iter().map(|(index, elements)| (index, elements[..index as usize % 4].to_vec())).collect()
    })
}

proptest! {
    #[test]
    fn a_sum_adds_what_both_have_and_copies_what_one_has(
        own in updates(),
        theirs in updates(),
        cuts in proptest::collection::vec(any::<bool>(), 20),
    ) {
        let len = |index: u32| index as usize % 4;
        let (own_deltas, their_deltas) = (to_deltas(&own), to_deltas(&theirs));
        let mut parts = vec![Deltas::new()];
        for (index, delta) in their_deltas.iter(len) {
            parts.last_mut().expect("there is one").push(index, delta);
            if cuts[index as usize] {
                parts.push(Deltas::new());
            }
        }
        let sum = |add: fn(f32, f32) -> f32| {
            let mut adding = Adding::new(Arc::default(), &own_deltas);
            for Deltas { indices, values } in &parts {
                let part = Part { indices: indices.clone(), values: to_bytes(values).into() };
                adding.add(&own_deltas, &part, len, add);
            }
            adding.finish(&own_deltas)
        };
        // The second addition tells which operand is which.
        for add in [|own, theirs| own + theirs, |own: f32, theirs: f32| own - 2.0 * theirs] {
            let mut expected = theirs.clone();
            for (index, delta) in &own {
                let both = |theirs: &mut Vec<f32>| {
                    theirs.iter_mut().zip(delta).for_each(|(theirs, own)| *theirs = add(*own, *theirs));
                };
                expected.entry(*index).and_modify(both).or_insert_with(|| delta.clone());
            }
            let (expected, sum) = (to_deltas(&expected), sum(add));
            prop_assert_eq!(&expected.indices, &sum.indices);
            prop_assert_eq!(to_bytes(&expected.values), to_bytes(&sum.values));
        }
    }
}

#[test]
fn after_the_last_round_comes_the_first() {
    let lens: Arc<[u32]> = Arc::from([1]);
    let mut nodes = [0, 1].map(|node| {
        let mut node = AllReduce::<f64>::new(NodeId(node), 2, Arc::clone(&lens));
        node.round = u32::MAX;
        node
    });
    let own = |value| Deltas { indices: vec![0], values: vec![value] };
    let part = |value: f64| Part { indices: vec![0], values: value.to_le_bytes().to_vec().into() };
    for round in [u32::MAX, 0, 1] {
        let mut out = Vec::new();
        nodes[1].start(own(2.0).into(), &mut out);
        // Node 0 has not received the message that completes the round before.
        if round != u32::MAX {
            assert_eq!(nodes[0].round(), round.wrapping_sub(1));
        }
        let to_0 = out.pop().map(|step| (step.round, Arc::unwrap_or_clone(step.deltas)));
        assert_eq!(to_0, Some((round, own(2.0))));
        nodes[0].receive(NodeId(1), round, 1, true, part(2.0)).unwrap();
        if round != u32::MAX {
            assert_eq!(nodes[0].advance(&mut out).as_deref(), Some(&own(3.0)));
            assert!(nodes[0].is_called());
        }
        nodes[0].start(own(1.0).into(), &mut out);
        nodes[1].receive(NodeId(0), round, 1, true, part(1.0)).unwrap();
        assert_eq!(nodes[1].advance(&mut out).as_deref(), Some(&own(3.0)));
    }
}

#[test]
#[should_panic(expected = "node 3 of 3")]
fn a_node_belongs_to_its_cluster() {
    let _ = AllReduce::<f32>::new(NodeId(3), 3, Arc::from([]));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "index 4 after Some(4)")]
fn updates_are_listed_by_ascending_index() {
    let mut deltas = Deltas::<f32>::new();
    deltas.push(4, &[1.0]);
    deltas.push(4, &[1.0]);
}

/// Each round's memory is used again, unless a message shares it; and no memory is kept twice.
#[test]
fn memory_is_used_again_when_it_is_not_shared() {
    let mut memory = Memory::<f32>::default();
    let mut deltas = memory.take();
    Arc::get_mut(&mut deltas).unwrap().push(3, &[1.0; 100]);
    let (address, message) = (deltas.values.as_ptr(), Arc::clone(&deltas));
    memory.put(Arc::clone(&deltas));
    memory.put(deltas);
    let other = memory.take();
    assert!(other.values.as_ptr() != address, "a message shares it");
    assert_eq!(message.values.len(), 100);
    drop(message);
    let again = memory.take();
    assert!(again.is_empty() && again.values.is_empty() && again.values.as_ptr() == address);
    (0..10).for_each(|_| memory.put(Arc::new(Deltas { indices: vec![0], values: vec![1.0] })));
    assert_eq!(memory.kept.len(), Memory::<f32>::KEPT_MAX);
}
