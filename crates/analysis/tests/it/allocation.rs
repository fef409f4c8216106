//! Allocations, compared with generated histories whose allocation is known.

use crate::made::{History, KEYS, NODES, acts};
use intendant_analysis::{Allocation, MOVING, Place, Stretch, Summary, Window};
use intendant_trace::Filter;
use proptest::prelude::*;
use std::sync::Arc;

fn allocation(history: &History) -> Allocation {
    Allocation::of(&Arc::new(history.run()), &Filter::All)
}

/// What each pixel shows.
fn cells(stretches: &[Stretch], pixels: u32) -> Vec<Option<i32>> {
    let mut cells = vec![None; pixels as usize];
    for stretch in stretches {
        for cell in &mut cells[stretch.from as usize..stretch.to as usize] {
            assert_eq!(cell.replace(stretch.value), None, "stretches do not overlap");
        }
    }
    cells
}

fn code(place: Place) -> i32 {
    place.owner().map_or(MOVING, i32::from)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn places_replicas_and_intents_are_those_of_the_history(acts in acts(80)) {
        let history = History::of(&acts, 0);
        let allocation = allocation(&history);
        prop_assert_eq!(allocation.inconsistencies().missing(), 0);
        prop_assert_eq!(allocation.inconsistencies().early_arrivals, 0);
        let keys: Vec<u64> = (0..KEYS).collect();
        for at in 0..history.end + 3 {
            let moment = allocation.moment(&keys, at);
            for key in 0..KEYS {
                let state = history.at(key, at);
                prop_assert_eq!(allocation.place_at(key, at), state.place, "key {} at {}", key, at);
                let replicas: Vec<u16> = state.replicas.iter().copied().collect();
                prop_assert_eq!(moment.replicas[key as usize] as usize, replicas.len());
                prop_assert_eq!(moment.owners[key as usize], code(state.place));
                prop_assert_eq!(allocation.replicas_at(key, at), replicas);
                let intents: Vec<u16> = state.intents.iter().copied().collect();
                prop_assert_eq!(allocation.intents_at(key, at), intents);
            }
        }
    }

    #[test]
    fn rows_show_what_holds_longest_and_the_most_replicas(
        acts in acts(60),
        from in 0..200u64,
        len in 1..700u64,
        pixels in 1..50u32,
    ) {
        let history = History::of(&acts, 0);
        let allocation = allocation(&history);
        let window = Window::new(from, from + len, pixels);
        let keys: Vec<u64> = (0..KEYS).collect();
        for row in allocation.rows(&keys, window) {
            let owners = cells(&row.owners, pixels);
            let replicas = cells(&row.replicas, pixels);
            let rows = allocation.node_rows(row.key, window);
            for pixel in 0..u64::from(pixels) {
                // In parts of microseconds: a microsecond has as many parts as there are pixels.
                let (start, end) = (pixel * len, (pixel + 1) * len);
                let mut most = 0;
                let mut shares = std::collections::BTreeMap::new();
                let mut seen = vec![[false; 3]; NODES.into()];
                for part in start..end {
                    let state = history.at(row.key, from + part / u64::from(pixels));
                    *shares.entry(code(state.place)).or_insert(0) += 1;
                    most = most.max(state.replicas.len() as i32);
                    for node in 0..NODES {
                        let seen = &mut seen[usize::from(node)];
                        seen[0] |= state.place.owner() == Some(node);
                        seen[1] |= state.replicas.contains(&node);
                        seen[2] |= state.intents.contains(&node);
                    }
                }
                let shown = owners[pixel as usize].unwrap();
                prop_assert_eq!(shares.get(&shown), shares.values().max(), "key {} pixel {}", row.key, pixel);
                let shown = replicas[pixel as usize].unwrap_or(0);
                prop_assert_eq!(shown, most, "key {} pixel {}", row.key, pixel);
                for (row, seen) in rows.iter().zip(seen) {
                    let shown = [&row.owner, &row.replica, &row.intent].map(|stretches| {
                        cells(stretches, pixels)[pixel as usize].is_some()
                    });
                    prop_assert_eq!(shown, seen, "node {} pixel {}", row.node, pixel);
                }
            }
        }
    }

    #[test]
    fn affinity_and_histories_add_up(acts in acts(80)) {
        let history = History::of(&acts, 0);
        let allocation = allocation(&history);
        let (start, end) = allocation.run().span_us();
        let keys: Vec<u64> = (0..KEYS).collect();
        for (key, affinity) in keys.iter().zip(allocation.affinity(&keys)) {
            let told = allocation.history(*key, usize::MAX);
            let mut moving = 0;
            for node in 0..NODES {
                let times = || (start..end).map(|at| history.at(*key, at));
                let owned = times().filter(|state| state.place == Place::At { node }).count() as f64;
                let held = times().filter(|state| state.replicas.contains(&node)).count() as f64;
                moving = times().filter(|state| state.place.owner().is_none()).count();
                let all = (end - start) as f64;
                if end > start {
                    prop_assert!((affinity.share[usize::from(node)] - owned / all).abs() < 1e-9);
                    prop_assert!((affinity.replica_share[usize::from(node)] - held / all).abs() < 1e-9);
                    prop_assert!((affinity.moving_share - moving as f64 / all).abs() < 1e-9);
                }
                let spans = |spans: &[intendant_analysis::Span]| -> u64 {
                    spans.iter().filter(|span| span.node == node).map(|span| span.to_us - span.from_us).sum()
                };
                prop_assert_eq!(spans(&told.ownership) as f64, owned);
                prop_assert_eq!(spans(&told.replicas) as f64, held);
                let intended = times().filter(|state| state.intents.contains(&node)).count() as u64;
                prop_assert_eq!(spans(&told.intents), intended);
            }
            let gaps: u64 = told.gaps.iter().map(|gap| gap.to_us - gap.from_us).sum();
            prop_assert_eq!(gaps, moving as u64);
            let arrivals = u64::from(affinity.relocations.iter().sum::<u32>());
            prop_assert_eq!(arrivals, u64::from(told.counts.relocations));
            prop_assert_eq!(told.decisions.len(), allocation.events_of(*key).count());
            prop_assert_eq!(told.omitted, 0);
        }
    }

    /// Some events are lost, and others are in another order: nothing panics, and lists keep to their limits.
    #[test]
    fn histories_with_gaps_are_tolerated(
        acts in acts(60),
        lost in proptest::collection::vec(any::<proptest::sample::Index>(), 0..20),
        swapped in proptest::collection::vec(any::<proptest::sample::Index>(), 0..20),
    ) {
        let mut history = History::of(&acts, 0);
        for index in lost {
            if !history.events.is_empty() {
                let at = index.index(history.events.len());
                history.events.remove(at);
            }
        }
        for index in swapped {
            if history.events.len() > 1 {
                let at = index.index(history.events.len() - 1);
                let (before, after) = (history.events[at].0, history.events[at + 1].0);
                (history.events[at].0, history.events[at + 1].0) = (after, before);
            }
        }
        let allocation = allocation(&history);
        let (start, end) = allocation.run().span_us();
        let keys: Vec<u64> = (0..KEYS + 2).collect();
        let window = Window::new(start, end, 40);
        prop_assert_eq!(allocation.rows(&keys, window).len(), keys.len());
        for key in &keys {
            let told = allocation.history(*key, 5);
            prop_assert!(told.ownership.len() <= 5 && told.decisions.len() <= 5);
            prop_assert_eq!(allocation.node_rows(*key, window).len(), usize::from(NODES));
        }
        prop_assert_eq!(allocation.affinity(&keys).len(), keys.len());
        prop_assert!(Summary::of(&allocation, 5).longest.len() <= 5);
    }
}
