//! A model over HTTP.

use crate::ask::{GRAPH, KGE, train};
use intendant_apptest::{Authority, Certificate, Service, answer};
use kge::data::Dataset;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const TOKEN: &str = "00112233445566778899aabbccddeeff";

/// A folder with a model.
struct Exported {
    folder: tempfile::TempDir,
}

impl Exported {
    fn new(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        train(folder.path(), flags);
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("model")
    }

    fn serve(&self, flags: &[&str]) -> Service {
        Service::start(KGE, &[&[self.path().to_str().unwrap()], flags].concat())
    }

    /// What the command prints.
    fn command(&self, words: &[&str], input: &str) -> Vec<Value> {
        let model = self.path();
        KGE.answers(&[&words[..1], &[model.to_str().unwrap(), "--json"], &words[1..]].concat(), input)
    }
}

/// Names of the entities and relations of the graph.
fn names() -> (Vec<String>, Vec<String>) {
    let data = Dataset::builtin(GRAPH).unwrap();
    let all = |names: &intendant_formats::Names| names.iter().map(str::to_owned).collect();
    (all(&data.entities), all(&data.relations))
}

#[test]
fn answers_are_those_of_the_commands() {
    let (entities, relations) = names();
    for flags in
        [&["--dim", "8"][..], &["--dim", "4", "--model", "rescal", "--reciprocal", "false", "--float", "f64"]]
    {
        let exported = Exported::new(flags);
        let service = exported.serve(&["--threads", "2"]);
        // One question, and as many as are answered together and more.
        let one = json!({ "entity": entities[3] });
        assert_eq!(service.ask("/v1/neighbors", &one), exported.command(&["neighbors", &entities[3]], "")[0]);
        let asked = entities.join("\n") + "\n";
        let batch: Vec<Value> = entities.iter().map(|entity| json!({ "entity": entity, "k": 3 })).collect();
        let found = service.ask("/v1/neighbors", &Value::Array(batch));
        assert_eq!(found, Value::Array(exported.command(&["neighbors", "-k", "3"], &asked)), "{flags:?}");

        let (mut lines, mut batch) = (String::new(), Vec::new());
        for (at, entity) in entities.iter().enumerate() {
            let relation = &relations[at % relations.len()];
            let [subject, object] = if at % 2 == 0 { [entity.as_str(), "?"] } else { ["?", entity.as_str()] };
            lines += &format!("{subject}\t{relation}\t{object}\n");
            batch.push(json!({ "subject": subject, "relation": relation, "object": object }));
        }
        let expected = exported.command(&["predict"], &lines);
        assert_eq!(service.ask("/v1/predict", &batch[0]), expected[0]);
        assert_eq!(service.ask("/v1/predict", &Value::Array(batch.clone())), Value::Array(expected));
        // Each question has a length of its own.
        let (mut short, mut long) = (batch[0].clone(), batch[0].clone());
        (short["k"], long["k"]) = (json!(1), json!(1000));
        let found = service.ask("/v1/predict", &json!([short, long]));
        let [short, long] = [0, 1].map(|at| found[at]["answers"].as_array().unwrap());
        assert_eq!((short.len(), long.len(), &short[0]), (1, entities.len(), &long[0]));
        // Answers that are excluded, some of them twice, and some that the model does not know.
        let best: Vec<&str> = long[..3].iter().map(|answer| answer["entity"].as_str().unwrap()).collect();
        let file = exported.folder.path().join("known.tsv");
        let known = best.iter().map(|object| format!("{}\t{}\t{object}\n", entities[0], relations[0]));
        fs::write(&file, known.collect::<String>()).unwrap();
        let mut without = batch[0].clone();
        without["exclude"] = json!([best[2], best[0], "unknown", best[1], best[0]]);
        let words = ["predict", &entities[0], &relations[0], "?", "--exclude", file.to_str().unwrap()];
        assert_eq!(service.ask("/v1/predict", &without), exported.command(&words, "")[0]);
        assert_eq!(service.ask("/v1/predict", &json!([])), json!([]));
        assert_eq!(service.end(), (Some(0), String::new()));
    }
}

