//! A line of either format: its label, its features, and the transformation of their values.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What is made of each value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transform {
    /// The value itself.
    #[default]
    None,
    /// log(1 + value), for counts.
    Log1p,
}

/// What is made of each row, after its values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Normalize {
    /// The row itself.
    #[default]
    None,
    /// The row divided by its Euclidean norm.
    L2,
}

/// A label as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Positive,
    Zero,
    Negative,
    /// There is none, or it is not looked at.
    Unknown,
}

/// Whether rows have labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Labels {
    /// A row without a label is an error.
    Needed,
    /// Rows may have labels, which have no effect.
    Ignored,
}

impl Label {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.parse::<f64>() {
            Ok(1.0) => Ok(Self::Positive),
            Ok(0.0) => Ok(Self::Zero),
            Ok(-1.0) => Ok(Self::Negative),
            Ok(_) | Err(_) => Err(format!("the label is '{text}'; labels are 0 and 1, or -1 and 1")),
        }
    }
}

/// Parses a finite number; the error says what is wrong with it.
pub(super) fn number(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("is '{text}', which is no number"))?;
    if (value as f32).is_finite() {
        Ok(value)
    } else {
        Err(format!("is {text}; it must be finite in single precision"))
    }
}

/// The features of a row that is being read.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) entries: Vec<(u32, f64)>,
    /// Number of features up to the last one that was named, even if its value is 0.
    pub(super) features: u32,
}

impl Line {
    pub(super) fn add(&mut self, feature: u32, value: f64) {
        self.features = self.features.max(feature + 1);
        self.entries.push((feature, value));
    }

    /// The features with their values in single precision, as rows have them.
    pub(super) fn singles(&self) -> impl Iterator<Item = (u32, f32)> {
        self.entries.iter().map(|(feature, value)| (*feature, *value as f32))
    }

    /// Sums the values of features that occur twice, then transforms values and row.
    pub(super) fn finish(&mut self, transform: Transform, normalize: Normalize) -> Result<(), String> {
        if !self.entries.is_sorted_by(|a, b| a.0 < b.0) {
            self.entries.sort_by_key(|(feature, _)| *feature);
            self.entries.dedup_by(|later, earlier| {
                let same = later.0 == earlier.0;
                if same {
                    earlier.1 += later.1;
                }
                same
            });
        }
        if transform == Transform::Log1p {
            for (_, value) in &mut self.entries {
                if *value < 0.0 {
                    return Err(format!("a value is {value}; --transform log1p takes numbers of at least 0"));
                }
                *value = value.ln_1p();
            }
        }
        if normalize == Normalize::L2 {
            let norm = self.entries.iter().map(|(_, value)| value * value).sum::<f64>().sqrt();
            if norm > 0.0 {
                self.entries.iter_mut().for_each(|(_, value)| *value /= norm);
            }
        }
        Ok(())
    }
}
