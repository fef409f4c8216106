//! Memory for the values of frames, reused once the frames have left. The allocator would return large
//! buffers to the operating system and get them back page by page, which costs as much as copying the values.

use bytes::Bytes;
use intendant_core::limits;
use std::collections::VecDeque;

/// The allocator is fast with buffers that are smaller than this.
const BYTES_MIN: usize = 4 << 10;
/// How many buffers are kept. When a slow peer keeps more of them busy, further ones are allocated.
const COUNT_MAX: usize = 16;
const BYTES_MAX: usize = 4 << 20;

/// How many keys and bytes of values an input adds to messages at most. A new group reserves this much
/// memory: most groups are as large as the call or the frame that they come from. An input that fills several
/// frames reserves one frame at a time.
#[derive(Clone, Copy, Default)]
pub(crate) struct Room {
    pub(crate) keys: usize,
    /// Bytes of values; 0 if there are none.
    pub(crate) bytes: usize,
}

impl Room {
    /// The share of one frame. It exceeds the frame's target size, since a group is found to be full only
    /// after the value that fills it.
    pub(crate) fn of_a_frame(self) -> Self {
        const BYTES: usize = limits::FRAME_PAYLOAD_BYTES_TARGET + (64 << 10);
        match self.bytes.div_ceil(BYTES) {
            0 | 1 => self,
            frames => Self { keys: self.keys.div_ceil(frames), bytes: BYTES },
        }
    }
}

/// Buffers that were lent, oldest first. A reader may still use them.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    lent: VecDeque<(Bytes, usize)>,
    /// Their capacities together.
    bytes: usize,
}

impl Buffers {
    /// An empty buffer with room for `bytes`.
    pub(crate) fn take(&mut self, bytes: usize) -> Vec<u8> {
        if bytes < BYTES_MIN {
            return Vec::with_capacity(bytes);
        }
        let fits = |(lent, capacity): &(Bytes, usize)| *capacity >= bytes && lent.is_unique();
        let found = self.lent.iter().position(fits);
        found.map_or_else(|| Vec::with_capacity(bytes), |at| self.reclaim(at))
    }

    /// An empty buffer for what `room` announces, or the largest free one if that is unknown.
    pub(crate) fn take_for(&mut self, room: Room) -> Vec<u8> {
        if room.bytes > 0 { self.take(room.bytes) } else { self.take_any() }
    }

    /// The largest free buffer, empty, for a payload of unknown size.
    pub(crate) fn take_any(&mut self) -> Vec<u8> {
        let free = self.lent.iter().enumerate().filter(|(_, (lent, _))| lent.is_unique());
        let found = free.max_by_key(|(_, (_, capacity))| *capacity).map(|(at, _)| at);
        found.map_or_else(Vec::new, |at| self.reclaim(at))
    }

    fn reclaim(&mut self, at: usize) -> Vec<u8> {
        let (mut lent, capacity) = self.lent.remove(at).expect("it was just found");
        self.bytes -= capacity;
        // An empty `Bytes` converts without copying its contents.
        lent.clear();
        lent.into()
    }

    /// Lends `values` to a reader, whose last clone of the bytes frees the buffer for reuse.
    pub(crate) fn lend(&mut self, values: Vec<u8>) -> Bytes {
        let capacity = values.capacity();
        let bytes = Bytes::from(values);
        if (BYTES_MIN..=BYTES_MAX).contains(&capacity) {
            self.lent.push_back((bytes.clone(), capacity));
            self.bytes += capacity;
            while self.lent.len() > COUNT_MAX || self.bytes > BYTES_MAX {
                let (_, capacity) = self.lent.pop_front().expect("the list is not empty");
                self.bytes -= capacity;
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_reused_when_its_last_reader_is_gone() {
        let mut buffers = Buffers::default();
        let mut values = buffers.take(BYTES_MIN);
        values.extend_from_slice(&[7; BYTES_MIN]);
        let address = values.as_ptr();
        let lent = buffers.lend(values);
        assert_eq!(lent, vec![7; BYTES_MIN]);
        let mut is_other = |bytes: usize, why: &str| {
            let other = buffers.take(bytes);
            assert_ne!(other.as_ptr(), address, "{why}");
        };
        is_other(BYTES_MIN, "a reader holds it");
        let part = lent.slice(10..20);
        drop(lent);
        is_other(BYTES_MIN, "a reader holds a part of it");
        drop(part);
        is_other(BYTES_MIN + 1, "it is too small");
        is_other(1, "small ones are allocated");
        let again = buffers.take(BYTES_MIN);
        assert_eq!((again.as_ptr(), again.len()), (address, 0));
        assert_eq!(buffers.bytes, 0);
        let lent = [again, Vec::with_capacity(3 * BYTES_MIN), Vec::with_capacity(2 * BYTES_MIN)];
        let lent = lent.map(|values| buffers.lend(values));
        assert_eq!(buffers.take_any().capacity(), 0, "all are in use");
        drop(lent);
        let capacities = [(); 4].map(|()| buffers.take_any().capacity());
        assert_eq!(capacities, [3 * BYTES_MIN, 2 * BYTES_MIN, BYTES_MIN, 0]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut buffers = Buffers::default();
        let lent: Vec<Bytes> = (0..100).map(|_| buffers.lend(Vec::with_capacity(BYTES_MIN))).collect();
        assert_eq!((buffers.lent.len(), buffers.bytes), (COUNT_MAX, COUNT_MAX * BYTES_MIN));
        buffers.lend(Vec::with_capacity(BYTES_MAX));
        assert_eq!((buffers.lent.len(), buffers.bytes), (1, BYTES_MAX));
        buffers.lend(Vec::with_capacity(BYTES_MAX + 1));
        buffers.lend(Vec::with_capacity(BYTES_MIN - 1));
        assert_eq!((buffers.lent.len(), buffers.bytes), (1, BYTES_MAX));
        drop(lent);
    }
}