#[test]
fn the_model_the_endpoints_and_the_metrics_are_described() {
    let exported = Exported::new(&["--dim", "8"]);
    let service = exported.serve(&[]);
    assert!(service.printed.starts_with("http://127.0.0.1:") && service.printed.ends_with("/\n"));
    let about = service.get("/v1/model").json();
    let manifest: Value =
        serde_json::from_slice(&fs::read(exported.path().join("export.json")).unwrap()).unwrap();
    for member in ["program", "version", "config", "files", "data_digest", "data"] {
        assert!(!manifest[member].is_null(), "{member}");
        assert_eq!(about[member], manifest[member], "{member}");
    }
    assert_eq!(about["sizes"], json!({ "entities": 300, "relations": 4, "dim": 8 }));
    assert_eq!(about["load"], 1);

    let described = service.get("/openapi.json");
    assert_eq!(described.header("content-type"), Some("application/json"));
    let described = described.json();
    assert_eq!(described, service.get("/").json());
    assert!(described["openapi"].as_str().unwrap().starts_with("3."));
    let paths: Vec<&String> = described["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths, ["/metrics", "/openapi.json", "/v1/model", "/v1/neighbors", "/v1/predict"]);
    // What is described is what is accepted: a question with all members, and no other.
    for path in ["/v1/neighbors", "/v1/predict"] {
        let schema =
            &described["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"];
        let members = schema["oneOf"][0]["properties"].as_object().unwrap();
        let mut question = json!({});
        for (name, member) in members {
            question[name] = match member["type"].as_str().unwrap() {
                "string" => json!("unknown"),
                "array" => json!(["unknown"]),
                "integer" => json!(3),
                other => panic!("{other}"),
            };
        }
        let refused = service.post(path, &question);
        let unknown = ["there is no entity 'unknown'", "subject or object must be '?'"];
        assert!(unknown.iter().any(|reason| refused.error().contains(reason)), "{}", refused.error());
        question["other"] = json!("unknown");
        assert!(service.post(path, &question).error().contains("unknown field `other`"));
    }

    let _ = service.ask("/v1/neighbors", &json!([{ "entity": names().0[0] }, { "entity": names().0[1] }]));
    let metrics = service.get("/metrics");
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    for line in [
        "intendant_serve_requests_total{path=\"/v1/neighbors\",status=\"200\"} 1.0",
        "intendant_serve_requests_total{path=\"/v1/neighbors\",status=\"422\"} 2.0",
        "intendant_serve_request_seconds_count{path=\"/v1/neighbors\"} 3",
        "intendant_serve_questions_total{path=\"/v1/neighbors\"} 4.0",
        "intendant_serve_model_loads_total{result=\"ok\"} 1.0",
    ] {
        assert!(metrics.text().lines().any(|found| found == line), "{line}: {}", metrics.text());
    }
    for path in ["/", "/openapi.json", "/v1/model", "/metrics"] {
        let head = service.request("HEAD", path, &[], &[]);
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
    }
}

#[test]
fn every_wrong_request_is_told_what_is_wrong() {
    let exported = Exported::new(&["--dim", "8"]);
    let service = exported.serve(&["--max-k", "20", "--max-questions", "3", "--max-body", "1"]);
    let (entities, relations) = names();
    let (entity, relation) = (&entities[0], &relations[0]);
    let refused = |path: &str, body: &Value, status: u16, reason: &str| {
        let response = service.post(path, body);
        assert_eq!(response.status, status, "{body}: {}", response.text());
        assert!(response.error().contains(reason), "{body}: {}", response.error());
        assert_eq!(response.header("content-type"), Some("application/json"));
    };
    let near = "/v1/neighbors";
    refused(near, &json!({ "entity": "nowhere" }), 422, "there is no entity 'nowhere'");
    refused(near, &json!({}), 422, "missing field `entity`");
    refused(near, &json!({ "entity": 7 }), 422, "expected a string");
    refused(near, &json!({ "entity": entity, "count": 3 }), 422, "unknown field `count`");
    for k in [json!(0), json!(21), json!(-1), json!(2.5), json!("3"), json!(null), json!(1e300)] {
        refused(near, &json!({ "entity": entity, "k": k }), 422, "k must be a whole number from 1 to 20");
    }
    let ask = |subject: &str, relation: &str, object: &str| json!({ "subject": subject, "relation": relation, "object": object });
    refused("/v1/predict", &ask(entity, "likes", "?"), 422, "there is no relation 'likes'");
    refused("/v1/predict", &ask(entity, relation, entity), 422, "subject or object must be '?'");
    refused("/v1/predict", &ask("?", relation, "?"), 422, "subject or object must be '?'");
    refused(near, &json!("a"), 400, "must be an object");
    refused(near, &json!(null), 400, "must be an object");
    refused(near, &json!([{}, {}, {}, {}]), 422, "the request has 4 questions; allowed are up to 3");
    // In a list, each question has an answer or a reason of its own.
    let mixed = service.ask(near, &json!([{ "entity": entity, "k": 2 }, { "entity": "nowhere" }, 7]));
    assert_eq!(mixed[0]["answers"].as_array().unwrap().len(), 2);
    assert!(mixed[1]["error"].as_str().unwrap().contains("there is no entity 'nowhere'"), "{mixed}");
    assert!(mixed[2]["error"].as_str().unwrap().contains("must be an object"), "{mixed}");

    for body in ["", "{", "{\"entity\"", "\u{0}", "entity=a", "{} x", "[1,]"] {
        let response = service.request("POST", near, &[], body.as_bytes());
        assert_eq!(response.status, 400, "{body}: {}", response.text());
        assert!(response.error().contains("the body is no JSON"), "{body}: {}", response.error());
    }
    let form = [("Content-Type", "multipart/form-data; boundary=x")];
    assert_eq!(service.request("POST", near, &form, b"--x").status, 415);
    for path in ["/v1", "/v1/", "/v1/nearest", "/v1/neighbors/", "//", "/../etc/passwd", "/favicon.ico"] {
        let response = service.get(path);
        assert_eq!(response.status, 404, "{path}");
        assert!(response.error().contains("/v1/neighbors"), "{}", response.error());
    }
    for (method, path, allow) in [
        ("GET", near, "post"),
        ("HEAD", near, "post"),
        ("POST", "/v1/model", "get, head"),
        ("POST", "/metrics", "get, head"),
        ("POST", "/", "get, head"),
    ] {
        let response = service.request(method, path, &[], &[]);
        assert_eq!((response.status, response.header("allow")), (405, Some(allow)), "{method} {path}");
    }
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FOO"] {
        assert!([400, 405].contains(&service.request(method, near, &[], &[]).status), "{method}");
    }
    // More than a kibibyte, with and without its length.
    let long = json!({ "entity": "x".repeat(1024) }).to_string();
    let response = service.request("POST", near, &[], long.as_bytes());
    assert_eq!(response.status, 413);
    assert!(response.error().contains("at most 1024 bytes"), "{}", response.error());
    let head = service.head("POST", near, &[("Transfer-Encoding", "chunked")], 0);
    let chunked = format!("{head}{:x}\r\n{long}\r\n0\r\n\r\n", long.len());
    assert_eq!(service.send(chunked.as_bytes()).status, 413);
    // A service that does not read announced bytes does not wait for them either.
    let huge = format!("POST {near} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n");
    assert_eq!(service.send(huge.as_bytes()).status, 413);
    let after = service.ask(near, &json!({ "entity": entity }));
    assert_eq!(after["answers"].as_array().unwrap().len(), 10);
    assert_eq!(service.end(), (Some(0), String::new()));
}

