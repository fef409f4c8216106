//! Supervises the nodes: notices ends and stops, enforces deadlines, and handles signals to the launcher.

use super::child::{Child, ProcessState};
use super::ends::{NodeEnd, PEER_LOST, exit_code, may_restart};
use super::guardian::Guardian;
use super::saves::Saves;
use rustix::process::Signal;
use std::io;
use std::io::Write;
use std::time::Duration;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::time::Instant;

/// Time for the other nodes to end by themselves when one has failed. The control plane needs less time to
/// notice the failure and to name the node. If all nodes are stopped, they have the same time to be
/// continued.
const GRACE: Duration = Duration::from_secs(10);

/// Signals that come so soon after the first one count as the same request: a sender that signals a process
/// group may signal the launcher as well, which passes the signal on.
pub const REPEATED_SIGNAL: Duration = Duration::from_millis(300);

/// Longest pause between two checks. It is a safety net: ends and stops of children cause signals.
const LOOK: Duration = Duration::from_millis(500);

/// Whether this process was started to ignore SIGHUP, as by `nohup`.
pub fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// Signals to the launcher.
pub(super) struct Signals {
    interrupt: Stream,
    terminate: Stream,
    /// `None` if SIGHUP is ignored, so that `nohup` has its effect.
    hang_up: Option<Stream>,
    user: Stream,
    child: Stream,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: if ignores_hang_up() { None } else { Some(signal(SignalKind::hangup())?) },
            user: signal(SignalKind::user_defined1())?,
            child: signal(SignalKind::child())?,
        })
    }

    /// Waits until something happens to a child, until the given time, or for a signal that ends the run.
    /// Returns `None` in the first two cases, else the exit code of the run and the signal for the nodes.
    /// Ctrl-C reaches nodes as SIGINT, so that they report what the user did.
    async fn next(&mut self, until: Instant) -> Option<(u8, Signal)> {
        let hang_up = async {
            match &mut self.hang_up {
                Some(stream) => stream.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Some((130, Signal::INT)),
            _ = self.terminate.recv() => Some((143, Signal::TERM)),
            _ = hang_up => Some((129, Signal::HUP)),
            _ = self.user.recv() => Some((138, Signal::USR1)),
            _ = self.child.recv() => None,
            () = tokio::time::sleep_until(until) => None,
        }
    }
}

/// The nodes that run. Dropping this value kills them.
pub(super) struct Children<'a> {
    alive: Vec<Child>,
    guardian: &'a mut Guardian,
}

impl<'a> Children<'a> {
    pub(super) fn new(guardian: &'a mut Guardian) -> Self {
        Self { alive: Vec::new(), guardian }
    }

    pub(super) fn add(&mut self, child: Child) {
        self.guardian.watch(child.pid);
        self.alive.push(child);
    }

    fn signal(&self, signal: Signal) {
        self.alive.iter().for_each(|child| child.signal(signal));
    }

    /// Whether nodes are left and a signal has stopped all of them.
    fn all_stopped(&self) -> bool {
        !self.alive.is_empty() && self.alive.iter().all(|child| child.state() == ProcessState::Stopped)
    }

    /// Removes the nodes that have ended. Returns the rank, process and end of each.
    fn reap_ended(&mut self, killing: bool) -> Vec<(usize, i32, NodeEnd)> {
        let mut ended = Vec::new();
        let guardian = &mut self.guardian;
        self.alive.retain_mut(|child| {
            if child.state() != ProcessState::Ended {
                return true;
            }
            guardian.forget(child.pid);
            let end = child.reap().map_or(NodeEnd::Code(1), |status| NodeEnd::new(status, killing));
            ended.push((child.rank, child.pid.as_raw_pid(), end));
            false
        });
        ended
    }
}

impl Drop for Children<'_> {
    fn drop(&mut self) {
        for child in &mut self.alive {
            child.signal(Signal::KILL);
            self.guardian.forget(child.pid);
            if let Err(error) = child.reap() {
                tracing::debug!("node {} cannot be waited for: {error}", child.rank);
            }
        }
    }
}

/// The state of the run.
#[derive(Clone, Copy)]
enum Course {
    Running,
    /// All nodes are stopped; they have until this time to be continued.
    Stopped(Instant),
    /// A node has failed; the others have until this time to end.
    Failing(Instant),
    /// A signal told the launcher to end, with this exit code; nodes have until this time to end.
    Interrupted(u8, Instant),
}

/// How all nodes have ended.
pub(super) struct Ended {
    /// The exit code.
    pub(super) code: u8,
    /// Whether another start may end better. After a signal to the launcher, the user wants no other start.
    pub(super) may_restart: bool,
}

