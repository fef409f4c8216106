use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn orders() -> impl Strategy<Value = KeyOrder> {
    prop_oneof![Just(KeyOrder::Range), Just(KeyOrder::Hash), Just(KeyOrder::Random), Just(KeyOrder::Ring)]
}

#[test]
fn orders_are_known_by_name() {
    for order in [KeyOrder::Range, KeyOrder::Hash, KeyOrder::Random, KeyOrder::Ring] {
        assert_eq!(order.to_string().parse(), Ok(order));
    }
    let error = "Hash".parse::<KeyOrder>().unwrap_err().to_string();
    assert_eq!(error, "'Hash' is not an order of keys; use range, hash, random or ring");
}

fn layouts() -> impl Strategy<Value = Layout> {
    let ranges = proptest::collection::vec((1u64..500, 1usize..20), 1..12);
    (ranges, 1usize..9, 0u32..7, 1usize..5, orders(), any::<u64>()).prop_map(
        |(ranges, nodes, bits, channels, order, seed)| {
            let builder = ranges
                .iter()
                .enumerate()
                .fold(Layout::builder(), |b, (i, (keys, len))| b.range(&format!("r{i}"), *keys, *len));
            let shards = 1 << bits;
            builder
                .nodes(nodes)
                .shards(shards)
                .channels(channels.min(shards))
                .order(order)
                .seed(seed)
                .build()
                .expect("valid by construction")
        },
    )
}

proptest! {
    #[test]
    fn every_key_has_one_place(layout in layouts()) {
        let mut per_shard = vec![0; layout.shards()];
        let mut places = BTreeSet::new();
        for key in (0..layout.keys()).map(Key) {
            let (shard, position) = (layout.shard(key), layout.position(key));
            prop_assert_eq!(layout.key_at(shard, position), key);
            prop_assert!(position < layout.shard_keys(shard));
            prop_assert_eq!(layout.channel(key).index(), shard % layout.channels());
            prop_assert!(layout.home(key).index() < layout.nodes());
            prop_assert_eq!(layout.lens()[layout.class(key)], layout.len(key));
            let range = layout.ranges().iter().find(|r| r.keys.contains(&key.0)).expect("no gaps");
            prop_assert_eq!(range.len, layout.len(key));
            prop_assert!(layout.place(key) < layout.places());
            prop_assert!(places.insert((layout.channel(key), layout.place(key))), "{key:?} shares its place");
            per_shard[shard] += 1;
        }
        for (shard, keys) in per_shard.iter().enumerate() {
            prop_assert_eq!(layout.shard_keys(shard), *keys);
        }
    }

    #[test]
    fn remembered_homes_are_the_homes(layout in layouts()) {
        let forgetful = Layout { homes: None, ..layout.clone() };
        for key in (0..layout.keys()).map(Key) {
            prop_assert_eq!(layout.home(key), forgetful.home(key));
        }
    }

    #[test]
    fn homes_by_range_are_balanced(keys in 1u64..5000, nodes in 1usize..10, random: bool, seed: u64) {
        let order = if random { KeyOrder::Random } else { KeyOrder::Range };
        let layout = Layout::builder().range("k", keys, 1).nodes(nodes).order(order).seed(seed);
        let layout = layout.build().unwrap();
        let mut per_node = vec![0u64; nodes];
        for key in 0..keys {
            per_node[layout.home(Key(key)).index()] += 1;
        }
        let (low, high) = (per_node.iter().min().unwrap(), per_node.iter().max().unwrap());
        prop_assert!(high - low <= 1, "{:?}", per_node);
    }
}

#[test]
fn a_node_uses_all_of_its_latches() {
    for order in [KeyOrder::Range, KeyOrder::Hash, KeyOrder::Random, KeyOrder::Ring] {
        let layout = Layout::builder()
            .range("k", 100_000, 4)
            .nodes(4)
            .shards(64)
            .channels(4)
            .order(order)
            .build()
            .unwrap();
        for node in 0..4 {
            let mut used = [false; 64];
            for key in (0..layout.keys()).map(Key).filter(|k| layout.home(*k) == NodeId(node)) {
                used[layout.shard(key)] = true;
            }
            assert!(used.iter().all(|u| *u), "{order:?}: node {node} leaves latches unused");
        }
    }
}

