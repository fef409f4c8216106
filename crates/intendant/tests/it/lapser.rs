//! Items between nodes that are threads: over the memory that processes share, and over other windows.

use intendant::lapser::{
    Declaration, Get, Item, LapserError, Lobby, Process, Variant, Want, Way, Window, in_process,
};
use intendant::{Error, NodeId};
use std::sync::Mutex;
use std::thread;

const NODES: u64 = 3;
/// Words of each item: a value has its key and its clock in all of them.
const WORDS: usize = 40;

/// Each node produces items of every `NODES`th key and consumes all others, with this slack.
fn declared(rank: u64, keys: u64, slack: u64) -> Declaration {
    let item = |key| Item::new(key, WORDS);
    Declaration {
        produce: (0..keys).filter(|key| key % NODES == rank).map(item).collect(),
        consume: (0..keys).map(|key| Want { item: item(key), slack }).collect(),
        ..Declaration::default()
    }
}

/// Runs something on each node, on threads of their own; what it returns, by rank.
fn on_each<R: Send>(run: impl Fn(Lobby) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let run = &run;
        let nodes: Vec<_> =
            Lobby::local(NODES as usize).into_iter().map(|lobby| scope.spawn(move || run(lobby))).collect();
        nodes.into_iter().map(|node| node.join().expect("no panic")).collect()
    })
}

/// In each of so many iterations, sets own items and gets all. Returns the oldest value, in iterations.
fn iterate<W: Window>(mut process: Process<W>, keys: u64, iterations: u64, slack: u64) -> Result<u64, Error> {
    let rank = u64::from(process.rank().0);
    let mut oldest = 0;
    for clock in 1..=iterations {
        for key in (0..keys).filter(|key| key % NODES == rank) {
            process.set(key, clock, &[1_000 * key + clock; WORDS])?;
        }
        let wants: Vec<Get> = (0..keys).map(|key| Get { key, clock, slack }).collect();
        process.prefetch(&wants)?;
        let mut came = vec![0; wants.len()];
        process.get_all(&wants, |at, found, value| {
            came[at] += 1;
            assert!(found + slack >= clock, "key {at}: clock {found} at {clock}");
            oldest = oldest.max(clock.saturating_sub(found));
            let expected = if found == 0 { 0 } else { 1_000 * at as u64 + found };
            assert_eq!(value, [expected; WORDS]);
        })?;
        assert!(came.iter().all(|times| *times == 1), "each once: {came:?}");
    }
    let mut value = [0; WORDS];
    let last = process.get(0, iterations, 0, &mut value)?;
    assert_eq!((last, value), (iterations, [iterations; WORDS]));
    let (stats, traffic) = (process.stats(), process.traffic());
    assert!(stats.gets > 0 && traffic.written_bytes + traffic.read_bytes > 0, "{stats:?}, {traffic:?}");
    process.finish()?;
    Ok(oldest)
}

#[test]
fn values_are_whole_and_new_enough_with_each_variant() {
    for variant in [Variant::Push, Variant::PushBySlack, Variant::Pull] {
        for slack in [0, 3] {
            let run = |lobby: Lobby| {
                let declared = declared(lobby.rank().0.into(), 10, slack);
                iterate(lobby.start(variant, declared)?, 10, 60, slack)
            };
            for oldest in on_each(run) {
                let oldest = oldest.unwrap_or_else(|error| panic!("{variant:?}, slack {slack}: {error}"));
                assert!(oldest <= slack, "{variant:?}, slack {slack}: {oldest}");
            }
        }
    }
}

#[test]
fn another_window_will_do() {
    let words = 1 << 12;
    let windows = Mutex::new(in_process(NODES as usize, words).expect("windows"));
    let oldest = on_each(|lobby| {
        let declared = declared(lobby.rank().0.into(), 10, 0);
        let process = lobby.start_over(Variant::Pull, declared, |lobby, directory| {
            assert!(directory.words(lobby.rank().index()).expect("a node") <= words);
            let mut windows = windows.lock().expect("no panic");
            let at = windows.iter().position(|window| window.rank() == lobby.rank().index());
            Ok(windows.swap_remove(at.expect("one for each")))
        })?;
        iterate(process, 10, 20, 0)
    });
    assert!(oldest.into_iter().all(|oldest| oldest.expect("no error") == 0));
}