/// The settings of the supervision.
pub(super) struct Manner<'a> {
    /// The time that nodes have to end after a signal.
    pub(super) grace: Duration,
    /// Whether the others go on when a signal ends a node.
    pub(super) survives: bool,
    /// Starts another process, which joins at a port.
    pub(super) add: &'a dyn Fn(usize, u16, &Saves) -> Option<Child>,
}

/// Waits until all nodes have ended.
pub(super) async fn run(
    mut children: Children<'_>,
    signals: &mut Signals,
    saves: &mut Saves,
    Manner { grace, survives, add }: &Manner<'_>,
) -> Ended {
    let grace = *grace;
    let first = children.alive.len();
    let mut started = first;
    // The ends of nodes without which the others go on.
    let mut lost = Vec::new();
    let mut ends = Vec::new();
    let mut course = Course::Running;
    let mut killing = false;
    let mut signalled = Instant::now();
    loop {
        for (rank, pid, end) in children.reap_ended(killing) {
            if end.failed() && !matches!(course, Course::Interrupted(..)) {
                say(&format!("launch: node {rank} (process {pid}) {end}"));
            }
            let is_killed = end.by_signal() && !killing;
            // The others do not miss a process that joined later and was refused or has left.
            let is_extra = rank >= first && end.failed() && !killing;
            if *survives && (is_killed || is_extra) && matches!(course, Course::Running) {
                lost.push(end);
                continue;
            }
            if end.failed() && !killing && matches!(course, Course::Running | Course::Stopped(_)) {
                course = Course::Failing(Instant::now() + GRACE);
            }
            ends.push(end);
        }
        if children.alive.is_empty() {
            break;
        }
        if *survives && matches!(course, Course::Running) {
            for port in saves.wanted() {
                if let Some(child) = add(started, port, saves) {
                    say(&format!("launch: started node {started} (process {})", child.pid.as_raw_pid()));
                    children.add(child);
                    started += 1;
                }
            }
        }
        let now = Instant::now();
        let all_stopped = children.all_stopped();
        match course {
            Course::Running if all_stopped => {
                course = Course::Stopped(now + GRACE);
                say(&format!(
                    "launch: all nodes are stopped (by SIGSTOP or the like); the run ends in {} s unless \
                     they are continued (SIGCONT)",
                    GRACE.as_secs()
                ));
            }
            Course::Stopped(_) if !all_stopped && !killing => {
                course = Course::Running;
                say("launch: nodes were continued; the run goes on");
            }
            Course::Stopped(until) if now >= until && !killing => {
                killing = true;
                children.signal(Signal::KILL);
            }
            Course::Failing(until) | Course::Interrupted(_, until) if now >= until && !killing => {
                killing = true;
                children.signal(Signal::KILL);
            }
            // A stopped process will not end by itself, however long it is given.
            Course::Failing(_) if !killing && all_stopped => {
                killing = true;
                children.signal(Signal::KILL);
            }
            Course::Running | Course::Stopped(_) | Course::Failing(_) | Course::Interrupted(..) => {}
        }
        let until = match course {
            Course::Stopped(until) | Course::Failing(until) | Course::Interrupted(_, until) if !killing => {
                until.min(now + LOOK)
            }
            Course::Running | Course::Stopped(_) | Course::Failing(_) | Course::Interrupted(..) => now + LOOK,
        };
        if let Some((code, signal)) = signals.next(until).await {
            match course {
                Course::Interrupted(..) if signalled.elapsed() < REPEATED_SIGNAL => {}
                Course::Interrupted(first, _) => course = Course::Interrupted(first, Instant::now()),
                Course::Running | Course::Stopped(_) | Course::Failing(_) => {
                    signalled = Instant::now();
                    course = Course::Interrupted(code, signalled + grace);
                    children.signal(signal);
                }
            }
        }
    }
    let is_well = ends.iter().all(|end| !end.failed()) && !ends.is_empty() && saves.is_done();
    if !is_well {
        // No process went on to the end without the lost nodes, so their ends count.
        ends.splice(0..0, lost);
    }
    match course {
        Course::Interrupted(code, _) => Ended { code, may_restart: false },
        // Every node stopped answering.
        Course::Stopped(_) => Ended { code: PEER_LOST, may_restart: true },
        Course::Running | Course::Failing(_) => {
            Ended { code: exit_code(&ends), may_restart: may_restart(&ends) }
        }
    }
}

/// Writes a line to standard error in one piece: nodes write to the same place.
pub(super) fn say(line: &str) {
    // Without standard error nothing can be printed; the exit code remains.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}