#[test]
fn what_cannot_work_is_refused_by_name() {
    let refused = |b: LayoutBuilder| b.build().unwrap_err().to_string();
    assert_eq!(refused(Layout::builder()), "a layout needs at least one key range");
    assert!(refused(Layout::builder().range("a", 0, 1)).contains("'a' is empty"));
    assert!(refused(Layout::builder().range("a", 1, 0)).contains("have 0 elements"));
    assert!(refused(Layout::builder().range("a", 1, 1 << 20)).contains("allowed are 1 to 524288"));
    assert!(refused(Layout::builder().range("a", u64::MAX, 1)).contains("beyond the largest key"));
    assert!(refused(Layout::builder().range("a", 1, 1).nodes(0)).contains("number of nodes is 0"));
    assert!(refused(Layout::builder().range("a", 1, 1).shards(3)).contains("power of two"));
    assert!(
        refused(Layout::builder().range("a", 1, 1).shards(2).channels(3)).contains("number of channels is 3")
    );
}

#[test]
fn accumulators_are_as_many_as_parameters() {
    let layout = |len| Layout::builder().range("a", 10, len).combine(Combine::AdaGrad);
    assert_eq!(layout(6).build().unwrap().combine(), Combine::AdaGrad);
    let error = layout(5).build().unwrap_err().to_string();
    assert!(error.contains("'a' have 5 elements") && error.contains("even number"), "{error}");
    let four = layout(6).build().unwrap().redistribute(4, 1, 64, KeyOrder::Hash, 3).unwrap();
    assert_eq!(four.combine(), Combine::AdaGrad);
}

/// A rule that adds. Its fields are the numbers of elements of its state and of an operand.
#[derive(Debug)]
struct Counted(usize, usize);

impl Rule for Counted {
    fn id(&self) -> String {
        format!("counted({},{})", self.0, self.1)
    }

    fn state_len(&self, _visible: usize) -> usize {
        self.0
    }

    fn operand_len(&self, _visible: usize) -> usize {
        self.1
    }

    fn apply<E: crate::Element>(&self, visible: &mut [E], _state: &mut [E], operand: &[E]) {
        visible[0] += operand[0];
    }
}

#[test]
fn ranges_with_rules_have_three_lengths() {
    let layout = Layout::builder().range("plain", 4, 2).range_with_rule("ruled", 4, 3, Counted(5, 7));
    let layout = layout.build().unwrap();
    let lens = |key| (layout.visible(Key(key)), layout.operand(Key(key)), layout.len(Key(key)));
    assert_eq!((lens(3), lens(4)), ((2, 2, 2), (3, 7, 15)));
    assert_eq!((layout.uniform(), layout.has_rules(), layout.has_clock_rules()), (None, true, false));
    assert_eq!((layout.rule(Key(3)), layout.rule(Key(4)).map(SharedRule::id)), (None, Some("counted(5,7)")));
    let four = layout.redistribute(4, 1, 64, KeyOrder::Hash, 3).unwrap();
    assert_eq!((four.len(Key(4)), four.rule(Key(4))), (15, layout.rule(Key(4))));
    // All rows have one length, but with a rule there is no uniform one.
    let alone = Layout::builder().range_with_rule("ruled", 4, 3, Counted(0, 1)).build().unwrap();
    assert_eq!((alone.uniform(), alone.visible(Key(0)), alone.len(Key(0))), (None, 3, 4));
}

