//! Ten million events: how long answers take, and how large they are.

use crate::server::Server;
use crate::synthetic::write_large;
use intendant_dashboard::Settings;
use tokio::time::Instant;

/// Prints a table. `cargo test -p intendant-dashboard --test it -- --ignored --nocapture benchmark`
#[test]
#[ignore = "a benchmark: it takes a minute, and its result depends on the machine"]
fn answers_about_ten_million_events() {
    let folder = tempfile::tempdir().unwrap();
    write_large(folder.path(), 1_000_000, 2_500_000);
    let server = Server::start(Settings { traces: vec![folder.path().to_owned()], ..Settings::default() });
    let mut lines = String::new();
    let mut ask = |name: &str, path: &str| {
        let mut best = f64::MAX;
        let mut bytes = 0;
        for _ in 0..3 {
            let start = Instant::now();
            let response = server.get(&format!("/api/runs/trace-1{path}"));
            best = best.min(start.elapsed().as_secs_f64() * 1e3);
            assert_eq!(response.status, 200, "{path}: {}", response.text());
            bytes = response.body.len();
        }
        lines.push_str(&format!("{name:<34} {best:>8.1} ms {bytes:>9} bytes\n"));
    };
    let start = Instant::now();
    assert_eq!(server.get("/api/runs/trace-1").status, 200);
    let reading = start.elapsed().as_secs_f64();
    ask("overview", "");
    ask("over time, 100 keys", "/matrix?rows=100&columns=1200");
    ask("over time, 400 busiest keys", "/matrix?rows=400&columns=1600&choose=moved");
    ask("over time, sample of keys", "/matrix?rows=100&columns=1200&keys=sample:1/100");
    ask("replay, 1024 keys", "/matrix?rows=1024&columns=600&mode=instant");
    ask("replay, 1024 busiest keys", "/matrix?rows=1024&columns=600&mode=instant&choose=moved");
    ask("replay, 4096 keys", "/matrix?rows=4096&columns=219&mode=instant");
    ask("series, all", "/series?columns=200");
    ask("series, a hundredth of the time", "/series?columns=200&from=1000000&to=1175000");
    ask("series, a thousand busy keys", "/series?columns=200&keys=0..1000");
    ask("series, a tenth of the keys", "/series?columns=200&keys=0..100000");
    ask("series, half of the keys", "/series?columns=200&keys=sample:1/2");
    ask("series, most of the keys", "/series?columns=200&keys=10..1000000");
    ask("affinity, 8 busiest keys", "/affinity?keys=0,1,2,3,4,5,6,7");
    ask("why, the busiest key", "/keys/0?columns=1200");
    ask("state of the busiest key", "/keys/0/state?at=8000000");
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let memory = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    eprintln!("reading {reading:.1} s, {memory}\n{lines}");
}
