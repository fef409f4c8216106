//! What blocks exchange.

use crate::data::Model;
use crate::hyper::Hyper;
use crate::moments::Moments;

/// A side of the matrix. The factors of rows are U, those of columns V; both are called rows here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// U: one row of factors per row of the matrix.
    Rows = 0,
    /// V: one row of factors per column of the matrix.
    Columns = 1,
}

impl Side {
    /// Both, in the order of keys.
    pub const BOTH: [Self; 2] = [Self::Rows, Self::Columns];

    /// The other side.
    pub const fn other(self) -> Self {
        match self {
            Self::Rows => Self::Columns,
            Self::Columns => Self::Rows,
        }
    }
}

/// Something that one block produces and others consume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// A row of factors: K numbers.
    Row(Side, u32),
    /// Statistics of the rows below a node of the tree of sums: how many, Σx, the upper triangle of Σxxᵀ; 1 +
    /// K + K(K+1)/2 numbers.
    Statistics(Side, u32),
    /// Mean and the upper triangle of the precision of all rows: K + K(K+1)/2 numbers.
    Hyperparameters(Side),
}

/// An item that a step needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The item.
    pub item: Item,
    /// The clock that it should have. The values of iteration t have clock t + 1, the initial ones clock 1.
    pub clock: u64,
    /// How much older it may be. An item with a clock of at least `max(clock − slack, 1)` will do.
    pub slack: u64,
}

impl Need {
    /// The least clock that will do.
    pub fn least(&self) -> u64 {
        self.clock.saturating_sub(self.slack).max(1)
    }
}

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

    /// Numbers of the value of an item.
    pub fn words(&self, item: Item) -> usize {
        let rank = self.config.rank;
        match item {
            Item::Row(..) => rank,
            Item::Statistics(..) => Moments::words(rank),
            Item::Hyperparameters(_) => Hyper::words(rank),
        }
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
    use crate::Config;

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
