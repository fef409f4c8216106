//! The clock of a value that a get at clock t with slack s returns is at least max(t − s, 0)
//! [Lapser §3.1.3.C].

use intendant_sim::Finding;

pub(crate) fn check(node: usize, key: u64, (t, s): (u64, u64), clock: u64) -> Result<(), Finding> {
    if i128::from(clock) >= (i128::from(t) - i128::from(s)).max(0) {
        return Ok(());
    }
    Err((
        "fresh",
        format!("n{node} gets key {key} at clock {t} with slack {s}, and the value has clock {clock}"),
    ))
}
