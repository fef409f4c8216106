//! Answers about a generated run, compared with numbers that are computed event by event.

use crate::server::Server;
use crate::synthetic::{KEYS, NODES, State, Synthetic, write_large};
use intendant_core::{ChannelId, Key, NodeId, Tick};
use intendant_dashboard::Settings;
use intendant_trace::{Access, Event, Filter, Header, NamedRange, What, Writer};
use serde_json::Value;
use std::collections::BTreeSet;

const MOVING: u16 = 0xfff;
const UNKNOWN: u16 = 0xffe;

fn served(seed: u64) -> (Server, Synthetic, tempfile::TempDir) {
    let run = Synthetic::new(seed, 3000);
    let folder = tempfile::tempdir().unwrap();
    run.write(folder.path());
    let server = Server::start(Settings { traces: vec![folder.path().to_owned()], ..Settings::default() });
    (server, run, folder)
}

/// A picture: its head, and its cells row by row.
fn matrix(server: &Server, question: &str) -> (Value, Vec<Vec<u16>>) {
    let response = server.get(&format!("/api/runs/trace-1/matrix?{question}"));
    assert_eq!(response.status, 200, "{}", response.text());
    let len = u32::from_le_bytes(*response.body.first_chunk().unwrap()) as usize;
    let head: Value = serde_json::from_slice(&response.body[4..4 + len]).unwrap();
    let (cells, rest) = response.body[4 + len..].as_chunks::<2>();
    assert!(rest.is_empty());
    let cells: Vec<u16> = cells.iter().map(|cell| u16::from_le_bytes(*cell)).collect();
    let columns = head["columns"].as_u64().unwrap() as usize;
    (head, cells.chunks(columns).map(<[u16]>::to_vec).collect())
}

/// How long a remote access took.
fn wait(what: What) -> Option<u64> {
    if let What::Remote { after, .. } = what { Some(after) } else { None }
}

/// How long an access waited for a key on its way.
fn waited(what: What) -> Option<u64> {
    if let What::Waited { after, .. } = what { Some(after) } else { None }
}

fn sent(what: What) -> Option<u64> {
    if let What::Sent { bytes, .. } = what { Some(bytes) } else { None }
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
}

#[test]
fn a_replay_shows_the_owner_and_the_replicas_of_every_key_at_every_step() {
    let (server, run, _folder) = served(1);
    let (from, to) = run.span();
    let (head, rows) = matrix(&server, "rows=100&columns=97&mode=instant");
    assert_eq!((head["from_us"].as_u64(), head["to_us"].as_u64()), (Some(from), Some(to)));
    assert_eq!((head["total"].as_u64(), rows.len()), (Some(KEYS), KEYS as usize));
    for column in 0..97 {
        let at = from + (to - from) * column / 97;
        for (key, state) in run.states(at).iter().enumerate() {
            let cell = rows[key][column as usize];
            let expected = state.owner.unwrap_or(MOVING) | (state.replicas.len() as u16) << 12;
            assert_eq!(cell, expected, "key {key} at {at}: {state:?}");
        }
    }
}

#[test]
fn a_cell_over_time_shows_the_owner_of_most_of_its_time_and_the_most_replicas() {
    let (server, run, _folder) = served(2);
    let (from, to) = (run.span().0 + 500, run.span().0 + 500 + 40 * 50);
    let (_, rows) = matrix(&server, &format!("rows=100&columns=50&from={from}&to={to}"));
    for column in 0..50 {
        // 40 microseconds, one by one.
        let states: Vec<_> = (0..40).map(|us| run.states(from + column * 40 + us)).collect();
        for key in 0..KEYS as usize {
            let cell = rows[key][column as usize];
            let replicas = states.iter().map(|state| state[key].replicas.len() as u16).max().unwrap();
            assert_eq!(cell >> 12, replicas, "key {key}, column {column}");
            let time = |owner: Option<u16>| states.iter().filter(|state| state[key].owner == owner).count();
            let longest = (0..NODES).map(Some).chain([None]).map(time).max().unwrap();
            let shown = Some(cell & 0xfff).filter(|owner| *owner != MOVING);
            assert_eq!(time(shown), longest, "key {key}, column {column}");
        }
    }
}

