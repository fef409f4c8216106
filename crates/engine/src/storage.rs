//! The kinds of stores.

use intendant_core::{UnknownName, by_name};
use std::fmt;
use std::str::FromStr;

/// Which kind of store a node uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Storage {
    /// A slot for every key of the layout (16 bytes each), values for what the node holds.
    #[default]
    Dense,
    /// Slots and values for what the node has touched: for key spaces far larger than what is used.
    Sparse,
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dense => "dense",
            Self::Sparse => "sparse",
        })
    }
}

impl FromStr for Storage {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        by_name("a kind of store", name, [Self::Dense, Self::Sparse])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_stores_are_known_by_name() {
        for storage in [Storage::Dense, Storage::Sparse] {
            assert_eq!(storage.to_string().parse(), Ok(storage));
        }
        assert_eq!(
            "".parse::<Storage>().unwrap_err().to_string(),
            "'' is not a kind of store; use dense or sparse"
        );
    }
}
