//! Memory for the values that replicas keep besides their copy, reused when replicas are dropped. Replicas
//! come and go by the thousand; the allocator would merge and split the pieces of memory each time.

use intendant_core::Element;

/// Memory that may be kept however little is in use.
const BYTES_MAX: usize = 1 << 20;

/// Pieces of memory, each as long as a value.
pub(crate) struct Pool<E> {
    /// By length. Models have a handful of lengths.
    free: Vec<Vec<Box<[E]>>>,
    /// Bytes of these.
    bytes: usize,
    /// Bytes that are in use.
    used: usize,
}

impl<E> Default for Pool<E> {
    fn default() -> Self {
        Self { free: Vec::new(), bytes: 0, used: 0 }
    }
}

impl<E: Element> Pool<E> {
    /// Memory for a value of `len` elements, with any contents.
    pub(crate) fn take(&mut self, len: usize) -> Box<[E]> {
        self.used += len * size_of::<E>();
        let of_len = self.free.iter_mut().find(|free| free.first().is_some_and(|first| first.len() == len));
        let Some(memory) = of_len.and_then(Vec::pop) else { return vec![E::ZERO; len].into() };
        self.bytes -= size_of_val(&*memory);
        memory
    }

    /// Takes memory back. Keeps at most as much memory as is in use, or [`BYTES_MAX`] bytes if that is more.
    /// Empty pieces are ignored.
    pub(crate) fn put(&mut self, memory: [Box<[E]>; 2]) {
        for memory in memory {
            let bytes = size_of_val(&*memory);
            self.used -= bytes;
            if bytes == 0 || self.bytes + bytes > self.used.max(BYTES_MAX) {
                continue;
            }
            let fits = |free: &Vec<Box<[E]>>| free.first().is_none_or(|first| first.len() == memory.len());
            let at = self.free.iter().position(fits).unwrap_or_else(|| {
                self.free.push(Vec::new());
                self.free.len() - 1
            });
            self.free[at].push(memory);
            self.bytes += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_reused_by_length_and_bounded_by_use() {
        let mut pool: Pool<f32> = Pool::default();
        let (long, short) = (pool.take(1000), pool.take(10));
        let addresses = [long.as_ptr(), short.as_ptr()];
        assert_eq!(pool.used, 4040);
        pool.put([long, short]);
        pool.put([Box::default(), Box::default()]);
        assert_eq!((pool.used, pool.bytes), (0, 4040));
        let (short, long) = (pool.take(10), pool.take(1000));
        assert_eq!([long.as_ptr(), short.as_ptr()], addresses);
        assert_eq!((long.len(), short.len(), pool.bytes), (1000, 10, 0));
        let many: Vec<_> = (0..3_000).map(|_| pool.take(1000)).collect();
        let mut kept = 0;
        for memory in many {
            pool.put([memory, Box::default()]);
            kept = kept.max(pool.bytes);
        }
        assert!((5_990_000..6_010_000).contains(&kept), "{kept}: as much as is in use at the same time");
        pool.put([long, short]);
        assert!(pool.bytes <= 6_010_000, "not more than before");
    }
}
