//! `intendant dashboard`, as users see it: the printed address, prepared traces, exit codes.

use crate::command::{intendant, text};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

const TOKEN: &str = "00112233445566778899aabbccddeeff";

struct Dashboard {
    process: Child,
    address: String,
    printed: String,
}

impl Dashboard {
    fn start(arguments: &[&str]) -> Self {
        let mut command = intendant();
        command.args(["dashboard", "--listen", "127.0.0.1:0"]).args(arguments).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut printed = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut printed).unwrap();
        let address = printed.trim_start_matches("http://").split('/').next().unwrap().to_owned();
        Self { process, address, printed }
    }

    /// Status and body.
    fn get(&self, path: &str, header: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{header}Connection: close\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().to_owned(), body.to_owned())
    }

    fn end(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
        self.process.wait().unwrap().code()
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        // The process has ended, unless the test has failed.
        let _ = self.process.kill();
    }
}

#[test]
fn all_prepared_traces_open_and_tell_of_static_and_dynamic_allocation() {
    let dashboard = Dashboard::start(&[]);
    assert!(dashboard.printed.starts_with("http://127.0.0.1:") && dashboard.printed.ends_with("/\n"));
    let (status, body) = dashboard.get("/api/runs", "");
    assert_eq!(status, "200", "{body}");
    let runs: Value = serde_json::from_str(&body).unwrap();
    let runs = runs["runs"].as_array().unwrap();
    for task in ["kge", "word2vec", "mf"] {
        for technique in ["classic", "lapse", "adaptive"] {
            let run = runs.iter().find(|run| run["id"] == format!("{task}-{technique}")).unwrap();
            assert_eq!(run["about"]["allocation"], if technique == "classic" { "static" } else { "dynamic" });
            let (status, body) = dashboard.get(&format!("/api/runs/{task}-{technique}"), "");
            assert_eq!(status, "200", "{body}");
            let overview: Value = serde_json::from_str(&body).unwrap();
            assert_eq!((&overview["task"], &overview["technique"]), (&task.into(), &technique.into()));
            assert_eq!(overview["problems"], serde_json::json!([]));
            let moves = overview["relocations"].as_u64().unwrap();
            assert_eq!(moves > 0, technique != "classic", "{task} {technique}");
            assert_eq!(overview["replica_setups"].as_u64().unwrap() > 0, technique == "adaptive");
        }
    }
    let (status, page) = dashboard.get("/", "");
    assert!(status == "200" && page.contains("<title>Intendant</title>"), "{page}");
    assert_eq!(dashboard.end(), Some(0));
}

#[test]
fn a_token_file_closes_the_page_and_the_token_is_not_printed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let dashboard = Dashboard::start(&["--token-file", file.to_str().unwrap()]);
    assert!(dashboard.printed.ends_with("/?token=TOKEN\n"), "{}", dashboard.printed);
    assert_eq!(dashboard.get("/api/runs", "").0, "401");
    assert_eq!(dashboard.get("/api/runs", &format!("Authorization: Bearer {TOKEN}\r\n")).0, "200");
    assert_eq!(dashboard.end(), Some(0));
}

#[test]
fn what_cannot_be_shown_ends_it_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "secret-that-is-no-token").unwrap();
    let token = file.to_str().unwrap();
    let (empty, zip) = (folder.path().join("empty"), folder.path().join("a.zip"));
    fs::create_dir(&empty).unwrap();
    fs::write(&zip, b"PK\x03\x04 and so on").unwrap();
    let (empty, zip) = (empty.to_str().unwrap(), zip.to_str().unwrap());
    for (arguments, reason) in [
        (&["--trace", "/nowhere/trace"][..], "there is no trace at /nowhere/trace"),
        (&["--listen", "127.0.0.1:0", "--trace", empty], "it has no traces; name a folder"),
        (&["--listen", "127.0.0.1:0", "--trace", empty, "--trace", zip], "it is an archive or compressed"),
        (&["--listen", "0.0.0.0:0"], "--token-file"),
        (&["--listen", "somewhere"], "--listen HOST:PORT"),
        (&["--live", "host:port"], "is no address of a node"),
        (&["--token-file", "/nowhere/token"], "cannot read the token from /nowhere/token"),
        (&["--token-file", token], "no hexadecimal digit"),
        (&["--upload-max", "0"], "--upload-max"),
    ] {
        let output = intendant().arg("dashboard").args(arguments).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(reason), "{arguments:?}: {said}");
        assert!(!said.contains("secret-that"), "{said}");
    }
}
