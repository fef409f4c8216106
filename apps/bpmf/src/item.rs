//! The items that blocks exchange.

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
    /// The clock that it should have. Values of iteration t have clock t + 1; initial values have clock 1.
    pub clock: u64,
    /// By how much its clock may be lower: a clock of at least `max(clock − slack, 1)` suffices.
    pub slack: u64,
}

impl Need {
    /// The lowest clock that suffices.
    pub fn least(&self) -> u64 {
        self.clock.saturating_sub(self.slack).max(1)
    }
}
