//! What a node produces and consumes.

use crate::DeclarationError;

/// First bytes of a declaration, and the version of its format.
const MAGIC: [u8; 8] = *b"LAPSER\0\x01";
/// Magic, incarnation, and two counts.
const HEAD_BYTES: usize = 32;
const PRODUCED_BYTES: usize = 16;
const CONSUMED_BYTES: usize = 24;

/// An item: a key, and the length of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    /// Identifies the item on all nodes.
    pub key: u64,
    /// Words of 8 bytes of every value of the item.
    pub words: usize,
}

impl Item {
    /// The item `key` whose values have `words` words of 8 bytes.
    #[must_use]
    pub const fn new(key: u64, words: usize) -> Self {
        Self { key, words }
    }

    /// The item `key` whose values have `bytes` bytes; the last word may be partly unused.
    #[must_use]
    pub const fn of_bytes(key: u64, bytes: usize) -> Self {
        Self { key, words: bytes.div_ceil(8) }
    }
}

/// An item that a node consumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Want {
    /// The item. Its length must be the one that the producer declares.
    pub item: Item,
    /// The slack, in clocks, with which the node will usually get the item. It decides what
    /// [`PushBySlack`](crate::Variant::PushBySlack) writes; each get names its own slack.
    pub slack: u64,
}

/// What a node produces and consumes [Lapser §3.1.2, `lapser_init`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declaration {
    /// A number that distinguishes this run of this node from other runs, drawn at random when the node
    /// starts. Checksums cover it, so that values of an earlier run are not taken for those of this one.
    pub incarnation: u64,
    /// Items that the node sets. No other node may set them.
    pub produce: Vec<Item>,
    /// Items that the node gets. The directory drops items that the node produces itself, and duplicates; of
    /// duplicates, the lowest slack counts.
    pub consume: Vec<Want>,
}

impl Declaration {
    /// The declaration as bytes, for the gather in which nodes exchange their declarations: magic number and
    /// version, incarnation, the numbers of items produced and consumed, each produced item as key and words,
    /// each consumed item as key, words and slack. All numbers have 64 bits, little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let bytes = HEAD_BYTES + PRODUCED_BYTES * self.produce.len() + CONSUMED_BYTES * self.consume.len();
        let mut out = Vec::with_capacity(bytes);
        out.extend_from_slice(&MAGIC);
        let mut put = |word: u64| out.extend_from_slice(&word.to_le_bytes());
        put(self.incarnation);
        put(self.produce.len() as u64);
        put(self.consume.len() as u64);
        for item in &self.produce {
            put(item.key);
            put(item.words as u64);
        }
        for want in &self.consume {
            put(want.item.key);
            put(want.item.words as u64);
            put(want.slack);
        }
        out
    }

    /// Reads a declaration from the bytes that [`to_bytes`](Self::to_bytes) made, possibly in another
    /// process.
    ///
    /// # Errors
    /// If the bytes are not a declaration of this version, or their number is not what the counts require.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DeclarationError> {
        if bytes.len() < HEAD_BYTES || bytes[..MAGIC.len()] != MAGIC {
            return Err(DeclarationError::Unknown { bytes: bytes.len() });
        }
        let (words, _) = bytes[MAGIC.len()..].as_chunks::<8>();
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let mut next = || words.next().unwrap_or(0);
        let (incarnation, produced, consumed) = (next(), next(), next());
        let wanted = u128::from(produced) * PRODUCED_BYTES as u128
            + u128::from(consumed) * CONSUMED_BYTES as u128
            + HEAD_BYTES as u128;
        if wanted != bytes.len() as u128 {
            return Err(DeclarationError::Length { produced, consumed, bytes: bytes.len(), wanted });
        }
        // A length that does not fit into `usize` exceeds every limit of the directory, which names the key.
        let length = |words: u64| usize::try_from(words).unwrap_or(usize::MAX);
        let produce = (0..produced).map(|_| Item { key: next(), words: length(next()) }).collect();
        let consume = (0..consumed)
            .map(|_| Want { item: Item { key: next(), words: length(next()) }, slack: next() })
            .collect();
        Ok(Self { incarnation, produce, consume })
    }
}
