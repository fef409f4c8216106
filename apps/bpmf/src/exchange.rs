//! How nodes exchange rows (`--exchange`).

use intendant_core::{UnknownName, by_name};
use std::fmt;
use std::str::FromStr;

/// How nodes exchange rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// Lapser: a node writes each row to the nodes that need it [Lapser §3.2.2.A].
    LapserPush,
    /// Lapser: a node reads a row when its copy is too old [Lapser §3.2.2.B].
    LapserPull,
    /// Lapser: a node writes a row to those nodes whose copy would be too old for their slack.
    LapserPushBySlack,
    /// A node writes each row to the nodes that need it, and all nodes meet after each step [Lapser Tab. 5.2,
    /// GPI and MPI Put].
    OneSided,
    /// A node writes all rows of a step to all nodes at once, and all nodes meet.
    AllGather,
    /// A node writes each row to all nodes, and all nodes meet [Lapser Tab. 5.2, MPI Bcast].
    Broadcast,
}

impl Exchange {
    const ALL: [Self; 6] = [
        Self::LapserPush,
        Self::LapserPull,
        Self::LapserPushBySlack,
        Self::OneSided,
        Self::AllGather,
        Self::Broadcast,
    ];

    /// The name on the command line, which is that of the technique in reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::LapserPush => "lapser-push",
            Self::LapserPull => "lapser-pull",
            Self::LapserPushBySlack => "lapser-push-by-slack",
            Self::OneSided => "one-sided",
            Self::AllGather => "all-gather",
            Self::Broadcast => "broadcast",
        }
    }

    /// Whether nodes may use rows that are older than those of this step.
    pub(crate) const fn has_slack(self) -> bool {
        matches!(self, Self::LapserPush | Self::LapserPull | Self::LapserPushBySlack)
    }
}

impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Exchange {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        by_name("an exchange", name, Self::ALL)
    }
}