#[test]
fn nothing_is_shown_after_the_end_of_a_run() {
    let (server, run, _folder) = served(3);
    let (from, to) = run.span();
    let end = to + (to - from);
    for mode in ["most", "instant"] {
        let (_, rows) = matrix(&server, &format!("rows=1&columns=100&from={from}&to={end}&mode={mode}"));
        assert!(rows[0][..49].iter().all(|cell| cell & 0xfff != UNKNOWN), "{mode}");
        assert!(rows[0][51..].iter().all(|cell| *cell == UNKNOWN), "{mode}");
    }
}

#[test]
fn the_focus_names_keys_and_rows_are_chosen_among_them() {
    let (server, run, _folder) = served(4);
    let keys = |question: &str| {
        let (head, rows) = matrix(&server, &format!("columns=1&{question}"));
        let keys: Vec<u64> = head["keys"]
            .as_array()
            .unwrap()
            .iter()
            .map(|key| key.as_str().unwrap().parse().unwrap())
            .collect();
        assert_eq!(keys.len(), rows.len());
        (keys, head["total"].as_u64().unwrap())
    };
    assert_eq!(
        keys("rows=100&keys=50..60,3,7..9,1000..2000"),
        ([3, 7, 8].into_iter().chain(50..60).collect(), 13)
    );
    assert_eq!(keys("rows=4"), (vec![0, 15, 30, 45], KEYS));
    assert_eq!(keys("rows=3&keys=10..16"), (vec![10, 12, 14], 6));
    let (sample, total) = keys("rows=100&keys=sample:1/4");
    assert!(total == sample.len() as u64 && (1..KEYS).contains(&total));
    let moves = |key: u64| {
        run.count(|_, event| {
            event.key.is_some_and(|k| k.0 == key) && matches!(event.what, What::Arrived { .. })
        })
    };
    let (moved, total) = keys("rows=5&choose=moved");
    let least = moved.iter().map(|key| moves(*key)).min().unwrap();
    let others = (0..KEYS).filter(|key| !moved.contains(key));
    assert!(total == KEYS && moved.len() == 5 && others.map(moves).max().unwrap() <= least);
}

#[test]
fn the_numbers_of_a_run_are_those_of_its_events() {
    let (server, run, _folder) = served(5);
    let overview = server.json("/api/runs/trace-1");
    let is = |name: &str, count: u64| assert_eq!(overview[name].as_u64(), Some(count), "{name}");
    is("events", run.events.len() as u64);
    is("relocations", run.count(|_, event| matches!(event.what, What::Arrived { .. })));
    is("replica_setups", run.count(|_, event| event.what == What::ReplicaSetUp));
    is("replica_drops", run.count(|_, event| event.what == What::ReplicaDropped));
    is("conflicts", run.count(|_, event| event.what == What::Conflict));
    is("sync_rounds", run.count(|_, event| matches!(event.what, What::Synced { .. })));
    let waits: Vec<u64> = run.events.iter().filter_map(|(_, event)| wait(event.what)).collect();
    assert_eq!(overview["remote"]["count"].as_u64(), Some(waits.len() as u64));
    assert_eq!(overview["remote"]["max_us"].as_u64(), waits.iter().max().copied());
    assert_eq!(overview["longest"][0]["after_us"].as_u64(), waits.iter().max().copied());
    let waits: Vec<u64> = run.events.iter().filter_map(|(_, event)| waited(event.what)).collect();
    assert_eq!(overview["waited"]["count"].as_u64(), Some(waits.len() as u64));
    assert_eq!(overview["waited"]["max_us"].as_u64(), waits.iter().max().copied());
    let mut links = vec![vec![0; NODES.into()]; NODES.into()];
    for (node, event) in &run.events {
        if let What::Sent { to, bytes } = event.what {
            links[usize::from(*node)][usize::from(to.0)] += bytes;
        }
    }
    is("bytes", links.iter().flatten().sum());
    assert_eq!(overview["links"].as_array().unwrap().iter().map(numbers).collect::<Vec<_>>(), links);
    assert_eq!(overview["marks"][0]["at_us"].as_u64(), Some(run.span().1));
    assert_eq!(overview["ranges"][1]["name"], "<script>alert(1)</script>");
}

