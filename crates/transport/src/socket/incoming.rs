//! Incoming bytes of one link, cut into frames without copying them.
//!
//! The buffer grows only as bytes really arrive: a length that a peer announces is never trusted. A frame is
//! a slice of the buffer that it arrived in and keeps that buffer alive, so a caller that keeps a small frame
//! for long should copy it.

use super::outgoing::{GOODBYE, PREFIX_BYTES};
use super::spare::Spare;
use crate::LinkError;
use bytes::{Buf, Bytes, BytesMut};
use intendant_core::limits::FRAME_BYTES_MAX;
use std::mem;

/// The least room that is requested before a read. A system call costs about as much as copying a few KiB, so
/// with 64 KiB per read its cost is negligible.
const READ_BYTES: usize = 64 << 10;

/// If less room than this is left, the link gets a new buffer before a read.
const READ_BYTES_MIN: usize = 8 << 10;

/// How much a buffer that holds a part of a frame may grow at once, in multiples of what it holds. The copies
/// then sum up to at most a third of the frame.
const GROWTH: usize = 3;

/// A complete item of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Frame(Bytes),
    Goodbye,
}

/// Bytes that have arrived on one link and have not been passed on yet.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    buffer: BytesMut,
    /// The size for which the buffer was requested.
    asked: usize,
}

impl Incoming {
    /// The announced length of the first frame, once its prefix is there.
    fn announced(&self) -> Option<u32> {
        self.buffer.first_chunk::<PREFIX_BYTES>().map(|prefix| u32::from_le_bytes(*prefix))
    }

    /// The buffer to append to, with room for a read.
    pub(crate) fn room(&mut self, spare: &mut Spare) -> &mut BytesMut {
        let (held, free) = (self.buffer.len(), self.buffer.capacity() - self.buffer.len());
        let frame = self.announced().map_or(0, |bytes| PREFIX_BYTES + bytes as usize);
        let missing = frame.saturating_sub(held);
        if free < missing.clamp(READ_BYTES_MIN, READ_BYTES) {
            let asked = held + missing.clamp(READ_BYTES, READ_BYTES.max(GROWTH * held));
            let mut next = spare.take(asked);
            next.extend_from_slice(&self.buffer);
            spare.put(mem::replace(&mut self.buffer, next), mem::replace(&mut self.asked, asked));
        }
        &mut self.buffer
    }

    /// Gives the buffer back unless it holds a part of a frame: a silent link has no buffer.
    pub(crate) fn rest(&mut self, spare: &mut Spare) {
        if self.buffer.is_empty() {
            spare.put(mem::take(&mut self.buffer), mem::take(&mut self.asked));
        }
    }

    /// Takes the next complete item, or `None` if more bytes are needed.
    pub(crate) fn next(&mut self) -> Result<Option<Item>, LinkError> {
        let Some(bytes) = self.announced() else { return Ok(None) };
        if bytes == GOODBYE {
            self.buffer.advance(PREFIX_BYTES);
            return match self.buffer.len() {
                0 => Ok(Some(Item::Goodbye)),
                bytes => Err(LinkError::AfterGoodbye { bytes }),
            };
        }
        if bytes as usize > FRAME_BYTES_MAX {
            return Err(LinkError::FrameTooLong { bytes, bytes_max: FRAME_BYTES_MAX });
        }
        if self.buffer.len() - PREFIX_BYTES < bytes as usize {
            return Ok(None);
        }
        self.buffer.advance(PREFIX_BYTES);
        Ok(Some(Item::Frame(self.buffer.split_to(bytes as usize).freeze())))
    }

