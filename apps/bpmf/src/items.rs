//! The items that the nodes of a chain produce and consume. They are the same for processes ([`crate::link`])
//! and for simulated nodes ([`crate::simulated`]).
//!
//! The [`Exchange`] determines how nodes exchange the items of the library. Processes exchange further items,
//! whose keys follow those of the library: sums of their results for node 0, and pieces of the exported
//! results. Techniques for comparison use items of their own, to meet and to write all rows of a step at
//! once.

use crate::exchange::Exchange;
use bpmf::{Block, Held, Item, Model, Side};
use intendant_lapser::{Declaration, Item as Declared, Want};
use std::ops::Range;

/// The items of the chain of a model on `nodes` nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Items<'a> {
    pub(crate) model: &'a Model,
    pub(crate) nodes: usize,
    pub(crate) exchange: Exchange,
}

/// The sums that nodes send to node 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Sums over training entries, after each iteration.
    Epoch = 0,
    /// Sums over the entries by which users watch the chain.
    Validation = 1,
    /// Sums over test entries.
    Test = 2,
}

impl What {
    const ALL: [Self; 3] = [Self::Epoch, Self::Validation, Self::Test];
}

/// Number of numbers in a node's costs, with which its sums begin.
pub(crate) const COSTS: usize = 11;
/// Number of numbers in one part of the sums.
pub(crate) const SUMS: usize = 8;

impl<'a> Items<'a> {
    pub(crate) const fn new(model: &'a Model, nodes: usize, exchange: Exchange) -> Self {
        Self { model, nodes, exchange }
    }

    /// The number of a node and the number of nodes, as block numbers.
    const fn block(self, node: usize) -> (u32, u32) {
        (node as u32, self.nodes as u32)
    }

    /// The rows of a side that a node has.
    pub(crate) fn rows_of(self, side: Side, node: usize) -> Range<u32> {
        let (block, blocks) = self.block(node);
        self.model.rows_of(side, block, blocks)
    }

    fn others(self, node: usize) -> impl Iterator<Item = usize> {
        (0..self.nodes).filter(move |other| *other != node)
    }

    fn declared(self, item: Item) -> Declared {
        Declared::new(self.model.key(item), self.model.words(item))
    }

    fn want(self, item: Item) -> Want {
        let slack = match item {
            Item::Row(..) if self.exchange.has_slack() => self.model.config().slack.into(),
            Item::Row(..) | Item::Statistics(..) | Item::Hyperparameters(_) => 0,
        };
        Want { item: self.declared(item), slack }
    }

    /// The items of its steps that the block of a node produces and consumes. If the exchange sends all items
    /// to all nodes, the block consumes the items of all other blocks.
    pub(crate) fn of_block(self, block: &Block) -> Declaration {
        let node = block.index() as usize;
        let consumed = match self.exchange {
            Exchange::AllGather | Exchange::Broadcast => {
                let of_node = |other| {
                    let (block, blocks) = self.block(other);
                    self.model.produced_by(block, blocks)
                };
                self.others(node).flat_map(of_node).collect()
            }
            Exchange::LapserPush
            | Exchange::LapserPull
            | Exchange::LapserPushBySlack
            | Exchange::OneSided => block.consumed(),
        };
        Declaration {
            incarnation: u64::from(block.index()) + 1,
            produce: block.produced().into_iter().map(|item| self.declared(item)).collect(),
            consume: consumed.into_iter().map(|item| self.want(item)).collect(),
        }
    }

