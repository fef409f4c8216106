//! Copies that are kept in step: several engines, and a seed that decides who goes next.

mod cluster;
mod replication;
mod rows;
mod staleness;
mod static_replicas;
mod watch;
mod worker;

/// The seeds to be tried: so many, or `INTENDANT_SEEDS=first..end`; `INTENDANT_TRACE=1` tells what happens.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("INTENDANT_SEEDS") else { return 0..count };
    let parsed = text.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
    parsed.expect("INTENDANT_SEEDS is first..end")
}

/// Whether all seeds of a test are tried: what they reach together can be asserted.
fn is_complete() -> bool {
    std::env::var_os("INTENDANT_SEEDS").is_none()
}
