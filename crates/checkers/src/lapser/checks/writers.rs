//! A line of a segment has one writer: the node's own processor, one other node, or the node's own reads.
//! What a window reads from is not changed until its operation has ended.

use intendant_sim::Finding;
use std::collections::BTreeMap;

/// Words of a line.
const LINE_WORDS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    Processor,
    Writes { of: usize },
    Reads,
}

#[derive(Default)]
pub(crate) struct Writers {
    /// By node and line.
    lines: BTreeMap<(usize, usize), Writer>,
    /// By node and number of the write: what it reads from.
    sources: BTreeMap<(usize, u64), (usize, usize)>,
}

impl Writers {
    /// `writer` changes `words` words at `at` of a node's segment.
    pub(crate) fn writes(
        &mut self,
        node: usize,
        at: usize,
        words: usize,
        writer: Writer,
    ) -> Result<(), Finding> {
        for line in at / LINE_WORDS..(at + words).div_ceil(LINE_WORDS) {
            let first = *self.lines.entry((node, line)).or_insert(writer);
            if first != writer {
                let word = line * LINE_WORDS;
                return Err((
                    "writers",
                    format!("word {word} of n{node} has two writers: {first:?}, {writer:?}"),
                ));
            }
        }
        Ok(())
    }

    /// A write reads from `words` words at `at` of its node's segment.
    pub(crate) fn begins(&mut self, node: usize, id: u64, at: usize, words: usize) {
        self.sources.insert((node, id), (at, words));
    }

    /// An operation of a node has ended.
    pub(crate) fn ends(&mut self, node: usize, id: u64) {
        self.sources.remove(&(node, id));
    }

    /// The processor of a node changes `words` words at `at`.
    pub(crate) fn stores(&mut self, node: usize, at: usize, words: usize) -> Result<(), Finding> {
        let mut sources = self.sources.range((node, 0)..(node + 1, 0));
        let hit = sources.find(|(_, (from, length))| *from < at + words && at < from + length);
        if let Some(((_, id), (from, _))) = hit {
            return Err(("writers", format!("n{node} stores at {at} while write {id} reads from {from}")));
        }
        self.writes(node, at, words, Writer::Processor)
    }
}
