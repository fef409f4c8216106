//! The first pass over a text: how often each word occurs, and where blocks begin.
//!
//! The file is divided into spans, which threads scan independently. Spans have a fixed size and begin at the
//! next line; in the middle of a very long line, at the next word. The result depends on the text alone, and
//! not on the threads.

use super::error::DataError;
use super::source::Source;
use super::text::{Block, Cutter, Token, WORD_BYTES_MAX, Words, is_space, tokens};
use super::words::{Counts, TooManyWords, hash};
use intendant_core::lock;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// How a text is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Division {
    /// Maximum number of words of a piece.
    pub(super) piece_words_max: u64,
    /// Bytes of a span; each thread holds one in memory.
    pub(super) span_bytes: u64,
    /// If no line begins within this many bytes after the start of a span, the span begins within a line.
    pub(super) line_bytes: u64,
    /// A block ends with the piece with which it reaches this many bytes.
    pub(super) block_bytes: u64,
    /// Maximum number of bytes of the words of each span that are kept in memory.
    pub(super) kept_bytes: u64,
}

/// Large enough for fast reads, small enough that every thread can hold one.
const SPAN_BYTES: u64 = 16 << 20;
const LINE_BYTES: u64 = 64 << 10;

/// Finding a smaller block would cost more than reading it.
const BLOCK_BYTES_MIN: u64 = 4 << 10;
/// A larger block would take too much of a loader's memory.
const BLOCK_BYTES_MAX: u64 = 1 << 20;
/// Approximate number of blocks of a text, unless they would be too large.
const BLOCKS: u64 = 1 << 16;
/// Small texts have smaller blocks, so that there are enough to hold some out and to deal the others out.
const BLOCKS_MIN: u64 = 64;

impl Division {
    /// How a text of `bytes` bytes is divided. At most `kept_bytes` bytes of its words are kept in memory.
    pub(super) const fn new(bytes: u64, piece_words_max: u64, kept_bytes: u64) -> Self {
        let (few, many) = (bytes / BLOCKS_MIN, bytes / BLOCKS);
        let least = if few < BLOCK_BYTES_MIN { few } else { BLOCK_BYTES_MIN };
        let block_bytes = if many < least {
            least
        } else if many > BLOCK_BYTES_MAX {
            BLOCK_BYTES_MAX
        } else {
            many
        };
        // Each span gets an equal part, so that the kept blocks do not depend on which threads come first.
        let spans = bytes.div_ceil(SPAN_BYTES);
        let kept_bytes = if spans > 1 { kept_bytes / spans } else { kept_bytes };
        Self { piece_words_max, span_bytes: SPAN_BYTES, line_bytes: LINE_BYTES, block_bytes, kept_bytes }
    }
}

/// Blocks, and the words of the blocks that are kept.
type Found = Vec<(Block, Option<Words>)>;

/// The result of the first pass.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) counts: Counts,
    /// All blocks, and the words of the blocks that are kept, with the numbers of `counts`.
    pub(super) blocks: Found,
}

