//! Whether this process shares its cores with another one.

/// Whether `process` may run on a core that the calling thread may run on as well. For an unknown process,
/// e.g. one in a container of its own, the answer is yes.
#[cfg(target_os = "linux")]
pub(crate) fn shared_with(process: Option<i32>) -> bool {
    use rustix::process::Pid;
    use rustix::thread::{CpuSet, sched_getaffinity};
    let Some(process) = process.and_then(Pid::from_raw) else { return true };
    let (Ok(ours), Ok(theirs)) = (sched_getaffinity(None), sched_getaffinity(Some(process))) else {
        return true;
    };
    (0..CpuSet::MAX_CPU).any(|core| ours.is_set(core) && theirs.is_set(core))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn shared_with(_: Option<i32>) -> bool {
    true
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_on_other_cores_shares_none() {
        assert!(shared_with(None));
        assert!(shared_with(Some(0)), "of another namespace");
        assert!(shared_with(Some(i32::MAX)), "no process has this number");
        assert!(shared_with(Some(std::process::id() as i32)));
        let allowed = sched_getaffinity(None).expect("Linux");
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        let (Some(first), Some(second)) = (cores.next(), cores.next()) else { return };
        let only = |core| {
            let mut set = CpuSet::new();
            set.set(core);
            sched_setaffinity(None, &set).expect("one of those that are allowed");
        };
        // A child inherits the cores of the thread that starts it.
        only(first);
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat");
        let process = Some(child.id() as i32);
        assert!(shared_with(process));
        only(second);
        assert!(!shared_with(process));
        sched_setaffinity(None, &allowed).expect("as before");
        assert!(shared_with(process));
        drop(child.stdin.take());
        child.wait().expect("it ends with its input");
    }
}