#[test]
fn every_bin_of_a_series_counts_the_events_of_its_keys_and_time() {
    let (server, run, _folder) = served(6);
    for keys in ["10..30", "sample:1/3", "all", ""] {
        check_series(&server, &run, keys);
    }
}

fn check_series(server: &Server, run: &Synthetic, keys: &str) {
    let filter: Filter = if keys.is_empty() { Filter::All } else { keys.parse().unwrap() };
    let (from, to) = (run.span().0 + 1000, run.span().1 - 1000);
    let path = format!("/api/runs/trace-1/series?columns=20&keys={keys}&from={from}&to={to}");
    let series = server.json(&path);
    // Bin by bin. The last one includes the end.
    let sums = |of_all_keys: bool, number: fn(&What) -> Option<u64>| {
        let mut bins = vec![0; 20];
        for (_, event) in &run.events {
            let is_in_focus = of_all_keys || event.key.is_some_and(|key| filter.accepts(key));
            if let Some(number) = number(&event.what)
                && is_in_focus
                && (from..=to).contains(&event.at.0)
            {
                bins[((event.at.0 - from) * 20 / (to - from)).min(19) as usize] += number;
            }
        }
        bins
    };
    let check = |name: &str, number: fn(&What) -> Option<u64>| {
        let expected = sums(name == "bytes", number);
        assert_eq!(numbers(&series[name]), expected, "{name} of keys {keys}");
        assert!(expected.iter().filter(|number| **number > 0).count() > 3, "{name} {expected:?}");
    };
    check("remote", |what| wait(*what).map(|_| 1));
    check("remote_wait_us", |what| wait(*what));
    check("waited", |what| waited(*what).map(|_| 1));
    check("waited_us", |what| waited(*what));
    check("relocations", |what| matches!(what, What::Arrived { .. }).then_some(1));
    check("replica_setups", |what| (*what == What::ReplicaSetUp).then_some(1));
    check("conflicts", |what| (*what == What::Conflict).then_some(1));
    check("bytes", |what| sent(*what));
}

#[test]
fn affinity_is_the_share_of_time_at_each_node() {
    let (server, run, _folder) = served(7);
    let (from, to) = run.span();
    let table = server.json("/api/runs/trace-1/affinity?keys=5,41");
    assert_eq!(table["nodes"], NODES);
    for (row, key) in [(0, 5usize), (1, 41)] {
        let row = &table["rows"][row];
        assert_eq!(row["key"], key.to_string());
        // From event to event.
        let mut time = vec![0u64; usize::from(NODES) + 1];
        let mut next = run
            .events
            .iter()
            .filter(|(_, event)| event.key.is_some_and(|k| k.0 == key as u64))
            .map(|(_, event)| event.at.0);
        let mut borders: Vec<u64> = std::iter::once(from).chain(next.by_ref()).chain([to]).collect();
        borders.dedup();
        for border in borders.windows(2) {
            let owner = run.states(border[0])[key].owner.map_or(usize::from(NODES), usize::from);
            time[owner] += border[1] - border[0];
        }
        for node in 0..usize::from(NODES) {
            let share = row["share"][node].as_f64().unwrap();
            assert!(
                (share - time[node] as f64 / (to - from) as f64).abs() < 1e-9,
                "key {key} at node {node}"
            );
            let arrived = run.count(|at, event| {
                usize::from(at) == node
                    && event.key.is_some_and(|k| k.0 == key as u64)
                    && matches!(event.what, What::Arrived { .. })
            });
            assert_eq!(row["relocations"][node].as_u64(), Some(arrived));
        }
    }
}

