//! Events as this crate keeps them, 32 bytes each, and the flat view of them that tables and JSON show.

use intendant_core::{ChannelId, Key, NodeId};
use intendant_trace::{Event, What};
use serde::Serialize;

/// The key of events about no key.
pub(crate) const NO_KEY: u64 = u64::MAX;

/// The limit of times: 285 years. A real run has no later times. Sums of times and offsets fit into any
/// number of 64 bits, and JSON shows them exactly.
pub(crate) const AT_MAX: u64 = 1 << 53;

/// An event of a run: the record of a file ([`Event::to_record`]), and the node in its spare bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) at: u64,
    pub(crate) key: u64,
    pub(crate) detail: u64,
    pub(crate) kind: u8,
    pub(crate) variant: u8,
    pub(crate) channel: u16,
    pub(crate) peer: u16,
    pub(crate) node: u16,
}

impl Record {
    pub(crate) fn of(node: u16, event: Event) -> Self {
        Self::of_bytes(node, &event.to_record())
    }

    fn of_bytes(node: u16, record: &[u8; Event::BYTES]) -> Self {
        let number = |at: usize| record[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let short = |at: usize| record[at..].first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes));
        Self {
            at: number(0),
            key: number(8),
            detail: number(16),
            kind: record[24],
            variant: record[25],
            channel: short(26),
            peer: short(28),
            node,
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; Event::BYTES] {
        let mut record = [0; Event::BYTES];
        record[..8].copy_from_slice(&self.at.to_le_bytes());
        record[8..16].copy_from_slice(&self.key.to_le_bytes());
        record[16..24].copy_from_slice(&self.detail.to_le_bytes());
        record[24..26].copy_from_slice(&[self.kind, self.variant]);
        record[26..28].copy_from_slice(&self.channel.to_le_bytes());
        record[28..30].copy_from_slice(&self.peer.to_le_bytes());
        record[30..].copy_from_slice(&self.node.to_le_bytes());
        record
    }

    /// `None` if there is no such kind of event.
    pub(crate) fn event(self) -> Option<Event> {
        Event::of_record(&self.to_bytes())
    }

    pub(crate) fn has_key(self) -> bool {
        self.key != NO_KEY
    }

    /// Whether the event can belong to a run of `nodes` nodes.
    pub(crate) fn fits(self, nodes: u16) -> bool {
        let names_none = !kind(self).is_some_and(|kind| kind.has_peer);
        self.at < AT_MAX && self.node < nodes && (names_none || self.peer < nodes)
    }
}

/// An event of a run, on the clock of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// When, in microseconds of the run's clock: that of the first node, see [`crate::Run`].
    pub at_us: u64,
    /// Where.
    pub node: NodeId,
    /// The channel that noticed it.
    pub channel: ChannelId,
    /// The key; `None` if the event is about none.
    pub key: Option<Key>,
    /// What happened.
    pub what: What,
}

/// What the variant of a record means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    None,
    Access,
    Cause,
}

/// What the detail of a record means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    None,
    /// Microseconds.
    After,
    Value,
    /// A node, if the cause is about one.
    CauseNode,
}

/// How a kind of event appears in tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// Its code in records.
    code: u8,
    /// The variant, if the name depends on it.
    variant_code: Option<u8>,
    pub(crate) name: &'static str,
    pub(crate) has_peer: bool,
    pub(crate) variant: Variant,
    pub(crate) detail: Detail,
}

const fn plain(code: u8, name: &'static str) -> Kind {
    Kind { code, variant_code: None, name, has_peer: false, variant: Variant::None, detail: Detail::None }
}

const fn at_peer(code: u8, name: &'static str) -> Kind {
    Kind { has_peer: true, ..plain(code, name) }
}

const fn value(code: u8, name: &'static str) -> Kind {
    Kind { detail: Detail::Value, ..plain(code, name) }
}

const fn access(code: u8, name: &'static str, has_peer: bool) -> Kind {
    Kind { has_peer, variant: Variant::Access, detail: Detail::After, ..plain(code, name) }
}

pub(crate) const LEFT: u8 = 4;
pub(crate) const ARRIVED: u8 = 5;
pub(crate) const REMOTE: u8 = 11;
pub(crate) const WAITED: u8 = 12;
pub(crate) const CAME: u8 = 16;
pub(crate) const WENT_ON: u8 = 17;

/// All kinds, in the order in which tables list them.
pub(crate) const KINDS: [Kind; 20] = [
    plain(1, "intent_began"),
    plain(2, "intent_ended"),
    plain(3, "asked"),
    at_peer(10, "ordered"),
    Kind { variant: Variant::Cause, detail: Detail::CauseNode, ..at_peer(LEFT, "left") },
    Kind { detail: Detail::After, ..at_peer(ARRIVED, "arrived") },
    plain(6, "replica_set_up"),
    plain(7, "replica_dropped"),
    at_peer(8, "holder_added"),
    at_peer(9, "holder_removed"),
    access(REMOTE, "remote", true),
    access(WAITED, "waited", false),
    plain(13, "conflict"),
    value(14, "synced"),
    value(19, "clock"),
    Kind { detail: Detail::Value, ..at_peer(15, "sent") },
    value(CAME, "came"),
    value(WENT_ON, "went_on"),
    Kind { variant_code: Some(0), ..value(18, "epoch_ended") },
    Kind { variant_code: Some(1), ..value(18, "checkpoint_made") },
];

