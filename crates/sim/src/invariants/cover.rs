//! Coverage: a snapshot contains every key of its range exactly once.

use super::Finding;
use intendant_core::Key;
use std::ops::Range;

/// The keys of a snapshot so far.
pub(crate) struct Cover {
    range: Range<u64>,
    seen: Vec<bool>,
}

impl Cover {
    pub(crate) fn new(range: Range<u64>) -> Self {
        let keys = (range.end - range.start) as usize;
        Self { range, seen: vec![false; keys] }
    }

    /// Adds the keys of a part.
    pub(crate) fn part(&mut self, keys: &[Key]) -> Result<(), Finding> {
        for key in keys {
            if !self.range.contains(&key.0) {
                return Err(("cover", format!("the snapshot of keys {:?} has {key:?}", self.range)));
            }
            if std::mem::replace(&mut self.seen[(key.0 - self.range.start) as usize], true) {
                return Err(("cover", format!("the snapshot of keys {:?} has {key:?} twice", self.range)));
            }
        }
        Ok(())
    }

    /// Checks that no key is missing after the last part.
    pub(crate) fn finish(&self) -> Result<(), Finding> {
        match self.seen.iter().position(|seen| !seen) {
            None => Ok(()),
            Some(at) => {
                let missing = Key(self.range.start + at as u64);
                Err(("cover", format!("the snapshot of keys {:?} lacks {missing:?}", self.range)))
            }
        }
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
