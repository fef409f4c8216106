//! Items between nodes that are threads: over the memory that processes share, and over other windows.

use intendant_lapser_process::{
    Declaration, Error, Get, Item, Lobby, MappedWindow, NodeId, Process, Variant, Want, Way, Window,
    in_process,
};
use intendant_onesided::{Event, WaitError, WindowError};
use intendant_segment::Segment;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

const NODES: u64 = 3;
/// Words of each item: a value has its key and its clock in all of them.
const WORDS: usize = 40;

/// The declaration of a node that produces every `NODES`th item and consumes all others, with this slack.
fn declared(rank: u64, keys: u64, slack: u64) -> Declaration {
    let item = |key| Item::new(key, WORDS);
    Declaration {
        produce: (0..keys).filter(|key| key % NODES == rank).map(item).collect(),
        consume: (0..keys).map(|key| Want { item: item(key), slack }).collect(),
        ..Declaration::default()
    }
}

/// Runs `run` on each node, each on a thread of its own. Returns the results by rank.
fn on_each<R: Send>(run: impl Fn(Lobby) -> R + Sync) -> Vec<R> {
    let lobbies = Lobby::local(NODES as usize).expect("few nodes");
    thread::scope(|scope| {
        let run = &run;
        let nodes: Vec<_> = lobbies.into_iter().map(|lobby| scope.spawn(move || run(lobby))).collect();
        nodes.into_iter().map(|node| node.join().expect("no panic")).collect()
    })
}