pub(crate) const ACCESSES: [&str; 3] = ["pull", "push", "set"];
pub(crate) const CAUSES: [&str; 4] = ["asked", "began", "ended", "ordered"];
/// The causes that name a node.
const CAUSES_OF_NODES: [u8; 2] = [1, 2];

/// The kind of a record; `None` if this version does not know it.
pub(crate) fn kind(record: Record) -> Option<&'static Kind> {
    kind_index(record).map(|at| &KINDS[at])
}

/// The position of the kind of a record in [`KINDS`].
pub(crate) fn kind_index(record: Record) -> Option<usize> {
    let is = |kind: &Kind| {
        kind.code == record.kind && kind.variant_code.is_none_or(|variant| variant == record.variant)
    };
    KINDS.iter().position(is)
}

/// An event as a row of a table, as in merged files and JSON. A column without a meaning for the kind of
/// event is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Flat {
    /// When, in microseconds of the run's clock.
    pub at_us: u64,
    /// Where.
    pub node: u16,
    /// The channel that noticed it.
    pub channel: u16,
    /// The key.
    pub key: Option<u64>,
    /// What happened.
    pub kind: &'static str,
    /// The other node: the next owner, the previous owner, the holder of a replica, the node that answered,
    /// or the receiver.
    pub peer: Option<u16>,
    /// `pull`, `push` or `set`.
    pub access: Option<&'static str>,
    /// Why an owner hands the key over: `asked`, `began`, `ended` or `ordered`.
    pub cause: Option<&'static str>,
    /// The node whose intent began or ended.
    pub cause_node: Option<u16>,
    /// How long it took or waited, in microseconds.
    pub after_us: Option<u64>,
    /// Values, bytes, or the number of a clock, a meeting, an epoch or a checkpoint.
    pub value: Option<u64>,
}

impl Flat {
    /// `None` if this version knows no such kind.
    pub(crate) fn of(record: Record) -> Option<Self> {
        let kind = kind(record)?;
        let name = |meant: Variant, names: &[&'static str]| {
            names.get(usize::from(record.variant)).copied().filter(|_| kind.variant == meant)
        };
        let names_node = CAUSES_OF_NODES.contains(&record.variant);
        Some(Self {
            at_us: record.at,
            node: record.node,
            channel: record.channel,
            key: record.has_key().then_some(record.key),
            kind: kind.name,
            peer: kind.has_peer.then_some(record.peer),
            access: name(Variant::Access, &ACCESSES),
            cause: name(Variant::Cause, &CAUSES),
            cause_node: (kind.detail == Detail::CauseNode && names_node).then_some(record.detail as u16),
            after_us: (kind.detail == Detail::After).then_some(record.detail),
            value: (kind.detail == Detail::Value).then_some(record.detail),
        })
    }

    /// The record of a row, given the text of its columns. `None` if there is no such event.
    pub(crate) fn record(row: &Texts<'_>) -> Option<Record> {
        let kind = KINDS.iter().find(|kind| kind.name == row.kind)?;
        let place = |names: &[&str], name: Option<&str>| {
            names.iter().position(|other| Some(*other) == name).map(|at| at as u8)
        };
        let variant = match kind.variant {
            Variant::None => kind.variant_code.unwrap_or(0),
            Variant::Access => place(&ACCESSES, row.access)?,
            Variant::Cause => place(&CAUSES, row.cause)?,
        };
        let detail = match kind.detail {
            Detail::None => 0,
            Detail::After => row.after_us?,
            Detail::Value => row.value?,
            Detail::CauseNode if CAUSES_OF_NODES.contains(&variant) => row.cause_node?.into(),
            Detail::CauseNode => 0,
        };
        let record = Record {
            at: row.at_us,
            key: row.key.unwrap_or(NO_KEY),
            detail,
            kind: kind.code,
            variant,
            channel: row.channel,
            peer: if kind.has_peer { row.peer? } else { 0 },
            node: row.node,
        };
        record.event().map(|_| record)
    }
}

/// The columns of a row that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Texts<'a> {
    pub(crate) at_us: u64,
    pub(crate) node: u16,
    pub(crate) channel: u16,
    pub(crate) key: Option<u64>,
    pub(crate) kind: &'a str,
    pub(crate) peer: Option<u16>,
    pub(crate) access: Option<&'a str>,
    pub(crate) cause: Option<&'a str>,
    pub(crate) cause_node: Option<u16>,
    pub(crate) after_us: Option<u64>,
    pub(crate) value: Option<u64>,
}
