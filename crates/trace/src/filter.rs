//! Which keys are traced.

use intendant_core::{Key, random};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Which keys are traced: all, named ones, or a sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// All keys.
    #[default]
    All,
    /// The keys of these ranges, which ascend and do not overlap.
    Keys(Vec<Range<u64>>),
    /// One of this many keys. A hash chooses the keys, so they are the same on all nodes and in all runs.
    Sample(u64),
}

/// The error for a text that is not a [`Filter`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no keys; write all, keys and ranges such as 7,100..200 (without 200), or sample:1/1000")]
pub struct FilterError(String);

impl Filter {
    /// Whether events about a key are recorded.
    #[must_use]
    pub fn accepts(&self, key: Key) -> bool {
        match self {
            Self::All => true,
            Self::Keys(ranges) => {
                let after = ranges.partition_point(|range| range.start <= key.0);
                after.checked_sub(1).is_some_and(|at| ranges[at].contains(&key.0))
            }
            Self::Sample(one_of) => random::stream(0, &[key.0]).is_multiple_of(*one_of),
        }
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let refused = || FilterError(text.to_owned());
        if text == "all" {
            return Ok(Self::All);
        }
        if let Some(share) = text.strip_prefix("sample:") {
            let one_of = share.strip_prefix("1/").and_then(|one_of| one_of.parse().ok());
            return one_of.filter(|one_of| *one_of > 0).map(Self::Sample).ok_or_else(refused);
        }
        let range = |part: &str| match part.split_once("..") {
            None => part.trim().parse::<u64>().ok().filter(|key| *key < u64::MAX).map(|key| key..key + 1),
            Some((start, end)) => Some(start.trim().parse().ok()?..end.trim().parse().ok()?),
        };
        let mut ranges = Vec::new();
        for part in text.split(',') {
            ranges.push(range(part).filter(|range| !range.is_empty()).ok_or_else(refused)?);
        }
        ranges.sort_unstable_by_key(|range| range.start);
        ranges.dedup_by(|next, before| {
            let overlaps = next.start <= before.end;
            if overlaps {
                before.end = before.end.max(next.end);
            }
            overlaps
        });
        Ok(Self::Keys(ranges))
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Sample(one_of) => write!(f, "sample:1/{one_of}"),
            Self::Keys(ranges) => {
                for (at, range) in ranges.iter().enumerate() {
                    f.write_str(if at == 0 { "" } else { "," })?;
                    if range.end - range.start == 1 {
                        write!(f, "{}", range.start)?;
                    } else {
                        write!(f, "{}..{}", range.start, range.end)?;
                    }
                }
                Ok(())
            }
        }
    }
}
