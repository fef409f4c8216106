//! Clusters of processes whose connections are encrypted, and certificates with which none comes about.

use crate::command_line::{Folder, end, ranks, regression, succeeded};
use intendant_apptest::{Authority, Certificate, NodeFiles, finish, start};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};

/// Small runs; nodes wait for others only so long.
const RUN: &str = "-q --transport tcp --epochs 1 --examples 500 --features 50";

fn with(mut command: Command, files: Option<&NodeFiles>) -> Command {
    command.env("INTENDANT_JOIN_SECONDS", "3");
    if let Some(files) = files {
        command.args(files.flags());
    }
    command
}

/// Runs nodes to their ends, with the files of each.
fn outputs(flags: &str, nodes: &[Option<&NodeFiles>]) -> Vec<Output> {
    let commands = ranks(&vec![flags; nodes.len()]).into_iter().zip(nodes);
    let children: Vec<_> = commands.map(|(command, files)| start(with(command, *files))).collect();
    children.into_iter().map(finish).collect()
}

/// No file of a run says anything of certificates.
fn says_nothing(path: &Path) {
    let text = fs::read_to_string(path).expect("a text").to_lowercase();
    assert!(!text.contains("tls") && !text.contains(".pem"), "{}: {text}", path.display());
}

#[test]
fn three_processes_train_over_tls() {
    let (scratch, authority) = (Folder::new(), Authority::new());
    let files = ["a", "b", "c"].map(|stem| authority.issue(&scratch.path(""), stem, Certificate::Good));
    let report = scratch.path("report.json");
    let flags = format!("-v --transport tcp --epochs 2 --report {}", report.display());
    let commands = ranks(&[flags.as_str(); 3]).into_iter().zip(&files);
    let children: Vec<_> = commands.map(|(command, files)| start(with(command, Some(files)))).collect();
    for output in children.into_iter().map(finish) {
        succeeded(&output);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("0 over Unix sockets, 2 over TCP with TLS"), "{said}");
    }
    says_nothing(&report);
    says_nothing(&scratch.path("report.config.toml"));
}

#[test]
fn nodes_that_a_program_starts_inherit_the_files() {
    let scratch = Folder::new();
    let files = Authority::new().issue(&scratch.path(""), "node", Certificate::Good);
    let mut command = regression(&format!("{RUN} -v --nodes 2"));
    for (name, path) in [("CERT", &files.cert), ("KEY", &files.key), ("CA", &files.ca)] {
        command.env(format!("INTENDANT_TLS_{name}"), path);
    }
    let output = finish(start(command));
    succeeded(&output);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.matches("1 over TCP with TLS").count(), 2, "{said}");
}

#[test]
fn files_that_cannot_be_used_end_a_run_before_it_writes_anything() {
    let scratch = Folder::new();
    let folder = scratch.path("");
    let (ours, theirs) = (Authority::new(), Authority::new());
    let good = ours.issue(&folder, "good", Certificate::Good);
    let foreign = theirs.issue(&folder, "foreign", Certificate::Good);
    let text = scratch.path("text.pem");
    fs::write(&text, "no certificate\n").expect("a file");
    let cases = [
        (ours.issue(&folder, "old", Certificate::Expired), "old-cert.pem (--tls-cert) has expired"),
        (NodeFiles { ca: foreign.ca.clone(), ..good.clone() }, "is not signed by an authority in"),
        (NodeFiles { key: foreign.key.clone(), ..good.clone() }, "does not belong to the certificate"),
        (NodeFiles { cert: good.ca.clone(), ..good.clone() }, "is that of an authority, and not of a node"),
        (
            NodeFiles { cert: scratch.path("absent.pem"), ..good.clone() },
            "absent.pem (--tls-cert): No such file",
        ),
        (NodeFiles { key: text, ..good.clone() }, "text.pem (--tls-key) contains no private key"),
    ];
    let (report, checkpoint) = (scratch.path("report.json"), scratch.path("checkpoints"));
    let outputs_to = format!("--report {} --checkpoint {}", report.display(), checkpoint.display());
    for (files, expected) in cases {
        let output = finish(start(with(regression(&format!("{RUN} --nodes 2 {outputs_to}")), Some(&files))));
        let (code, said) = end(&output);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(expected), "{expected}: {said}");
        assert_eq!(said.matches("error:").count(), 1, "{said}");
        assert!(!report.exists() && !checkpoint.exists());
    }
    let output = finish(start(regression(&format!("{RUN} --nodes 2 --tls-ca {}", good.ca.display()))));
    let (code, said) = end(&output);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--tls-ca needs --tls-cert and --tls-key"), "{said}");
}