/// In each iteration, sets the node's own items and gets all items. Returns the greatest age of a value, in
/// iterations.
fn iterate<W: Window>(mut process: Process<W>, keys: u64, iterations: u64, slack: u64) -> Result<u64, Error> {
    let rank = u64::from(process.rank().0);
    let mut oldest = 0;
    for clock in 1..=iterations {
        let own: Vec<u64> = (0..keys).filter(|key| key % NODES == rank).collect();
        if clock % 2 == 0 {
            process.set_all(&own, clock, |at, value| value.extend([1_000 * own[at] + clock; WORDS]))?;
        } else {
            own.iter().try_for_each(|key| process.set(*key, clock, &[1_000 * key + clock; WORDS]))?;
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

/// A window that counts the looks of its node, and reports when the node goes to sleep. After each operation
/// the window is behind, and it accepts no other operation until it has caught up.
struct Watched {
    window: MappedWindow,
    /// Looks and waits that are left until the window is no longer behind.
    behind: usize,
    /// Looks while the window was not behind.
    looks: Arc<AtomicUsize>,
    /// Gets a message at each sleep.
    sleeps: mpsc::Sender<()>,
}

impl Watched {
    fn falls_behind(&mut self) {
        assert_eq!(self.behind, 0, "an earlier operation waits for a look");
        self.behind = 2;
    }

    /// Notes a look or a wait. Returns whether the window was behind.
    fn catches_up(&mut self) -> bool {
        let was = self.behind > 0;
        self.behind = self.behind.saturating_sub(1);
        was
    }
}

impl Window for Watched {
    fn local(&self) -> &Segment {
        self.window.local()
    }

    fn nodes(&self) -> usize {
        self.window.nodes()
    }

    fn rank(&self) -> usize {
        self.window.rank()
    }

    fn read(
        &mut self,
        from: usize,
        remote: usize,
        into: usize,
        words: usize,
        id: u64,
    ) -> Result<(), WindowError> {
        self.falls_behind();
        self.window.read(from, remote, into, words, id)
    }

    fn write(
        &mut self,
        to: usize,
        local: usize,
        remote: usize,
        words: usize,
        hint: Option<u32>,
        id: u64,
    ) -> Result<(), WindowError> {
        self.falls_behind();
        self.window.write(to, local, remote, words, hint, id)
    }

    fn poll(&mut self, out: &mut Vec<Event>) {
        if !self.catches_up() {
            self.looks.fetch_add(1, Ordering::Relaxed);
        }
        self.window.poll(out);
    }

    fn is_behind(&self) -> bool {
        self.behind > 0
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, WaitError> {
        if self.catches_up() {
            return Ok(true);
        }
        // The other end may have ended.
        let _ = self.sleeps.send(());
        self.window.wait(timeout)
    }
}

/// Runs `run` on each node, over watched windows.
fn on_each_watched(
    variant: Variant,
    declared: impl Fn(u64) -> Declaration + Sync,
    run: impl Fn(Process<Watched>, &AtomicUsize, &mpsc::Receiver<()>) -> Result<(), Error> + Sync,
) {
    let windows = in_process(NODES as usize, 1 << 17).expect("windows");
    // The messages of node 0 are for node 2.
    let (sleeps, told) = mpsc::channel();
    let (windows, sleeps, told) = (Mutex::new(windows), Mutex::new(Some(sleeps)), Mutex::new(told));
    let ended = on_each(|lobby| {
        let (rank, looks) = (lobby.rank().index(), Arc::new(AtomicUsize::new(0)));
        // Only node 0 has the sender: if it fails, node 2 does not keep waiting.
        let sleeps = if rank == 0 { sleeps.lock().expect("no panic").take() } else { None };
        let sleeps = sleeps.unwrap_or_else(|| mpsc::channel().0);
        let process = lobby.start_over(variant, declared(rank as u64), |_, _| {
            let mut windows = windows.lock().expect("no panic");
            let at = windows.iter().position(|window| window.rank() == rank).expect("one for each");
            let window = windows.swap_remove(at);
            Ok(Watched { window, behind: 0, looks: Arc::clone(&looks), sleeps })
        })?;
        let (_, nothing) = mpsc::channel();
        if rank == 2 {
            return run(process, &looks, &told.lock().expect("one node only"));
        }
        run(process, &looks, &nothing)
    });
    ended.into_iter().for_each(|ended| ended.expect("no failure"));
}

/// Two items of each node.
fn few(rank: u64) -> Declaration {
    declared(rank, 2 * NODES, 0)
}

const MANY: u64 = 600;

/// Many items of node 2, which node 0 consumes.
fn many(rank: u64) -> Declaration {
    let items = || (0..MANY).map(|key| Item::new(key, WORDS));
    match rank {
        0 => {
            let consume = items().map(|item| Want { item, slack: 0 }).collect();
            Declaration { consume, ..Declaration::default() }
        }
        2 => Declaration { produce: items().collect(), ..Declaration::default() },
        _ => Declaration::default(),
    }
}

fn set_many<W: Window>(process: &mut Process<W>, clock: u64) -> Result<(), Error> {
    let keys: Vec<u64> = (0..MANY).collect();
    process.set_all(&keys, clock, |at, value| value.extend([at as u64 + clock; WORDS]))
}

fn get_many<W: Window>(process: &mut Process<W>, clock: u64) -> Result<(), Error> {
    let wants: Vec<Get> = (0..MANY).map(|key| Get { key, clock, slack: 0 }).collect();
    process.get_all(&wants, |at, _, value| assert_eq!(value, [at as u64 + clock; WORDS]))
}

/// Node 2 sets many items once node 0, which has asked for all of them, sleeps.
#[test]
fn what_is_not_there_yet_is_not_read_item_by_item_and_is_hinted_once() {
    for variant in [Variant::Push, Variant::Pull] {
        on_each_watched(variant, many, |mut process, _, told| {
            match process.rank().0 {
                0 => {
                    get_many(&mut process, 1)?;
                    let stats = process.stats();
                    assert_eq!(stats.gets, MANY);
                    match variant {
                        Variant::Pull => assert!((MANY..2 * MANY).contains(&stats.reads), "{stats:?}"),
                        // Other nodes may have finished.
                        Variant::Push | Variant::PushBySlack => {
                            assert!((1..4).contains(&stats.hints), "{stats:?}");
                        }
                    }
                }
                2 => {
                    told.recv().expect("node 0 sleeps");
                    set_many(&mut process, 1)?;
                }
                _ => {}
            }
            process.finish()
        });
    }
}

/// Writes that have ended while a node computed do not delay its next sets: each batch gives one hint,
/// although the node waits for nothing between batches.
#[test]
fn batches_of_a_node_that_never_waits_are_hinted_once_each() {
    const BATCHES: u64 = 5;
    on_each_watched(Variant::Push, many, |mut process, _, _| {
        if process.rank().0 == 2 {
            (1..=BATCHES).try_for_each(|clock| set_many(&mut process, clock))?;
            assert_eq!(process.stats().sets_waited, 0, "each write has ended at once");
        }
        process.gather("set", &[])?;
        if process.rank().0 == 0 {
            process.progress()?;
            // Hints that came before a look count as one.
            assert_eq!(process.stats().hints, 1);
            get_many(&mut process, BATCHES)?;
        }
        process.finish()
    });
}

/// A get after a call with an error does not take an answer of that call for its own.
#[test]
fn answers_of_a_call_that_has_failed_are_not_those_of_the_next_one() {
    for variant in [Variant::Push, Variant::Pull] {
        on_each_watched(variant, few, |mut process, _, told| {
            let (rank, mut value) = (process.rank().0, [0; WORDS]);
            if rank == 0 {
                let want = |key| Get { key, clock: 1, slack: 0 };
                let refused = process.get_all(&[want(1), want(4), want(77)], |_, _, _| panic!("no value"));
                let text = refused.expect_err("no such item").to_string();
                assert!(text.contains("does not consume item 77"), "{text}");
            }
            process.gather("refused", &[])?;
            if rank == 1 {
                process.set(1, 1, &[11; WORDS])?;
                process.set(4, 1, &[44; WORDS])?;
            }
            process.gather("set", &[])?;
            if rank == 0 {
                assert_eq!((process.get(2, 1, 0, &mut value)?, value), (1, [22; WORDS]));
            } else if rank == 2 {
                // A sleeping node 0 has taken everything that came before.
                told.recv().expect("node 0 sleeps");
                process.set(2, 1, &[22; WORDS])?;
            }
            process.gather("got", &[])?;
            process.finish()
        });
    }
}

/// The work that a card does only when the node looks goes on while the node sets and gets without waiting.
#[test]
fn each_call_looks_at_the_window() {
    on_each_watched(Variant::Push, few, |mut process, looks, _| {
        let key = u64::from(process.rank().0);
        let mut last = looks.load(Ordering::Relaxed);
        let mut looked = |what: &str| {
            let before = std::mem::replace(&mut last, looks.load(Ordering::Relaxed));
            assert!(last > before, "{what}");
        };
        process.set(key, 1, &[1; WORDS])?;
        looked("a set");
        process.get(key, 1, 0, &mut [0; WORDS])?;
        looked("a get");
        process.progress()?;
        looked("progress");
        process.finish()
    });
}

#[test]
fn a_get_that_would_wait_for_its_own_node_is_refused() {
    let run = |lobby: Lobby| -> Result<(), Error> {
        let rank = u64::from(lobby.rank().0);
        let mut process = lobby.start(Variant::Pull, declared(rank, NODES, 0))?;
        process.set(rank, 3, &[7; WORDS])?;
        let mut value = [0; WORDS];
        let text = process.get(rank, 9, 4, &mut value).expect_err("it has set clock 3").to_string();
        assert!(
            text.contains(&format!("clock 5 of item {rank}")) && text.contains("up to clock 3"),
            "{text}"
        );
        assert_eq!((process.get(rank, 9, 6, &mut value)?, value), (3, [7; WORDS]));
        process.finish()
    };
    on_each(run).into_iter().for_each(|ended| ended.expect("no failure"));
}

/// If a node sets less often than another node gets, the other node does not wait forever.
#[test]
fn a_get_beyond_what_a_node_has_set_ends_when_that_node_finishes() {
    for variant in [Variant::Push, Variant::PushBySlack, Variant::Pull] {
        for slack in [0, 2] {
            let run = |lobby: Lobby| -> Result<(), Error> {
                let rank = u64::from(lobby.rank().0);
                let mut process = lobby.start(variant, declared(rank, NODES, slack))?;
                for clock in 1..=10 {
                    process.set(rank, clock, &[clock; WORDS])?;
                }
                if rank == 0 {
                    let mut value = [0; WORDS];
                    let text = process.get(1, 11, 0, &mut value).expect_err("10 is the last").to_string();
                    assert!(
                        text.contains("node 1, which produces item 1, has finished at clock 10"),
                        "{text}"
                    );
                    assert!(text.contains("needs clock 11"), "{text}");
                    assert_eq!((process.get(1, 11, 1, &mut value)?, value), (10, [10; WORDS]));
                }
                process.finish()
            };
            on_each(run).into_iter().for_each(|ended| ended.expect("no failure"));
        }
    }
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
        assert!(matches!(error, Error::Ways { .. }), "{error}");
        assert!(
            error.to_string().contains("node 1 is to reach the memory of others by verbs, node 2 by shm")
        );
        assert_eq!(error.exit_code(), 2);
    }
}

/// One node is configured to use RDMA, the others follow, and all nodes report why they cannot.
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
        // All nodes produce the same item.
        let declared = Declaration { produce: vec![Item::new(5, 1)], ..Declaration::default() };
        lobby.start(Variant::Push, declared).map(drop).expect_err("refused")
    });
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let named = |error: &Error| matches!(error, Error::Directory(_));
    assert!(errors.iter().any(named), "{texts:?}");
    assert!(texts.iter().all(|text| text.contains("both produce item 5")), "{texts:?}");
}

#[test]
fn nodes_that_cannot_be_numbered_are_refused() {
    for nodes in [0, (1 << 16) + 1] {
        let error = Lobby::local(nodes).map(drop).expect_err("refused");
        assert_eq!(error.to_string(), format!("{nodes} nodes in one process; there can be 1 to 65,536"));
        assert_eq!(error.exit_code(), 2);
    }
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
