//! Opens a data set: reads or generates its training rows, and provides its held-out rows.

use super::Dataset;
use super::generate::Generator;
use super::read::{DataError, Format, Reader, Reading};
use super::rows::Rows;
use intendant_formats::check_gaps;
use intendant_task::Split;
use std::path::Path;

/// Where training rows come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source<'a> {
    /// There are no training rows.
    None,
    /// A file.
    File(&'a Path),
    /// They are generated.
    Generated(Generator),
}

/// Where held-out rows come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HeldOut<'a> {
    /// A file of the same format.
    File(&'a Path),
    /// This fraction of the training rows, chosen by this seed.
    Fraction(f64, u64),
}

impl Dataset {
    /// Reads or generates training rows, and reads held-out rows or holds out some of the training rows.
    /// Generated data has test rows, which other held-out rows replace.
    ///
    /// # Errors
    /// If a file cannot be read or is not in the format; the message names file and line.
    pub fn open(
        train: &Source<'_>,
        held_out: &[(Split, HeldOut<'_>)],
        reading: &Reading,
    ) -> Result<Self, DataError> {
        let mut reader = Reader::new(reading.clone());
        let (mut known, mut rows, mut valid, mut test) =
            (0, Rows::default(), Rows::default(), Rows::default());
        match train {
            Source::None => {}
            Source::File(path) => rows = reader.read(path)?,
            Source::Generated(generator) => {
                let made = generator.generate();
                (known, rows, test) = (made.features, made.train, made.test);
            }
        }
        for (split, source) in held_out {
            if let HeldOut::File(path) = source {
                let rows = reader.read(path)?;
                match split {
                    Split::Valid => valid = rows,
                    Split::Test => test = rows,
                }
            }
        }
        let (features, naming, header) = reader.end();
        if let (Source::File(path), Format::Libsvm) = (train, reading.format) {
            let used = [&rows, &valid, &test].map(|rows| rows.entries() as u64).iter().sum();
            let file = path.display().to_string();
            check_gaps("features", features.into(), used).map_err(|what| DataError::Gaps { file, what })?;
        }
        let mut data = Self::new(features.max(known), naming, rows, valid, test);
        data.header = header;
        for (split, source) in held_out {
            if let HeldOut::Fraction(fraction, seed) = source {
                data.hold_out(*split, *fraction, *seed)?;
            }
        }
        Ok(data)
    }
}