#[test]
fn nodes_that_do_not_agree_on_tls_end_with_the_reason() {
    let scratch = Folder::new();
    let folder = scratch.path("");
    let (ours, theirs) = (Authority::new(), Authority::new());
    let good = ours.issue(&folder, "good", Certificate::Good);
    let foreign = theirs.issue(&folder, "foreign", Certificate::Good);
    let mut knows_both = foreign.clone();
    knows_both.ca = scratch.path("both.pem");
    let pems = [&good.ca, &foreign.ca].map(|ca| fs::read_to_string(ca).expect("a file"));
    fs::write(&knows_both.ca, pems.concat()).expect("a file");
    let cases = [
        // Node 1 says this and ends; node 0 says that in a warning.
        (
            [Some(&good), None],
            "the other side uses TLS, this node does not",
            "does not use TLS, this node does",
        ),
        (
            [None, Some(&good)],
            "does not use TLS, this node does",
            "the other side uses TLS, this node does not",
        ),
        ([Some(&good), Some(&foreign)], "is not signed by an authority in", "refuses the certificate"),
        ([Some(&good), Some(&knows_both)], "refuses the certificate", "is not signed by an authority in"),
    ];
    let report = scratch.path("report.json");
    for (nodes, by_one, by_zero) in cases {
        let ended = outputs(&format!("{RUN} --report {}", report.display()), &nodes);
        let [(zero, warned), (one, said)] = [end(&ended[0]), end(&ended[1])];
        assert_eq!(one, Some(2), "{said}");
        assert!(said.contains("cannot join the cluster at 127.0.0.1") && said.contains(by_one), "{said}");
        assert_eq!(zero, Some(4), "{warned}");
        assert!(
            warned.contains("refused a connection from 127.0.0.1") && warned.contains(by_zero),
            "{warned}"
        );
        assert!(warned.contains("node 1 did not join"), "{warned}");
        assert!(!report.exists());
    }
}

#[test]
fn the_coordinator_answers_no_client_without_tls() {
    let scratch = Folder::new();
    let files = Authority::new().issue(&scratch.path(""), "node", Certificate::Good);
    let mut commands = ranks(&[RUN, RUN]).into_iter().map(|command| with(command, Some(&files)));
    let zero = commands.next().expect("two nodes");
    let port = zero.get_envs().find(|(name, _)| *name == "MASTER_PORT").and_then(|(_, port)| port);
    let port: u16 = port.and_then(|port| port.to_str()?.parse().ok()).expect("a port");
    let mut zero = zero;
    zero.env("INTENDANT_JOIN_SECONDS", "60");
    let zero = start(zero);
    let mut client = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(client) => break client,
            Err(_) => std::thread::yield_now(),
        }
    };
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").expect("it fits");
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).expect("an answer and an end");
    assert_eq!(answer[..3], [0x15, 3, 3], "an alert of TLS");
    let one = start(commands.next().expect("two nodes"));
    for child in [one, zero] {
        succeeded(&finish(child));
    }
}

#[test]
fn a_run_with_tls_warns_that_its_metrics_are_not_encrypted() {
    let scratch = Folder::new();
    let files = Authority::new().issue(&scratch.path(""), "node", Certificate::Good);
    for (metrics, expected) in [("0.0.0.0:0", 1), ("0", 0)] {
        let flags = format!("{RUN} --nodes 2 --metrics {metrics}");
        let mut command = with(regression(&flags), Some(&files));
        command.env("INTENDANT_TOKEN", "5ec2e7".repeat(10));
        let output = finish(start(command));
        succeeded(&output);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            said.matches("TLS encrypts the connections between nodes, and not the metrics").count(),
            expected
        );
    }
}

#[test]
fn the_token_is_in_no_argument_no_log_and_no_report() {
    let scratch = Folder::new();
    let token = "5ec2e7".repeat(10);
    for files in [None, Some(Authority::new().issue(&scratch.path(""), "node", Certificate::Good))] {
        let (report, export) = (scratch.path("report.json"), scratch.path("model"));
        let checkpoint = scratch.path("checkpoints");
        let flags = format!(
            "-vvv --transport tcp --epochs 1 --examples 500 --report {} --export {} --checkpoint {}",
            report.display(),
            export.display(),
            checkpoint.display()
        );
        let children: Vec<_> = ranks(&[flags.as_str(); 2])
            .into_iter()
            .map(|command| {
                let mut command = with(command, files.as_ref());
                command.env("INTENDANT_TOKEN", &token).env("RUST_LOG", "trace");
                start(command)
            })
            .collect();
        for child in &children {
            let arguments = fs::read(format!("/proc/{}/cmdline", child.id())).expect("it is not reaped");
            assert!(!String::from_utf8_lossy(&arguments).contains(&token));
        }
        // All at once: a node whose log is not read stops.
        let finishing: Vec<_> =
            children.into_iter().map(|child| std::thread::spawn(move || finish(child))).collect();
        for output in finishing {
            let output = output.join().expect("no panic");
            assert!(output.status.success(), "{:?}", output.status);
            for stream in [&output.stdout, &output.stderr] {
                let said = String::from_utf8_lossy(stream).to_lowercase();
                assert!(!said.contains(&token), "the token is in the log");
                assert!(
                    !said.contains("5e, c2, e7") && !said.contains("94, 194, 231"),
                    "the token is in the log"
                );
            }
        }
        let mut texts = 0;
        let mut folders = vec![scratch.path("")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let content = fs::read(&path).expect("a file");
                    assert!(!String::from_utf8_lossy(&content).contains(&token), "{}", path.display());
                    texts += 1;
                }
            }
        }
        assert!(texts > 3, "report, configuration, model and checkpoint");
        for path in [&export, &checkpoint] {
            fs::remove_dir_all(path).expect("it was written");
        }
    }
}
