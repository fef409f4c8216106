//! Where a node process runs. Whether two processes share a core decides about half of what a message between
//! them takes, so both sides are placed alike, and the limit, which runs on the same threads, with them.

use crate::args::Cores;
use crate::error::BenchError;

/// Keeps this process, the `index`-th on its machine, and all threads that it starts from now on to where
/// `cores` says.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn pin(cores: Cores, index: usize) -> Result<(), BenchError> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let refused =
        |error| BenchError::Other(format!("cannot keep this process to a core ({error}); see --cores"));
    let place = match cores {
        Cores::Any => return Ok(()),
        Cores::Apart => index,
        Cores::Together => 0,
    };
    // Only those that this process may use: there may be fewer than the machine has.
    let allowed = sched_getaffinity(None).map_err(refused)?;
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    let Some(core) = allowed.get(place % allowed.len().max(1)) else { return Ok(()) };
    let mut only = CpuSet::new();
    only.set(*core);
    sched_setaffinity(None, &only).map_err(refused)
}

/// Elsewhere processes cannot be kept to a core.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn pin(_cores: Cores, _index: usize) -> Result<(), BenchError> {
    Ok(())
}
