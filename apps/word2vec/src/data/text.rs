//! Text as words and pieces.
//!
//! A word is a run of bytes without ASCII whitespace (blank, tab, line feed, vertical tab, form feed,
//! carriage return); bytes need not be UTF-8. A *piece* is a line, or a part of a line that has more words
//! than a piece may have: nothing is left out. Windows of context do not reach beyond a piece.

use super::words::hash;

/// Maximum number of bytes of a word: a longer word indicates that the file is not a text.
pub(super) const WORD_BYTES_MAX: usize = 4096;

pub(super) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

const SPACE: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = is_space(byte as u8);
        byte += 1;
    }
    table
};

/// A word or the end of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A word, and where it starts.
    Word(usize, &'a [u8]),
    /// A line has ended.
    LineEnd,
}

/// Calls `take` with all words and line ends of `text`. The end of the text does not count as the end of a
/// line.
#[inline(always)]
pub(super) fn tokens<X>(text: &[u8], mut take: impl FnMut(Token<'_>) -> Result<(), X>) -> Result<(), X> {
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        if SPACE[byte as usize] {
            at += 1;
            if byte == b'\n' {
                take(Token::LineEnd)?;
            }
            continue;
        }
        let len = text[at..].iter().position(|byte| SPACE[*byte as usize]).unwrap_or(text.len() - at);
        take(Token::Word(at, &text[at..at + len]))?;
        at += len;
    }
    Ok(())
}

/// Consecutive pieces that are read together: the unit that is ordered and held out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Where its first word starts.
    pub(super) start: u64,
    /// From there to the end of its last word.
    pub(super) bytes: u64,
    /// All words, unknown ones included.
    pub(super) words: u64,
    /// Pieces.
    pub(super) pieces: u64,
    /// A hash of its words and of where its pieces end.
    pub(super) hash: u64,
}

const EMPTY: Block = Block { start: 0, bytes: 0, words: 0, pieces: 0, hash: 0 };

