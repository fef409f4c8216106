//! Element types of values, and their little-endian bytes in frames and files.

use crate::bf16;
use crate::name::{UnknownName, by_name};
use std::fmt;
use std::str::FromStr;

/// Which element type a cluster uses; carried in the handshake and in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ElementType {
    /// IEEE 754 single precision.
    F32 = 4,
    /// IEEE 754 double precision.
    F64 = 8,
}

impl ElementType {
    /// Size of one element in bytes.
    pub const fn bytes(self) -> usize {
        self as usize
    }

    /// The type with this tag byte, or `None`.
    pub const fn from_tag(tag: u8) -> Option<Self> {
        match tag {
            4 => Some(Self::F32),
            8 => Some(Self::F64),
            _ => None,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
        })
    }
}

impl FromStr for ElementType {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        by_name("an element type", name, [Self::F32, Self::F64])
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// An element of a value: `f32` or `f64`.
pub trait Element:
    sealed::Sealed
    + bytemuck::Pod
    + Default
    + PartialEq
    + PartialOrd
    + fmt::Debug
    + fmt::Display
    + Send
    + Sync
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Neg<Output = Self>
    + std::ops::AddAssign
    + std::ops::SubAssign
    + std::ops::MulAssign
    + 'static
{
    /// The tag of this type.
    const TYPE: ElementType;
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;

    /// The nearest value of this type.
    fn from_f64(value: f64) -> Self;
    /// The same value in double precision.
    fn to_f64(self) -> f64;
    /// Whether the value is neither infinite nor NaN.
    fn finite(self) -> bool;
    /// Square root.
    #[must_use]
    fn sqrt(self) -> Self;
    /// Natural exponential.
    #[must_use]
    fn exp(self) -> Self;
    /// Absolute value.
    #[must_use]
    fn abs(self) -> Self;
    /// Decodes one element from its little-endian bytes (`bytes.len()` is the size of the type).
    fn read_le(bytes: &[u8]) -> Self;
    /// Encodes one element as little-endian bytes (`bytes.len()` is the size of the type).
    fn write_le(self, bytes: &mut [u8]);

    /// The bits of the nearest bfloat16; ties go to even. A finite value stays finite.
    #[must_use]
    fn to_bf16(self) -> u16;
    /// The bits of the value, rounded towards zero to a bfloat16.
    #[must_use]
    fn truncate_bf16(self) -> u16;
    /// The value of the bfloat16 with these bits.
    fn from_bf16(bits: u16) -> Self;
}

/// Rounds to the nearest single; a finite `value` stays finite.
#[inline]
fn single(value: f64) -> f32 {
    if value.is_finite() { value.clamp(f32::MIN.into(), f32::MAX.into()) as f32 } else { value as f32 }
}

macro_rules! element {
    ($float:ty, $tag:expr, $single:expr) => {
        impl Element for $float {
            const TYPE: ElementType = $tag;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;

            #[inline]
            fn from_f64(value: f64) -> Self {
                value as $float
            }
            #[inline]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            #[inline]
            fn finite(self) -> bool {
                self.is_finite()
            }
            #[inline]
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            #[inline]
            fn exp(self) -> Self {
                self.exp()
            }
            #[inline]
            fn abs(self) -> Self {
                self.abs()
            }
            #[inline]
            fn read_le(bytes: &[u8]) -> Self {
                let mut raw = [0; size_of::<$float>()];
                raw.copy_from_slice(bytes);
                Self::from_le_bytes(raw)
            }
            #[inline]
            fn write_le(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
            #[inline]
            fn to_bf16(self) -> u16 {
                bf16::nearest($single(self).to_bits())
            }
            #[inline]
            fn truncate_bf16(self) -> u16 {
                bf16::truncated($single(self).to_bits())
            }
            #[inline]
            fn from_bf16(bits: u16) -> Self {
                f32::from_bits(u32::from(bits) << 16).into()
            }
        }
    };
}

element!(f32, ElementType::F32, f32::from);
element!(f64, ElementType::F64, single);

/// Overwrites `values` with the little-endian elements in `bytes`, which need not be aligned.
///
/// # Panics
/// If `bytes` is not exactly as long as `values`.
#[inline]
pub fn copy_from_bytes<E: Element>(values: &mut [E], bytes: &[u8]) {
    assert_eq!(bytes.len(), size_of_val(values), "payload and value differ in length");
    if cfg!(target_endian = "little") {
        bytemuck::cast_slice_mut(values).copy_from_slice(bytes);
    } else {
        for (value, raw) in values.iter_mut().zip(bytes.chunks_exact(size_of::<E>())) {
            *value = E::read_le(raw);
        }
    }
}

/// Adds the little-endian elements in `bytes`, which need not be aligned, to `values`.
///
/// # Panics
/// If `bytes` is not exactly as long as `values`.
#[inline]
pub fn add_bytes<E: Element>(values: &mut [E], bytes: &[u8]) {
    assert_eq!(bytes.len(), size_of_val(values), "payload and value differ in length");
    for (value, raw) in values.iter_mut().zip(bytes.chunks_exact(size_of::<E>())) {
        *value += E::read_le(raw);
    }
}

/// Appends `values` to `bytes` as little-endian elements.
#[inline]
pub fn copy_to_bytes<E: Element>(values: &[E], bytes: &mut Vec<u8>) {
    if cfg!(target_endian = "little") {
        bytes.extend_from_slice(bytemuck::cast_slice(values));
    } else {
        let start = bytes.len();
        bytes.resize(start + size_of_val(values), 0);
        for (value, raw) in values.iter().zip(bytes[start..].chunks_exact_mut(size_of::<E>())) {
            value.write_le(raw);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_round_trip_at_any_alignment(
            values in proptest::collection::vec(any::<f64>(), 0..40),
            shift in 0usize..8,
        ) {
            let mut bytes = vec![0u8; shift];
            copy_to_bytes(&values, &mut bytes);
            let mut back = vec![0.0f64; values.len()];
            copy_from_bytes(&mut back, &bytes[shift..]);
            let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&back), bits(&values));
        }

        #[test]
        fn adding_bytes_equals_adding_elements(
            pairs in proptest::collection::vec((-1e6f32..1e6, -1e6f32..1e6), 0..40),
        ) {
            let mut sums: Vec<f32> = pairs.iter().map(|p| p.0).collect();
            let mut bytes = Vec::new();
            copy_to_bytes(&pairs.iter().map(|p| p.1).collect::<Vec<_>>(), &mut bytes);
            add_bytes(&mut sums, &bytes);
            prop_assert_eq!(sums, pairs.iter().map(|p| p.0 + p.1).collect::<Vec<_>>());
        }
    }

    #[test]
    fn tags_are_their_sizes() {
        for tag in 0..=u8::MAX {
            let known = ElementType::from_tag(tag);
            assert_eq!(known.map(|t| t as u8), [4, 8].contains(&tag).then_some(tag));
        }
        assert_eq!("f64".parse::<ElementType>(), Ok(ElementType::F64));
        assert!("f16".parse::<ElementType>().is_err());
    }
}
