//! Elements that travel as bfloat16.

use crate::Element;
use crate::name::{UnknownName, by_name};
use std::fmt;
use std::str::FromStr;

/// How the elements of a message about copies are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Precision {
    /// As they are.
    #[default]
    Exact,
    /// As bfloat16, two bytes each.
    Bf16,
}

/// Bytes of a bfloat16.
const BF16_BYTES: usize = 2;

impl Precision {
    /// The length on the wire of elements `E` that have `bytes` bytes in memory.
    #[inline]
    #[must_use]
    pub const fn bytes<E: Element>(self, bytes: usize) -> usize {
        match self {
            Self::Exact => bytes,
            Self::Bf16 => bytes / size_of::<E>() * BF16_BYTES,
        }
    }

    /// Appends `values` to `bytes`, little-endian. [`Precision::Bf16`] rounds them to the nearest bfloat16.
    #[inline]
    pub fn write<E: Element>(self, values: &[E], bytes: &mut Vec<u8>) {
        match self {
            Self::Exact => crate::copy_to_bytes(values, bytes),
            Self::Bf16 => {
                let start = bytes.len();
                bytes.resize(start + values.len() * BF16_BYTES, 0);
                let (pairs, _) = bytes[start..].as_chunks_mut::<BF16_BYTES>();
                pairs.iter_mut().zip(values).for_each(|(pair, value)| *pair = value.to_bf16().to_le_bytes());
            }
        }
    }

    /// Overwrites `values` with the elements that [`Precision::write`] has written to `bytes`.
    ///
    /// # Panics
    /// If `bytes` does not have as many elements as `values`.
    #[inline]
    pub fn read<E: Element>(self, values: &mut [E], bytes: &[u8]) {
        match self {
            Self::Exact => crate::copy_from_bytes(values, bytes),
            Self::Bf16 => {
                assert_eq!(bytes.len(), values.len() * BF16_BYTES, "payload and value differ in length");
                values.iter_mut().zip(from_bf16(bytes)).for_each(|(value, element)| *value = element);
            }
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::Bf16 => "bf16",
        })
    }
}

impl FromStr for Precision {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        by_name("a precision", name, [Self::Exact, Self::Bf16])
    }
}

/// The elements of `bytes`, which are bfloat16. An odd last byte is ignored.
#[inline]
pub fn from_bf16<E: Element>(bytes: &[u8]) -> impl Iterator<Item = E> + '_ {
    let (pairs, _) = bytes.as_chunks::<BF16_BYTES>();
    pairs.iter().map(|pair| E::from_bf16(u16::from_le_bytes(*pair)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The two bfloat16 values next to `value`, towards zero and away from it, by arithmetic on `f64`.
    fn neighbours(value: f32) -> (f64, f64) {
        let toward_zero = f32::from_bits(value.to_bits() & 0xffff_0000);
        let away = f32::from_bits((value.to_bits() & 0xffff_0000).wrapping_add(0x1_0000));
        (f64::from(toward_zero), f64::from(away))
    }

    proptest! {
        #[test]
        fn the_nearest_is_nearest_and_ties_are_even(bits: u32) {
            let value = f32::from_bits(bits);
            prop_assume!(value.is_finite());
            let (low, high) = neighbours(value);
            let rounded = f32::from_bf16(value.to_bf16());
            prop_assert!(rounded.is_finite());
            let (found, exact) = (f64::from(rounded), f64::from(value));
            prop_assert!(found == low || found == high, "{value} became {rounded}");
            let (to_low, to_high) = ((exact - low).abs(), (exact - high).abs());
            if high.is_finite() {
                prop_assert!((exact - found).abs() <= to_low.min(to_high), "{value} became {rounded}");
            }
            if to_low == to_high {
                prop_assert_eq!(value.to_bf16() % 2, 0);
            }
            // A rounded value stays the same.
            prop_assert_eq!(rounded.to_bf16(), value.to_bf16());
            prop_assert_eq!(rounded.truncate_bf16(), value.to_bf16());
            prop_assert_eq!(f64::from(f32::from_bf16(value.truncate_bf16())), low);
        }

        #[test]
        fn halves_are_written_and_read(bits in proptest::collection::vec(any::<u32>(), 0..40)) {
            let values: Vec<f32> = bits.iter().copied().map(f32::from_bits).collect();
            for precision in [Precision::Exact, Precision::Bf16] {
                let mut bytes = vec![7];
                precision.write(&values, &mut bytes);
                prop_assert_eq!(bytes.len(), 1 + precision.bytes::<f32>(4 * values.len()));
                let mut back = vec![0.0f32; values.len()];
                precision.read(&mut back, &bytes[1..]);
                for (back, value) in back.iter().zip(&values) {
                    let expected = match precision {
                        Precision::Exact => *value,
                        Precision::Bf16 => f32::from_bf16(value.to_bf16()),
                    };
                    prop_assert_eq!(back.to_bits(), expected.to_bits());
                }
            }
        }
    }

    #[test]
    fn what_is_not_finite_stays_what_it_is_and_what_is_finite_stays_finite() {
        for round in [f32::to_bf16, f32::truncate_bf16] {
            let rounded = |value: f32| f32::from_bf16(round(value));
            assert_eq!(rounded(f32::INFINITY), f32::INFINITY);
            assert_eq!(rounded(f32::NEG_INFINITY), f32::NEG_INFINITY);
            for bits in [0x7f80_0001, 0xff80_0001, 0x7fc0_0000, u32::MAX] {
                assert!(rounded(f32::from_bits(bits)).is_nan(), "{bits:x}");
            }
            let largest = f32::from_bits(0x7f7f_0000);
            assert_eq!((rounded(f32::MAX), rounded(f32::MIN)), (largest, -largest));
            assert_eq!(rounded(-0.0).to_bits(), (-0.0f32).to_bits());
            assert_eq!(rounded(f32::from_bits(1)), 0.0);
        }
        assert_eq!(f64::from_bf16(1e300f64.to_bf16()), f64::from(f32::from_bits(0x7f7f_0000)));
        assert_eq!(f64::from_bf16(f64::NEG_INFINITY.truncate_bf16()), f64::NEG_INFINITY);
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for precision in [Precision::Exact, Precision::Bf16] {
            assert_eq!(precision.to_string().parse(), Ok(precision));
        }
        assert!("f16".parse::<Precision>().is_err());
    }
}