/// Hashes words and ends of pieces one after the other.
#[inline]
pub(super) fn chain(digest: u64, part: u64) -> u64 {
    (digest.rotate_left(5) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The value that is hashed at the end of a piece.
pub(super) const PIECE_END: u64 = 0x7069_6563_6520_656e;

/// Cuts a text into pieces, and gathers pieces into blocks.
#[derive(Debug)]
pub(super) struct Cutter {
    /// Maximum number of words of a piece.
    piece_words_max: u64,
    /// A block ends with the piece with which it reaches this many bytes.
    block_bytes: u64,
    block: Block,
    piece_words: u64,
    blocks: Vec<(Block, Option<Words>)>,
    /// The words of the current block, as long as blocks are kept, and the number of bytes left for further
    /// blocks.
    words: Option<Words>,
    kept_bytes: u64,
}

impl Cutter {
    /// A cutter that keeps the words of the first blocks that fit into `kept_bytes` bytes.
    pub(super) fn new(piece_words_max: u64, block_bytes: u64, kept_bytes: u64) -> Self {
        Self {
            piece_words_max,
            block_bytes,
            block: EMPTY,
            piece_words: 0,
            blocks: Vec::new(),
            words: Some(Words::default()),
            kept_bytes,
        }
    }

    /// The next word, with its hash and its number.
    #[inline]
    pub(super) fn word(&mut self, start: u64, len: usize, hash: u64, number: u32) {
        if let Some(words) = &mut self.words {
            words.words.push(number);
        }
        if self.block.words == 0 {
            self.block.start = start;
        }
        self.block.bytes = start + len as u64 - self.block.start;
        self.block.words += 1;
        self.block.hash = chain(self.block.hash, hash);
        self.piece_words += 1;
        if self.piece_words == self.piece_words_max {
            self.end_piece();
        }
    }

    /// A line has ended.
    #[inline]
    pub(super) fn line_end(&mut self) {
        if self.piece_words > 0 {
            self.end_piece();
        }
    }

    fn end_piece(&mut self) {
        self.piece_words = 0;
        self.block.pieces += 1;
        if let Some(words) = &mut self.words {
            words.end_piece();
        }
        self.block.hash = chain(self.block.hash, PIECE_END);
        if self.block.bytes >= self.block_bytes {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        self.words = self.words.take().filter(|words| words.bytes() <= self.kept_bytes);
        // The copy has no spare capacity.
        let kept = self.words.clone();
        if let Some(words) = &mut self.words {
            self.kept_bytes -= words.bytes();
            words.clear();
        }
        self.blocks.push((self.block, kept));
        self.block = EMPTY;
    }

    /// Ends the text. Returns its blocks, and the words of the blocks that are kept.
    pub(super) fn finish(mut self) -> Vec<(Block, Option<Words>)> {
        self.line_end();
        if self.block.words > 0 {
            self.end_block();
        }
        self.blocks
    }
}

/// The words of a block as numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Numbers in the vocabulary, or [`UNKNOWN`](super::UNKNOWN).
    pub words: Vec<u32>,
    /// The end of each piece, ascending; the last one is the end of the words.
    pub ends: Vec<usize>,
}

impl Words {
    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.ends.clear();
    }

    fn end_piece(&mut self) {
        self.ends.push(self.words.len());
    }

    /// Bytes of memory.
    fn bytes(&self) -> u64 {
        (size_of_val(&*self.words) + size_of_val(&*self.ends)) as u64
    }

    /// Replaces each number by the one that `numbers` has for it.
    pub(super) fn renumber(&mut self, numbers: &[u32]) {
        self.words.iter_mut().for_each(|word| *word = numbers[*word as usize]);
    }

    /// Reads a block's text; returns its hash, which should equal [`Block::hash`]. `find` gets a word and its
    /// hash, and returns the word's number.
    pub(super) fn read(
        &mut self,
        text: &[u8],
        piece_words_max: u64,
        mut find: impl FnMut(&[u8], u64) -> u32,
    ) -> u64 {
        self.clear();
        let (mut digest, mut piece_words) = (0, 0);
        let read: Result<(), std::convert::Infallible> = tokens(text, |token| {
            match token {
                Token::Word(_, word) => {
                    let hash = hash(word);
                    self.words.push(find(word, hash));
                    digest = chain(digest, hash);
                    piece_words += 1;
                }
                Token::LineEnd if piece_words == 0 => return Ok(()),
                Token::LineEnd => piece_words = piece_words_max,
            }
            if piece_words == piece_words_max {
                piece_words = 0;
                digest = chain(digest, PIECE_END);
                self.end_piece();
            }
            Ok(())
        });
        let Ok(()) = read;
        if piece_words > 0 {
            digest = chain(digest, PIECE_END);
            self.end_piece();
        }
        digest
    }

    /// Ends a piece of generated words, if it has words.
    pub(super) fn end_generated_piece(&mut self) {
        if self.words.len() > self.ends.last().copied().unwrap_or(0) {
            self.end_piece();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Divides a text into blocks. The number of a word is its length.
    fn cut_kept(
        text: &[u8],
        piece_words_max: u64,
        block_bytes: u64,
        kept_bytes: u64,
    ) -> Vec<(Block, Option<Words>)> {
        let mut cutter = Cutter::new(piece_words_max, block_bytes, kept_bytes);
        let done: Result<(), ()> = tokens(text, |token| {
            match token {
                Token::Word(start, word) => {
                    cutter.word(start as u64, word.len(), hash(word), word.len() as u32);
                }
                Token::LineEnd => cutter.line_end(),
            }
            Ok(())
        });
        done.unwrap();
        cutter.finish()
    }

    fn cut(text: &[u8], piece_words_max: u64, block_bytes: u64) -> Vec<Block> {
        let blocks = cut_kept(text, piece_words_max, block_bytes, 0);
        blocks.into_iter().map(|(block, _)| block).collect()
    }

    #[test]
    fn lines_are_pieces_and_long_lines_are_several() {
        let text = b"\n a b\tc\r\n\n\xffd e f g h\ni";
        let blocks = cut(text, 3, 1);
        let of = |block: &Block| &text[block.start as usize..][..block.bytes as usize];
        let found: Vec<&[u8]> = blocks.iter().map(of).collect();
        assert_eq!(found, [&b"a b\tc"[..], b"\xffd e f", b"g h", b"i"]);
        assert_eq!(blocks.iter().map(|b| b.words).collect::<Vec<_>>(), [3, 3, 2, 1]);
        assert_eq!(cut(text, 3, 8).len(), 2, "pieces stay whole");
        assert_eq!(cut(b" \n\n", 3, 1), []);
    }

    proptest! {
        /// The words of the first blocks are kept as they are read, until the next block does not fit.
        #[test]
        fn the_first_blocks_are_kept(text in "[ab\n ]{0,200}", block_bytes in 1u64..40, room in 0u64..600) {
            let bytes = text.as_bytes();
            let (mut words, mut left) = (Words::default(), Some(room));
            for (block, kept) in cut_kept(bytes, 5, block_bytes, room) {
                let of_block = &bytes[block.start as usize..][..block.bytes as usize];
                words.read(of_block, 5, |word, _| word.len() as u32);
                left = left.and_then(|left| left.checked_sub(4 * block.words + 8 * block.pieces));
                prop_assert_eq!(kept, left.map(|_| words.clone()));
            }
        }

        /// A block that is read by itself has the same words and pieces as within the text.
        #[test]
        fn blocks_are_read_as_they_were_cut(
            text in "[ab\n ]{0,200}", piece_words_max in 1u64..9, block_bytes in 1u64..40,
        ) {
            let bytes = text.as_bytes();
            let number = |word: &[u8], _| word.len() as u32;
            let mut words = Words::default();
            let mut all = Words::default();
            for block in cut(bytes, piece_words_max, block_bytes) {
                let of_block = &bytes[block.start as usize..][..block.bytes as usize];
                prop_assert_eq!(words.read(of_block, piece_words_max, number), block.hash);
                prop_assert_eq!(words.words.len() as u64, block.words);
                let before = all.words.len();
                all.words.extend(&words.words);
                all.ends.extend(words.ends.iter().map(|end| before + end));
            }
            let pieces = text.lines().flat_map(|line| {
                let words: Vec<u32> = line.split_whitespace().map(|word| word.len() as u32).collect();
                words.chunks(piece_words_max as usize).map(<[u32]>::to_vec).collect::<Vec<_>>()
            });
            let mut start = 0;
            let found = all.ends.iter().map(|end| {
                let begin = std::mem::replace(&mut start, *end);
                all.words[begin..*end].to_vec()
            });
            prop_assert!(found.eq(pieces));
        }
    }
}