    /// The error that the end of the stream means at this point.
    pub(crate) fn at_end(&self) -> LinkError {
        match self.buffer.len() {
            0 => LinkError::Vanished,
            bytes => LinkError::Truncated { bytes },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::spare::BUFFER_BYTES;
    use super::*;
    use proptest::prelude::*;

    fn all(incoming: &mut Incoming) -> Vec<Item> {
        std::iter::from_fn(|| incoming.next().expect("a valid stream")).collect()
    }

    proptest! {
        #[test]
        fn frames_survive_any_cut(
            frames in proptest::collection::vec(
                (any::<u8>(), prop_oneof![0usize..40, 60_000usize..300_000]),
                0..12,
            ),
            cuts in proptest::collection::vec(1usize..70_000, 1..20),
        ) {
            let (mut stream, mut expected) = (Vec::new(), Vec::new());
            for (fill, len) in frames {
                stream.extend_from_slice(&(len as u32).to_le_bytes());
                stream.resize(stream.len() + len, fill);
                expected.push(Item::Frame(Bytes::from(vec![fill; len])));
            }
            stream.extend_from_slice(&GOODBYE.to_le_bytes());
            expected.push(Item::Goodbye);
            let (mut incoming, mut arrived, mut rest) = (Incoming::default(), Vec::new(), &stream[..]);
            let mut spare = Spare::default();
            for cut in cuts.iter().cycle() {
                let room = incoming.room(&mut spare);
                let cut = rest.len().min(*cut).min(room.capacity() - room.len());
                room.extend_from_slice(&rest[..cut]);
                rest = &rest[cut..];
                arrived.extend(all(&mut incoming));
                incoming.rest(&mut spare);
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert!(arrived == expected);
            prop_assert!(matches!(incoming.at_end(), LinkError::Vanished));
        }

        #[test]
        fn memory_stays_in_proportion_to_what_arrives(
            bytes in proptest::collection::vec(any::<u8>(), 0..4_000),
        ) {
            let (mut incoming, mut spare) = (Incoming::default(), Spare::default());
            for chunk in bytes.chunks(7) {
                incoming.room(&mut spare).extend_from_slice(chunk);
                while let Ok(Some(_)) = incoming.next() {}
                prop_assert!(incoming.buffer.capacity() <= 2 * BUFFER_BYTES);
            }
        }
    }

    #[test]
    fn an_announcement_alone_reserves_nothing() {
        let (mut incoming, mut spare) = (Incoming::default(), Spare::default());
        incoming.room(&mut spare).extend_from_slice(&(FRAME_BYTES_MAX as u32).to_le_bytes());
        for held in [READ_BYTES, BUFFER_BYTES - READ_BYTES_MIN, BUFFER_BYTES + 1, 3 * BUFFER_BYTES] {
            while incoming.buffer.len() < held {
                let room = incoming.room(&mut spare);
                let missing = (held - room.len()).min(room.capacity() - room.len());
                room.resize(room.len() + missing, 7);
            }
            assert_eq!(incoming.next().unwrap(), None);
            let capacity = incoming.room(&mut spare).capacity();
            assert!(
                capacity <= ((1 + GROWTH) * held).max(BUFFER_BYTES),
                "{capacity} for {held}: taken on trust"
            );
        }
    }

    #[test]
    fn a_link_that_reads_and_rests_needs_one_buffer() {
        let (mut incoming, mut spare) = (Incoming::default(), Spare::default());
        let mut at = None;
        for _ in 0..100 {
            let room = incoming.room(&mut spare);
            assert_eq!(*at.get_or_insert(room.as_ptr()), room.as_ptr());
            room.extend_from_slice(&[1, 0, 0, 0, 7]);
            assert!(matches!(incoming.next(), Ok(Some(Item::Frame(frame))) if *frame == [7]));
            incoming.rest(&mut spare);
            assert_eq!((incoming.buffer.capacity(), spare.kept()), (0, 1));
        }
    }

    #[test]
    fn reading_a_large_frame_always_finds_room() {
        let (mut incoming, mut spare) = (Incoming::default(), Spare::default());
        incoming.room(&mut spare).extend_from_slice(&(FRAME_BYTES_MAX as u32).to_le_bytes());
        let (mut left, mut reads) = (FRAME_BYTES_MAX, 0);
        while left > 0 {
            let room = incoming.room(&mut spare);
            assert!(room.capacity() <= FRAME_BYTES_MAX + BUFFER_BYTES, "{}: too much", room.capacity());
            let read = left.min(room.capacity() - room.len());
            room.resize(room.len() + read, 7);
            (left, reads) = (left - read, reads + 1);
        }
        assert!(matches!(incoming.next(), Ok(Some(Item::Frame(frame))) if frame.len() == FRAME_BYTES_MAX));
        assert!(reads < 12, "{reads} reads: the buffer grows too slowly");
    }

    #[test]
    fn a_frame_beyond_the_limit_is_refused() {
        let (mut incoming, mut spare) = (Incoming::default(), Spare::default());
        incoming.room(&mut spare).extend_from_slice(&(FRAME_BYTES_MAX as u32 + 1).to_le_bytes());
        assert!(matches!(
            incoming.next(),
            Err(LinkError::FrameTooLong { bytes, .. }) if bytes as usize == FRAME_BYTES_MAX + 1
        ));
    }

    #[test]
    fn nothing_may_follow_a_goodbye() {
        let (mut incoming, mut spare) = (Incoming::default(), Spare::default());
        incoming.room(&mut spare).extend_from_slice(&[255, 255, 255, 255, 0]);
        assert!(matches!(incoming.next(), Err(LinkError::AfterGoodbye { bytes: 1 })));
    }

    #[test]
    fn an_end_inside_a_frame_is_told_apart() {
        let (mut incoming, mut spare) = (Incoming::default(), Spare::default());
        incoming.room(&mut spare).extend_from_slice(&[9, 0, 0, 0, 1, 2]);
        assert_eq!(incoming.next().unwrap(), None);
        assert!(matches!(incoming.at_end(), LinkError::Truncated { bytes: 6 }));
    }
}
