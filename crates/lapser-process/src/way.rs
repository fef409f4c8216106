//! The way by which nodes reach each other's memory.

use intendant_core::{UnknownName, by_name};
use intendant_onesided::Window;
use std::fmt;
use std::str::FromStr;

/// A window of the kind that the nodes chose at the start.
pub type AnyWindow = Box<dyn Window>;

/// The way by which nodes reach each other's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// The nodes map it, if all nodes are on one host. Otherwise they use [`Self::Verbs`], if all nodes can
    /// and the cluster does not encrypt its connections.
    #[default]
    Auto,
    /// The nodes map it: all of them are on one host.
    Shm,
    /// Over RDMA: each node has a card, and its program is built with the feature `verbs`. RDMA does not
    /// encrypt.
    Verbs,
}

impl Way {
    const ALL: [Self; 3] = [Self::Auto, Self::Shm, Self::Verbs];

    /// The name on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Shm => "shm",
            Self::Verbs => "verbs",
        }
    }

    /// The way that this byte means in messages between nodes.
    pub(crate) fn of_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|way| *way as u8 == byte)
    }

    /// The way that the nodes take if they are configured with `ways`, by rank; or two nodes with different
    /// ways.
    pub(crate) fn of_all(ways: &[Self]) -> Result<Self, [usize; 2]> {
        let told = |way: &Self| *way != Self::Auto;
        let Some(one) = ways.iter().position(told) else { return Ok(Self::Auto) };
        match ways.iter().position(|way| told(way) && *way != ways[one]) {
            Some(other) => Err([one, other]),
            None => Ok(ways[one]),
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Way {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        by_name("a way to the memory of others", name, Self::ALL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_known_by_name() {
        for way in Way::ALL {
            assert_eq!(way.name().parse(), Ok(way));
        }
        let error = "tcp".parse::<Way>().expect_err("it is none").to_string();
        assert_eq!(error, "'tcp' is not a way to the memory of others; use auto, shm or verbs");
    }

    #[test]
    fn a_node_that_is_told_nothing_follows_the_others() {
        use Way::{Auto, Shm, Verbs};
        assert_eq!(Way::of_all(&[Auto, Auto]), Ok(Auto));
        assert_eq!(Way::of_all(&[Auto, Verbs, Auto, Verbs]), Ok(Verbs));
        assert_eq!(Way::of_all(&[Shm, Auto]), Ok(Shm));
        assert_eq!(Way::of_all(&[Auto, Verbs, Auto, Shm, Verbs]), Err([1, 3]));
        for way in Way::ALL {
            assert_eq!(Way::of_byte(way as u8), Some(way));
        }
        assert_eq!(Way::of_byte(3), None);
    }
}
