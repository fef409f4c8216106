//! What a trained model answers: the value of a cell, the columns with the largest values in a row, similar
//! rows or columns, and its errors on other cells.

use crate::data::{Dataset, Entry, Ids};
use crate::evaluate::Errors;
use crate::model::{Optimizer, Shape};
use intendant_core::{Element, Key};
use intendant_trained::{Export, Hit, Named, Table, TrainedError, top};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Rows or columns of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Its rows.
    Rows,
    /// Its columns.
    Columns,
}

/// A trained model.
#[derive(Debug)]
pub struct Trained<E> {
    shape: Shape,
    mean: f64,
    row_ids: Named,
    column_ids: Named,
    /// Factors, then the bias if there is one.
    rows: Table<E>,
    columns: Table<E>,
    /// The factors of rows and of columns, each scaled to length 1, once similar ones were asked for.
    unit: [OnceLock<Table<E>>; 2],
}

impl<E: Element> Trained<E> {
    /// Reads an export.
    ///
    /// # Errors
    /// If a file cannot be read, or the files do not fit to each other.
    pub fn read(export: &Export) -> Result<Self, TrainedError> {
        let row_ids = Named::read(export, "row_ids.txt", "row")?;
        let column_ids = Named::read(export, "column_ids.txt", "column")?;
        let rows = export.table::<E>("row")?;
        let (rank, bias) = (rows.columns(), export.has("row_bias.npy"));
        let rows = export.table_of::<E>("row", row_ids.names().len(), rank)?;
        let columns = export.table_of::<E>("column", column_ids.names().len(), rank)?;
        let biased = |factors: Table<E>, name: &str| -> Result<Table<E>, TrainedError> {
            if !bias {
                return Ok(factors);
            }
            let biases = export.table_of::<E>(name, factors.rows(), 1)?;
            let values = (0..factors.rows()).flat_map(|row| factors.row(row).iter().chain(biases.row(row)));
            Ok(Table::new(values.copied().collect(), rank + 1))
        };
        let mean = match bias {
            true => export.number("mean.txt")?,
            false => 0.0,
        };
        Ok(Self {
            // Exports leave accumulators out.
            shape: Shape { rank, bias, optimizer: Optimizer::Sgd },
            mean,
            row_ids,
            column_ids,
            rows: biased(rows, "row_bias")?,
            columns: biased(columns, "column_bias")?,
            unit: Default::default(),
        })
    }

    /// Computes now what answers need and share. Otherwise the first answers compute it.
    pub fn prepare(&self) {
        self.columns.norms();
        for axis in [Axis::Rows, Axis::Columns] {
            self.unit(axis).norms();
        }
    }

