//! One node's process: its environment, its process group, and its death with the launcher.

use super::saves::Saves;
use crate::variable;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};

/// The setting of training programs that makes them join a run.
const JOIN: &str = "INTENDANT_JOIN";

/// A node's process, the leader of a process group of its own.
pub(super) struct Child {
    pub(super) rank: usize,
    pub(super) pid: Pid,
    process: std::process::Child,
}

/// Whether a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessState {
    Running,
    /// A signal such as SIGSTOP has stopped it.
    Stopped,
    /// It has ended and waits for [`Child::reap`].
    Ended,
}

impl Child {
    /// Starts node `rank` of `nodes`; node 0 gets the coordinator's socket, and all get the pipe for
    /// [`super::tell_saved`].
    pub(super) fn start(
        mut command: Command,
        rank: usize,
        nodes: usize,
        port: u16,
        token: &str,
        listener: Option<TcpListener>,
        saves: &Saves,
    ) -> io::Result<Self> {
        let nodes = nodes.to_string();
        command
            .env(variable::RANK, rank.to_string())
            .env(variable::LOCAL_RANK, rank.to_string())
            .env(variable::NODES, &nodes)
            .env(variable::LOCAL_NODES, &nodes)
            .env(variable::ADDRESS, "127.0.0.1")
            .env(variable::PORT, port.to_string())
            .env(variable::TOKEN, token)
            .env(variable::LAUNCHED, "1")
            .env_remove(variable::OWN_PORT)
            .env_remove(variable::LISTEN_FD)
            .env_remove(variable::SAVED_FD)
            .stdin(Stdio::null())
            .process_group(0);
        if let Some(listener) = &listener {
            command.env(variable::LISTEN_FD, listener.as_raw_fd().to_string());
        }
        let socket = listener.as_ref().map(AsRawFd::as_raw_fd);
        let process = Self::spawn(command, [Some(saves.raw()), socket])?;
        drop(listener);
        Ok(Self { rank, pid: Pid::from_child(&process), process })
    }

    /// Starts a process that joins the nodes at a port of this machine; messages call it node `rank`.
    pub(super) fn start_later(
        mut command: Command,
        rank: usize,
        port: u16,
        token: &str,
        saves: &Saves,
    ) -> io::Result<Self> {
        for name in [
            variable::RANK,
            variable::LOCAL_RANK,
            variable::NODES,
            variable::LOCAL_NODES,
            variable::ADDRESS,
            variable::PORT,
            variable::OWN_PORT,
            variable::LISTEN_FD,
        ] {
            command.env_remove(name);
        }
        command
            .env(variable::TOKEN, token)
            .env(variable::LAUNCHED, "1")
            .env(JOIN, format!("127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .process_group(0);
        let process = Self::spawn(command, [Some(saves.raw()), None])?;
        Ok(Self { rank, pid: Pid::from_child(&process), process })
    }

    /// Starts a process that dies with this one, and inherits the pipe and maybe a socket.
    fn spawn(mut command: Command, inherit: [Option<RawFd>; 2]) -> io::Result<std::process::Child> {
        if let Some(pipe) = inherit[0] {
            command.env(variable::SAVED_FD, pipe.to_string());
        }
        let launcher = rustix::process::getpid();
        let before_exec = move || {
            die_with_parent(launcher)?;
            for fd in inherit.into_iter().flatten() {
                // SAFETY: the callers keep what the descriptors belong to until after the spawn, and a fork
                // copies descriptors.
                #[expect(unsafe_code, reason = "a descriptor on the other side of a fork")]
                let fd = unsafe { BorrowedFd::borrow_raw(fd) };
                fcntl_setfd(fd, FdFlags::empty())?;
            }
            Ok(())
        };
        // SAFETY: between fork and exec only system calls are made (prctl, getppid, fcntl) and nothing is
        // allocated: the errors are bare numbers, and the closure owns no memory.
        #[expect(unsafe_code, reason = "the only way to reach the process between fork and exec")]
        unsafe {
            command.pre_exec(before_exec)
        };
        command.spawn()
    }

    /// Whether the process runs, without waiting.
    pub(super) fn state(&self) -> ProcessState {
        let look = WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let is = |what| matches!(rustix::process::waitid(WaitId::Pid(self.pid), look | what), Ok(Some(_)));
        if is(WaitIdOptions::EXITED) {
            ProcessState::Ended
        } else if is(WaitIdOptions::STOPPED) {
            ProcessState::Stopped
        } else {
            ProcessState::Running
        }
    }

    /// Sends a signal to the process and its group. An empty group is no error.
    pub(super) fn signal(&self, signal: Signal) {
        if let Err(error) = rustix::process::kill_process_group(self.pid, signal) {
            tracing::debug!("cannot signal the group of node {}: {error}", self.rank);
        }
    }

    /// Takes the exit status of a process that has [ended](ProcessState::Ended). This kills the rest of its
    /// group while the dead leader still holds the number of the group: afterwards, another process could
    /// have that number.
    pub(super) fn reap(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        self.process.wait()
    }
}

/// Ties this process's life to its parent's, which should be `launcher`.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn die_with_parent(launcher: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The launcher may have died before the call above, in which case no signal will come.
    if rustix::process::getppid() == Some(launcher) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
}

/// On other systems, only the guardian watches.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn die_with_parent(_launcher: Pid) -> io::Result<()> {
    Ok(())
}
