//! Differences of values, and the places of the largest ones.

use intendant_checkpoint::{Checkpoint, Values};
use intendant_core::{ElementType, Key};
use std::fmt;
use std::io;
use std::ops::Range;

/// Values of either element type, in double precision, which represents both.
pub(super) enum Doubles<'a> {
    F32(Values<'a, f32>, Vec<f32>),
    F64(Values<'a, f64>),
}

impl<'a> Doubles<'a> {
    pub(super) fn of(checkpoint: &'a Checkpoint) -> Self {
        match checkpoint.element() {
            ElementType::F32 => Self::F32(checkpoint.values(), Vec::new()),
            ElementType::F64 => Self::F64(checkpoint.values()),
        }
    }

    fn read(&mut self, key: u64, value: &mut [f64]) -> io::Result<()> {
        match self {
            Self::F64(values) => values.read(Key(key), value),
            Self::F32(values, single) => {
                single.resize(value.len(), 0.0);
                values.read(Key(key), single)?;
                value.iter_mut().zip(single).for_each(|(double, single)| *double = f64::from(*single));
                Ok(())
            }
        }
    }
}

/// The keys of a range in two models, and the length of their values.
pub(super) struct Common {
    pub(super) name: String,
    pub(super) keys: [Range<u64>; 2],
    pub(super) len: usize,
}

/// The place of a difference.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    difference: f64,
    key: u64,
    element: usize,
    values: [f64; 2],
}

/// How the values of a range differ.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Differences {
    keys: u64,
    of: u64,
    absolute: Option<Place>,
    relative: Option<Place>,
}

impl Differences {
    /// Compares all values of a range.
    pub(super) fn between(a: &mut Doubles<'_>, b: &mut Doubles<'_>, range: &Common) -> io::Result<Self> {
        let mut found = Self::default();
        let mut values = [vec![0.0; range.len], vec![0.0; range.len]];
        let [keys_a, keys_b] = range.keys.clone();
        for (key, there) in keys_a.zip(keys_b) {
            let [one, other] = &mut values;
            a.read(key, one)?;
            b.read(there, other)?;
            found.add(key, one, other);
        }
        Ok(found)
    }

    fn add(&mut self, key: u64, a: &[f64], b: &[f64]) {
        self.of += 1;
        let mut differs = false;
        for (element, (a, b)) in a.iter().zip(b).enumerate() {
            if a == b || a.is_nan() && b.is_nan() {
                continue;
            }
            differs = true;
            let place = |difference: f64| Place {
                // If only one of two values is finite, their difference is infinite.
                difference: if difference.is_nan() { f64::INFINITY } else { difference },
                key,
                element,
                values: [*a, *b],
            };
            let absolute = (a - b).abs();
            raise(&mut self.absolute, place(absolute));
            raise(&mut self.relative, place(absolute / a.abs().max(b.abs())));
        }
        self.keys += u64::from(differs);
    }

    pub(super) const fn is_none(&self) -> bool {
        self.keys == 0
    }
}

fn raise(largest: &mut Option<Place>, place: Place) {
    if largest.is_none_or(|largest| place.difference > largest.difference) {
        *largest = Some(place);
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { difference, key, element, values: [a, b] } = self;
        write!(f, "{difference:e} at key {key}, element {element} ({a} and {b})")
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { keys, of, absolute, relative } = self;
        let (Some(absolute), Some(relative)) = (absolute, relative) else {
            return write!(f, "no value of {of} differs");
        };
        writeln!(f, "values of {keys} of {of} keys differ")?;
        writeln!(f, "  largest absolute difference {absolute}")?;
        write!(f, "  largest relative difference {relative}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_differences_are_kept_with_their_places() {
        let mut found = Differences::default();
        found.add(3, &[1.0, f64::NAN, 0.0], &[1.0, f64::NAN, -0.0]);
        assert!(found.is_none());
        assert_eq!(found.to_string(), "no value of 1 differs");
        found.add(4, &[1e-6, 100.0], &[2e-6, 101.0]);
        found.add(5, &[1e-6, 100.5], &[1e-6, 100.0]);
        let text = found.to_string();
        assert!(text.starts_with("values of 2 of 3 keys differ\n"), "{text}");
        assert!(text.contains("absolute difference 1e0 at key 4, element 1 (100 and 101)"), "{text}");
        assert!(text.contains("relative difference 5e-1 at key 4, element 0 (0.000001 and"), "{text}");
        found.add(6, &[f64::NAN], &[1.0]);
        let text = found.to_string();
        assert!(text.contains("absolute difference inf at key 6, element 0 (NaN and 1)"), "{text}");
    }
}
