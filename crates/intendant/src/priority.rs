//! Decides which threads of a process give way where workers and channels share cores.
//!
//! A channel computes little, but its own workers and all other nodes wait for it: requests, intents and
//! copies' updates queue up behind a thread that waits for its core. A worker uses its core as long as it has
//! one. The operating system treats both alike, so that on a shared core a channel waits for several time
//! slices per message, and copies become stale. So training threads lower their own priority, and loaders,
//! which are ahead of training anyway, lower theirs more. Raising the priority of channels would need
//! privileges.

/// The work of a thread of the program. The node's own threads are not meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It trains: it calls a [`Worker`](crate::Worker).
    Train,
    /// It prepares what another thread will train with.
    Load,
}

impl Work {
    /// The increase of the thread's nice value. If two threads both want more time than they get, and their
    /// nice values differ by 5, the system gives the thread with the higher value a third of the time of the
    /// other. It runs the other thread at once when that wakes up.
    const fn niceness(self) -> i32 {
        match self {
            Self::Train => 5,
            Self::Load => 10,
        }
    }
}

/// Lowers the priority of the calling thread.
#[cfg(target_os = "linux")]
pub(crate) fn give_way(work: Work) {
    use rustix::process::{getpriority_process, setpriority_process};
    // On Linux, both calls apply to the calling thread; on other systems, they apply to the process.
    let lowered =
        getpriority_process(None).and_then(|nice| setpriority_process(None, nice + work.niceness()));
    if let Err(error) = lowered {
        tracing::debug!(?work, %error, "the thread keeps its priority");
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn give_way(_work: Work) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::process::getpriority_process;
    use std::thread;

    #[test]
    fn only_the_calling_thread_gives_way() {
        let own = getpriority_process(None).expect("a thread has a priority");
        let of = |work| {
            let lowered = move || {
                give_way(work);
                getpriority_process(None).expect("a thread has a priority")
            };
            thread::spawn(lowered).join().expect("the thread ends")
        };
        // 19 is the lowest priority.
        assert_eq!(of(Work::Train), (own + 5).min(19));
        assert_eq!(of(Work::Load), (own + 10).min(19));
        assert_eq!(getpriority_process(None), Ok(own));
    }
}
