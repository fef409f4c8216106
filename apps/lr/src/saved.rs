//! Exported models as files: the files that the export writes; `--model` and commands read them.
//!
//! `model.toml` defines how data becomes rows. `weights.tsv` has the features whose weights are not zero,
//! each with its number in the data (an index from 1, or a slot of the hash), the weight, and for tables the
//! names that are hashed to the slot. The intercept comes first.

use intendant_formats::{TextError, lines_up_to, open};
use lr::Weights;
use lr::data::{
    Columns, FEATURES_MAX, Format, HASH_BITS, HASH_BITS_MAX, Header, Naming, Normalize, Reading, Transform,
};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The version of the files.
const SCHEMA: &str = "intendant.lr/1";

/// The line of the intercept, and the first line.
pub(crate) const INTERCEPT: &str = "intercept";
pub(crate) const HEADER: &str = "feature\tweight\tnames";

/// How data becomes rows, for this model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) schema: String,
    pub(crate) format: Format,
    pub(crate) features: u32,
    /// The column that the model predicts; only for tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
    /// Only for tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hash_bits: Option<u8>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) categorical: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) numeric: Vec<String>,
    pub(crate) transform: Transform,
    pub(crate) normalize: Normalize,
    pub(crate) intercept: bool,
    /// The columns of the training table. Only for tables, and the last setting, because TOML wants it there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) table: Option<Header>,
}

impl Settings {
    pub(crate) fn schema() -> String {
        SCHEMA.to_owned()
    }

    /// How to read other data of the same kind.
    pub(crate) fn reading(&self) -> Reading {
        // Tables without the label have other numbers of columns.
        let name = |wanted: &String| {
            self.table.as_ref().map_or(wanted.as_str(), |table| table.name(wanted)).to_owned()
        };
        let columns = Columns {
            label: self.label.as_ref().map_or_else(|| Columns::default().label, name),
            categorical: self.categorical.iter().map(name).collect(),
            numeric: self.numeric.iter().map(name).collect(),
            trained: self.table.clone(),
        };
        Reading {
            format: self.format,
            columns,
            hash_bits: self.hash_bits.unwrap_or(HASH_BITS),
            transform: self.transform,
            normalize: self.normalize,
        }
    }
}

/// Why an exported model cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SavedError {
    #[error("cannot read {}: {source}; name a folder that --export wrote", file.display())]
    Read { file: PathBuf, source: std::io::Error },
    #[error("{}: {reason}", file.display())]
    Settings { file: PathBuf, reason: String },
    #[error(transparent)]
    Weights(#[from] TextError),
}

/// Names of the files in a folder.
pub(crate) fn settings_path(folder: &Path) -> PathBuf {
    folder.join("model.toml")
}

pub(crate) fn weights_path(folder: &Path) -> PathBuf {
    folder.join("weights.tsv")
}

/// Reads how data becomes rows.
pub(crate) fn settings(folder: &Path) -> Result<Settings, SavedError> {
    let file = settings_path(folder);
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(source) => return Err(SavedError::Read { file, source }),
    };
    let wrong = |reason: String| SavedError::Settings { file: file.clone(), reason };
    let settings: Settings =
        toml::from_str(&text).map_err(|error| wrong(error.to_string().trim_end().to_owned()))?;
    if settings.schema != SCHEMA {
        return Err(wrong(format!("the schema is '{}'; this version reads {SCHEMA}", settings.schema)));
    }
    if !(1..=FEATURES_MAX).contains(&settings.features) {
        let features = settings.features;
        return Err(wrong(format!("features is {features}; expected a number from 1 to {FEATURES_MAX}")));
    }
    match (settings.format, settings.hash_bits) {
        (Format::Csv, None) => return Err(wrong("hash_bits is missing".to_owned())),
        (_, Some(bits)) if !(1..=HASH_BITS_MAX).contains(&bits) => {
            return Err(wrong(format!("hash_bits is {bits}; expected a number from 1 to {HASH_BITS_MAX}")));
        }
        (Format::Csv | Format::Libsvm, _) => {}
    }
    Ok(settings)
}

/// Reads the weights.
pub(crate) fn weights(folder: &Path, settings: &Settings) -> Result<Weights, SavedError> {
    /// Names may be long, and several share a slot.
    const LINE_BYTES_MAX: usize = 1 << 26;
    let file = weights_path(folder);
    let first = u64::from(settings.format == Format::Libsvm);
    let (mut weights, mut is_first) = (Weights::default(), true);
    lines_up_to(LINE_BYTES_MAX, &file.display().to_string(), open(&file)?, |line| {
        if std::mem::take(&mut is_first) && line == HEADER {
            return Ok(());
        }
        let mut fields = line.split('\t');
        let (Some(feature), Some(text)) = (fields.next(), fields.next()) else {
            return Err("expected a feature and its weight, separated by a tab".to_owned());
        };
        let weight = text.parse::<f64>().ok().filter(|weight| weight.is_finite());
        let weight = weight.ok_or_else(|| format!("the weight is '{text}', which is no finite number"))?;
        if feature == INTERCEPT {
            weights.intercept = weight;
            return Ok(());
        }
        let number = feature.parse::<u64>().ok().and_then(|number| number.checked_sub(first));
        let number = number.filter(|number| *number < settings.features.into());
        let number = number.ok_or_else(|| {
            let last = u64::from(settings.features) - 1 + first;
            format!("the feature is '{feature}'; expected a number from {first} to {last}")
        })? as u32;
        if weights.features.last().is_some_and(|(last, _)| *last >= number) {
            return Err(format!("feature {feature} is not larger than the one before it"));
        }
        weights.features.push((number, weight));
        Ok(())
    })?;
    Ok(weights)
}

/// The names of the features, for the lines of [`weights_path`]: the names of each feature, joined, without
/// the characters that structure the file.
pub(crate) fn joined_names(naming: &Naming) -> Vec<(u32, String)> {
    let all = naming.names();
    let joined = all.chunk_by(|a, b| a.0 == b.0).map(|of_one| {
        let names = of_one.iter().map(|(_, name)| name.replace(['\t', '\n', '\r'], " "));
        (of_one[0].0, names.collect::<Vec<_>>().join(" | "))
    });
    joined.collect()
}
