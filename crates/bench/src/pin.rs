//! The placement of a node process on cores. Whether two processes share a core decides about half of the
//! cost of a message between them. So both nodes are placed alike, and the limit, which runs on the same
//! threads, is placed with them.

use crate::args::Cores;
use crate::error::BenchError;

/// Pins this process, the `index`-th on its machine, and all threads that it starts from now on, as `cores`
/// says.
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
    // Only the cores that this process may use, which may be fewer than the machine has.
    let allowed = sched_getaffinity(None).map_err(refused)?;
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    let Some(core) = allowed.get(place % allowed.len().max(1)) else { return Ok(()) };
    let mut only = CpuSet::new();
    only.set(*core);
    sched_setaffinity(None, &only).map_err(refused)
}

/// On other systems, processes cannot be pinned.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn pin(_cores: Cores, _index: usize) -> Result<(), BenchError> {
    Ok(())
}