#[test]
fn impossible_rules_are_refused_by_name() {
    let refused =
        |len, rule| Layout::builder().range_with_rule("a", 1, len, rule).build().unwrap_err().to_string();
    let error = refused(2, Counted(1, 0));
    assert!(error.contains("rule counted(1,0)") && error.contains("operands of 0"), "{error}");
    assert!(refused(2, Counted(1 << 20, 1)).contains("rows of 1048579"));
    assert!(refused(2, Counted(usize::MAX, 1)).contains("at most 524288"));
    assert!(refused(usize::MAX, Counted(1, 1)).contains("allowed are 1 to 524288"));
    let both = Layout::builder().range_with_rule("a", 1, 2, Counted(1, 1)).combine(Combine::AdaGrad);
    let error = both.build().unwrap_err().to_string();
    assert!(error.contains("has rule counted(1,1)") && error.contains("by adagrad"), "{error}");
}

#[test]
fn digests_differ_by_every_part() {
    let base = || Layout::builder().range("a", 10, 2).nodes(2);
    let digest = |b: LayoutBuilder| b.build().unwrap().digest();
    let others = [
        base().nodes(3),
        base().channels(2),
        base().shards(16),
        base().order(KeyOrder::Hash),
        base().seed(1),
        base().combine(Combine::AdaGrad),
        base().range("b", 1, 1),
        Layout::builder().range("a", 10, 3).nodes(2),
        Layout::builder().range("b", 10, 2).nodes(2),
        Layout::builder().range_with_rule("a", 10, 1, Counted(0, 1)).nodes(2),
        // Rows of the same length, which the rules divide differently.
        Layout::builder().range_with_rule("a", 10, 1, Counted(1, 2)).nodes(2),
        Layout::builder().range_with_rule("a", 10, 1, Counted(2, 1)).nodes(2),
        Layout::builder().range("a", 10, 4).nodes(2),
    ];
    for other in others {
        assert_ne!(digest(base()), digest(other));
    }
    assert_eq!(digest(base()), digest(base()));
}

#[test]
fn a_rule_is_for_values_of_the_range_s_length() {
    #[derive(Debug)]
    struct Sum;
    impl crate::Rule for Sum {
        fn id(&self) -> String {
            "sum".into()
        }
        fn state_len(&self, _visible: usize) -> usize {
            0
        }
        fn apply<E: crate::Element>(&self, visible: &mut [E], _state: &mut [E], operand: &[E]) {
            visible.iter_mut().zip(operand).for_each(|(value, more)| *value += *more);
        }
    }
    let rule = SharedRule::new(Sum, 3);
    let of = |len| Layout::builder().range_by("k", 5, len, Some(rule.clone())).build();
    assert_eq!(of(3).map(|layout| (layout.len(Key(0)), layout.visible(Key(0)))), Ok((6, 3)));
    let error = of(4).unwrap_err().to_string();
    assert_eq!(error, "key range 'k' has values of 4 elements, and its rule sum is for 3");
}

#[test]
fn on_a_ring_only_the_keys_of_a_node_that_comes_or_goes_move() {
    let over = |names: &[u64]| {
        Layout::builder().range("k", 20_000, 1).order(KeyOrder::Ring).seed(5).names(names).build().unwrap()
    };
    let homes = |layout: &Layout| -> Vec<u64> {
        (0..layout.keys()).map(|key| layout.names()[layout.home(Key(key)).index()]).collect()
    };
    let four = over(&[0, 1, 2, 3]);
    let before = homes(&four);
    for name in 0..4 {
        let share = before.iter().filter(|home| **home == name).count();
        assert!((4_000..6_000).contains(&share), "{share} keys of node {name}");
    }
    // Node 1 leaves: its keys are divided among the others.
    let after = homes(&four.over(&[0, 2, 3]).unwrap());
    let moved = || before.iter().zip(&after).filter(|(before, after)| before != after);
    assert!(moved().all(|(before, _)| *before == 1) && moved().count() > 4_000);
    for name in [0, 2, 3] {
        assert!(moved().filter(|(_, after)| **after == name).count() > 1_000);
    }
    // A fifth node joins: it takes keys from all others.
    let after = homes(&four.over(&[0, 1, 2, 3, 7]).unwrap());
    assert!(before.iter().zip(&after).all(|(before, after)| before == after || *after == 7));
    assert!((3_000..5_000).contains(&after.iter().filter(|home| **home == 7).count()));
    assert_ne!(four.digest(), over(&[0, 1, 2, 7]).digest());
}