    /// Factors of a row or a column, without its bias.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.shape.rank
    }

    fn unit(&self, axis: Axis) -> &Table<E> {
        let [of_rows, of_columns] = &self.unit;
        let unit = match axis {
            Axis::Rows => of_rows,
            Axis::Columns => of_columns,
        };
        unit.get_or_init(|| {
            let (all, rank) = (self.table(axis), self.shape.rank);
            let factors = (0..all.rows()).flat_map(|row| &all.row(row)[..rank]);
            let mut unit = Table::new(factors.copied().collect(), rank);
            unit.normalise();
            unit
        })
    }

    /// What the rows or columns are called.
    #[must_use]
    pub fn names(&self, axis: Axis) -> &Named {
        match axis {
            Axis::Rows => &self.row_ids,
            Axis::Columns => &self.column_ids,
        }
    }

    fn table(&self, axis: Axis) -> &Table<E> {
        match axis {
            Axis::Rows => &self.rows,
            Axis::Columns => &self.columns,
        }
    }

    /// The value that the model predicts for a cell, as in an evaluation.
    ///
    /// # Panics
    /// If the model has no such row or column.
    pub fn predict(&self, row: u32, column: u32) -> f64 {
        let (row, column) = (self.rows.row(row as usize), self.columns.row(column as usize));
        self.shape.predict(self.mean, row, column).to_f64()
    }

    /// For each of `rows`, the `count` columns with the largest predictions, and these. Columns in
    /// `left_out`, one ascending list for each row, are not found; without lists, all are.
    ///
    /// # Panics
    /// If the model has no such row, or there is another number of lists than rows.
    pub fn recommend(
        &self,
        rows: &[u32],
        count: usize,
        left_out: &[&[u32]],
        threads: usize,
    ) -> Vec<Vec<Hit>> {
        // The column's bias is its factor for a 1; the other terms are the same for all columns of a row.
        let mut queries = Vec::with_capacity(rows.len() * self.shape.parameters());
        for row in rows {
            queries.extend_from_slice(&self.rows.row(*row as usize)[..self.shape.rank]);
            queries.extend(self.shape.bias.then_some(E::ONE));
        }
        let mut found = top(&self.columns, &queries, count, left_out, threads);
        for (row, hits) in rows.iter().zip(&mut found) {
            hits.iter_mut().for_each(|hit| hit.score = self.predict(*row, hit.row));
        }
        found
    }

    /// For each of `asked`, which are rows or columns, the `count` others whose factors have the largest
    /// cosine similarity with its own.
    ///
    /// # Panics
    /// If the model has no such row or column.
    pub fn similar(&self, axis: Axis, asked: &[u32], count: usize, threads: usize) -> Vec<Vec<Hit>> {
        let unit = self.unit(axis);
        let queries: Vec<E> = asked.iter().flat_map(|row| unit.row(*row as usize)).copied().collect();
        let own: Vec<&[u32]> = asked.iter().map(std::slice::from_ref).collect();
        top(unit, &queries, count, &own, threads)
    }

    /// The columns of the model that some cells have in each row of the model: ascending, once each.
    pub fn known(&self, cells: &Dataset) -> BTreeMap<u32, Vec<u32>> {
        let (rows, columns) = self.numbers(cells);
        let mut known: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for Entry { row, column, .. } in cells.train() {
            if let (Some(row), Some(column)) = (rows[*row as usize], columns[*column as usize]) {
                known.entry(row).or_default().push(column);
            }
        }
        for columns in known.values_mut() {
            columns.sort_unstable();
            columns.dedup();
        }
        known
    }

    /// For each row and each column of other data, the model's number of it.
    fn numbers(&self, data: &Dataset) -> (Vec<Option<u32>>, Vec<Option<u32>>) {
        let find = |names: &Named, ids: &Ids| -> Vec<Option<u32>> {
            (0..ids.len()).map(|at| ids.get(at).and_then(|id| names.get(&id))).collect()
        };
        (find(&self.row_ids, data.rows()), find(&self.column_ids, data.columns()))
    }

    /// The evaluation of the cells that `data` trains on, and the value of each of its keys: that of a row
    /// or column that the model does not have is zero, as in a training in which it has no entries. The
    /// number counts the cells with such a row or column.
    pub fn errors<'a>(&'a self, data: &Dataset) -> (Errors, impl Fn(Key, &mut Vec<E>) + 'a, usize) {
        let (rows, columns) = self.numbers(data);
        let (no_row, no_column) = (self.rows.rows() as u32, self.columns.rows() as u32);
        let mut unknown = 0;
        let entries: Vec<Entry> = data
            .train()
            .iter()
            .map(|entry| {
                let (row, column) = (rows[entry.row as usize], columns[entry.column as usize]);
                unknown += usize::from(row.is_none() || column.is_none());
                Entry { row: row.unwrap_or(no_row), column: column.unwrap_or(no_column), value: entry.value }
            })
            .collect();
        let first_column = u64::from(no_row) + 1;
        let value = move |key: Key, values: &mut Vec<E>| {
            let (table, at) = match key.0.checked_sub(first_column) {
                None => (&self.rows, key.0),
                Some(column) => (&self.columns, column),
            };
            match (at as usize) < table.rows() {
                true => values.extend_from_slice(table.row(at as usize)),
                false => values.resize(values.len() + table.columns(), E::ZERO),
            }
        };
        (Errors::new(self.shape, self.mean, first_column, &entries), value, unknown)
    }
}
