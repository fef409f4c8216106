//! How nodes find the keys that they do not have.

use intendant_core::{UnknownName, by_name};
use std::fmt;
use std::str::FromStr;

/// How a node finds the main copy of a key [thesis §3.2.3, §3.2.5, Tab. 3.3]; see [`crate::location`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// The home of a key orders its relocations, and forwards accesses to the owner (*forward*).
    Home {
        /// Whether nodes cache the locations of the keys that they accessed, and try them first.
        caches: bool,
    },
    /// As `Home`, but nodes do not send accesses through the home: before each access, a node asks the home
    /// for the owner, and sends the access to the owner itself (*location request*).
    Request,
    /// Every node knows the owner of every key: a new owner tells all other nodes.
    BroadcastRelocations,
    /// No node knows the owner of a key: a node sends accesses and localize requests to all other nodes, and
    /// the owner alone answers.
    BroadcastOperations,
}

impl Location {
    /// All locations.
    pub const ALL: [Self; 5] = [
        Self::Home { caches: false },
        Self::Home { caches: true },
        Self::Request,
        Self::BroadcastRelocations,
        Self::BroadcastOperations,
    ];

    /// Whether homes order the relocations of their keys, one after the other. Otherwise owners hand keys
    /// over as requests reach them.
    #[inline]
    #[must_use]
    pub const fn has_homes(self) -> bool {
        matches!(self, Self::Home { .. } | Self::Request)
    }

    /// Whether a worker's operations on a key, sent one after the other, arrive in this order although the
    /// key moves [thesis theorems 2 and 3].
    #[must_use]
    pub const fn keeps_order(self) -> bool {
        matches!(self, Self::Home { caches: false })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Home { caches: false } => "home",
            Self::Home { caches: true } => "home-cached",
            Self::Request => "request",
            Self::BroadcastRelocations => "broadcast-relocations",
            Self::BroadcastOperations => "broadcast-operations",
        })
    }
}

impl FromStr for Location {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        by_name("a location strategy", name, Self::ALL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_strategy_is_found_by_its_name() {
        for location in Location::ALL {
            assert_eq!(location.to_string().parse(), Ok(location));
        }
        let error = "homes".parse::<Location>().unwrap_err().to_string();
        assert!(error.contains("'homes'") && error.contains("home-cached"), "{error}");
    }
}