#[test]
fn the_state_of_a_key_is_that_after_the_events_of_a_moment() {
    let (server, run, _folder) = served(8);
    let (from, to) = run.span();
    for step in 0..40 {
        let at = from + (to - from) * step / 40;
        let key = (step * 7 % KEYS) as usize;
        let state = server.json(&format!("/api/runs/trace-1/keys/{key}/state?at={at}"));
        let expected = &run.states(at)[key];
        assert_eq!(state["owner"].as_u64(), expected.owner.map(u64::from));
        assert_eq!(state["moving"], expected.owner.is_none());
        let set = |nodes: &BTreeSet<u16>| nodes.iter().copied().map(u64::from).collect::<Vec<_>>();
        assert_eq!(numbers(&state["replicas"]), set(&expected.replicas));
        assert_eq!(numbers(&state["intents"]), set(&expected.intents));
    }
}

#[test]
fn why_tells_all_events_of_a_key_page_by_page_and_counts_them_per_node() {
    let (server, run, _folder) = served(9);
    let (from, to) = (run.span().0 + 2000, run.span().1 - 2000);
    let own: Vec<_> = run
        .events
        .iter()
        .filter(|(_, event)| event.key.is_some_and(|key| key.0 == 33) && (from..=to).contains(&event.at.0))
        .collect();
    let page = |offset: usize| {
        server.json(&format!(
            "/api/runs/trace-1/keys/33?from={from}&to={to}&columns=400&offset={offset}&count=10"
        ))
    };
    assert!(own.len() > 20);
    for offset in (0..own.len()).step_by(10) {
        let view = page(offset);
        assert_eq!(view["decisions_total"].as_u64(), Some(own.len() as u64));
        for (decision, (node, event)) in view["decisions"].as_array().unwrap().iter().zip(&own[offset..]) {
            assert_eq!(decision["at_us"].as_u64(), Some(event.at.0));
            assert_eq!(decision["node"], *node);
            assert_eq!(decision["text"], event.what.to_string());
        }
    }
    let view = page(0);
    assert_eq!(view["range"], "<script>alert(1)</script>");
    let (mut remote, mut waiting, mut checked) = (0, 0, 0);
    for node in 0..NODES {
        let row = &view["rows"][usize::from(node)];
        let of_node = |number: fn(What) -> Option<u64>| -> Vec<u64> {
            own.iter().filter(|(at, _)| *at == node).filter_map(|(_, event)| number(event.what)).collect()
        };
        let (waits, waiteds) = (of_node(wait), of_node(waited));
        remote += waits.len() as u64;
        waiting += waiteds.len() as u64;
        assert_eq!(row["remote"].as_u64(), Some(waits.len() as u64));
        assert_eq!(row["remote_wait_us"].as_u64(), Some(waits.iter().sum()));
        assert_eq!(row["waited"].as_u64(), Some(waiteds.len() as u64));
        assert_eq!(row["waited_us"].as_u64(), Some(waiteds.iter().sum()));
        // The rounds while the node held a replica.
        let held = |at: u64| run.states(at)[33].replicas.contains(&node);
        let rounds = run.count(|at, event| {
            at == node
                && matches!(event.what, What::Synced { .. })
                && (from..=to).contains(&event.at.0)
                && held(event.at.0)
        });
        assert_eq!(row["rounds"].as_u64(), Some(rounds), "rounds of node {node}");
        let mut check = |kind: &str, is_so: &dyn Fn(&State) -> bool| {
            checked += check_spans(&run, (from, to), 1, &row[kind], is_so);
        };
        check("owner", &|state| state.owner == Some(node));
        check("replica", &|state| state.replicas.contains(&node));
        check("intent", &|state| state.intents.contains(&node));
    }
    assert!(checked > 20, "{checked}");
    // A column shows where the key was for most of its time.
    check_spans(&run, (from, to), (to - from) / 200, &view["moving"], &|state| state.owner.is_none());
    assert_eq!(numbers(&view["remote_bins"]).iter().sum::<u64>(), remote);
    assert_eq!(numbers(&view["waited_bins"]).iter().sum::<u64>(), waiting);
    // The longest waits of both kinds, with their causes.
    let mut longest: Vec<u64> =
        own.iter().filter_map(|(_, event)| wait(event.what).or(waited(event.what))).collect();
    longest.sort_unstable_by(|a, b| b.cmp(a));
    longest.truncate(10);
    let shown = view["waits"].as_array().unwrap();
    assert_eq!(shown.iter().map(|wait| wait["after_us"].as_u64().unwrap()).collect::<Vec<_>>(), longest);
    assert!(shown.iter().all(|wait| wait["cause"].as_str().is_some_and(|cause| !cause.is_empty())));
}

