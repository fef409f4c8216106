//! The items of a model: their keys, their lengths, and which block produces them.

use super::Model;
use crate::hyper::Hyper;
use crate::item::{Item, Side};
use crate::moments::Moments;
use std::ops::Range;

impl Model {
    /// Keys of all items: they are numbered from 0.
    pub fn keys(&self) -> u64 {
        self.first_key_of_hyperparameters() + 2
    }

    /// The key of an item: rows of U, rows of V, nodes of both trees, hyperparameters.
    ///
    /// # Panics
    /// If the model has no such item.
    pub fn key(&self, item: Item) -> u64 {
        let first = |side: Side, of: &dyn Fn(Side) -> u32| match side {
            Side::Rows => 0,
            Side::Columns => u64::from(of(Side::Rows)),
        };
        match item {
            Item::Row(side, row) => {
                assert!(
                    row < self.rows(side),
                    "row {row} of {side:?}, of which there are {}",
                    self.rows(side)
                );
                first(side, &|side| self.rows(side)) + u64::from(row)
            }
            Item::Statistics(side, node) => {
                let nodes = |side| self.side(side).tree.nodes();
                assert!(node < nodes(side), "node {node} of {side:?}, of which there are {}", nodes(side));
                self.first_key_of_statistics() + first(side, &nodes) + u64::from(node)
            }
            Item::Hyperparameters(side) => self.first_key_of_hyperparameters() + side as u64,
        }
    }

    /// The item of a key, if there is one.
    pub fn item(&self, key: u64) -> Option<Item> {
        let mut rest = key;
        for side in Side::BOTH {
            match rest.checked_sub(self.rows(side).into()) {
                Some(beyond) => rest = beyond,
                None => return Some(Item::Row(side, rest as u32)),
            }
        }
        for side in Side::BOTH {
            match rest.checked_sub(self.side(side).tree.nodes().into()) {
                Some(beyond) => rest = beyond,
                None => return Some(Item::Statistics(side, rest as u32)),
            }
        }
        Side::BOTH.get(usize::try_from(rest).ok()?).map(|side| Item::Hyperparameters(*side))
    }

    /// The number of numbers in the value of an item.
    pub fn words(&self, item: Item) -> usize {
        let rank = self.config.rank;
        match item {
            Item::Row(..) => rank,
            Item::Statistics(..) => Moments::words(rank),
            Item::Hyperparameters(_) => Hyper::words(rank),
        }
    }

    /// The items that block `block` of `blocks` produces, like [`crate::Block::produced`], but without a
    /// block.
    pub fn produced_by(&self, block: u32, blocks: u32) -> Vec<Item> {
        self.produced(block, |side| self.side(side).tree.share(block, blocks))
    }

    pub(crate) fn produced(&self, block: u32, leaves: impl Fn(Side) -> Range<u32>) -> Vec<Item> {
        let mut items = Vec::new();
        for side in Side::BOTH {
            let data = self.side(side);
            items.extend(data.rows(leaves(side)).map(|row| Item::Row(side, row)));
            items.extend(data.tree.cover(leaves(side)).into_iter().map(|node| Item::Statistics(side, node)));
            if block == 0 {
                items.push(Item::Hyperparameters(side));
            }
        }
        items
    }

    fn first_key_of_statistics(&self) -> u64 {
        Side::BOTH.iter().map(|side| u64::from(self.rows(*side))).sum()
    }

    fn first_key_of_hyperparameters(&self) -> u64 {
        let nodes = Side::BOTH.iter().map(|side| u64::from(self.side(*side).tree.nodes()));
        self.first_key_of_statistics() + nodes.sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Need};

    #[test]
    fn each_item_has_a_key_of_its_own() {
        let none = std::iter::empty;
        let model = Model::new(Config::default(), (5, 300), none(), none(), 0.0).expect("allowed");
        let items: Vec<Item> = (0..model.keys()).map(|key| model.item(key).expect("an item")).collect();
        assert!((0..).zip(&items).all(|(key, item)| model.key(*item) == key));
        assert!(items.is_sorted_by(|a, b| a < b));
        assert_eq!(items.len(), 305 + 16 + 256 + 2);
        assert_eq!(model.item(model.keys()), None);
        let words =
            [Item::Row(Side::Rows, 1), Item::Statistics(Side::Rows, 1), Item::Hyperparameters(Side::Rows)];
        assert_eq!(words.map(|item| model.words(item)), [16, 1 + 16 + 136, 16 + 136]);
        let need = |clock, slack| Need { item: items[0], clock, slack }.least();
        assert_eq!((need(7, 0), need(7, 4), need(3, 4)), (7, 3, 1));
    }
}
