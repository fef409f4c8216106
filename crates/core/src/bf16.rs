//! Rounds singles to bfloat16 (the upper half of an IEEE single: eight bits of exponent and of significand).
//!
//! The conversions are a few operations on integers without branches, which compilers vectorise; a crate for
//! half-precision types would add a dependency, and lacks truncation and finite results.

/// The bits of the smallest magnitude whose nearest bfloat16 is infinite.
const TOO_LARGE: u32 = 0x7f7f_8000;

const INFINITE: u32 = 0x7f80_0000;

/// The bits of the bfloat16 nearest to the single with these bits; ties go to even. A finite value stays
/// finite: the largest values are truncated instead.
#[inline]
pub(crate) fn nearest(bits: u32) -> u16 {
    let near = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let large = bits & !(1 << 31) >= TOO_LARGE;
    if large { truncated(bits) } else { near as u16 }
}

/// Rounds the single with these bits towards zero to a bfloat16, and returns its bits.
#[inline]
pub(crate) fn truncated(bits: u32) -> u16 {
    // The bits that distinguish a NaN from an infinity may be in the lower half.
    let nan = u32::from(bits & !(1 << 31) > INFINITE) << 6;
    (bits >> 16 | nan) as u16
}