#[test]
fn a_body_that_does_not_arrive_ends_its_request() {
    let exported = Exported::new(&["--dim", "8"]);
    let service = exported.serve(&["--timeout", "1"]);
    let mut stream = service.connect();
    let head = service.head("POST", "/v1/neighbors", &[], 100);
    stream.write_all((head + "{\"entity\"").as_bytes()).unwrap();
    let late = answer(stream);
    assert_eq!((late.status, late.header("retry-after")), (503, Some("1")));
    assert!(late.error().contains("within 1 s"), "{}", late.error());
    assert_eq!(service.end(), (Some(0), String::new()));
}

/// At any time, there are more of such connections than places.
#[test]
fn hostile_connections_keep_no_one_out() {
    let exported = Exported::new(&["--dim", "8"]);
    let service = exported.serve(&["--max-connections", "20"]);
    let question = json!({ "entity": names().0[0] });
    let expected = service.ask("/v1/neighbors", &question);
    let head = service.head("POST", "/v1/neighbors", &[], 1000);
    let beginnings = [
        // Silent; a head that does not end; a body that does not end.
        String::new(),
        "POST /v1/neighbors HTTP/1.1\r\nHost: loc".to_owned(),
        head.clone() + "{\"ent",
        "GET /v1/model HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
    ];
    let mut held: Vec<TcpStream> = Vec::new();
    let mut connect = |at: usize| {
        let mut stream = service.connect();
        let _ = stream.write_all(beginnings[at % beginnings.len()].as_bytes());
        held.push(stream);
    };
    (0..60).for_each(&mut connect);
    for _ in 0..20 {
        assert_eq!(service.ask("/v1/neighbors", &question), expected);
        (0..8).for_each(&mut connect);
    }
    drop(held);
    // Bytes that are no requests, from a generator.
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    for _ in 0..200 {
        let mut bytes = head.clone().into_bytes();
        bytes.extend(question.to_string().bytes().cycle().take(1000));
        if next() % 2 == 0 {
            bytes = (0..next() % 3000).map(|_| next() as u8).collect();
        } else {
            (0..1 + next() % 20).for_each(|_| {
                let at = next() % bytes.len();
                bytes[at] = next() as u8;
            });
        }
        let mut stream = service.connect();
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let status = answer(stream).status;
        assert!(status == 0 || (400..500).contains(&status) || status == 200, "{status}");
    }
    // Deep nesting, long lists and long names within the limits.
    for body in
        ["[".repeat(1 << 19), format!("[{}0]", "0,".repeat(1 << 18)), "[\"".to_owned() + &"x".repeat(1 << 19)]
    {
        let status = service.request("POST", "/v1/neighbors", &[], body.as_bytes()).status;
        assert!([400, 422].contains(&status), "{status}");
    }
    let long = "x".repeat(1 << 20);
    assert!([0, 400, 414, 431].contains(&service.get(&format!("/{long}")).status));
    assert!([0, 400, 431].contains(&service.request("GET", "/", &[("X-Long", &long)], &[]).status));
    assert_eq!(service.ask("/v1/neighbors", &question), expected);
    assert_eq!(service.end(), (Some(0), String::new()));
}

