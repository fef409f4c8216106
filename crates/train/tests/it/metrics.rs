//! The numbers of running nodes, over HTTP.

use crate::command_line::{Folder, end, ranks, regression, succeeded};
use intendant::Token;
use intendant_apptest::{finish, start, unused_ports};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The page, which is a part of the interface.
const PAGE: &str = include_str!("../../../../docs/metrics.md");
const DASHBOARD: &str = include_str!("../../../../docs/grafana/intendant.json");

/// A run that goes on until it is ended.
const ENDLESS: &str = "--epochs 100000 --examples 2000 --features 100";

/// Sends a request; status and body.
fn ask(port: u16, head: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a server");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    // Servers may reset connections of requests that they refuse.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).expect("UTF-8");
    let status = answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, body.to_owned())
}

fn get(port: u16, path: &str) -> String {
    let (status, body) =
        ask(port, &format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n"));
    assert_eq!(status, 200, "{body}");
    body
}

/// A run under way. It ends when this is dropped.
struct Running {
    child: Child,
    /// The port of node 0.
    port: u16,
}

impl Running {
    /// Starts a run that says where its metrics are.
    fn start(command: Command) -> Self {
        Self::start_where(command, |line| line.strip_prefix("metrics of node 0: http://127.0.0.1:"))
    }

    /// Starts a run that says where its metrics are, in a line of which `port` has the end.
    fn start_where(mut command: Command, port: fn(&str) -> Option<&str>) -> Self {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the example, built by cargo test");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let port = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| port(&line)?.strip_suffix("/metrics")?.parse().ok());
        // What it says later must not fill the pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self { child, port: port.expect("it says where") }
    }

    /// Asks node 0 until an answer is as wanted.
    fn live(&self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        live(self.port, is_wanted)
    }
}

/// Asks a node whose cluster may change until an answer is as wanted. While the cluster changes, there is
/// nothing to tell.
pub(crate) fn live_again(port: u16, is_wanted: impl Fn(&Value) -> bool) -> Value {
    loop {
        let (status, body) = ask(port, "GET /live HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n");
        assert!([200, 503].contains(&status), "{status}: {body}");
        if status == 200 {
            let live = serde_json::from_str(&body).expect("JSON");
            if is_wanted(&live) {
                return live;
            }
        }
    }
}

fn live(port: u16, is_wanted: impl Fn(&Value) -> bool) -> Value {
    loop {
        let live = serde_json::from_str(&get(port, "/live")).expect("JSON");
        if is_wanted(&live) {
            return live;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::TERM,
        );
        let _ = self.child.wait();
    }
}

/// Names and types of the table on the page.
fn documented() -> BTreeMap<&'static str, &'static str> {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows = rows.filter_map(|row| {
        let mut cells = row.split(" | ");
        let name = cells.next()?.strip_suffix('`')?;
        let kind = cells.next().filter(|kind| ["counter", "gauge", "histogram"].contains(kind))?;
        let unit = cells.next().expect("a cell");
        for (ending, expected) in [("_seconds", "seconds"), ("_bytes", "bytes")] {
            let has_it = name.trim_end_matches("_total").ends_with(ending);
            assert_eq!(has_it, unit.trim() == expected, "{name} is in {unit}");
        }
        Some((name, kind))
    });
    rows.collect()
}

/// Names and types that an endpoint serves.
fn served(text: &str) -> BTreeMap<String, String> {
    let mut described = BTreeSet::new();
    let mut served = BTreeMap::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            described.insert(help.split(' ').next().expect("a name").to_owned());
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a name and a type");
            assert!(described.contains(name), "{name} has no help");
            assert!(served.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} is there twice");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            value.parse::<f64>().expect("a number");
            let (name, labels) = series.split_once('{').expect("labels");
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|ending| name.strip_suffix(ending));
            assert!(
                served.contains_key(name)
                    || family.is_some_and(|name| served.get(name).is_some_and(|kind| kind == "histogram")),
                "{name} has no type"
            );
            assert!(labels.starts_with("node=\"0\""), "{line}");
        }
    }
    served
}

