//! Gets that wait for a value.

use crate::{Answer, Effect, GetError};

/// A get that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wait {
    op: u64,
    /// The lowest clock that suffices.
    wanted: u64,
}

/// The waiting gets of one item.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits(Vec<Wait>);

impl Waits {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The lowest clock that suffices for at least one of the gets.
    pub(crate) fn lowest(&self) -> Option<u64> {
        self.0.iter().map(|wait| wait.wanted).min()
    }

    pub(crate) fn push(&mut self, op: u64, wanted: u64) {
        self.0.push(Wait { op, wanted });
    }

    /// Answers the gets for which a value of `clock` is new enough. Returns their number.
    pub(crate) fn answer(&mut self, key: u64, clock: u64, out: &mut Vec<Effect>) -> u64 {
        let before = self.0.len();
        self.0.retain(|wait| {
            let waits = clock < wait.wanted;
            if !waits {
                out.push(Effect::Answer(Answer::Got { op: wait.op, key, clock }));
            }
            waits
        });
        (before - self.0.len()) as u64
    }

    /// Fails all gets, each with the error that `why` makes from the clock that the get needs.
    pub(crate) fn fail(&mut self, out: &mut Vec<Effect>, why: impl Fn(u64) -> GetError) {
        for wait in self.0.drain(..) {
            out.push(Effect::Answer(Answer::NotGot { op: wait.op, error: why(wait.wanted) }));
        }
    }
}
