//! Hints to a node, in a segment that all nodes write.
//!
//! There is one bit per hint, so hints coalesce and none is lost, however long the node does not look. Three
//! levels say which bits are set: an idle node reads one word. Senders set bits from the lowest level to the
//! highest; the node clears them from the highest to the lowest.

use crate::sync::{GROUPS, Ordering, Segment, fence};

/// Bits of a word.
const BITS: usize = 64;
/// The number of different hints of a mailbox.
pub(crate) const HINTS: usize = GROUPS * BITS * BITS;

/// Whether the node sleeps, or is about to. The word has a cache line of its own: a sender clears it at most
/// once per sleep.
const ASLEEP: usize = 0;
/// Bit `g` says that group `g` may have hints.
const TOP: usize = 8;
/// Bit `w` of word `g` says that word `w` of group `g` may have hints.
const GROUP: usize = 16;
/// The hints: hint `h` is bit `h % 64` of word `h / 64`.
const HINT: usize = GROUP + GROUPS.next_multiple_of(8);

/// Words of the segment.
pub(crate) const WORDS: usize = HINT + GROUPS * BITS;

/// A node's mailbox: its own, or that of a node to which it sends hints.
#[derive(Clone, Debug)]
pub(crate) struct Mailbox(Segment);

impl Mailbox {
    /// A mailbox in `segment`, which must have [`WORDS`] words.
    pub(crate) fn new(segment: Segment) -> Self {
        assert!(segment.words() >= WORDS, "a mailbox needs {WORDS} words; this one has {}", segment.words());
        Self(segment)
    }

    /// Sends a hint below [`HINTS`], after all that this thread has written before. Returns whether the node
    /// must be woken.
    #[must_use = "a node that sleeps does not see the hint"]
    pub(crate) fn send(&self, hint: usize) -> bool {
        debug_assert!(hint < HINTS);
        let word = hint / BITS;
        // Release, all three: pairs with the Acquire of `take`, so that a node that finds a bit finds the
        // bits below it, and a node that finds the hint finds what was written before it was sent.
        self.0.fetch_or(HINT + word, 1 << (hint % BITS), Ordering::Release);
        self.0.fetch_or(GROUP + word / BITS, 1 << (word % BITS), Ordering::Release);
        self.0.fetch_or(TOP, 1 << (word / BITS), Ordering::Release);
        // SeqCst: pairs with the fence in `fall_asleep`. Either the node sees the bit that was set above, or
        // this thread sees that the node falls asleep.
        fence(Ordering::SeqCst);
        self.wake()
    }

    /// Notes that the node is being woken. Returns whether no other node has done so since it fell asleep.
    fn wake(&self) -> bool {
        // Relaxed: the word protects nothing. Most nodes are awake, and a load leaves their cache line
        // shared.
        self.0.load(ASLEEP, Ordering::Relaxed) != 0 && self.0.swap(ASLEEP, 0, Ordering::Relaxed) != 0
    }

    /// Takes the hints that have arrived, each once, in ascending order.
    pub(crate) fn take(&self, mut each: impl FnMut(usize)) {
        // Other processes write the words, so the node ignores bits that have no meaning.
        for group in self.bits(TOP).take_while(|group| *group < GROUPS) {
            for word in self.bits(GROUP + group) {
                let word = group * BITS + word;
                self.bits(HINT + word).for_each(|bit| each(word * BITS + bit));
            }
        }
    }

    /// Clears a word, and returns the bits that were set.
    fn bits(&self, at: usize) -> impl Iterator<Item = usize> + use<> {
        // Relaxed: the load only shows whether the swap is worth its bus traffic.
        let mut left = if self.0.load(at, Ordering::Relaxed) == 0 {
            0
        } else {
            // Acquire: pairs with the Release stores of `send`.
            self.0.swap(at, 0, Ordering::Acquire)
        };
        std::iter::from_fn(move || {
            let bit = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (bit < BITS).then_some(bit)
        })
    }

    /// Announces that the node sleeps. Returns whether it may: no hint has arrived, and the sender of the
    /// next one will see that it must wake this node.
    #[must_use = "no sender wakes a node for hints that have arrived"]
    pub(crate) fn fall_asleep(&self) -> bool {
        self.0.store(ASLEEP, 1, Ordering::Relaxed);
        // SeqCst: pairs with the fence in `send`.
        fence(Ordering::SeqCst);
        if self.0.load(TOP, Ordering::Relaxed) == 0 {
            return true;
        }
        self.awake();
        false
    }

    /// Takes back what [`Self::fall_asleep`] has announced.
    pub(crate) fn awake(&self) {
        self.0.store(ASLEEP, 0, Ordering::Relaxed);
    }
}