/// Checks that the spans cover the times in which the state of key 33 satisfies `is_so`: each span touches
/// such a time, and the middle of each such time of at least `least` microseconds is in a span.
fn check_spans(
    run: &Synthetic,
    (from, to): (u64, u64),
    least: u64,
    spans: &Value,
    is_so: &dyn Fn(&State) -> bool,
) -> usize {
    let spans: Vec<(u64, u64)> = spans
        .as_array()
        .unwrap()
        .iter()
        .map(|span| (span[0].as_u64().unwrap(), span[1].as_u64().unwrap()))
        .collect();
    let times: Vec<(u64, u64)> = run
        .history(33)
        .into_iter()
        .map(|(since, until, state)| (since.max(from), until.min(to), state))
        .filter(|(since, until, state)| since < until && is_so(state))
        .map(|(since, until, _)| (since, until))
        .collect();
    for (start, end) in &spans {
        assert!(times.iter().any(|(since, until)| since <= end && start <= until), "{start}..{end}");
    }
    let found = times.len();
    for (since, until) in times.into_iter().filter(|(since, until)| until - since >= least) {
        let middle = since + (until - since) / 2;
        assert!(spans.iter().any(|(start, end)| (start..=end).contains(&&middle)), "{since}..{until}");
    }
    found
}

#[test]
fn keys_that_are_none_are_refused_beside_those_that_are() {
    let (server, _, _folder) = served(12);
    let keys_of = |question: &str| -> Vec<String> {
        let table = server.json(&format!("/api/runs/trace-1/affinity?keys={question}"));
        table["rows"].as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap().to_owned()).collect()
    };
    // Ranges name those of their keys that the run has.
    assert_eq!(keys_of("0..3"), ["0", "1", "2"]);
    assert_eq!(keys_of("7,57..1000"), ["7", "57", "58", "59"]);
    let table = server.json("/api/runs/trace-1/affinity?keys=5,60..70,3..x");
    assert_eq!(table["refused"][0], serde_json::json!(["60..70", "no key of 60..70 is in this trace"]));
    assert!(table["refused"][1][1].as_str().unwrap().contains("\"3..x\" names no keys"), "{table}");
    assert_eq!(table["rows"][0]["key"], "5");
    let table = server.json("/api/runs/trace-1/affinity?keys=1,x,60,2");
    let keys: Vec<&str> =
        table["rows"].as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["1", "2"]);
    assert_eq!(table["refused"][0], serde_json::json!(["x", "\"x\" is no key; write a number"]));
    assert_eq!(table["refused"][1], serde_json::json!(["60", "key 60 is not in this trace"]));
}