#[test]
fn the_page_and_the_endpoint_have_the_same_metrics() {
    let folder = Folder::new();
    let flags = format!("{ENDLESS} --nodes 2 --metrics 0 --checkpoint-seconds 0.1 --grace-seconds 0");
    let mut command = regression(&flags);
    command.arg("--checkpoint").arg(folder.path("checkpoints"));
    let run = Running::start(command);
    run.live(|live| live["metrics"]["intendant_checkpoint_number"].is_number());
    let served = served(&get(run.port, "/metrics"));
    let served: BTreeMap<&str, &str> =
        served.iter().map(|(name, kind)| (name.as_str(), kind.as_str())).collect();
    assert_eq!(served, documented());
}

#[test]
fn the_dashboard_queries_metrics_that_exist() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("queries of a panel"));
    let annotations = dashboard["annotations"]["list"].as_array().expect("annotations");
    let queries = targets.chain(annotations).map(|target| target["expr"].as_str().expect("a query"));
    let queries: Vec<&str> = queries.collect();
    assert!(queries.len() >= 10 && !annotations.is_empty(), "{queries:?}");
    let documented = documented();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for query in queries {
        let words = query
            .split(|c| !is_word(c))
            .filter(|word| ["intendant_", "process_", "up"].iter().any(|start| word.starts_with(start)));
        let words: Vec<&str> = words.collect();
        assert!(!words.is_empty(), "{query}");
        // All targets of a Prometheus have the metrics of processes: those that are nodes are asked for.
        let is_of_all = words.iter().any(|word| !word.starts_with("intendant_"));
        assert!(!is_of_all || query.ends_with(" and on (job, instance) intendant_info"), "{query}");
        for word in words {
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|ending| word.strip_suffix(ending));
            let is_histogram = family.is_some_and(|name| documented.get(name) == Some(&"histogram"));
            assert!(documented.contains_key(word) || is_histogram, "{query}: there is no {word}");
        }
        // Each metric is restricted to the chosen jobs; what only selects among them need not be.
        for (at, _) in query.match_indices('{') {
            assert!(query[at..].starts_with("{job=~\"$job\"}"), "{query}");
        }
        assert!(query.contains("{job=~\"$job\"}"), "{query}");
    }
    // Without a value of its own, "All" is the jobs of nodes, not those of all targets.
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    let job = variables.iter().find(|variable| variable["name"] == "job").expect("a choice of jobs");
    assert!(
        job["query"]["query"] == "label_values(intendant_info, job)" && job["allValue"].is_null(),
        "{job}"
    );
}

#[test]
fn checkpoints_are_marked_at_their_times() {
    // `changes()` misses the first of a run, with which the series begins, and those between two samples of a
    // narrow window.
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let marks = &dashboard["annotations"]["list"][0];
    let query = marks["expr"].as_str().expect("a query");
    assert!(
        query.contains("intendant_checkpoint_timestamp_seconds") && query.ends_with(" * 1000"),
        "{query}"
    );
    assert!(!query.contains("changes("), "{query}");
    assert_eq!(marks["useValueForTime"], true);
    // The window has room for several steps, or a checkpoint between two of them is missed.
    assert!(query.contains("[1m]") && marks["step"] == "15s", "{marks}");
}

