//! The operations of a window.

use crate::{Event, HINTS, WaitError, WindowError};
use intendant_segment::Segment;
use std::time::Duration;

/// A node's access to the segments of all nodes: one-sided reads and writes, in which the other node takes no
/// part.
///
/// [`read`](Self::read) and [`write`](Self::write) begin operations, and do not wait. [`poll`](Self::poll)
/// reports which operations have ended, by the ids that the caller gave. Source and target on this node are
/// places in [`local`](Self::local). They belong to the window until the operation has ended: until then, the
/// caller neither writes a source nor relies on a target.
///
/// Places and lengths are words of 8 bytes, from the start of a segment.
///
/// What a window promises:
/// - Writes of one node to another node, and their hints, arrive in the order in which they were begun. A
///   node that has taken a hint sees what was written with it and before it.
/// - Nothing inside one operation is ordered: a read may return words of different times, and a node may see
///   the last word of a write before the first. The parties use [`intendant_segment::slot`] to notice.
/// - Hints coalesce: equal hints that arrive before the node looks count as one. Hints may be lost, so a node
///   that waits for a value must look again after some time. A window of memory loses no hint.
/// - After [`Event::Closed`], operations with that node fail, and each of them has an event.
///
/// Windows of memory do not limit the number of reads and writes in flight. A window of a network card may
/// refuse an operation with [`WindowError::Full`], and the caller polls before it begins the operation again.
pub trait Window: Send {
    /// The memory of this node, which the others read and write: the source and target of all operations.
    fn local(&self) -> &Segment;

    /// Number of nodes, including this one.
    fn nodes(&self) -> usize;

    /// Number of this node, from 0.
    fn rank(&self) -> usize;

    /// Begins to copy `words` words from word `remote` of the segment of node `from` to word `into` of this
    /// node's segment.
    ///
    /// # Errors
    /// If there is no such node, or if one of the segments does not have these words: then nothing has begun.
    /// If the node has closed, an [`Event::Failed`] reports it.
    fn read(
        &mut self,
        from: usize,
        remote: usize,
        into: usize,
        words: usize,
        id: u64,
    ) -> Result<(), WindowError>;

    /// Begins to copy `words` words from word `local` of this node's segment to word `remote` of that of node
    /// `to`. Once they are there, the node receives `hint`, if one is given.
    ///
    /// # Errors
    /// As for [`Self::read`]; and if the hint is not below [`HINTS`].
    fn write(
        &mut self,
        to: usize,
        local: usize,
        remote: usize,
        words: usize,
        hint: Option<u32>,
        id: u64,
    ) -> Result<(), WindowError>;

    /// Appends the events since the last call to `out`. The call never waits.
    fn poll(&mut self, out: &mut Vec<Event>);

    /// Whether operations that were begun wait for a call of [`Self::poll`] or [`Self::wait`]: a window of a
    /// network card keeps the operations for which the card has no room. A caller that will call neither for
    /// long first calls them until nothing waits.
    fn is_behind(&self) -> bool {
        false
    }

    /// Sleeps until [`Self::poll`] may have an event, at most for `timeout`. Returns whether it may have one;
    /// it may return early. After a sleep of `timeout`, the result is `false`.
    ///
    /// # Errors
    /// If the operating system refuses to wait.
    fn wait(&mut self, timeout: Duration) -> Result<bool, WaitError>;
}

/// For programs that choose the kind of window at run time.
impl<W: Window + ?Sized> Window for Box<W> {
    fn local(&self) -> &Segment {
        (**self).local()
    }

    fn nodes(&self) -> usize {
        (**self).nodes()
    }

    fn rank(&self) -> usize {
        (**self).rank()
    }

    fn read(
        &mut self,
        from: usize,
        remote: usize,
        into: usize,
        words: usize,
        id: u64,
    ) -> Result<(), WindowError> {
        (**self).read(from, remote, into, words, id)
    }

    fn write(
        &mut self,
        to: usize,
        local: usize,
        remote: usize,
        words: usize,
        hint: Option<u32>,
        id: u64,
    ) -> Result<(), WindowError> {
        (**self).write(to, local, remote, words, hint, id)
    }

    fn poll(&mut self, out: &mut Vec<Event>) {
        (**self).poll(out);
    }

    fn is_behind(&self) -> bool {
        (**self).is_behind()
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, WaitError> {
        (**self).wait(timeout)
    }
}

/// Checks that two nodes have the words of an operation. `places` has, for each node, its number, the first
/// word, and the length of its segment.
pub(crate) fn check_places(words: usize, places: [(usize, usize, usize); 2]) -> Result<(), WindowError> {
    for (node, at, segment_words) in places {
        if at.checked_add(words).is_none_or(|end| end > segment_words) {
            return Err(WindowError::Outside { node, at, words, segment_words });
        }
    }
    Ok(())
}

pub(crate) fn check_hint(hint: Option<u32>) -> Result<(), WindowError> {
    hint.filter(|hint| *hint >= HINTS).map_or(Ok(()), |hint| Err(WindowError::Hint { hint }))
}
