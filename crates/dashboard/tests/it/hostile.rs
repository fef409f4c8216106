//! Uploads of good traces, of broken traces, and of files that are not traces.

use crate::server::Server;
use crate::synthetic::{NODES, Synthetic};
use intendant_dashboard::Settings;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

fn server() -> Server {
    Server::start(Settings { upload_bytes_max: 1 << 20, events_max: 100_000, ..Settings::default() })
}

#[test]
fn an_uploaded_run_is_listed_and_answers() {
    let (server, run) = (server(), Synthetic::new(1, 2000));
    let files: Vec<(String, Vec<u8>)> =
        (0..NODES).map(|node| (format!("node-{node}.trace"), run.file(node))).collect();
    let files: Vec<(&str, &[u8])> =
        files.iter().map(|(name, file)| (name.as_str(), file.as_slice())).collect();
    let response = server.upload(&files);
    assert_eq!(response.status, 200, "{}", response.text());
    let id = response.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(response.json()["title"], "node-0.trace and 3 more");
    let overview = server.json(&format!("/api/runs/{id}"));
    assert_eq!(overview["events"].as_u64(), Some(run.events.len() as u64));
    assert!(server.get("/api/runs").text().contains(&id));
    // One node alone is a run with holes, and the overview says so.
    let response = server.upload(&files[1..2]);
    let id = response.json()["id"].as_str().unwrap().to_owned();
    let overview = server.json(&format!("/api/runs/{id}"));
    assert!(overview["problems"][0].as_str().unwrap().contains("nodes 0, 2, 3"), "{overview}");
}

#[test]
fn only_the_newest_uploads_are_kept() {
    let (server, run) = (server(), Synthetic::new(2, 100));
    let file = run.file(0);
    let ids: Vec<String> = (0..6)
        .map(|_| server.upload(&[("node-0.trace", &file)]).json()["id"].as_str().unwrap().to_owned())
        .collect();
    for (at, id) in ids.iter().enumerate() {
        assert_eq!(server.get(&format!("/api/runs/{id}")).status, if at < 2 { 404 } else { 200 }, "{id}");
    }
    let gone = server.get(&format!("/api/runs/{}", ids[0])).error();
    assert!(gone.contains("the newest 4 are kept"), "{gone}");
    assert_eq!(server.json("/api/runs")["uploads_max"], 4);
    // The answer to an upload names the older upload that it replaces.
    let server = self::server();
    let dropped: Vec<serde_json::Value> = ["a", "b", "c", "d", "e", "f"]
        .map(|name| server.upload(&[(name, &file)]).json()["dropped"].clone())
        .to_vec();
    let nothing = serde_json::Value::Null;
    assert_eq!(dropped, [nothing.clone(), nothing.clone(), nothing.clone(), nothing, "a".into(), "b".into()]);
}

