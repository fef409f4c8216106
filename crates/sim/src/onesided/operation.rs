//! One-sided operations in flight.

use std::fmt;
use std::ops::Range;

/// Words of a line: what is sampled, or lands, at once.
pub(super) const LINE_WORDS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write { hint: Option<u32>, tag: u64 },
}

/// An operation in flight.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) direction: Direction,
    /// The node that began it.
    pub(super) by: usize,
    /// Its number there.
    pub(super) id: u64,
    /// The node whose words are copied, and the first of them.
    pub(super) from: usize,
    pub(super) source: usize,
    /// The node to which they are copied.
    pub(super) to: usize,
    /// First word there.
    into: usize,
    /// First word in the segment of the other node.
    pub(super) remote: usize,
    pub(super) words: usize,
    /// Bytes for which it occupies NICs.
    pub(super) bytes: u64,
    /// What was sampled so far.
    pub(super) data: Vec<u64>,
    /// By line: whether it was sampled.
    pub(super) sampled: Vec<bool>,
    /// Lines that have landed, or were lost with the node that began the operation.
    pub(super) landed: usize,
    pub(super) failed: Option<&'static str>,
}

impl Operation {
    /// An operation of node `by.0` with number `by.1` that copies `words` words from one node to another, at
    /// the given places.
    pub(super) fn new(
        direction: Direction,
        by: (usize, u64),
        (from, to): (usize, usize),
        (source, into): (usize, usize),
        words: usize,
    ) -> Self {
        let remote = if direction == Direction::Read { source } else { into };
        let (by, id) = by;
        Self {
            direction,
            by,
            id,
            from,
            source,
            to,
            into,
            remote,
            words,
            bytes: words as u64 * 8,
            data: vec![0; words],
            sampled: vec![false; words.div_ceil(LINE_WORDS)],
            landed: 0,
            failed: None,
        }
    }

    pub(super) fn is_write(&self) -> bool {
        self.direction != Direction::Read
    }

    /// The node that did not begin it.
    pub(super) fn other(&self) -> usize {
        if self.is_write() { self.to } else { self.from }
    }

    pub(super) fn lines(&self) -> usize {
        self.sampled.len()
    }

    /// The words of a line, as positions in the data.
    pub(super) fn line(&self, line: usize) -> Range<usize> {
        line * LINE_WORDS..((line + 1) * LINE_WORDS).min(self.words)
    }

    /// First word at the node to which words are copied.
    pub(super) fn target(&self) -> usize {
        self.into
    }

    pub(super) fn has_landed(&self) -> bool {
        self.landed == self.lines()
    }

    pub(super) fn has_landed_partly(&self) -> bool {
        self.landed > 0 && !self.has_landed()
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, from, source, to, into, words, .. } = self;
        let what = if self.is_write() { "write" } else { "read" };
        write!(f, "{what} {id}: {words} words of n{from} at {source} to n{to} at {into}")
    }
}
