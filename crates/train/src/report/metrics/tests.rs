//! Two nodes in this process, whose metrics are read when nothing is trained any more, and before they end.

#[path = "../../../examples/regression/task.rs"]
mod task;

use super::catalogue::STATISTICS;
use crate::report::Report;
use crate::{App, AppError, Exporter, run};
use intendant::{NodeId, Rendezvous};
use intendant_core::{Form, Key, KeyRange, Shown, Statistic};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use task::{Regression, Settings};

#[derive(clap::Args)]
struct NoFlags {}

/// What the node at an address tells.
fn live(address: &str) -> Value {
    let mut stream = TcpStream::connect(address).expect("it is served");
    let head = "GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    serde_json::from_str(body).expect("JSON")
}

/// Reads the metrics of both nodes when node 0 exports the model: the training is over then.
struct Reader {
    port: u16,
    told: Vec<Value>,
}

impl Exporter<f32> for Reader {
    fn begin(&mut self, _folder: &Path, _ranges: &[KeyRange]) -> Result<(), AppError> {
        let first = live(&format!("127.0.0.1:{}", self.port));
        let peers = first["peers"].as_array().expect("a list").clone();
        self.told = peers.iter().map(|peer| live(peer.as_str().expect("an address"))).collect();
        Ok(())
    }

    fn part(&mut self, _keys: &[Key], _values: &[f32]) -> Result<(), AppError> {
        Ok(())
    }

    fn end(&mut self) -> Result<(), AppError> {
        Ok(())
    }
}

/// Trains on two nodes; the report, and what both nodes told at the end.
fn trained(flags: &str) -> (Report, Vec<Value>) {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    // Of node 0.
    let free = intendant_apptest::unused_port();
    let node = |rank: u16| {
        let app = App::new(clap::Command::new("regression"));
        let metrics = if rank == 0 { free } else { 0 };
        let (export, cuts) = (folder.path().join("export"), folder.path().join("cuts"));
        let all = format!(
            "-q --epochs 3 --workers 2 --valid-every 2 --metrics {metrics} --export {} --checkpoint {} {flags}",
            export.display(),
            cuts.display()
        );
        let (_, mut plan) = app.parse::<NoFlags>(all.split_whitespace()).expect("valid flags");
        let rendezvous = Rendezvous::new(NodeId(rank), 2, "127.0.0.1", port);
        plan.nodes = 2;
        plan.rendezvous = Some(match rank {
            0 => rendezvous.listener(listener.try_clone().expect("a descriptor")),
            _ => rendezvous,
        });
        let settings = Settings { seed: 5, features: 300, examples: 6_000, batch: 16, rate: 0.1 };
        let task = Arc::new(Regression::<f32>::new(settings).expect("features to sample from"));
        move || {
            let mut reader = Reader { port: free, told: Vec::new() };
            let outcome = run(&task, &plan, Some(&mut reader)).expect("a good run");
            (outcome.report, reader.told)
        }
    };
    let (first, second) = (node(0), node(1));
    thread::scope(|scope| {
        let nodes = [scope.spawn(first), scope.spawn(second)];
        let [first, _second] = nodes.map(|node| node.join().expect("no panic"));
        first
    })
}

/// The sum of a metric over the nodes.
fn sum(told: &[Value], name: &str) -> f64 {
    let value = |live: &Value| live["metrics"][name].as_f64().unwrap_or_else(|| panic!("there is no {name}"));
    told.iter().map(value).sum()
}

/// The metric of a field, summed over the nodes, is the member of the report.
fn are_equal(told: &[Value], statistic: &Statistic, member: &Value) {
    let Shown { metric, form, .. } = statistic.shown;
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{metric}: {value} is no number"));
    match form {
        Form::Number => assert_eq!(sum(told, metric), number(member), "{metric}"),
        Form::Part { label, value, .. } => {
            let name = format!("{metric}{{{label}=\"{value}\"}}");
            assert_eq!(sum(told, &name), number(member), "{name}");
        }
        Form::Each { label, values } => {
            for (at, value) in values.iter().enumerate() {
                let name = format!("{metric}{{{label}=\"{value}\"}}");
                assert_eq!(sum(told, &name), number(&member[at]), "{name}");
            }
        }
        Form::Durations | Form::Counts | Form::Thousandths => {
            let (total, count) = (sum(told, &format!("{metric}_sum")), sum(told, &format!("{metric}_count")));
            let reported = number(&member["mean"]) / if form == Form::Durations { 1e3 } else { 1.0 };
            assert!(
                is_close(total / count.max(1.0), reported),
                "{metric}: {total} / {count}, not {reported}"
            );
        }
    }
}

fn is_close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs())
}

#[test]
fn the_sums_over_all_nodes_at_the_end_are_those_of_the_report() {
    for technique in ["lapse", "adaptive", "essp", "full-replication"] {
        let (report, told) = trained(&format!("--technique {technique}"));
        assert_eq!(told.len(), 2);
        let examples: u64 = report.epochs.iter().map(|epoch| epoch.examples).sum();
        assert_eq!(sum(&told, "intendant_examples_total"), examples as f64, "{technique}");
        let json = serde_json::to_value(&report).expect("JSON");
        for (section, shown) in STATISTICS {
            for statistic in shown {
                are_equal(&told, statistic, &json[section][statistic.member]);
            }
        }
        let seconds: f64 = report.epochs.iter().map(|epoch| epoch.seconds).sum();
        assert!(is_close(sum(&told[..1], "intendant_training_seconds_total"), seconds));
        let cpu: f64 = report.epochs.iter().map(|epoch| epoch.cpu_seconds).sum();
        assert!(is_close(sum(&told, "intendant_training_cpu_seconds_total"), cpu));
        for live in &told {
            assert_eq!(live["metrics"]["intendant_loss"].as_f64(), Some(report.epochs[2].loss));
            // The second of three epochs was validated.
            let quality = report.epochs[1].quality["squared_error"];
            assert_eq!(
                live["metrics"]["intendant_quality{metric=\"squared_error\"}"].as_f64(),
                Some(quality)
            );
            assert_eq!(live["metrics"]["intendant_epoch"].as_f64(), Some(3.0));
        }
        let made = report.checkpoints.expect("some");
        let first = &told[0]["metrics"];
        assert_eq!(first["intendant_checkpoints_total"].as_f64(), Some(made.count as f64));
        assert_eq!(first["intendant_checkpoint_bytes"].as_f64(), Some(made.bytes as f64));
        assert!(is_close(sum(&told[..1], "intendant_checkpoint_stop_seconds"), made.stop_ms / 1e3));
        let marks = told[0]["marks"].as_array().expect("a list");
        let of_kind = |kind: &str| marks.iter().filter(|mark| mark["kind"] == kind).count();
        assert_eq!((of_kind("epoch"), of_kind("checkpoint") as u64, of_kind("lost")), (3, made.count, 0));
        assert!(told[1]["metrics"]["intendant_checkpoints_total"].is_null(), "node 0 commits them");
    }
}
