//! Answers that the current input causes, gathered per operation.

use crate::input::Kind;
use intendant_core::limits;
use intendant_wire::{AccessKind, Origin};
use std::collections::BTreeMap;

/// The answer to (a part of) an operation.
#[derive(Default)]
pub(crate) struct Answer {
    /// Positions of the worker's call.
    pub(crate) positions: Vec<u32>,
    /// For each, the relocation counter of the key, if nodes remember locations.
    pub(crate) counters: Vec<u32>,
    /// For a pull, the elements, little-endian.
    pub(crate) values: Vec<u8>,
}

/// The answers.
#[derive(Default)]
pub(crate) struct Replies {
    groups: BTreeMap<(Origin, Kind), Answer>,
    /// Those that fill a frame.
    ready: Vec<(Origin, Kind, Answer)>,
}

impl Replies {
    /// Answers an access; `serve` appends what it reads.
    #[inline]
    pub(crate) fn served(
        &mut self,
        origin: Origin,
        kind: AccessKind,
        position: u32,
        counter: Option<u32>,
        serve: impl FnOnce(&mut Vec<u8>),
    ) {
        let kind = Kind::Access(kind);
        let answer = self.groups.entry((origin, kind)).or_default();
        answer.positions.push(position);
        answer.counters.extend(counter);
        serve(&mut answer.values);
        // What was queued may have come in several frames: together they may be too much for one.
        if answer.values.len() >= limits::FRAME_PAYLOAD_BYTES_TARGET {
            let answer = std::mem::take(answer);
            self.ready.push((origin, kind, answer));
        }
    }

    /// Answers a localize.
    pub(crate) fn localized(&mut self, origin: Origin, position: u32) {
        self.groups.entry((origin, Kind::Localize)).or_default().positions.push(position);
    }

    /// Answers a synchronize.
    pub(crate) fn synchronized(&mut self, origin: Origin, position: u32) {
        self.groups.entry((origin, Kind::Synchronize)).or_default().positions.push(position);
    }

    /// Takes the answers.
    pub(crate) fn take(&mut self) -> Vec<(Origin, Kind, Answer)> {
        let mut all = std::mem::take(&mut self.ready);
        while let Some(((origin, kind), answer)) = self.groups.pop_first() {
            if !answer.positions.is_empty() {
                all.push((origin, kind, answer));
            }
        }
        all
    }
}