#[test]
fn every_node_knows_where_the_others_are_and_counters_rise() {
    let port = unused_ports(2);
    let run =
        Running::start(regression(&format!("{ENDLESS} --nodes 2 --technique classic --metrics {port}")));
    assert_eq!(run.port, port);
    let places = [format!("127.0.0.1:{port}"), format!("127.0.0.1:{}", port + 1)];
    for (node, port) in [port, port + 1].into_iter().enumerate() {
        let first = live(port, |live| live["peers"][0].is_string() && live["marks"][1].is_object());
        assert_eq!(first["schema"], "intendant.live/1");
        assert_eq!((&first["node"], &first["nodes"]), (&node.into(), &2.into()));
        assert_eq!((&first["task"], &first["technique"]), (&"regression".into(), &"classic".into()));
        assert_eq!(first["peers"], serde_json::json!(places));
        assert_eq!((&first["marks"][0]["kind"], &first["marks"][0]["number"]), (&"epoch".into(), &1.into()));
        let examples = |live: &Value| live["metrics"]["intendant_examples_total"].as_f64();
        let later = live(port, |live| examples(live) > examples(&first).map(|before| before + 10_000.0));
        let (first, later) = (first["metrics"].as_object(), later["metrics"].as_object());
        let (first, later) = (first.expect("an object"), later.expect("an object"));
        for (name, value) in first.iter().filter(|(name, _)| name.contains("_total")) {
            let (before, after) = (value.as_f64(), later.get(name).and_then(Value::as_f64));
            assert!(before <= after, "{name} fell from {before:?} to {after:?}");
        }
        for name in ["intendant_remote_accesses_total", "intendant_sent_bytes_total"] {
            assert!(first[name].as_f64() < later[name].as_f64(), "{name}");
        }
    }
}