#[test]
fn answers_are_as_large_as_pictures_however_many_events_there_are() {
    let sizes = |per_node: u64| {
        let folder = tempfile::tempdir().unwrap();
        write_large(folder.path(), 20_000, per_node);
        let server =
            Server::start(Settings { traces: vec![folder.path().to_owned()], ..Settings::default() });
        let size = |path: &str| {
            let response = server.get(&format!("/api/runs/trace-1{path}"));
            assert_eq!(response.status, 200, "{path}: {}", response.text());
            response.body.len()
        };
        [
            (size(""), 20_000),
            (size("/matrix?rows=100&columns=1200&choose=moved"), 250_000),
            (size("/matrix?rows=1024&columns=600&mode=instant"), 1_300_000),
            (size("/series?columns=200"), 20_000),
            (size("/series?columns=200&keys=10..20000"), 20_000),
            (size("/affinity?keys=0,1,2,3,4,5,6,7"), 10_000),
            (size("/keys/0?columns=1200"), 200_000),
        ]
    };
    // A hundred times as many events.
    for ((few, most), (many, _)) in sizes(2_000).into_iter().zip(sizes(200_000)) {
        assert!(few <= most && many <= most, "{few} and {many} bytes; at most {most} were expected");
    }
}

#[test]
fn long_names_in_a_header_do_not_make_answers_long() {
    let folder = tempfile::tempdir().unwrap();
    let run = Synthetic::new(13, 100);
    let long = "<script>".repeat(10_000);
    let header = Header {
        task: long.clone(),
        technique: long.clone(),
        filter: long.clone(),
        settings: vec![(long.clone(), long.clone()); 20],
        ranges: run
            .header
            .ranges
            .iter()
            .map(|range| NamedRange { name: long.clone(), ..range.clone() })
            .collect(),
        ..run.header.clone()
    };
    let path = folder.path().join("node-0.trace");
    let events: Vec<Event> =
        run.events.iter().filter(|(node, _)| *node == 0).map(|(_, event)| *event).collect();
    Writer::create(&path, &header).unwrap().write(&events, 0).unwrap();
    let server = Server::start(Settings { traces: vec![path], ..Settings::default() });
    for question in ["", "/affinity?keys=0,1,2,3,4,5,6,7,8,9", "/keys/1", "/keys/1/state?at=5"] {
        let response = server.get(&format!("/api/runs/trace-1{question}"));
        assert_eq!(response.status, 200, "{}", response.text());
        assert!(response.body.len() < 40_000, "{question}: {}", response.body.len());
    }
    let many = Header { settings: vec![Default::default(); 5000], ..run.header };
    let path = folder.path().join("node-1.trace");
    Writer::create(&path, &many).unwrap();
    let refused = server.upload(&[("node-0.trace", &std::fs::read(&path).unwrap())]);
    assert!(refused.error().contains("its header has 5000 settings; allowed are 4096"), "{}", refused.text());
}