#[test]
fn nodes_on_one_host_map_memory_unless_they_are_told_otherwise() {
    let start = |way: fn(u64) -> Way| {
        on_each(move |lobby| {
            let rank = u64::from(lobby.rank().0);
            iterate(lobby.start_by(way(rank), Variant::Push, declared(rank, 10, 0))?, 10, 20, 0)
        })
    };
    let ways: [fn(u64) -> Way; 2] = [|_| Way::Auto, |rank| if rank == 1 { Way::Shm } else { Way::Auto }];
    for way in ways {
        assert!(start(way).into_iter().all(|oldest| oldest.expect("no error") == 0));
    }
    let refused = |way| start(way).into_iter().map(|ended| ended.expect_err("refused"));
    for error in refused(|rank| [Way::Auto, Way::Verbs, Way::Shm][rank as usize]) {
        assert!(matches!(error, Error::Lapser(LapserError::Ways { .. })), "{error}");
        assert!(
            error.to_string().contains("node 1 is to reach the memory of others by verbs, node 2 by shm")
        );
        assert_eq!(error.exit_code(), 2);
    }
}

/// One node is told to use RDMA, the others follow, and all say why they cannot.
#[cfg(not(feature = "verbs"))]
#[test]
fn without_the_feature_all_nodes_say_why_there_is_no_rdma() {
    let errors = on_each(|lobby| {
        let way = if lobby.rank() == NodeId(2) { Way::Verbs } else { Way::Auto };
        let declared = declared(lobby.rank().0.into(), 3, 0);
        lobby.start_by(way, Variant::Push, declared).map(drop).expect_err("refused")
    });
    for (rank, error) in errors.into_iter().enumerate() {
        let said = format!("node {rank} cannot use RDMA: its program was built without the feature verbs");
        assert!(error.to_string().contains(&said), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}

#[test]
fn a_node_that_is_dropped_ends_the_gets_of_others_by_name() {
    for variant in [Variant::Push, Variant::Pull] {
        let errors = on_each(|lobby| {
            let rank = lobby.rank();
            let declared = declared(rank.0.into(), 3, 0);
            let mut process = lobby.start(variant, declared).expect("it starts");
            if rank == NodeId(1) {
                return None;
            }
            // No node sets it.
            Some(process.get(1, 1, 0, &mut [0; WORDS]).expect_err("node 1 is gone"))
        });
        for error in errors.into_iter().flatten() {
            let text = error.to_string();
            assert!(text.contains("node 1 "), "{variant:?}: {text}");
            assert!([1, 4].contains(&error.exit_code()), "{variant:?}: {text}");
        }
    }
}

#[test]
fn declarations_that_do_not_fit_end_all_nodes() {
    let errors = on_each(|lobby| {
        // All produce the same item.
        let declared = Declaration { produce: vec![Item::new(5, 1)], ..Declaration::default() };
        lobby.start(Variant::Push, declared).map(drop).expect_err("refused")
    });
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let named = |error: &Error| matches!(error, Error::Lapser(LapserError::Directory(_)));
    assert!(errors.iter().any(named), "{texts:?}");
    assert!(texts.iter().all(|text| text.contains("both produce item 5")), "{texts:?}");
}

#[test]
fn payloads_that_are_longer_than_messages_are_gathered() {
    let length = |rank: usize| rank * 9_000_000 + 1;
    let all = on_each(|lobby| {
        let rank = lobby.rank().index();
        let all = lobby.gather("long", &vec![rank as u8; length(rank)]).expect("no failure");
        lobby.leave().expect("in order");
        all
    });
    for all in all {
        for (rank, payload) in all.iter().enumerate() {
            assert_eq!(payload.len(), length(rank));
            assert!(payload.iter().all(|byte| *byte == rank as u8));
        }
    }
}

#[test]
fn mistakes_of_a_caller_are_named_and_change_nothing() {
    let run = |lobby: Lobby| -> Result<(), Error> {
        let rank = u64::from(lobby.rank().0);
        let mut process = lobby.start(Variant::Push, declared(rank, 3, 0))?;
        let said = |result: Result<(), Error>| result.expect_err("refused").to_string();
        assert!(said(process.set((rank + 1) % NODES, 1, &[0; WORDS])).contains("does not produce item"));
        assert!(said(process.set(rank, 1, &[0; 2])).contains("a value of 2 words"));
        assert!(said(process.get(7, 1, 0, &mut [0; 2]).map(drop)).contains("does not consume item 7"));
        assert!(said(process.get(rank, 0, 0, &mut [0; 2]).map(drop)).contains("a buffer of 2 words"));
        process.set(rank, 1, &[1; WORDS])?;
        assert!(said(process.set(rank, 1, &[2; WORDS])).contains("clocks of an item grow"));
        let mut value = [0; WORDS];
        for key in 0..NODES {
            assert_eq!((process.get(key, 1, 0, &mut value)?, value), (1, [1; WORDS]));
        }
        process.finish()
    };
    on_each(run).into_iter().for_each(|ended| ended.expect("no failure"));
}