#[test]
fn requests_are_answered_only_to_programs_of_this_machine() {
    let run = Running::start(regression(&format!("{ENDLESS} --technique single --metrics localhost:0")));
    let status = |head: &str| ask(run.port, head).0;
    assert_eq!(status("GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"), 403);
    assert_eq!(status("GET /metrics HTTP/1.0\r\n\r\n"), 403);
    assert_eq!(status("POST /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), 405);
    assert_eq!(status("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), 404);
    assert_eq!(status("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), 200);
}

#[test]
fn other_machines_need_the_token_of_readers() {
    let token = "5c".repeat(16);
    let of_readers = Token::from_hex(&token).expect("a token").of_readers().to_hex();
    let mut command = regression(&format!("{ENDLESS} --nodes 2 --metrics 0.0.0.0:0 -v"));
    command.env("INTENDANT_TOKEN", &token).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the example, built by cargo test");
    let mut said = String::new();
    let mut ports = Vec::new();
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    while ports.len() < 2 {
        let line = lines.next().expect("it goes on").expect("UTF-8");
        if let Some((_, port)) = line.split_once("metrics: http://0.0.0.0:") {
            ports.push(port.trim_end_matches("/metrics").parse::<u16>().expect("a port"));
        }
        said.push_str(&line);
    }
    let said = std::thread::spawn(move || lines.map_while(Result::ok).fold(said, |said, line| said + &line));
    for port in ports {
        let status = |headers: &str| {
            ask(port, &format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{headers}Connection: close\r\n\r\n"))
        };
        assert_eq!(status("").0, 401);
        assert_eq!(status(&format!("Authorization: Bearer {}\r\n", "5d".repeat(16))).0, 401);
        // It admits nodes, and so must not be what travels unencrypted.
        assert_eq!(status(&format!("Authorization: Bearer {token}\r\n")).0, 401);
        let text = loop {
            match status(&format!("Authorization: Bearer {of_readers}\r\n")) {
                (200, text) => break text,
                // It does not train yet.
                (code, text) => assert_eq!(code, 503, "{text}"),
            }
        };
        assert!(!text.contains(&token) && !text.contains(&of_readers));
    }
    let _ = rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::TERM,
    );
    let _ = child.wait();
    let said = said.join().expect("no panic");
    assert!(!said.contains(&token) && !said.contains(&of_readers), "tokens are secrets");
}

#[test]
fn a_node_that_waits_for_others_says_that_there_are_no_numbers_yet() {
    let command = ranks(&["--metrics 0 -v"; 2]).swap_remove(0);
    let run =
        Running::start_where(command, |line| line.split_once("metrics: http://127.0.0.1:").map(|it| it.1));
    for path in ["/metrics", "/live"] {
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert_eq!(ask(run.port, &head), (503, "there are no values yet: ask again later\n".to_owned()));
    }
}

#[test]
fn addresses_that_cannot_be_served_end_a_run_before_it_begins() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("bound").to_string();
    let folder = Folder::new();
    let report = folder.path("r.json");
    for (flags, message) in [
        (format!("--technique single --metrics {taken}"), format!("cannot listen at {taken}: Address")),
        ("--nodes 2 --metrics 65535".to_owned(), "there is no such port".to_owned()),
        ("--metrics nowhere.invalid:80".to_owned(), "--metrics nowhere.invalid:80: ".to_owned()),
        ("--metrics 80:".to_owned(), "write PORT or HOST:PORT".to_owned()),
        ("--metrics 0 --simulate".to_owned(), "cannot be used with".to_owned()),
        ("--metrics 0.0.0.0:0".to_owned(), "there is no token from which that of readers is made".to_owned()),
        ("--nodes 2 --metrics [::]:0".to_owned(), "set INTENDANT_TOKEN or".to_owned()),
    ] {
        let output = finish(start(regression(&format!("{flags} --report {}", report.display()))));
        let (code, said) = end(&output);
        assert_eq!(code, Some(2), "{flags}: {said}");
        assert!(said.contains(&message), "{flags}: {said}");
        assert!(!report.exists());
    }
}

#[test]
fn where_metrics_are_is_no_setting_of_the_run() {
    let folder = Folder::new();
    let report = folder.path("r.json");
    succeeded(&finish(start(regression(&format!(
        "-q --technique single --epochs 1 --metrics 0 --report {}",
        report.display()
    )))));
    let config = std::fs::read_to_string(folder.path("r.config.toml")).expect("written");
    assert!(!config.contains("metrics"), "{config}");
}

#[cfg(not(feature = "otlp"))]
#[test]
fn a_program_without_the_feature_does_not_push() {
    let (code, said) = end(&finish(start(regression("--technique single --otlp http://localhost:4318"))));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("built without the feature otlp; build it with --features otlp"), "{said}");
}

/// Takes one push; its body. `crates/metrics` decodes it.
#[cfg(feature = "otlp")]
fn receive(mut stream: TcpStream) -> Vec<u8> {
    let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a head");
        let line = line.trim_end().to_lowercase();
        if let Some(text) = line.strip_prefix("content-length: ") {
            length = text.parse().expect("a number");
        } else if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    stream.write_all(answer.as_bytes()).expect("sent");
    body
}

#[cfg(feature = "otlp")]
#[test]
fn each_node_pushes_its_last_numbers_when_it_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
    let (told, pushed) = std::sync::mpsc::channel();
    // It ends with the test.
    std::thread::spawn(move || {
        listener.incoming().flatten().map(receive).try_for_each(|body| told.send(body).map_err(drop))
    });
    let mut by_flag = regression("-q --nodes 2 --epochs 1");
    by_flag.args(["--otlp", &endpoint]);
    let mut by_environment = regression("-q --nodes 2 --epochs 1");
    by_environment.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint);
    for command in [by_flag, by_environment] {
        succeeded(&finish(start(command)));
        let nodes: BTreeSet<u8> = pushed
            .try_iter()
            .map(|body: Vec<u8>| {
                let text = String::from_utf8_lossy(&body).into_owned();
                for name in
                    ["intendant_examples_total", "intendant_loss", "intendant_relocation_seconds_count"]
                {
                    assert!(text.contains(name), "{name}");
                }
                // An attribute: its name, and a text of one byte.
                let is_of = |node: &u8| text.contains(&format!("node\u{12}\u{3}\n\u{1}{node}"));
                (0..2).find(is_of).expect("it names its node")
            })
            .collect();
        assert_eq!(nodes, BTreeSet::from([0, 1]));
    }
    let (code, said) = end(&finish(start(regression("-q --technique single --otlp localhost:4318"))));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("write http://HOST:PORT"), "{said}");
}