    /// The same for a process, including the items that only processes have. With `exports`, node 0 gets the
    /// exported results.
    pub(crate) fn of_process(self, block: &Block, exports: bool) -> Declaration {
        let node = block.index() as usize;
        let mut declared = self.of_block(block);
        if self.exchange == Exchange::AllGather {
            let rows: u64 = Side::BOTH.iter().map(|side| u64::from(self.model.rows(*side))).sum();
            declared.produce.retain(|item| item.key >= rows);
            declared.consume.retain(|want| want.item.key >= rows);
            let joined = |node| Side::BOTH.into_iter().filter_map(move |side| self.joined(side, node));
            declared.produce.extend(joined(node));
            let of_others = self.others(node).flat_map(joined);
            declared.consume.extend(of_others.map(|item| Want { item, slack: 0 }));
        }
        let mut tell = |from: usize, item: Declared| match node {
            0 if from != 0 => declared.consume.push(Want { item, slack: 0 }),
            _ if from == node && node != 0 => declared.produce.push(item),
            _ => {}
        };
        for from in 0..self.nodes {
            for what in What::ALL {
                tell(from, self.sums(what, from));
            }
            if let Some(item) = self.pieces(from).filter(|_| exports) {
                tell(from, item);
            }
        }
        for from in (1..self.nodes).filter(|from| exports && self.pieces(*from).is_some()) {
            let item = self.taken(from);
            match node {
                0 => declared.produce.push(item),
                _ if node == from => declared.consume.push(Want { item, slack: 0 }),
                _ => {}
            }
        }
        if !self.exchange.has_slack() {
            declared.produce.push(self.meeting(node));
            let of_others = self.others(node).map(|other| self.meeting(other));
            declared.consume.extend(of_others.map(|item| Want { item, slack: 0 }));
        }
        declared
    }

    fn key(self, kind: u64, node: usize) -> u64 {
        self.model.keys() + kind * self.nodes as u64 + node as u64
    }

    /// The item with the sums of a node, which the node sends to node 0.
    pub(crate) fn sums(self, what: What, node: usize) -> Declared {
        let (block, blocks) = self.block(node);
        Declared::new(self.key(what as u64, node), COSTS + SUMS * self.model.sums_of(block, blocks))
    }

    /// The item with the number of meetings to which a node has come.
    pub(crate) fn meeting(self, node: usize) -> Declared {
        Declared::new(self.key(3, node), 1)
    }

    /// The item with all rows of a node of one side, if it has any.
    pub(crate) fn joined(self, side: Side, node: usize) -> Option<Declared> {
        let words = self.rows_of(side, node).len() * self.model.config().rank;
        (words > 0).then(|| Declared::new(self.key(4 + side as u64, node), words))
    }

    /// The item with pieces of the results of a node other than 0, if it has any.
    pub(crate) fn pieces(self, node: usize) -> Option<Declared> {
        let words = piece_words(self, node);
        (node > 0 && words > 0).then(|| Declared::new(self.key(6, node), words))
    }

    /// The item with the number of pieces of a node that node 0 has taken.
    pub(crate) fn taken(self, node: usize) -> Declared {
        Declared::new(self.key(7, node), 1)
    }
}

/// Maximum number of words of a piece: 1 MiB.
const PIECE_WORDS: usize = 1 << 17;

/// Number of words of a forecast.
pub(crate) const FORECAST: usize = 7;

/// A part of the exported results, which node 0 gets in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Means(Side),
    Variances(Side),
    Forecasts,
}

impl Section {
    pub(crate) const ALL: [Self; 5] = [
        Self::Means(Side::Rows),
        Self::Variances(Side::Rows),
        Self::Means(Side::Columns),
        Self::Variances(Side::Columns),
        Self::Forecasts,
    ];

    /// The number of values that a node has, and the number of words of each.
    pub(crate) fn extent(self, items: Items<'_>, node: usize) -> (usize, usize) {
        match self {
            Self::Means(side) | Self::Variances(side) => {
                (items.rows_of(side, node).len(), items.model.config().rank)
            }
            Self::Forecasts => {
                (items.model.held_of(Held::Test, node as u32, items.nodes as u32).len(), FORECAST)
            }
        }
    }

    /// The values of a node, divided into pieces: the range of values in each, counted from the node's first
    /// value.
    pub(crate) fn pieces(self, items: Items<'_>, node: usize) -> impl Iterator<Item = Range<usize>> {
        let (count, words) = self.extent(items, node);
        let at_once = (PIECE_WORDS / words).max(1);
        (0..count).step_by(at_once).map(move |first| first..(first + at_once).min(count))
    }
}

/// The number of words of a node's pieces: that of its longest piece.
fn piece_words(items: Items<'_>, node: usize) -> usize {
    let longest = |section: Section| {
        let words = section.extent(items, node).1;
        section.pieces(items, node).map(|piece| piece.len() * words).max().unwrap_or(0)
    };
    Section::ALL.into_iter().map(longest).max().unwrap_or(0)
}
