//! `--bound`: what a parameter manager that knows the future must send at least, beside what was sent.

use crate::settings::Bounds;
use indicatif::HumanBytes;
use intendant_sim::{EpochOutcome, Staleness};
use serde::{Deserialize, Serialize};

/// The values that were sent, and those that had to be sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Bytes of values sent. Without headers and keys, and not charged with any factor.
    pub sent_bytes: u64,
    /// The least that any parameter manager had to send for the same accesses.
    pub least: Vec<Least>,
}

/// A lower bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Least {
    /// How old updates of other nodes may be before reads must see them, milliseconds; absent if reads need
    /// see those of earlier epochs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staleness_ms: Option<f64>,
    /// Bytes of values.
    pub bytes: u64,
    /// What was sent, divided by that; 0 if nothing had to be sent.
    pub ratio: f64,
}

impl Bound {
    /// Of some epochs; `None` if no bound was asked for.
    pub(crate) fn of(bounds: &Bounds, epochs: &[EpochOutcome]) -> Option<Self> {
        if bounds.0.is_empty() {
            return None;
        }
        let sent_bytes = epochs.iter().map(|epoch| epoch.value_bytes).sum();
        let least = bounds.0.iter().enumerate().map(|(at, staleness)| {
            let bytes = epochs.iter().map(|epoch| epoch.bounds[at]).sum();
            let staleness_ms = match staleness {
                Staleness::Epoch => None,
                Staleness::Within(tick) => Some(tick.0 as f64 / 1_000.0),
            };
            Least {
                staleness_ms,
                bytes,
                ratio: if bytes == 0 { 0.0 } else { sent_bytes as f64 / bytes as f64 },
            }
        });
        Some(Self { sent_bytes, least: least.collect() })
    }

    /// For the table of results.
    pub(crate) fn describe(&self) -> String {
        let least = |least: &Least| {
            let fresh = least.staleness_ms.map_or_else(|| "an epoch".to_owned(), |ms| format!("{ms} ms"));
            format!("{} at a staleness of {fresh} ({:.1} times)", HumanBytes(least.bytes), least.ratio)
        };
        let least: Vec<String> = self.least.iter().map(least).collect();
        format!("{} of values; at least {}", HumanBytes(self.sent_bytes), least.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_compares_what_was_sent() {
        let least = |staleness_ms, bytes| Least { staleness_ms, bytes, ratio: 4096.0 / bytes as f64 };
        let bound = Bound { sent_bytes: 4096, least: vec![least(None, 1024), least(Some(40.0), 2048)] };
        assert_eq!(
            bound.describe(),
            "4.00 KiB of values; at least 1.00 KiB at a staleness of an epoch (4.0 times), 2.00 KiB at a \
             staleness of 40 ms (2.0 times)"
        );
    }
}
