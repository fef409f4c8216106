//! Memory for the values of frames, used again once they have left: large buffers would otherwise go back to the operating system
//! and come from there page by page, which costs as much as copying the values.

use bytes::Bytes;
use intendant_core::limits;
use std::collections::VecDeque;

/// Smaller ones are left to the allocator, which is fast with them.
const BYTES_MIN: usize = 4 << 10;
/// What is kept at most. Of a peer that reads slowly more is under way, and made anew.
const COUNT_MAX: usize = 16;
const BYTES_MAX: usize = 4 << 20;

/// What the current input may cause at most: the memory that groups of keys take when they begin, since most are as large as the
/// call, or the frame, that they come from; of what fills several frames, as much as one of them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Room {
    pub(crate) keys: usize,
    /// Bytes of values; 0 if there are none.
    pub(crate) bytes: usize,
}

impl Room {
    /// What a frame has of it: a little more than it should, since who looks whether it is full has put a value into it.
    pub(crate) fn of_a_frame(self) -> Self {
        const BYTES: usize = limits::FRAME_PAYLOAD_BYTES_TARGET + (64 << 10);
        match self.bytes.div_ceil(BYTES) {
            0 | 1 => self,
            frames => Self { keys: self.keys.div_ceil(frames), bytes: BYTES },
        }
    }
}

/// Buffers that were lent, in order; whoever had one may still have it.
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

    /// An empty buffer, the largest that there is, for who does not know how much will be in it.
    pub(crate) fn take_any(&mut self) -> Vec<u8> {
        let free = self.lent.iter().enumerate().filter(|(_, (lent, _))| lent.is_unique());
        let found = free.max_by_key(|(_, (_, capacity))| *capacity).map(|(at, _)| at);
        found.map_or_else(Vec::new, |at| self.reclaim(at))
    }

    fn reclaim(&mut self, at: usize) -> Vec<u8> {
        let (mut lent, capacity) = self.lent.remove(at).expect("it was just found");
        self.bytes -= capacity;
        // Or what it holds would be moved to where it is.
        lent.clear();
        lent.into()
    }

    /// The bytes of `values` for somebody else, who drops them when they are of no use any more.
    pub(crate) fn lend(&mut self, values: Vec<u8>) -> Bytes {
        let capacity = values.capacity();
        let bytes = Bytes::from(values);
        if (BYTES_MIN..=BYTES_MAX).contains(&capacity) {
            self.lent.push_back((bytes.clone(), capacity));
            self.bytes += capacity;
            while self.lent.len() > COUNT_MAX || self.bytes > BYTES_MAX {
                let (_, capacity) = self.lent.pop_front().expect("there is more than nothing");
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
    fn a_buffer_comes_back_when_nobody_has_it() {
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
        is_other(BYTES_MIN, "somebody reads it");
        let part = lent.slice(10..20);
        drop(lent);
        is_other(BYTES_MIN, "somebody reads a part of it");
        drop(part);
        is_other(BYTES_MIN + 1, "it is too small");
        is_other(1, "small ones are made anew");
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