/// Waits until the service has read this many models.
fn wait_for_load(service: &Service, load: u64) {
    while service.get("/v1/model").json()["load"].as_u64().unwrap() < load {
        std::thread::yield_now();
    }
}

#[test]
fn a_new_export_is_taken_up_and_no_request_is_lost() {
    let exported = Exported::new(&["--dim", "8", "--seed", "1"]);
    let service = exported.serve(&[]);
    let question = json!({ "entity": names().0[0] });
    let old = service.ask("/v1/neighbors", &question);
    let (is_over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let news = std::thread::scope(|scope| {
        let ask = || {
            let mut answers = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let answer = service.ask("/v1/neighbors", &question);
                if answers.last() != Some(&answer) {
                    answers.push(answer);
                }
                answered.fetch_add(1, Ordering::Relaxed);
            }
            answers
        };
        let asking: Vec<_> = (0..3).map(|_| scope.spawn(ask)).collect();
        let mut news = vec![old.clone()];
        for seed in ["2", "3"] {
            train(exported.folder.path(), &["--dim", "8", "--seed", seed, "--overwrite"]);
            wait_for_load(&service, news.len() as u64 + 1);
            let new = service.ask("/v1/neighbors", &question);
            assert_eq!(new, exported.command(&["neighbors", &names().0[0]], "")[0], "seed {seed}");
            news.push(new);
        }
        // The same model again, because a signal asks for it.
        service.signal(Signal::HUP);
        wait_for_load(&service, 4);
        is_over.store(true, Ordering::Relaxed);
        for asking in asking {
            // Each of them has seen the models in their order.
            let mut models = news.iter();
            for answer in asking.join().expect("no request fails") {
                assert!(models.any(|model| *model == answer), "{answer} is of no model, or of an old one");
            }
        }
        news
    });
    assert!(answered.into_inner() > 0 && news[0] != news[1] && news[1] != news[2]);
    assert_eq!(service.end(), (Some(0), String::new()));
}

