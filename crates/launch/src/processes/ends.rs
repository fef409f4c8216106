//! How nodes ended, as text and as one exit code.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// How one node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeEnd {
    /// It returned this code.
    Code(u8),
    /// A signal killed it.
    Signal(i32),
    /// The launcher killed it, because it did not end by itself when it should have.
    Killed,
}

impl NodeEnd {
    pub(super) fn new(status: ExitStatus, killed: bool) -> Self {
        match (status.code(), status.signal()) {
            (_, Some(9)) if killed => Self::Killed,
            (_, Some(signal)) => Self::Signal(signal),
            (Some(code), None) => Self::Code(code as u8),
            (None, None) => Self::Code(1),
        }
    }

    /// Whether a signal ended it, either directly or through the node's own handler.
    pub(super) fn by_signal(self) -> bool {
        match self {
            Self::Signal(_) => true,
            Self::Code(code) => (SIGNAL + 1..=SIGNAL + 64).contains(&code),
            Self::Killed => false,
        }
    }

    pub(super) fn failed(self) -> bool {
        self != Self::Code(0)
    }
}

/// The exit code for nodes that ended in this order.
pub(super) fn exit_code(ends: &[NodeEnd]) -> u8 {
    let codes = |keep: fn(NodeEnd) -> Option<u8>| ends.iter().copied().filter_map(keep).collect::<Vec<_>>();
    if ends.contains(&NodeEnd::Code(PEER_LOST)) {
        return PEER_LOST;
    }
    let failures = codes(|end| match end {
        NodeEnd::Code(0) | NodeEnd::Killed => None,
        NodeEnd::Code(code) => Some(code),
        NodeEnd::Signal(signal) => Some(128u8.saturating_add(signal as u8)),
    });
    // A node that ended because of another returns 1, and may be faster than the other, whose code says more.
    let telling = failures.iter().copied().find(|&code| code != 1);
    let killed = ends.contains(&NodeEnd::Killed).then_some(128 + 9);
    telling.or(failures.first().copied()).or(killed).unwrap_or(0)
}

/// Whether another start may end better than nodes with these ends: a node was killed, panicked or lost
/// another one, and no code means that another start would end in the same way.
pub(super) fn may_restart(ends: &[NodeEnd]) -> bool {
    let is_fatal = |end: &NodeEnd| matches!(end, NodeEnd::Code(2 | 3 | 5));
    let is_passing = |end: &NodeEnd| {
        end.by_signal() || matches!(end, NodeEnd::Killed | NodeEnd::Code(PEER_LOST | PANICKED))
    };
    ends.iter().any(is_passing) && !ends.iter().any(is_fatal)
}

/// The exit code of a run that lost a node.
pub(super) const PEER_LOST: u8 = 4;

/// The exit code of Rust programs that panicked.
const PANICKED: u8 = 101;

/// Programs that a signal ended return this plus its number, if they handle it.
const SIGNAL: u8 = 128;

impl fmt::Display for NodeEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Code(code) => {
                let meaning = match code {
                    2 => " (usage)",
                    3 => " (diverged)",
                    4 => " (a peer was lost)",
                    5 => " (corrupt checkpoint or trace)",
                    PANICKED => " (panicked)",
                    _ => "",
                };
                write!(f, "returned exit code {code}{meaning}")
            }
            Self::Signal(signal) => match signal_name(signal) {
                Some(name) => write!(f, "was killed by signal {signal} ({name})"),
                None => write!(f, "was killed by signal {signal}"),
            },
            Self::Killed => f.write_str("did not end by itself and was killed by the launcher"),
        }
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS: memory that is not there, such as a full /dev/shm",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL: an instruction that this processor does not know",
        libc::SIGINT => "SIGINT",
        libc::SIGKILL => "SIGKILL: by a user, or by the kernel when memory ran out",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGTERM => "SIGTERM",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::NodeEnd::{Code, Killed, Signal};
    use super::*;

    #[test]
    fn programs_tell_by_their_exit_code_that_a_signal_ended_them() {
        assert!([Signal(9), Code(129), Code(143), Code(192)].iter().all(|end| end.by_signal()));
        // The last of these codes is that of `exit(-1)` and of a failed `ssh`.
        assert!(![Killed, Code(0), Code(1), Code(128), Code(255)].iter().any(|end| end.by_signal()));
    }

    #[test]
    fn the_most_telling_end_gives_the_exit_code() {
        let cases: [(&[NodeEnd], u8); 9] = [
            (&[Code(0), Code(0)], 0),
            (&[Signal(9), Code(4), Code(4)], 4),
            (&[Code(3), Code(1), Code(4)], 4),
            (&[Code(1), Code(3), Code(2)], 3),
            (&[Code(1), Code(1), Code(0)], 1),
            (&[Code(0), Signal(11), Code(1)], 139),
            (&[Code(1), Killed], 1),
            (&[Code(7), Code(3)], 7),
            (&[Killed, Code(0)], 137),
        ];
        for (ends, code) in cases {
            assert_eq!(exit_code(ends), code, "{ends:?}");
        }
    }

    #[test]
    fn another_start_follows_what_it_may_mend() {
        let cases: [(&[NodeEnd], bool); 15] = [
            (&[Code(0), Code(0)], false),
            (&[Signal(9), Code(4), Code(4)], true),
            (&[Code(4), Code(0)], true),
            (&[Code(101), Code(1)], true),
            (&[Code(143), Code(1)], true),
            (&[Killed, Code(1)], true),
            (&[Code(1), Code(1)], false),
            (&[Code(1), Code(7)], false),
            // The training would diverge again, whatever the codes of the other nodes are.
            (&[Code(3), Code(4)], false),
            (&[Signal(9), Code(5)], false),
            (&[Code(2), Code(2)], false),
            (&[Code(2), Signal(9)], false),
            (&[Killed, Code(2), Code(4)], false),
            (&[Code(128)], false),
            (&[], false),
        ];
        for (ends, may) in cases {
            assert_eq!(may_restart(ends), may, "{ends:?}");
        }
    }

    #[test]
    fn a_kill_of_ours_is_told_from_a_kill_by_others() {
        let killed = ExitStatus::from_raw(9);
        assert_eq!(NodeEnd::new(killed, true), Killed);
        assert_eq!(NodeEnd::new(killed, false), Signal(9));
        assert_eq!(NodeEnd::new(ExitStatus::from_raw(4 << 8), true), Code(4));
    }
}
