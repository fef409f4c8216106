//! Buffers that frames have arrived in, for use again once no frame of theirs is kept. Otherwise large
//! buffers would return to the operating system and be mapped again page by page, which costs as much as
//! reading into them.

use super::secure::CIPHER_BYTES;
use bytes::BytesMut;

/// Bytes of a buffer, and so the most that a usual read brings: several frames with the values of a call. A
/// link has a buffer only while it holds a part of a frame.
pub(crate) const BUFFER_BYTES: usize = 256 << 10;

/// The most buffers that are kept, for all links of a channel together.
const COUNT_MAX: usize = 12;

/// Buffers of [`BUFFER_BYTES`] that links are done with. Frames in them may still be in use.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    buffers: Vec<BytesMut>,
    /// Memory for encrypted bytes, which stay here during one read only.
    cipher: Vec<u8>,
}

impl Spare {
    /// An empty buffer with room for at least `bytes`.
    pub(crate) fn take(&mut self, bytes: usize) -> BytesMut {
        if bytes <= BUFFER_BYTES {
            // A buffer fits if all of it is free, or if the part behind frames in use is large enough. The
            // search begins with the buffer that was used last, because it is the likeliest to be in the
            // cache.
            let fits = |buffer: &mut BytesMut| buffer.try_reclaim(BUFFER_BYTES) || buffer.try_reclaim(bytes);
            if let Some(at) = self.buffers.iter_mut().rposition(fits) {
                return self.buffers.remove(at);
            }
        }
        BytesMut::with_capacity(bytes.max(BUFFER_BYTES))
    }

    /// Memory for the encrypted bytes of one read.
    pub(crate) fn cipher(&mut self) -> &mut [u8] {
        self.cipher.resize(CIPHER_BYTES, 0);
        &mut self.cipher
    }

    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.buffers.len()
    }

    /// Takes back the buffer that [`Spare::take`] gave for `bytes`.
    pub(crate) fn put(&mut self, mut buffer: BytesMut, bytes: usize) {
        // A link without a buffer passes 0 bytes.
        if (1..=BUFFER_BYTES).contains(&bytes) {
            buffer.clear();
            if self.buffers.len() == COUNT_MAX {
                self.buffers.remove(0);
            }
            self.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_when_its_frames_are_gone() {
        let mut spare = Spare::default();
        let mut buffer = spare.take(1);
        assert!(buffer.capacity() >= BUFFER_BYTES);
        buffer.extend_from_slice(&[7; 1000]);
        let address = buffer.as_ptr();
        let (first, second) = (buffer.split_to(100).freeze(), buffer.split_to(900).freeze());
        spare.put(buffer, 1);
        drop(first);
        assert_ne!(spare.take(BUFFER_BYTES).as_ptr(), address, "a frame is in use");
        let rest = spare.take(1);
        assert_eq!(rest.as_ptr(), address.wrapping_add(1000), "what is behind it is not");
        spare.put(rest, 1);
        drop(second);
        let again = spare.take(BUFFER_BYTES);
        assert_eq!((again.as_ptr(), again.len()), (address, 0));
        assert!(again.capacity() >= BUFFER_BYTES);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut spare = Spare::default();
        let taken: Vec<BytesMut> = (0..3 * COUNT_MAX).map(|_| spare.take(1)).collect();
        taken.into_iter().for_each(|buffer| spare.put(buffer, 1));
        assert_eq!(spare.buffers.len(), COUNT_MAX);
        let large = spare.take(BUFFER_BYTES + 1);
        assert!(large.capacity() > BUFFER_BYTES);
        spare.put(large, BUFFER_BYTES + 1);
        assert!(spare.buffers.iter().all(|buffer| buffer.capacity() <= BUFFER_BYTES));
    }
}
