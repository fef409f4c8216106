//! The names of rows and columns in files, and the numbers they get.

use intendant_formats::{NameIndex, Names};
use std::borrow::Cow;

/// The identifiers of the rows, or of the columns.
#[derive(Clone, Debug)]
pub enum Ids {
    /// They are the numbers from `first`.
    Numbers {
        /// Identifier of number 0: 1 in MatrixMarket files, else 0.
        first: u32,
        /// How many there are.
        count: u32,
    },
    /// They are names, numbered by first appearance.
    Names(Names),
}

impl Ids {
    /// Number of identifiers.
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers { count, .. } => *count as usize,
            Self::Names(names) => names.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of an identifier, if it is one of these. Takes time proportional to their number.
    pub fn find(&self, name: &str) -> Option<u32> {
        match self {
            Self::Numbers { first, count } => {
                let number = name.parse::<u32>().ok()?.checked_sub(*first)?;
                (number < *count).then_some(number)
            }
            Self::Names(names) => {
                let number = names.iter().position(|found| found == name)?;
                u32::try_from(number).ok()
            }
        }
    }

    /// The identifier with number `index`, if there is one.
    pub fn get(&self, index: usize) -> Option<Cow<'_, str>> {
        match self {
            Self::Numbers { first, count } => {
                (index < *count as usize).then(|| (u64::from(*first) + index as u64).to_string().into())
            }
            Self::Names(names) => names.get(index).map(Cow::Borrowed),
        }
    }
}

/// Identifiers count as numbers if there are at most this many per entry of the matrix, gaps included.
/// Otherwise they are names: the sparse numbers of a film database, for example, must not inflate the model.
const NUMBERS_PER_ENTRY_MAX: u64 = 2;

/// This many numbers are always accepted.
const NUMBERS_MIN: u64 = 1024;

/// How many numbers a matrix of `entries` entries may use.
fn numbers_max(entries: usize) -> u64 {
    (NUMBERS_PER_ENTRY_MAX * entries as u64).max(NUMBERS_MIN)
}

/// The last number of 32 bits is not used, so that a count of all names fits as well.
const OUT_OF_NUMBERS: &str = "more names than 32 bits number";

/// Numbers identifiers as they are read.
#[derive(Debug)]
pub(super) enum Numbering {
    /// All identifiers so far are numbers, below `count`.
    Open { count: u32 },
    /// They are numbers, so far below `count`; new ones must be below `max`.
    Numbers { count: u32, max: u64 },
    /// They are names.
    Names { names: Names, index: NameIndex },
}

impl Numbering {
    /// A numbering for the first file, whose identifiers may be of either kind.
    pub(super) const fn open() -> Self {
        Self::Open { count: 0 }
    }

    /// A numbering for a further file of a matrix of `entries` entries.
    pub(super) fn further(ids: Ids, entries: usize) -> Self {
        match ids {
            Ids::Numbers { count, .. } => Self::Numbers { count, max: numbers_max(entries) },
            Ids::Names(names) => Self::Names { index: NameIndex::of(&names), names },
        }
    }

    /// The number of `text`. `before` are the numbers assigned so far; they change if the identifiers turn
    /// out to be names.
    pub(super) fn number(
        &mut self,
        text: &str,
        before: &mut dyn Iterator<Item = &mut u32>,
    ) -> Result<u32, String> {
        match self {
            Self::Open { count } => match canonical(text) {
                Some(number) => {
                    *count = (*count).max(number + 1);
                    Ok(number)
                }
                None => {
                    self.name(before)?;
                    self.number(text, &mut std::iter::empty())
                }
            },
            Self::Numbers { count, max } => {
                let number =
                    canonical(text).ok_or_else(|| format!("'{text}' is not a number, as all others are"))?;
                if u64::from(number) >= *max && number >= *count {
                    return Err(format!("'{text}' is far above the {count} numbers of the training data"));
                }
                *count = (*count).max(number + 1);
                Ok(number)
            }
            Self::Names { names, index } => {
                index.intern(names, text).ok_or_else(|| OUT_OF_NUMBERS.to_owned())
            }
        }
    }

