//! Assignments of triples to nodes by relation, for all kinds of graphs and numbers of nodes.

use super::*;
use proptest::prelude::*;

/// A graph in which relation `r` has `counts[r]` triples, mixed.
fn graph(counts: &[usize]) -> Vec<Triple> {
    let relations = counts.iter().enumerate().flat_map(|(r, count)| std::iter::repeat_n(r as u32, *count));
    let relations: Vec<u32> = relations.collect();
    let order = intendant_core::random::Permutation::new(relations.len() as u64, 5);
    (0..relations.len() as u64)
        .map(|at| Triple { subject: at as u32, relation: relations[order.apply(at) as usize], object: 0 })
        .collect()
}

fn loads(clusters: &Clusters, nodes: u32) -> Vec<usize> {
    (0..nodes).map(|node| clusters.triples(node).len()).collect()
}

/// How many triples of each relation each node trains.
fn table(train: &[Triple], clusters: &Clusters, relations: usize, nodes: u32) -> Vec<Vec<usize>> {
    let mut table = vec![vec![0; relations]; nodes as usize];
    for node in 0..nodes {
        for number in clusters.triples(node) {
            table[node as usize][train[*number as usize].relation as usize] += 1;
        }
    }
    table
}

fn check(counts: &[usize], nodes: u32) {
    let train = graph(counts);
    let clusters = Clusters::by_relation(&train, counts.len(), nodes);
    assert_eq!(clusters, Clusters::by_relation(&train, counts.len(), nodes));

    // Every triple is at exactly one node, in order.
    let mut all: Vec<u32> = (0..nodes).flat_map(|node| clusters.triples(node).to_vec()).collect();
    assert!((0..nodes).all(|node| clusters.triples(node).is_sorted()));
    all.sort_unstable();
    assert!(all.into_iter().eq(0..train.len() as u32));

    // No node has more than twice the average, but a single triple cannot be split.
    let most = loads(&clusters, nodes).into_iter().max().unwrap();
    let bound = (2 * train.len()).div_ceil(nodes as usize).max(1);
    assert!(most <= bound, "{most} of {} triples at one of {nodes} nodes", train.len());

    let table = table(&train, &clusters, counts.len(), nodes);
    let mut split = 0;
    for (relation, count) in counts.iter().enumerate() {
        let of_nodes: Vec<usize> = table.iter().map(|row| row[relation]).collect();
        let used_at = of_nodes.iter().filter(|n| **n > 0).count();
        split += usize::from(used_at > 1);
        assert!(used_at <= 1 || count * nodes as usize > 2 * train.len(), "relation {relation} was split");
        let homes: Vec<u32> =
            (0..nodes).filter(|node| clusters.relations(*node).contains(&(relation as u32))).collect();
        if *count == 0 {
            assert_eq!(homes, [0; 0]);
        } else {
            let most = of_nodes.iter().max().unwrap();
            let first = of_nodes.iter().position(|n| n == most).unwrap();
            assert_eq!(homes, [first as u32], "at home where most of its triples are");
        }
    }
    assert!((0..nodes).all(|node| clusters.relations(node).is_sorted()));
    assert_eq!(clusters.split_relations(), split);
    if !train.is_empty() {
        let expected = most as f64 * f64::from(nodes) / train.len() as f64;
        assert!((clusters.imbalance() - expected).abs() < 1e-12);
    }
}

proptest! {
    #[test]
    fn triples_are_divided_and_relations_have_one_home(
        counts in prop::collection::vec(prop_oneof![0usize..4, 0usize..60, 0usize..600], 0..20),
        nodes in 1u32..20,
    ) {
        check(&counts, nodes);
    }
}

#[test]
fn one_node_has_everything_in_order() {
    let train = graph(&[3, 0, 5]);
    let clusters = Clusters::by_relation(&train, 3, 1);
    assert_eq!(clusters.triples(0), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(clusters.relations(0), [0, 2]);
    assert_eq!((clusters.split_relations(), clusters.imbalance()), (0, 1.0));
}

/// Largest first: 8 | 7 | 6, then 5 to 6, 4 to 7, 2 to 8.
#[test]
fn relations_go_to_the_node_with_the_fewest_triples() {
    let clusters = Clusters::by_relation(&graph(&[2, 8, 5, 7, 4, 6]), 6, 3);
    assert_eq!([0, 1, 2].map(|node| clusters.relations(node).to_vec()), [vec![0, 1], vec![3, 4], vec![2, 5]]);
    assert_eq!(loads(&clusters, 3), [10, 11, 11]);
}

/// With four nodes, the average is 250.
#[test]
fn a_relation_stays_whole_up_to_twice_the_average() {
    let whole = Clusters::by_relation(&graph(&[500, 200, 200, 100]), 4, 4);
    assert_eq!((whole.split_relations(), loads(&whole, 4)), (0, vec![500, 200, 200, 100]));
    assert_eq!(whole.imbalance(), 2.0);

    // Parts of 173, 173 and 174, of which two come to the same node.
    let split = Clusters::by_relation(&graph(&[520, 200, 200, 80]), 4, 4);
    assert_eq!((split.split_relations(), loads(&split, 4)), (1, vec![200, 200, 254, 346]));
    assert_eq!([0, 1, 2, 3].map(|node| split.relations(node).to_vec()), [vec![1], vec![2], vec![3], vec![0]]);
}