#[test]
fn what_is_no_trace_is_refused_with_a_reason_and_without_a_path() {
    let server = server();
    let parquet = [b"PAR1".as_slice(), &[0; 64], &u32::MAX.to_le_bytes(), b"PAR1"].concat();
    let mut json = b"ITDTRACE\x01\0\0\0\x10\0\0\0".to_vec();
    json.extend_from_slice(&[b'{'; 24]);
    let files: [(&str, &[u8]); 9] = [
        ("empty", b""),
        ("zeros", &[0; 10_000]),
        ("zip.zip", b"PK\x03\x04\x14\0\0\0\x08\0aaaaaaaaaaaaaaaaaaaaaa"),
        ("text.csv", b"time,key\n1,2\n"),
        ("page.html", b"<script>alert(1)</script>"),
        ("head", &json),
        ("magic", b"ITDTRACE"),
        ("parquet", &parquet),
        ("short", b"PAR1PAR1"),
    ];
    for (name, content) in files {
        let response = server.upload(&[(name, content)]);
        assert!([400, 422].contains(&response.status), "{name}: {} {}", response.status, response.text());
        assert!(!response.error().is_empty(), "{name}");
        assert!(!response.text().contains("intendant-upload-"), "{name}: {}", response.text());
        // The file is named as its user named it, and the advice is about uploads.
        assert!(response.error().starts_with(name), "{name}: {}", response.error());
        assert!(!response.error().contains("node-of-file") && !response.error().contains("name a folder"));
        let advice = "upload a merged Parquet file, or the files node-N.trace of one run";
        assert!(response.error().contains(advice), "{name}: {}", response.error());
    }
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn a_file_that_is_cut_off_or_changed_anywhere_does_no_harm() {
    let (server, run) = (server(), Synthetic::new(3, 60));
    let (file, mut random) = (run.file(0), Pcg64Mcg::seed_from_u64(7));
    for _ in 0..60 {
        let mut broken = file.clone();
        if random.random_range(0..2) == 0 {
            broken.truncate(random.random_range(0..file.len()));
        } else {
            let at = random.random_range(0..file.len());
            broken[at] ^= 1 << random.random_range(0..8);
        }
        let response = server.upload(&[("node-0.trace", &broken)]);
        assert!([200, 400, 422].contains(&response.status), "{}", response.text());
        if response.status == 200 {
            let id = response.json()["id"].as_str().unwrap().to_owned();
            assert_eq!(server.get(&format!("/api/runs/{id}")).status, 200);
            assert_eq!(server.get(&format!("/api/runs/{id}/matrix?rows=10&columns=10")).status, 200);
        }
    }
}

#[test]
fn files_of_different_runs_are_not_mixed() {
    let server = server();
    let (one, other) = (Synthetic::new(4, 50), Synthetic::new(5, 50));
    let response = server.upload(&[("a", &one.file(0)), ("b", &other.file(1))]);
    assert_eq!(response.status, 422, "{}", response.text());
    assert!(response.error().contains("b and a are not of one run"), "{}", response.error());
    assert!(response.error().contains("upload the files of each run by themselves"), "{}", response.error());
    // Real runs have start times, which tell which run is newer.
    let (mut older, mut newer) = (one, other);
    (older.header.epoch_us, newer.header.epoch_us) = (1_000_000, 2_000_000);
    let files: [(&str, &[u8]); 3] =
        [("x.trace", &older.file(0)), ("y.trace", &newer.file(0)), ("z.trace", &newer.file(1))];
    let response = server.upload(&files);
    assert_eq!(response.status, 422, "{}", response.text());
    let reason = "y.trace, z.trace of one, x.trace of an earlier one";
    assert!(response.error().contains(reason), "{}", response.error());
    assert_eq!(server.upload(&files[1..]).status, 200);
}

#[test]
fn uploads_that_are_too_large_are_refused() {
    let server = server();
    let large = vec![0; (1 << 20) + 1];
    let response = server.upload(&[("large", &large)]);
    assert_eq!(response.status, 413, "{}", response.text());
    assert!(response.error().contains("--upload-max"), "{}", response.error());
    assert!(response.error().contains("more than 1 MiB"), "{}", response.error());
    // The limit applies to all files together.
    let half = vec![0; 600 << 10];
    assert_eq!(server.upload(&[("a", &half), ("b", &half)]).status, 413);
    // Files that announce more than they have.
    for bytes in [99_999_999_999, u64::MAX] {
        let head = format!("[{{\"name\":\"a\",\"bytes\":{bytes}}},{{\"name\":\"b\",\"bytes\":{bytes}}}]\n");
        assert_eq!(server.request("POST", "/api/upload", &[], head.as_bytes()).status, 413, "{bytes}");
    }
    let events = Synthetic::new(6, 2000).file(0);
    let server = Server::start(Settings { events_max: 10, ..Settings::default() });
    let response = server.upload(&[("node-0.trace", &events)]);
    assert_eq!(response.status, 422);
    assert!(response.error().contains("--trace-keys"), "{}", response.error());
}

#[test]
fn bodies_that_are_not_what_their_first_line_says_are_refused() {
    let (server, file) = (server(), Synthetic::new(8, 50).file(0));
    let upload = |bytes: usize| {
        let head = format!("[{{\"name\":\"node-0.trace\",\"bytes\":{bytes}}}]\n");
        server.request("POST", "/api/upload", &[], &[head.as_bytes(), &file].concat())
    };
    assert_eq!(upload(file.len()).status, 200);
    for (bytes, reason) in
        [(file.len() + 1, "ends before its last file"), (file.len() - 1, "goes on after its last file")]
    {
        let response = upload(bytes);
        assert_eq!((response.status, response.error().contains(reason)), (400, true), "{}", response.text());
    }
    let many = format!("[{}{{\"name\":\"a\",\"bytes\":0}}]\n", "{\"name\":\"a\",\"bytes\":0},".repeat(1024));
    let long = format!("[{{\"name\":\"{}\",\"bytes\":0}}]\n", "a".repeat(64 << 10));
    for (body, reason) in [
        (&b""[..], "no first line"),
        (b"no line", "the first line of the upload begins with 'n'"),
        (b"[no line", "no first line"),
        (b"\n", "the first line of the upload begins with '\\n'"),
        (b"[x\n", "the first line of the upload"),
        (b"PAR1\x15\x04\x15", "neither a form (curl -F) nor a file alone"),
        (
            b"--------------------------abc\r\nContent-Disposition: form-data",
            "an upload is a line [{\"name\": NAME",
        ),
        (b"[]\n", "has no file"),
        (b"{}\n", "the first line of the upload"),
        (b"[{\"name\":1,\"bytes\":2}]\n", "the first line of the upload"),
        (b"[{\"name\":\"a\",\"bytes\":-1}]\n", "the first line of the upload"),
        (b"[{\"name\":\"a\",\"bytes\":1,\"path\":\"/\"}]\n", "the first line of the upload"),
        (many.as_bytes(), "at most 1024 files"),
        (long.as_bytes(), "more than 65536 bytes"),
        (&[b'['; 70_000], "more than 65536 bytes"),
    ] {
        let response = server.request("POST", "/api/upload", &[], body);
        let is_right = response.status == 400 && response.error().contains(reason);
        assert!(is_right, "{reason}: {} {}", response.status, response.text());
    }
}

#[test]
fn the_first_line_of_an_upload_is_read_up_to_its_limit_only() {
    use std::io::{Read, Write};
    let server = server();
    let mut stream = std::net::TcpStream::connect(server.address).unwrap();
    let head =
        format!("POST /api/upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", 1u64 << 40);
    stream.write_all(head.as_bytes()).unwrap();
    // The server answers and closes long before a gigabyte has arrived.
    let (part, mut sent) = (vec![b'a'; 1 << 16], 0u64);
    while sent < 1 << 30 && stream.write_all(&part).is_ok() {
        sent += part.len() as u64;
    }
    assert!(sent < 1 << 30);
    let _ = stream.read(&mut [0; 16]);
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn names_of_files_name_nothing_here() {
    let (server, file) = (server(), Synthetic::new(7, 50).file(0));
    for name in ["../../../tmp/node-0.trace", "/etc/passwd", "<script>alert(1)</script>", ""] {
        let response = server.upload(&[(name, &file)]);
        assert_eq!(response.status, 200, "{name}: {}", response.text());
        assert!(response.json()["title"].as_str().is_some_and(|title| !title.is_empty()), "{name}");
    }
    assert_eq!(server.upload(&[("node-0.trace\u{7}", &file)]).json()["title"], "node-0.trace");
    // The same name twice is two files, and messages tell the names of the files of nodes.
    let run = Synthetic::new(7, 50);
    let twice = server.upload(&[("node-0.trace", &run.file(0)), ("node-0.trace", &run.file(1))]);
    assert_eq!(twice.status, 200, "{}", twice.text());
    let mixed = server.upload(&[("node-7.trace", &run.file(1)), ("node-9.trace", &run.file(1))]);
    assert_eq!(mixed.status, 422);
    for name in ["node-7.trace", "node-9.trace"] {
        assert!(mixed.error().contains(name), "{}", mixed.error());
    }
    let same = server.upload(&[("my.trace", &run.file(1)), ("my.trace", &run.file(1))]);
    assert!(
        same.error().starts_with("my.trace and my.trace (file 2) are not of one run"),
        "{}",
        same.error()
    );
}
