//! A process that ends the nodes if the launcher was killed, and so cannot end them itself.
//!
//! Some kernels end a node's own process when the launcher dies. But a node may be a shell that runs the
//! actual program, and not every program that is launched knows about the launcher. The guardian is a fork of
//! the launcher that holds one end of a pipe and a list of process groups. The kernel closes the other end
//! however the launcher dies; then the guardian kills the groups and ends.
//!
//! The guardian makes system calls only, because it may have been forked from a process with threads.

use intendant_core::limits;
use rustix::process::{Pid, WaitOptions};
use std::io::{self, PipeWriter, Write};
use std::os::fd::AsRawFd;

/// The launcher's end.
pub(super) struct Guardian {
    /// Closed first on drop, which ends the guardian.
    pipe: Option<PipeWriter>,
    pid: Pid,
}

impl Guardian {
    /// Forks the guardian.
    pub(super) fn start() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let fd = reader.as_raw_fd();
        // SAFETY: the child calls `guard` only, which makes system calls that are allowed after a fork of a
        // process with threads, uses no memory but its stack, and never returns.
        #[expect(unsafe_code, reason = "the guardian is this program's own code in another process")]
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: this is the fresh fork, and `reader` is open in it.
            #[expect(unsafe_code, reason = "as above")]
            unsafe {
                guard(fd)
            }
        }
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { pipe: Some(writer), pid })
    }

    /// The process group `leader` is to end with the launcher.
    pub(super) fn watch(&mut self, leader: Pid) {
        self.tell(leader.as_raw_pid());
    }

    /// The process group `leader` has ended; its number may soon be another's.
    pub(super) fn forget(&mut self, leader: Pid) {
        self.tell(-leader.as_raw_pid());
    }

    fn tell(&mut self, number: i32) {
        if let Some(pipe) = &mut self.pipe
            && let Err(error) = pipe.write_all(&number.to_ne_bytes())
        {
            // Another process killed the guardian. The nodes run on; if the launcher is killed now, it may
            // leave some nodes behind.
            tracing::warn!("the guardian process is gone: {error}");
            self.pipe = None;
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.pipe = None;
        if let Err(error) = rustix::process::waitpid(Some(self.pid), WaitOptions::empty()) {
            tracing::debug!("the guardian was not there to be waited for: {error}");
        }
    }
}

/// The guardian: keeps the list until the pipe closes, then kills what is on it.
///
/// # Safety
/// To be called in a fresh fork only: it takes over the process. `pipe` must be open.
#[expect(unsafe_code, reason = "system calls after a fork")]
unsafe fn guard(pipe: i32) -> ! {
    let mut groups = [0i32; limits::NODES_MAX];
    // SAFETY: plain system calls on this process's own descriptors, on stack memory of the stated size, and
    // on process groups that the launcher named.
    unsafe {
        // A session of its own is out of the terminal's reach: Ctrl-C is for the launcher, which may still
        // need this process.
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1] {
            libc::signal(signal, libc::SIG_IGN);
        }
        // A copy of the launcher's end would keep the pipe open for ever, and a copy of the launcher's output
        // would keep readers of that output waiting.
        if libc::dup2(pipe, 0) != 0 {
            libc::_exit(1);
        }
        close_all_but_the_first();
        let mut number = [0u8; 4];
        loop {
            // A write of four bytes to a pipe is never split.
            match libc::read(0, number.as_mut_ptr().cast(), number.len()) {
                4 => note(&mut groups, i32::from_ne_bytes(number)),
                -1 if *errno() == libc::EINTR => {}
                _ => break,
            }
        }
        for group in groups {
            if group > 1 {
                libc::kill(-group, libc::SIGKILL);
            }
        }
        libc::_exit(0)
    }
}

/// Adds a positive number, removes a negative one.
fn note(groups: &mut [i32], number: i32) {
    let (from, to) = if number > 0 { (0, number) } else { (-number, 0) };
    if let Some(slot) = groups.iter_mut().find(|slot| **slot == from) {
        *slot = to;
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[expect(unsafe_code, reason = "system calls after a fork")]
unsafe fn errno() -> *mut i32 {
    // SAFETY: always valid for the calling thread.
    unsafe { libc::__errno_location() }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[expect(unsafe_code, reason = "system calls after a fork")]
unsafe fn errno() -> *mut i32 {
    // SAFETY: always valid for the calling thread.
    unsafe { libc::__error() }
}

#[expect(unsafe_code, reason = "system calls after a fork")]
unsafe fn close_all_but_the_first() {
    // SAFETY: closing descriptors of this process, none of which is used any more.
    unsafe {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if libc::syscall(libc::SYS_close_range, 1u32, u32::MAX, 0u32) == 0 {
            return;
        }
        let open_max = libc::sysconf(libc::_SC_OPEN_MAX).clamp(256, 1 << 20);
        for fd in 1..open_max as i32 {
            libc::close(fd);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_keeps_who_is_alive() {
        let mut groups = [0; 4];
        for number in [10, 20, 30, -20, 40, 50, -10, -99, 60] {
            note(&mut groups, number);
        }
        assert_eq!(groups, [60, 40, 30, 50]);
    }
}
