//! Compression: the sender groups the bytes of elements into planes, and then applies LZ4.
//!
//! LZ4 finds repeated sequences of four bytes or more, and floating-point numbers have hardly any. In planes,
//! zeros, signs with exponents, and the zeros at the end of small integers are adjacent.

use crate::WireError;
use bytes::{Buf, Bytes};
use intendant_core::limits;
use lz4_flex::block;

/// LZ4 decompresses one byte to at most this many bytes.
const EXPANSION_MAX: usize = 255;

/// Appends the bytes of `tail` and `values` by planes: first the bytes at multiples of `width`, then the
/// bytes one position further, and so on. The bytes of a partial element come last.
pub(super) fn put_planes(plain: &mut Vec<u8>, width: usize, tail: &[u8], values: &[u8]) {
    // A frame rarely has both.
    let joined;
    let all = if tail.is_empty() {
        values
    } else {
        joined = [tail, values].concat();
        &joined
    };
    let whole = all.len() - all.len() % width;
    for plane in 0..width {
        plain.extend(all[..whole].iter().skip(plane).step_by(width));
    }
    plain.extend_from_slice(&all[whole..]);
}

/// Restores the bytes that [`put_planes`] has appended as `planes`.
pub(super) fn from_planes(planes: &[u8], width: usize) -> Vec<u8> {
    let elements = planes.len() / width;
    let mut all = vec![0; planes.len()];
    let (whole, rest) = all.split_at_mut(elements * width);
    for (plane, bytes) in planes.chunks_exact(elements.max(1)).take(width).enumerate() {
        whole.iter_mut().skip(plane).step_by(width).zip(bytes).for_each(|(to, from)| *to = *from);
    }
    rest.copy_from_slice(&planes[elements * width..]);
    all
}

/// Appends `plain`, compressed, if the frame then has at most `bytes_max` bytes; returns whether it did.
pub(super) fn put_compressed(frame: &mut Vec<u8>, plain: &[u8], bytes_max: usize) -> bool {
    let start = frame.len();
    frame.resize(start + block::get_maximum_output_size(plain.len()), 0);
    match block::compress_into(plain, &mut frame[start..]) {
        Ok(bytes) if start + bytes <= bytes_max => {
            frame.truncate(start + bytes);
            true
        }
        _ => false,
    }
}

/// Decompresses `compressed`, which begins with the decompressed length.
pub(super) fn decompress(mut compressed: Bytes) -> Result<Vec<u8>, WireError> {
    if compressed.len() < 4 {
        return Err(WireError::Truncated { bytes: compressed.len(), needed: 4 });
    }
    let bytes = compressed.get_u32_le() as usize;
    // The check comes before the allocation.
    if bytes > limits::FRAME_BYTES_MAX.min(compressed.len() * EXPANSION_MAX) {
        return Err(WireError::Decompressed { bytes, from: compressed.len() });
    }
    let mut plain = vec![0; bytes];
    match block::decompress_into(&compressed, &mut plain) {
        Ok(found) if found == bytes => Ok(plain),
        _ => Err(WireError::Compressed { bytes: compressed.len() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_lead_back_to_the_elements() {
        for width in [4, 8] {
            for bytes in 0..70u8 {
                let all: Vec<u8> = (0..bytes).map(|at| at.wrapping_mul(37)).collect();
                for cut in [0, all.len() / 3, all.len()] {
                    let mut planes = Vec::new();
                    put_planes(&mut planes, width, &all[..cut], &all[cut..]);
                    assert_eq!(from_planes(&planes, width), all, "{bytes} bytes, {width} per element");
                }
            }
        }
        let mut planes = Vec::new();
        put_planes(&mut planes, 4, &[], &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(planes, [1, 5, 2, 6, 3, 7, 4, 8, 9]);
    }

    #[test]
    fn lengths_are_checked_before_memory_is_taken() {
        let announces = |bytes: u32, rest: usize| {
            let mut frame = bytes.to_le_bytes().to_vec();
            frame.resize(4 + rest, 0);
            decompress(frame.into())
        };
        assert_eq!(
            decompress(Bytes::from_static(&[1, 0])),
            Err(WireError::Truncated { bytes: 2, needed: 4 })
        );
        assert_eq!(announces(2_551, 10), Err(WireError::Decompressed { bytes: 2_551, from: 10 }));
        let max = limits::FRAME_BYTES_MAX;
        assert_eq!(
            announces(max as u32 + 1, max),
            Err(WireError::Decompressed { bytes: max + 1, from: max })
        );
        assert_eq!(announces(2_550, 10), Err(WireError::Compressed { bytes: 10 }));
    }
}