#[test]
fn a_damaged_export_changes_nothing_until_it_is_whole() {
    let exported = Exported::new(&["--dim", "8"]);
    let service = exported.serve(&[]);
    let question = json!({ "entity": names().0[0] });
    let old = service.ask("/v1/neighbors", &question);
    let failed = || {
        let metrics = service.get("/metrics").text();
        let line = metrics.lines().find(|line| line.contains("loads_total{result=\"failed\"}")).unwrap();
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64
    };
    let file = |name: &str| exported.path().join(name);
    let (table, manifest) = (fs::read(file("entity.npy")).unwrap(), fs::read(file("export.json")).unwrap());
    let text = String::from_utf8(manifest.clone()).unwrap();
    let damage: [(&str, Vec<u8>); 5] = [
        ("export.json", b"{".to_vec()),
        ("export.json", text.replace("\"kge\"", "\"mf\"").into_bytes()),
        ("export.json", manifest.clone()),
        ("entity.npy", table[..table.len() - 1].to_vec()),
        ("entity.npy", vec![0; table.len()]),
    ];
    let mut failures = 0;
    for (name, content) in damage {
        // Another file with the same content is a model.
        let is_damaged = content != manifest;
        fs::write(file(name), content).unwrap();
        if is_damaged {
            while failed() == failures {
                std::thread::yield_now();
            }
            failures = failed();
            service.signal(Signal::HUP);
            while failed() == failures {
                std::thread::yield_now();
            }
            failures = failed();
        }
        assert_eq!(service.ask("/v1/neighbors", &question), old, "{name}");
    }
    let load = service.get("/v1/model").json()["load"].as_u64().unwrap();
    fs::write(file("entity.npy"), &table).unwrap();
    wait_for_load(&service, load + 1);
    // Nothing at all.
    let (here, away) = (exported.path(), exported.folder.path().join("away"));
    failures = failed();
    fs::rename(&here, &away).unwrap();
    while failed() == failures {
        std::thread::yield_now();
    }
    assert_eq!(service.ask("/v1/neighbors", &question), old);
    fs::rename(&away, &here).unwrap();
    wait_for_load(&service, load + 2);
    let (code, said) = service.end();
    assert_eq!(code, Some(0), "{said}");
    for reason in ["the last one stays", "entity.npy", "the model is one of mf", "export.json"] {
        assert!(said.contains(reason), "{reason}: {said}");
    }
}

#[test]
fn a_request_under_way_is_answered_before_the_end() {
    let exported = Exported::new(&["--dim", "8"]);
    let question = json!({ "entity": names().0[0] });
    for signal in [Signal::TERM, Signal::INT] {
        let service = exported.serve(&[]);
        let body = question.to_string();
        let expected = service.ask("/v1/neighbors", &question);
        // The service asks for the body when it has begun with the request.
        let mut stream = service.connect();
        let head = service.head("POST", "/v1/neighbors", &[("Expect", "100-continue")], body.len());
        stream.write_all(head.as_bytes()).unwrap();
        let mut go_on = [0; 25];
        stream.read_exact(&mut go_on).unwrap();
        assert!(go_on.starts_with(b"HTTP/1.1 100"), "{}", String::from_utf8_lossy(&go_on));
        // Idle, and with a request that never comes.
        let _idle = service.connect();
        service.signal(signal);
        while TcpStream::connect(&service.address).is_ok() {
            std::thread::yield_now();
        }
        stream.write_all(body.as_bytes()).unwrap();
        let answered = answer(stream);
        assert_eq!((answered.status, answered.json()), (200, expected));
        assert_eq!(service.ended(), (Some(0), String::new()));
    }
}

