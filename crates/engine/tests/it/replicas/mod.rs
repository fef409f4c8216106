//! Replicas on several nodes.

mod replication;
mod rounded;
mod rows;
mod staleness;
mod static_replicas;

/// The seeds to try: `0..count`, or `INTENDANT_SEEDS=first..end`. `INTENDANT_TRACE=1` prints what happens.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("INTENDANT_SEEDS") else { return 0..count };
    let parsed = text.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
    parsed.expect("INTENDANT_SEEDS must be of the form first..end")
}

/// Whether a test tries all its seeds, so that it can assert what they reach together.
fn is_complete() -> bool {
    std::env::var_os("INTENDANT_SEEDS").is_none()
}
