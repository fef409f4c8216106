//! Answers of the current turn, grouped by operation.

use super::buffers::{Buffers, Room};
use super::groups::Groups;
use crate::input::Kind;
use bytes::Bytes;
use intendant_core::limits;
use intendant_wire::{AccessKind, Origin};

/// The answer to (a part of) an operation.
#[derive(Default)]
pub(crate) struct Answer {
    /// Positions of the worker's call.
    pub(crate) positions: Vec<u32>,
    /// For each, the relocation counter of the key, if nodes remember locations.
    pub(crate) counters: Vec<u32>,
    /// For a pull, the elements, little-endian.
    pub(crate) values: Vec<u8>,
    /// How many of the accesses waited for a key or for a fresher copy.
    pub(crate) late: u32,
}

impl Answer {
    fn with(room: Room, buffers: &mut Buffers) -> Self {
        Self {
            positions: Vec::with_capacity(room.keys),
            counters: Vec::new(),
            values: buffers.take(room.bytes),
            late: 0,
        }
    }
}

/// The answers of the current turn.
#[derive(Default)]
pub(crate) struct Replies {
    groups: Groups<(Origin, Kind), Answer>,
    /// Answers whose frame is full.
    ready: Vec<(Origin, Kind, Answer)>,
    /// What the current input reads at most.
    room: Room,
    buffers: Buffers,
}

impl Replies {
    /// Announces how many keys and bytes the accesses of the input read at most.
    pub(crate) fn expect(&mut self, room: Room) {
        self.room = room.of_a_frame();
    }

    /// Answers an access; `serve` appends the value that it reads.
    #[inline]
    pub(crate) fn served(
        &mut self,
        origin: Origin,
        kind: AccessKind,
        position: u32,
        late: bool,
        counter: Option<u32>,
        serve: impl FnOnce(&mut Vec<u8>),
    ) {
        let kind = Kind::Access(kind);
        let (room, buffers) = (self.room, &mut self.buffers);
        let answer = self.groups.entry((origin, kind), || Answer::with(room, buffers));
        answer.positions.push(position);
        answer.late += u32::from(late);
        answer.counters.extend(counter);
        serve(&mut answer.values);
        // Queued accesses may have arrived in several frames; their answers may not fit into one.
        if answer.values.len() >= limits::FRAME_PAYLOAD_BYTES_TARGET {
            let answer = std::mem::replace(answer, Answer::with(room, &mut self.buffers));
            self.ready.push((origin, kind, answer));
        }
    }

    /// Answers a localize.
    pub(crate) fn localized(&mut self, origin: Origin, position: u32) {
        self.groups.entry((origin, Kind::Localize), Answer::default).positions.push(position);
    }

    /// Answers a synchronize.
    pub(crate) fn synchronized(&mut self, origin: Origin, position: u32) {
        self.groups.entry((origin, Kind::Synchronize), Answer::default).positions.push(position);
    }

    /// Turns values that were read into bytes for a frame or a worker.
    pub(crate) fn lend(&mut self, values: Vec<u8>) -> Bytes {
        self.buffers.lend(values)
    }

    /// Takes the answers.
    pub(crate) fn take(&mut self) -> Vec<(Origin, Kind, Answer)> {
        self.room = Room::default();
        let mut all = std::mem::take(&mut self.ready);
        while let Some(((origin, kind), answer)) = self.groups.pop_first() {
            if !answer.positions.is_empty() {
                all.push((origin, kind, answer));
            }
        }
        all
    }
}
