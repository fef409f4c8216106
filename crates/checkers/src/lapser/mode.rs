//! The mode of a set of runs.

use intendant_lapser::Variant;
use intendant_sim::reach::Marker;
use std::fmt;

/// What all runs of a set have in common. Options that are `None` are drawn from each run's seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// How values reach their consumers.
    pub variant: Option<Variant>,
    /// Number of nodes; if drawn, 2 to 9.
    pub nodes: Option<usize>,
    /// Sets and gets of all workers together, about.
    pub calls: u64,
    /// Slack of all gets, in clocks; if drawn, 0, 1, 4 or 8 per item and consumer.
    pub slack: Option<u64>,
    /// Whether hints are lost and nodes die; if drawn, in a half of the runs.
    pub faults: Option<bool>,
}

impl Default for Mode {
    fn default() -> Self {
        Self { variant: None, nodes: None, calls: 200, slack: None, faults: None }
    }
}

/// The name of a variant on command lines.
#[must_use]
pub const fn name(variant: Variant) -> &'static str {
    match variant {
        Variant::Push => "push",
        Variant::PushBySlack => "push-by-slack",
        Variant::Pull => "pull",
    }
}

impl Mode {
    /// The markers that a set of runs must reach, each with the number of runs that suffices for it.
    #[must_use]
    pub fn expected(&self) -> Vec<(Marker, u64)> {
        let pushes = self.variant.is_none_or(Variant::pushes);
        let reads = self.variant.is_none_or(Variant::reads);
        let faults = self.faults != Some(false);
        let slack = self.slack != Some(0);
        let mut expected = Vec::new();
        let mut expect = |condition: bool, marker, runs| {
            if condition {
                expected.push((marker, runs));
            }
        };
        expect(reads, Marker::TornRead, 60);
        expect(reads, Marker::StaleRead, 40);
        expect(reads, Marker::Reread, 40);
        expect(reads, Marker::Prefetched, 40);
        expect(pushes, Marker::TornLook, 100);
        expect(pushes, Marker::HintMerged, 100);
        expect(pushes, Marker::HintInVain, 40);
        expect(pushes, Marker::LateLook, 40);
        expect(pushes, Marker::SetWaited, 100);
        expect(pushes, Marker::HintOfSeveral, 40);
        expect(pushes && faults, Marker::HintLost, 40);
        expect(true, Marker::GetBeyond, 40);
        expect(faults, Marker::DiedInside, 100);
        expect(faults, Marker::ProducerLost, 40);
        expect(faults && slack, Marker::GotAfterLoss, 200);
        expected
    }
}

impl fmt::Display for Mode {
    /// As options of `cargo xtask sim`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { variant, nodes, calls, slack, faults } = *self;
        write!(f, "--technique lapser")?;
        if let Some(variant) = variant {
            write!(f, " --variant {}", name(variant))?;
        }
        if let Some(nodes) = nodes {
            write!(f, " --nodes {nodes}")?;
        }
        if calls != Self::default().calls {
            write!(f, " --ops {calls}")?;
        }
        if let Some(slack) = slack {
            write!(f, " --staleness {slack}")?;
        }
        match faults {
            Some(true) => write!(f, " --faults on"),
            Some(false) => write!(f, " --faults off"),
            None => Ok(()),
        }
    }
}
