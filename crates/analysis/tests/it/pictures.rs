//! Pictures are well-formed and escaped, and show owners, replicas and intents.

use crate::made::{Act, History, KEYS, header};
use intendant_analysis::palette::{COLOURS, look};
use intendant_analysis::svg::{self, Panel};
use intendant_analysis::{Allocation, Run, Window};
use intendant_trace::{Filter, Header, NamedRange};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A run in which key 0 moves, with the header changed.
fn allocation(change: impl Fn(Header) -> Header) -> Allocation {
    let acts = [
        (100, Act::Move { key: 0, to: 1 }),
        (10, Act::Move { key: 0, to: 1 }),
        (50, Act::Move { key: 0, to: 2 }),
        (10, Act::Move { key: 0, to: 2 }),
        (100, Act::Replica { key: 0, node: 0 }),
        (60, Act::Intent { key: 0, node: 0 }),
        (100, Act::Replica { key: 0, node: 0 }),
        (10, Act::Meet),
    ];
    let mut traces = History::of(&acts, 0).traces(&[0; 3], 0);
    for trace in &mut traces {
        trace.header = change(trace.header.clone());
    }
    Allocation::of(&Arc::new(Run::of_traces(traces).unwrap()), &Filter::All)
}

fn pictures(allocation: &Allocation, title: &str) -> [String; 3] {
    let keys: Vec<u64> = (0..KEYS).collect();
    let (from, to) = allocation.run().span_us();
    let window = Window::new(from, to, 700);
    let panel = Panel { title, allocation, keys: &keys, window };
    [svg::allocation(&[panel, panel]), svg::key(allocation, 0, window), svg::affinity(allocation, &keys)]
}

/// Returns the names of all elements. Checks that elements nest, and that no attribute or text contains a
/// character that could end it.
fn elements(svg: &str) -> BTreeSet<String> {
    let (mut open, mut names) = (Vec::new(), BTreeSet::new());
    let mut rest = svg;
    while let Some((text, after)) = rest.split_once('<') {
        assert!(!text.contains('>') && !text.contains('"') || open.is_empty(), "{text}");
        let (tag, after) = after.split_once('>').expect("a tag ends");
        rest = after;
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let name: String = tag.chars().take_while(|letter| letter.is_ascii_alphabetic()).collect();
        assert!(!name.is_empty(), "{tag}");
        if !tag.ends_with('/') {
            open.push(name.clone());
        }
        names.insert(name);
    }
    assert_eq!(open, [""; 0]);
    names
}

#[test]
fn pictures_have_only_shapes_and_texts_whatever_names_say() {
    let hostile = "</text><script>alert(1)</script>\" onload='x' & \u{0}\u{7}\u{ffff}";
    let allocation = allocation(|header| {
        let range = |keys| NamedRange { name: hostile.to_owned(), keys, len: 1 };
        Header { ranges: vec![range(KEYS - 2), range(2)], task: hostile.to_owned(), ..header }
    });
    let known = ["svg", "title", "rect", "path", "text", "defs", "pattern", "circle"].map(str::to_owned);
    for picture in pictures(&allocation, hostile) {
        let found = elements(&picture);
        assert!(found.is_subset(&known.clone().into()), "{found:?}");
        assert!(found.contains("path") && found.contains("text"));
        assert!(!picture.contains("<script") && !picture.contains('\u{0}') && !picture.contains('\u{7}'));
        assert!(picture.contains("&lt;") || picture.contains("&quot;"), "the name is there, escaped");
    }
}

#[test]
fn pictures_show_owners_replicas_and_intents() {
    let allocation = allocation(|header| header);
    let [over_time, key, affinity] = pictures(&allocation, "kge");
    for (node, colour) in COLOURS.iter().enumerate().take(3) {
        for picture in [&over_time, &key, &affinity] {
            assert!(picture.contains(colour), "node {node}");
        }
        assert!(over_time.contains(&format!(">node {node}<")) && key.contains(&format!(">node {node}<")));
    }
    assert!(over_time.contains("url(#replica)") && over_time.contains(r#"<pattern id="replica""#));
    assert!(key.contains("#444444") && key.contains("fill-opacity"));
    assert!(!affinity.contains("url("), "no pattern without use");
    assert!(over_time.contains(">word 0<") && over_time.contains(">context 1<"));
    // Ticks are at multiples of 50 us.
    assert!(over_time.contains(">150 us<") && !over_time.contains(">137 us<"), "{over_time}");
}

#[test]
fn forty_nodes_look_different() {
    let looks: BTreeSet<String> = (0..40).map(|node| format!("{:?}", look(node))).collect();
    assert_eq!(looks.len(), 40);
    let many = allocation(|header| Header { nodes: 40, ..header });
    let [over_time, key, _] = pictures(&many, "kge");
    for name in ["dots", "vertical", "horizontal", "grid"] {
        assert!(over_time.contains(&format!("url(#{name})")), "{name}");
    }
    assert!(key.contains(">node 39<"));
    assert_eq!(header(0).nodes, 3);
}
