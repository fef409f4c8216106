//! Outgoing frames of one link: small parts are copied together, large ones are not copied.
//!
//! On the wire a frame is its length (`u32`, little-endian) and its content. [`GOODBYE`] in place of a length
//! is the last word of a side that leaves in order; no frame can be that long.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use intendant_core::limits::FRAME_BYTES_MAX;
use std::collections::VecDeque;
use std::io::IoSlice;

/// Bytes of the length before a frame.
pub(crate) const PREFIX_BYTES: usize = 4;

/// This value in place of a length means that nothing follows.
pub(crate) const GOODBYE: u32 = u32::MAX;

/// Larger parts of frames are not copied. Copying this much costs about as much as handling one more slice in
/// the kernel.
const COPIED_BYTES_MAX: usize = 2 << 10;

/// A tail of this size is sealed: it takes no more bytes, so that a link that cannot write does not copy its
/// backlog again and again as it grows.
const TAIL_BYTES_MAX: usize = 64 << 10;

/// The most slices of one write. With large frames they hold half a gigabyte, with small ones 4 MiB: more
/// than a socket takes at once.
pub(crate) const SLICES_MAX: usize = 64;

/// Bytes that one link has yet to write.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    sealed: VecDeque<Bytes>,
    tail: BytesMut,
    bytes: usize,
}

impl Outgoing {
    /// Queues a frame that consists of `head` and then `rest`.
    pub(crate) fn push(&mut self, head: Bytes, rest: Bytes) {
        let bytes = head.len() + rest.len();
        assert!(bytes <= FRAME_BYTES_MAX, "a frame of {bytes} bytes was to be sent");
        self.bytes += PREFIX_BYTES + bytes;
        self.tail.put_u32_le(bytes as u32);
        self.append(head);
        self.append(rest);
    }

    fn append(&mut self, part: Bytes) {
        if part.len() <= COPIED_BYTES_MAX {
            self.tail.extend_from_slice(&part);
            if self.tail.len() >= TAIL_BYTES_MAX {
                self.seal();
            }
        } else {
            self.seal();
            self.sealed.push_back(part);
        }
    }

    pub(crate) fn push_goodbye(&mut self) {
        self.bytes += PREFIX_BYTES;
        self.tail.put_u32_le(GOODBYE);
    }

    fn seal(&mut self) {
        if self.tail.is_empty() {
            return;
        }
        self.sealed.push_back(self.tail.split().freeze());
    }

    /// Bytes that are not written yet, prefixes included.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Fills `slices` with the bytes to write next, in order. Returns the number of slices filled.
    pub(crate) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES_MAX]) -> usize {
        let mut used = 0;
        let tail = Some(&self.tail[..]).filter(|tail| !tail.is_empty());
        for (slice, part) in slices.iter_mut().zip(self.sealed.iter().map(|part| &part[..]).chain(tail)) {
            *slice = IoSlice::new(part);
            used += 1;
        }
        used
    }

    /// Forgets the first `written` bytes.
    pub(crate) fn advance(&mut self, mut written: usize) {
        self.bytes -= written;
        while let Some(part) = self.sealed.front_mut() {
            if written < part.len() {
                part.advance(written);
                return;
            }
            written -= part.len();
            self.sealed.pop_front();
        }
        self.tail.advance(written);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_leave_in_order_however_they_are_cut(
            frames in proptest::collection::vec(
                (any::<u8>(), prop_oneof![0usize..40, 2_000usize..2_100, 60_000usize..70_000], 0usize..=100),
                1..80,
            ),
            cuts in proptest::collection::vec(1usize..100_000, 1..20),
        ) {
            let (mut outgoing, mut expected, mut written) = (Outgoing::default(), Vec::new(), Vec::new());
            let mut cuts = cuts.iter().cycle();
            let mut write = |outgoing: &mut Outgoing, written: &mut Vec<u8>| {
                let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                let used = outgoing.slices(&mut slices);
                let ready: Vec<u8> = slices[..used].iter().flat_map(|s| s.iter().copied()).collect();
                let cut = ready.len().min(*cuts.next().expect("endless"));
                written.extend_from_slice(&ready[..cut]);
                outgoing.advance(cut);
            };
            for (index, (fill, len, percent)) in frames.iter().enumerate() {
                expected.extend_from_slice(&(*len as u32).to_le_bytes());
                expected.resize(expected.len() + len, *fill);
                let mut head = Bytes::from(vec![*fill; *len]);
                let rest = head.split_off(len * percent / 100);
                outgoing.push(head, rest);
                if index % 3 == 0 {
                    write(&mut outgoing, &mut written);
                }
            }
            outgoing.push_goodbye();
            expected.extend_from_slice(&GOODBYE.to_le_bytes());
            while outgoing.bytes() > 0 {
                write(&mut outgoing, &mut written);
            }
            prop_assert!(written == expected, "{} bytes written, {} expected", written.len(), expected.len());
        }
    }

    #[test]
    fn large_frames_are_not_copied() {
        let (large, mut outgoing) = (Bytes::from(vec![1; 1 << 20]), Outgoing::default());
        outgoing.push(Bytes::from_static(b"small"), large.clone());
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        assert_eq!(outgoing.slices(&mut slices), 2);
        assert_eq!(slices[1].as_ptr(), large.as_ptr());
    }

    #[test]
    #[should_panic(expected = "was to be sent")]
    fn an_oversize_frame_is_the_senders_mistake() {
        Outgoing::default().push(Bytes::from_static(b"1"), Bytes::from(vec![0; FRAME_BYTES_MAX]));
    }
}
