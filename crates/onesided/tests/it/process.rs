//! This program, started again as another node.

use intendant_onesided::{Host, MappedWindow, Name};
use intendant_segment::Segment;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::cluster::{LONG, SECRET};

/// The start of a node's lines, which distinguishes them from the test's own output.
const MARK: &str = "node: ";
/// The rank of a node that was started.
const RANK: &str = "INTENDANT_ONESIDED_TEST_RANK";

/// A process that runs an ignored test. It ends when its handle is dropped.
pub(crate) struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    pub(crate) fn start(test: &str, rank: usize) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
        command.env(RANK, rank.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, input, output }
    }

    /// The next line that the process has printed.
    pub(crate) fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).expect("a line");
            assert!(read > 0, "the process has ended: {:?}", self.child.wait());
            if let Some((_, said)) = line.split_once(MARK) {
                return said.trim_end().to_owned();
            }
        }
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the process lives");
    }

    pub(crate) fn kill(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::KILL).expect("a child of this process");
        assert!(!self.child.wait().expect("a child of this process").success());
    }

    /// As [`Self::kill`], if the process still lives.
    #[cfg(feature = "verbs")]
    pub(crate) fn kill_once(&mut self) {
        if self.child.try_wait().expect("a child of this process").is_none() {
            self.kill();
        }
    }

    pub(crate) fn succeed(mut self) {
        let status = self.child.wait().expect("a child of this process");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In a process that was started: its rank.
pub(crate) fn rank() -> usize {
    std::env::var(RANK).expect("started by a test").parse().expect("a number")
}

/// In a process that was started: prints a line.
#[expect(clippy::print_stdout, reason = "the test that has started this process reads it")]
pub(crate) fn say(line: impl std::fmt::Display) {
    println!("{MARK}{line}");
}

/// In a process that was started: the next line of its input.
pub(crate) fn told() -> String {
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line).expect("a line");
    assert!(read > 0, "the test has ended");
    line.trim_end().to_owned()
}

/// In a process that was started: a window, connected to those of the other nodes.
pub(crate) fn connect(words: usize) -> MappedWindow {
    let host = Host::listen().expect("a socket");
    say(host.name());
    let names: Vec<Name> = told().split(' ').map(|name| name.parse().expect("a name")).collect();
    let segment = Segment::shared(words).expect("shared memory");
    host.connect(segment, rank(), &names, SECRET, LONG).expect("all nodes connect")
}

/// Tells processes each other's names. `own` is the name of this process, which is the last node.
pub(crate) fn introduce(processes: &mut [Process], own: Option<Name>) -> Vec<Name> {
    let names = processes.iter_mut().map(|process| process.hear().parse().expect("a name"));
    let names: Vec<Name> = names.chain(own).collect();
    let line = names.iter().map(Name::to_string).collect::<Vec<_>>().join(" ");
    for process in processes {
        process.tell(&line);
    }
    names
}