/// Scans a text with at most `threads` threads.
pub(super) fn scan(source: &Source, division: Division, threads: usize) -> Result<Scan, DataError> {
    let spans = source.len().div_ceil(division.span_bytes);
    let next = AtomicU64::new(0);
    let all = Mutex::new((Counts::default(), Vec::new(), Ok(())));
    let work = || {
        let mut counts = Counts::default();
        let mut found = Vec::new();
        let mut result = Ok(());
        while result.is_ok() {
            // Relaxed, because only the assignment of spans to threads depends on it.
            let span = next.fetch_add(1, Ordering::Relaxed);
            if span >= spans {
                break;
            }
            match scan_span(source, division, span, &mut counts) {
                Ok(blocks) => found.push((span, blocks)),
                Err(error) => {
                    next.store(spans, Ordering::Relaxed);
                    result = Err(error);
                }
            }
        }
        let mut all = lock(&all);
        let (merged, blocks, first) = &mut *all;
        if first.is_ok() {
            *first = result.and_then(|()| {
                join(merged, counts, &mut found).map_err(|TooManyWords| source.too_many_words())
            });
        }
        blocks.append(&mut found);
    };
    let threads = threads.min(usize::try_from(spans).unwrap_or(usize::MAX)).max(1);
    std::thread::scope(|scope| {
        // This thread scans, too: with one span, no thread is started.
        (1..threads).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    let (counts, mut blocks, result) = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    result?;
    blocks.sort_unstable_by_key(|(span, _)| *span);
    Ok(Scan { counts, blocks: blocks.into_iter().flat_map(|(_, blocks)| blocks).collect() })
}

/// Adds the counts of a thread to `all`. The kept words of the thread get the numbers of `all`.
fn join(all: &mut Counts, counts: Counts, found: &mut [(u64, Found)]) -> Result<(), TooManyWords> {
    if all.len() == 0 {
        *all = counts;
        return Ok(());
    }
    let numbers = all.merge(&counts)?;
    let kept = found.iter_mut().flat_map(|(_, blocks)| blocks).filter_map(|(_, kept)| kept.as_mut());
    kept.for_each(|words| words.renumber(&numbers));
    Ok(())
}

/// Threads that this machine can run at once.
pub(super) fn machine_threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Scans one span.
fn scan_span(
    source: &Source,
    division: Division,
    span: u64,
    counts: &mut Counts,
) -> Result<Found, DataError> {
    let start = span_start(source, division, span)?;
    let end = span_start(source, division, span + 1)?;
    let mut text = Vec::new();
    source.read(start, end - start, &mut text)?;
    let mut cutter = Cutter::new(division.piece_words_max, division.block_bytes, division.kept_bytes);
    tokens(&text, |token| {
        match token {
            Token::Word(at, word) => {
                if word.len() > WORD_BYTES_MAX {
                    return Err(source.long_word(start + at as u64));
                }
                let hash = hash(word);
                let number = counts.add(word, hash, 1).map_err(|_| source.too_many_words())?;
                cutter.word(start + at as u64, word.len(), hash, number);
            }
            Token::LineEnd => cutter.line_end(),
        }
        Ok(())
    })?;
    Ok(cutter.finish())
}

/// Where a span begins: at the first line that begins in it, if one begins soon, else at the first word.
fn span_start(source: &Source, division: Division, span: u64) -> Result<u64, DataError> {
    let nominal = span.saturating_mul(division.span_bytes);
    if nominal == 0 || nominal >= source.len() {
        return Ok(nominal.min(source.len()));
    }
    // A line may begin exactly at the start; the byte before it tells.
    let from = nominal - 1;
    let mut text = Vec::new();
    source.read(from, (division.line_bytes + 1).min(source.len() - from), &mut text)?;
    let behind = |found: Option<usize>| found.map(|at| from + at as u64 + 1);
    let line = behind(text.iter().position(|byte| *byte == b'\n'));
    let word = || behind(text.iter().position(|byte| is_space(*byte)));
    let is_last = from + text.len() as u64 == source.len();
    // Without a line end or a blank, this is the last word, or a word that is too long and an error wherever
    // it is cut.
    let rest = if is_last { source.len() } else { nominal };
    Ok(line.or_else(word).unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn division(span_bytes: u64, piece_words_max: u64) -> Division {
        Division { piece_words_max, span_bytes, line_bytes: 12, block_bytes: 30, kept_bytes: 100 }
    }

    fn memory(text: &str) -> Source {
        Source::memory("t", text.as_bytes().to_vec())
    }

    proptest! {
        /// Every word is counted, and in exactly one block, whatever the spans.
        #[test]
        fn nothing_is_lost_between_spans(
            text in "([abc]{1,6}[\n ]{1,2}){0,60}[abc]{0,6}", span in 1u64..70, words in 1u64..9,
        ) {
            let source = memory(&text);
            let scan = scan(&source, division(span, words), 3).unwrap();
            let mut expected = Counts::default();
            for word in text.split_whitespace().map(str::as_bytes) {
                expected.add(word, hash(word), 1).unwrap();
            }
            let digest = |counts| super::super::words::Vocabulary::new(counts, 1).digest(0);
            prop_assert_eq!(digest(&scan.counts), digest(&expected));
            let mut read = Vec::new();
            let mut end = 0;
            for (block, _) in scan.blocks {
                prop_assert!(block.start >= end);
                end = block.start + block.bytes;
                read.push(text[block.start as usize..end as usize].to_owned());
            }
            prop_assert!(read.iter().flat_map(|text| text.split_whitespace()).eq(text.split_whitespace()));
        }

        #[test]
        fn threads_make_no_difference(text in "([abc]{1,6}[\n ]{1,2}){0,60}", span in 1u64..70) {
            let source = memory(&text);
            let one = scan(&source, division(span, 4), 1).unwrap();
            let three = scan(&source, division(span, 4), 3).unwrap();
            // Numbers of words depend on the order in which threads find them.
            let numbered = |scan: Scan| {
                let numbers = super::super::words::Vocabulary::new(&scan.counts, 1).numbers(&scan.counts);
                let renumber = |(block, mut kept): (Block, Option<Words>)| {
                    kept.iter_mut().for_each(|words| words.renumber(&numbers));
                    (block, kept)
                };
                scan.blocks.into_iter().map(renumber).collect::<Vec<_>>()
            };
            prop_assert_eq!(numbered(one), numbered(three));
        }
    }

    #[test]
    fn words_of_all_threads_get_the_same_numbers() {
        let source = memory("b a\na b c\n");
        let mut all = Counts::default();
        let mut kept = Vec::new();
        for span in 0..2 {
            let mut counts = Counts::default();
            let blocks = scan_span(&source, division(4, 9), span, &mut counts).unwrap();
            let mut found = [(span, blocks)];
            join(&mut all, counts, &mut found).unwrap();
            kept.extend(
                found.into_iter().flat_map(|(_, blocks)| blocks).map(|(_, kept)| kept.unwrap().words),
            );
        }
        assert_eq!(kept, [&[0, 1][..], &[1, 0, 2]]);
    }

    #[test]
    fn lines_are_not_cut_by_spans_unless_they_are_long() {
        let lines = "aa bb cc\n".repeat(50);
        let short = scan(&memory(&lines), Division { block_bytes: 1, ..division(100, 1000) }, 2).unwrap();
        assert!(short.blocks.len() == 50 && short.blocks.iter().all(|(block, _)| block.words == 3));
        let long = "aa bb cc ".repeat(50);
        let cut = scan(&memory(&long), Division { block_bytes: 1, ..division(100, 1000) }, 2).unwrap();
        assert_eq!(
            (cut.blocks.len(), cut.blocks.iter().map(|(block, _)| block.words).sum::<u64>()),
            (5, 150)
        );
    }

    #[test]
    fn what_is_no_text_is_refused() {
        let text = format!("a b\n{} c", "x".repeat(WORD_BYTES_MAX + 1));
        let error =
            scan(&memory(&text), Division::new(text.len() as u64, 1000, 0), 2).unwrap_err().to_string();
        assert_eq!(error, "t: the word that starts at byte 4 is longer than 4096 bytes; is this a text?");
    }

    #[test]
    fn blocks_grow_with_the_text() {
        let block = |bytes| Division::new(bytes, 1000, 0).block_bytes;
        assert_eq!((block(640), block(1 << 20), block(100 << 20)), (10, 4 << 10, 4 << 10));
        assert_eq!((block(1 << 30), block(1 << 40)), (16 << 10, 1 << 20));
    }
}
