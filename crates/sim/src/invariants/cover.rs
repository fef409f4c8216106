//! Coverage: a snapshot contains every key of its range exactly once.

use super::finding::Finding;
use intendant_core::Key;
use std::ops::Range;

/// The keys of a snapshot so far.
pub(crate) struct Cover {
    range: Range<u64>,
    /// A bit per key.
    seen: Vec<u64>,
    left: u64,
}

impl Cover {
    pub(crate) fn new(range: Range<u64>) -> Self {
        let keys = range.end - range.start;
        Self { range, seen: vec![0; keys.div_ceil(64) as usize], left: keys }
    }

    /// Adds the keys of a part.
    pub(crate) fn part(&mut self, keys: &[Key]) -> Result<(), Finding> {
        for key in keys {
            if !self.range.contains(&key.0) {
                return Err(("cover", format!("the snapshot of keys {:?} has {key:?}", self.range)));
            }
            let at = key.0 - self.range.start;
            let (word, bit) = (&mut self.seen[(at / 64) as usize], 1 << (at % 64));
            if *word & bit != 0 {
                return Err(("cover", format!("the snapshot of keys {:?} has {key:?} twice", self.range)));
            }
            *word |= bit;
            self.left -= 1;
        }
        Ok(())
    }

    /// Checks that no key is missing after the last part.
    pub(crate) fn finish(&self) -> Result<(), Finding> {
        if self.left == 0 {
            return Ok(());
        }
        let lacks = |at: &u64| self.seen[(*at / 64) as usize] >> (*at % 64) & 1 == 0;
        let missing = (0..self.range.end - self.range.start).find(lacks).map(|at| Key(self.range.start + at));
        Err(("cover", format!("the snapshot of keys {:?} lacks {missing:?}", self.range)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_once() {
        let mut cover = Cover::new(3..6);
        assert_eq!(cover.part(&[Key(5), Key(3)]), Ok(()));
        assert!(cover.finish().is_err(), "k4 is missing");
        assert!(cover.part(&[Key(5)]).is_err(), "twice");
        assert!(cover.part(&[Key(6)]).is_err(), "not asked for");
        assert_eq!(cover.part(&[Key(4)]), Ok(()));
        assert_eq!(cover.finish(), Ok(()));
    }
}