    /// Turns the numbers assigned so far into names.
    fn name(&mut self, before: &mut dyn Iterator<Item = &mut u32>) -> Result<(), String> {
        let (mut names, mut index) = (Names::default(), NameIndex::default());
        for number in before {
            let text = number.to_string();
            *number = index.intern(&mut names, &text).ok_or(OUT_OF_NUMBERS)?;
        }
        *self = Self::Names { names, index };
        Ok(())
    }

    /// The identifiers after the end of the file. `given` are the numbers assigned to its `entries` entries.
    pub(super) fn end(
        mut self,
        entries: usize,
        given: &mut dyn Iterator<Item = &mut u32>,
    ) -> Result<Ids, String> {
        if let Self::Open { count } = self
            && u64::from(count) > numbers_max(entries)
        {
            self.name(given)?;
        }
        Ok(match self {
            Self::Open { count } | Self::Numbers { count, .. } => Ids::Numbers { first: 0, count },
            Self::Names { names, .. } => Ids::Names(names),
        })
    }
}

/// Parses a number below `u32::MAX` in its canonical form, without a sign or leading zeros.
fn canonical(text: &str) -> Option<u32> {
    let number: u32 = text.parse().ok()?;
    let only = (text == "0" || !text.starts_with(['0', '+'])) && number < u32::MAX;
    only.then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers `texts`; returns the numbers and the identifiers.
    fn number(texts: &[&str]) -> (Vec<u32>, Ids) {
        let (mut numbering, mut given) = (Numbering::open(), Vec::new());
        for text in texts {
            let number = numbering.number(text, &mut given.iter_mut()).unwrap();
            given.push(number);
        }
        let ids = numbering.end(given.len(), &mut given.iter_mut()).unwrap();
        (given, ids)
    }

    #[test]
    fn numbers_stay_numbers() {
        let (given, ids) = number(&["7", "0", "7", "1000"]);
        assert_eq!(given, [7, 0, 7, 1000]);
        assert!(matches!(ids, Ids::Numbers { first: 0, count: 1001 }), "{ids:?}");
        assert_eq!((ids.get(1000).as_deref(), ids.get(1001)), (Some("1000"), None));
    }

    #[test]
    fn one_name_makes_names_of_all() {
        for last in ["x", "007", "+7", "-7", "4294967295", ""] {
            let (given, ids) = number(&["7", "0", "7", last, "0"]);
            assert_eq!(given, [0, 1, 0, 2, 1], "{last}");
            let names: Vec<_> = (0..3).map(|i| ids.get(i).unwrap().into_owned()).collect();
            assert_eq!(names, ["7", "0", last]);
        }
    }

    #[test]
    fn numbers_that_would_leave_most_of_the_model_unused_are_names() {
        let (given, ids) = number(&["1023", "5"]);
        assert_eq!((given, ids.len()), (vec![1023, 5], 1024));
        let (given, ids) = number(&["1024", "5", "1024"]);
        assert_eq!((given, ids.len()), (vec![0, 1, 0], 2));
        assert_eq!(ids.get(0).as_deref(), Some("1024"));
    }

    #[test]
    fn a_further_file_keeps_the_kind() {
        let (_, ids) = number(&["3", "0"]);
        let mut numbers = Numbering::further(ids, 2);
        assert_eq!(numbers.number("900", &mut std::iter::empty()), Ok(900));
        assert!(numbers.number("x", &mut std::iter::empty()).unwrap_err().contains("not a number"));
        assert!(numbers.number("90000", &mut std::iter::empty()).unwrap_err().contains("far above"));
        let ids = numbers.end(2, &mut std::iter::empty()).unwrap();
        assert_eq!(ids.len(), 901);

        let (_, ids) = number(&["b", "a"]);
        let mut names = Numbering::further(ids, 2);
        let numbers = ["a", "7", "b"].map(|text| names.number(text, &mut std::iter::empty()).unwrap());
        assert_eq!(numbers, [1, 2, 0]);
    }
}