#[test]
fn sums_of_numbers_as_large_as_can_be_hide_no_others() {
    let run = Synthetic::new(14, 3);
    let remote = |at: u64, after: u64| Event {
        at: Tick(at),
        channel: ChannelId(0),
        key: Some(Key(1)),
        what: What::Remote { access: Access::Pull, by: NodeId(1), after },
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node-0.trace");
    let events = [remote(0, u64::MAX), remote(50, u64::MAX), remote(75, 60), remote(100, 190)];
    Writer::create(&path, &run.header).unwrap().write(&events, 0).unwrap();
    let server = Server::start(Settings { traces: vec![path], ..Settings::default() });
    let series = server.json("/api/runs/trace-1/series?columns=4");
    assert_eq!(numbers(&series["remote_wait_us"]), [u64::MAX, 0, u64::MAX, 250]);
}

#[test]
fn questions_that_make_no_sense_are_refused_with_a_reason() {
    let (server, _, _folder) = served(10);
    for (path, status, reason) in [
        ("/api/runs/nothing", 404, "there is no such run"),
        ("/api/runs/trace-1/matrix?keys=a..b", 400, "names no keys"),
        ("/api/runs/trace-1/matrix?keys=sample:1/0", 400, "names no keys"),
        ("/api/runs/trace-1/matrix?columns=0", 400, "allowed are 1 to 4096"),
        ("/api/runs/trace-1/matrix?columns=5000&rows=1", 400, "allowed are 1 to 4096"),
        ("/api/runs/trace-1/matrix?columns=4096&rows=4096", 400, "ask for fewer"),
        ("/api/runs/trace-1/matrix?rows=99999999999999999999", 400, "rows"),
        ("/api/runs/trace-1/matrix?from=9&to=9", 400, "is empty"),
        ("/api/runs/trace-1/matrix?choose=best", 400, "choose"),
        ("/api/runs/trace-1/matrix?from=-1", 400, "from"),
        ("/api/runs/trace-1/keys/%3Cscript%3E", 400, "is no key"),
        ("/api/runs/trace-1/keys/60", 404, "is not in this trace"),
        ("/api/runs/trace-1/keys/18446744073709551615", 404, "is not in this trace"),
        ("/api/runs/trace-1/keys/1?count=100000", 400, "at most 1000"),
        ("/api/runs/trace-1/keys/1/state", 400, "what follows '?' in the address: missing field `at`"),
        ("/api/runs/trace-1/affinity", 400, "no keys are named; write some, such as ?keys=7,100..110"),
        ("/api/runs/trace-1/affinity?keys=,", 400, "no keys are named"),
        ("/api/compare/trace-1/nothing", 404, "there is no such run"),
        ("/api/live", 404, "--live"),
        ("/nothing", 404, "no such page"),
    ] {
        let response = server.get(path);
        assert_eq!(response.status, status, "{path}: {}", response.text());
        assert!(response.error().contains(reason), "{path}: {}", response.error());
    }
}

#[test]
fn runs_that_are_not_alike_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["one", "same", "few", "other"];
    let mut runs: Vec<Synthetic> = names.iter().map(|_| Synthetic::new(13, 300)).collect();
    runs[2].header.filter = "0..5".to_owned();
    runs[2].events.retain(|(_, event)| event.key.is_none_or(|key| key.0 < 5) && event.key.is_some());
    runs[3].header.task = "mf".to_owned();
    runs[3].header.ranges[0].keys += 7;
    for (name, run) in names.iter().zip(&runs) {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        run.write(&folder.path().join(name));
    }
    let traces = names.iter().map(|name| folder.path().join(name)).collect();
    let server = Server::start(Settings { traces, ..Settings::default() });
    let kinds = |b: u32| -> Vec<String> {
        let doubts = server.json(&format!("/api/compare/trace-1/trace-{b}"))["doubts"].clone();
        let doubts = doubts.as_array().unwrap();
        assert!(doubts.iter().all(|doubt| doubt["text"].as_str().is_some_and(|text| text.len() > 10)));
        doubts.iter().map(|doubt| doubt["kind"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(2), [""; 0]);
    assert_eq!(kinds(3), ["traced_keys", "epochs"]);
    assert_eq!(kinds(4), ["task", "keys"]);
}

#[test]
fn times_far_outside_a_run_are_no_trouble() {
    let (server, _, _folder) = served(11);
    for window in ["from=0&to=18446744073709551615", "from=18446744073709551614", "to=1", "from=0&to=1"] {
        for path in
            ["matrix?rows=5&columns=7&", "matrix?mode=instant&rows=5&columns=7&", "series?", "keys/3?"]
        {
            let response = server.get(&format!("/api/runs/trace-1/{path}{window}"));
            assert!([200, 400].contains(&response.status), "{path}{window}: {}", response.text());
        }
    }
    let state = server.get("/api/runs/trace-1/keys/3/state?at=18446744073709551615");
    assert_eq!(state.status, 200);
}
