//! Measures a service: requests for the neighbours of entities over connections that stay, next to the search
//! by itself on the same table and the same machine.
//!
//! ```text
//! intendant kge --data builtin:synthetic:100000x10x300000 --dim 128 --epochs 0 --export MODEL
//! intendant kge serve MODEL --listen 127.0.0.1:7879
//! cargo run --release -p intendant-serve --example load -- MODEL 127.0.0.1:7879 128 10
//! ```
//!
//! The arguments are the model, the address, the number of connections, and the seconds of each measurement.

#![expect(clippy::print_stdout, reason = "the result of the program")]

use intendant_trained::{Export, Table, top};
use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// Queries of a search.
const TOGETHER: usize = 128;

/// Answers to a question.
const K: usize = 10;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [model, address, connections, seconds] = &words[..] else {
        return Err("arguments: MODEL ADDRESS CONNECTIONS SECONDS".into());
    };
    let (connections, lasts): (usize, _) = (connections.parse()?, Duration::from_secs(seconds.parse()?));
    let export = Export::open(Path::new(model), "kge")?;
    let names: Arc<Vec<String>> =
        Arc::new(export.names("entity_ids.txt")?.iter().map(str::to_owned).collect());
    let unit = export.table::<f32>("entity")?.unit();
    let threads = std::thread::available_parallelism()?.get();
    println!("{} rows of {}; searches by {threads} threads", unit.rows(), unit.columns());

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let before = searches(&unit, threads, lasts);
    let (count, mut took) = runtime.block_on(requests(address, connections, lasts, &names))?;
    let after = searches(&unit, threads, lasts);
    took.sort_unstable();
    let percentile = |percent: usize| took[(took.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    let per_second = count as f64 / lasts.as_secs_f64();
    println!("search by itself: {before:.0} and {after:.0} queries/s (before and after)");
    println!(
        "{connections} connections: {per_second:.0} requests/s, p50 {:.1} ms, p99 {:.1} ms",
        percentile(50),
        percentile(99)
    );
    println!("ratio: {:.2}", per_second / ((before + after) / 2.0));
    Ok(())
}

/// Queries per second of searches for the neighbours of rows.
fn searches(unit: &Table<f32>, threads: usize, lasts: Duration) -> f64 {
    let (begin, mut searches) = (Instant::now(), 0);
    while begin.elapsed() < lasts {
        let rows = (0..TOGETHER).map(|at| (searches * TOGETHER + at) % unit.rows());
        let own: Vec<u32> = rows.map(|row| row as u32).collect();
        let queries: Vec<f32> = own.iter().flat_map(|row| unit.row(*row as usize)).copied().collect();
        let own: Vec<&[u32]> = own.iter().map(std::slice::from_ref).collect();
        black_box(top(unit, &queries, K, &own, threads));
        searches += 1;
    }
    (searches * TOGETHER) as f64 / begin.elapsed().as_secs_f64()
}

/// The number of requests, and how long each of them took.
async fn requests(
    address: &str,
    connections: usize,
    lasts: Duration,
    names: &Arc<Vec<String>>,
) -> Result<(usize, Vec<Duration>), Failure> {
    let until = Instant::now() + lasts;
    let client = |at: usize| {
        let (address, names) = (address.to_owned(), Arc::clone(names));
        tokio::spawn(async move {
            let stream = TcpStream::connect(&address).await?;
            stream.set_nodelay(true)?;
            let (mut stream, mut took, mut next) = (BufReader::new(stream), Vec::new(), at);
            while Instant::now() < until {
                let begin = Instant::now();
                ask(&mut stream, &address, &names[next % names.len()]).await?;
                took.push(begin.elapsed());
                next += connections;
            }
            Ok::<_, Failure>(took)
        })
    };
    let clients: Vec<_> = (0..connections).map(client).collect();
    let mut took = Vec::new();
    for client in clients {
        took.extend(client.await??);
    }
    if took.is_empty() {
        return Err("no request was answered".into());
    }
    Ok((took.len(), took))
}

/// Asks for the neighbours of an entity, and reads the answer.
async fn ask(stream: &mut BufReader<TcpStream>, address: &str, entity: &str) -> Result<(), Failure> {
    let body = serde_json::json!({ "entity": entity, "k": K }).to_string();
    let length = body.len();
    let request =
        format!("POST /v1/neighbors HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await?;
    let (mut line, mut length, mut is_first) = (String::new(), 0, true);
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        if std::mem::take(&mut is_first) && !line.starts_with("HTTP/1.1 200") {
            return Err(format!("the answer is {}", line.trim_end()).into());
        }
        if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim_end().parse()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(())
}