#[test]
fn other_machines_and_other_sites_are_kept_out() {
    let exported = Exported::new(&["--dim", "8"]);
    let model = exported.path();
    let model = model.to_str().unwrap();
    let token = exported.folder.path().join("token");
    write_secret(&token, TOKEN);
    let question = json!({ "entity": names().0[0] }).to_string();
    let service = exported.serve(&["--allow-host", "proxy.example"]);
    let ask = |service: &Service, headers: &[(&str, &str)]| {
        service.request("POST", "/v1/neighbors", headers, question.as_bytes())
    };
    for host in ["localhost", "127.0.0.1:1", "[::1]", "proxy.example"] {
        assert_eq!(ask(&service, &[("Host", host)]).status, 200, "{host}");
    }
    for host in ["evil.example", "10.1.2.3", "localhost.evil.example"] {
        let response = ask(&service, &[("Host", host)]);
        assert_eq!(response.status, 403, "{host}");
        assert!(response.error().contains("--allow-host"), "{}", response.error());
        assert_eq!(service.request("GET", "/metrics", &[("Host", host)], &[]).status, 403, "{host}");
    }
    assert_eq!(ask(&service, &[("Origin", "http://evil.example")]).status, 403);
    assert_eq!(ask(&service, &[("Sec-Fetch-Site", "cross-site")]).status, 403);
    let plain = service.get("/v1/model");
    assert_eq!(plain.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(plain.header("access-control-allow-origin"), None);
    drop(service);

    let service = exported.serve(&["--token-file", token.to_str().unwrap()]);
    let bearer = format!("Bearer {TOKEN}");
    for path in ["/", "/v1/model", "/metrics", "/nothing", "/?token=00112233445566778899aabbccddeeff"] {
        let response = service.get(path);
        assert_eq!((response.status, response.header("www-authenticate")), (401, Some("bearer")), "{path}");
        assert!(response.error().contains("Authorization: Bearer TOKEN"));
        assert_ne!(service.request("GET", path, &[("Authorization", &bearer)], &[]).status, 401, "{path}");
    }
    for wrong in ["Bearer 00", "Bearer ffffffffffffffffffffffffffffffff", "Basic abc", ""] {
        assert_eq!(ask(&service, &[("Authorization", wrong)]).status, 401, "{wrong}");
    }
    assert_eq!(ask(&service, &[("Authorization", &bearer)]).status, 200);
    drop(service);

    let refused =
        |flags: &[&str], reason: &str| KGE.refuses(&[&["serve", model], flags].concat(), "", reason);
    let free = ["--listen", "0.0.0.0:0"];
    refused(&free, "--token-file");
    refused(&["--listen", "[::]:0"], "--token-file");
    refused(&["--listen", "somewhere"], "--listen HOST:PORT");
    let file = token.to_str().unwrap();
    refused(&["--token-file", "/nowhere/token"], "cannot read the token from /nowhere/token");
    refused(&["--tls-cert", file], "--tls-key");
    refused(&["--tls-cert", file, "--tls-key", file], "contains no certificate in PEM");
    for flags in
        [&["--max-k", "0"][..], &["--timeout", "0"], &["--threads", "0"], &["--max-connections", "0"]]
    {
        refused(flags, flags[0]);
    }
    write_secret(&token, "secret-that-is-no-token");
    refused(&["--token-file", file], "no hexadecimal digit");
    KGE.refuses(
        &["serve", exported.folder.path().to_str().unwrap()],
        "",
        "name a folder that --export wrote",
    );
    KGE.refuses(&["serve"], "", "MODEL");
    // With a token, other machines may ask.
    write_secret(&token, TOKEN);
    let service = Service::start(KGE, &[model, "--listen", "0.0.0.0:0", "--token-file", file]);
    let port = service.printed.trim_end().strip_prefix("http://ADDRESS-OF-THIS-MACHINE:").unwrap();
    let stream = TcpStream::connect(format!("127.0.0.1:{}", port.trim_end_matches('/'))).unwrap();
    let head = service.head("GET", "/v1/model", &[("Host", "10.1.2.3"), ("Authorization", &bearer)], 0);
    (&stream).write_all(head.as_bytes()).unwrap();
    assert_eq!(answer(stream).status, 200);
}

fn write_secret(file: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(file, format!("{text}\n")).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_certificate_encrypts_connections() {
    let exported = Exported::new(&["--dim", "8"]);
    let files = Authority::new().issue(exported.folder.path(), "server", Certificate::Good);
    let (cert, key) = (files.cert.to_str().unwrap(), files.key.to_str().unwrap());
    let service = exported.serve(&["--tls-cert", cert, "--tls-key", key]);
    assert!(service.printed.starts_with("https://127.0.0.1:"), "{}", service.printed);
    // Who does not encrypt is no client.
    assert_eq!(service.get("/v1/model").status, 0);
    assert_eq!(service.end().0, Some(0));
    let other = Authority::new().issue(exported.folder.path(), "other", Certificate::Good);
    let model = exported.path();
    let flags =
        ["serve", model.to_str().unwrap(), "--tls-cert", cert, "--tls-key", other.key.to_str().unwrap()];
    KGE.refuses(&flags, "", "does not belong to the certificate");
}
