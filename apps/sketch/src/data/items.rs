//! What an item is, and how text is divided into items.

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Items {
    /// Words between ASCII whitespace (blank, tab, line feed, vertical tab, form feed, carriage return), or
    /// this many neighbouring words of a line, joined by blanks. Bytes need not be UTF-8.
    Words {
        /// Words of an item.
        ngrams: u32,
    },
    /// Lines, without their ends. Empty lines are left out.
    Lines,
    /// Integers from 0 to 2^64 - 1, one per line. Empty lines are left out.
    Integers,
}

impl Items {
    /// Calls `take` with the items of a text, each of which occurs once, as a stream without counts has them.
    /// `number` turns text into numbers.
    ///
    /// # Errors
    /// If the text is malformed.
    pub fn of_text(
        self,
        text: &[u8],
        number: impl Fn(&[u8]) -> u64,
        take: impl FnMut(Item<'_>),
    ) -> Result<(), String> {
        Format { items: self, counts: false }.parse(text, number, take).map_err(|wrong| wrong.problem)
    }
}

/// Maximum number of bytes of a record: a longer record indicates that the file is not a text.
pub const RECORD_BYTES_MAX: u64 = 1 << 20;

/// Whole numbers up to this one are exact in double precision.
pub const COUNT_MAX: u64 = 1 << 53;

/// An item of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// The number that identifies it: the integer, or a hash of the text.
    pub x: u64,
    /// How often it occurs here.
    pub count: u64,
    /// Its name.
    pub text: Text<'a>,
}

/// The name of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// A text.
    Bytes(&'a [u8]),
    /// A number.
    Number(u64),
}

impl Text<'_> {
    /// Appends it to `bytes`.
    pub fn write(self, bytes: &mut Vec<u8>) {
        match self {
            Self::Bytes(text) => bytes.extend_from_slice(text),
            Self::Number(number) => bytes.extend_from_slice(number.to_string().as_bytes()),
        }
    }
}

/// A line that is malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    /// Where it begins.
    pub(super) at: usize,
    pub(super) problem: String,
}

/// How text is divided into items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) items: Items,
    pub(super) counts: bool,
}

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

/// A text within an error: long texts are truncated.
fn shown(text: &[u8]) -> String {
    const BYTES_MAX: usize = 80;
    let shown = String::from_utf8_lossy(&text[..text.len().min(BYTES_MAX)]).escape_debug().to_string();
    if text.len() > BYTES_MAX { format!("{shown}…") } else { shown }
}

/// The integer that a text denotes: decimal digits and nothing else.
fn integer(text: &[u8]) -> Option<u64> {
    let digits = (!text.is_empty()).then_some(text)?;
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Calls `take` with every word of `text`.
#[inline]
fn words<'a>(text: &'a [u8], mut take: impl FnMut(&'a [u8])) {
    let mut at = 0;
    while at < text.len() {
        if SPACE[text[at] as usize] {
            at += 1;
            continue;
        }
        let len = text[at..].iter().position(|byte| SPACE[*byte as usize]).unwrap_or(text.len() - at);
        take(&text[at..at + len]);
        at += len;
    }
}

impl Format {
    /// Calls `take` with the items of `text`, which has whole records.
    pub(super) fn parse(
        self,
        text: &[u8],
        number: impl Fn(&[u8]) -> u64,
        mut take: impl FnMut(Item<'_>),
    ) -> Result<(), Wrong> {
        if self.items == (Items::Words { ngrams: 1 }) && !self.counts {
            words(text, |word| take(Item { x: number(word), count: 1, text: Text::Bytes(word) }));
            return Ok(());
        }
        let (mut at, mut joined) = (0, Vec::new());
        for whole in text.split(|byte| *byte == b'\n') {
            let line = whole.strip_suffix(b"\r").unwrap_or(whole);
            let wrong = |problem: String| Wrong { at, problem };
            if !line.iter().all(|byte| SPACE[*byte as usize]) {
                let (line, count) = if self.counts { counted(line).map_err(wrong)? } else { (line, 1) };
                match self.items {
                    Items::Words { ngrams } => grams(line, ngrams as usize, &mut joined, |gram| {
                        take(Item { x: number(gram), count, text: Text::Bytes(gram) });
                    }),
                    Items::Lines => take(Item { x: number(line), count, text: Text::Bytes(line) }),
                    Items::Integers => {
                        let digits = line.trim_ascii();
                        let x = integer(digits).ok_or_else(|| {
                            wrong(format!("'{}' is no integer from 0 to {}", shown(digits), u64::MAX))
                        })?;
                        take(Item { x, count, text: Text::Number(x) });
                    }
                }
            }
            at += whole.len() + 1;
        }
        Ok(())
    }
}

/// A line without the count after its last tab, and the count.
fn counted(line: &[u8]) -> Result<(&[u8], u64), String> {
    let tab = line.iter().rposition(|byte| *byte == b'\t');
    let tab = tab.ok_or_else(|| {
        format!("there is no tab in '{}'; expected an item, a tab and a count", shown(line))
    })?;
    let (item, digits) = (&line[..tab], line[tab + 1..].trim_ascii());
    if item.is_empty() {
        return Err("there is no item before the tab".to_owned());
    }
    let count = integer(digits).filter(|count| (1..=COUNT_MAX).contains(count));
    let count = count.ok_or_else(|| {
        format!("the count is '{}'; expected an integer from 1 to {COUNT_MAX}", shown(digits))
    })?;
    Ok((item, count))
}

/// Calls `take` with every `n` neighbouring words of a line, joined by blanks.
fn grams(line: &[u8], n: usize, joined: &mut Vec<u8>, mut take: impl FnMut(&[u8])) {
    joined.clear();
    let mut starts = Vec::new();
    words(line, |word| {
        if !joined.is_empty() {
            joined.push(b' ');
        }
        starts.push(joined.len());
        joined.extend_from_slice(word);
    });
    for first in 0..(starts.len() + 1).saturating_sub(n) {
        // The blank before the next word does not belong to it.
        let end = starts.get(first + n).map_or(joined.len(), |next| next - 1);
        take(&joined[starts[first]..end]);
    }
}
