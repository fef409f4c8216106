//! The columns of merged files.

use super::pages::Pages;
use crate::record::{Flat, Record, Texts};
use parquet::column::reader::{ColumnReaderImpl, get_column_reader, get_typed_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{SchemaDescriptor, TypePtr};
use std::sync::Arc;

/// The schema of merged files that this version writes and reads.
pub const SCHEMA: &str = "intendant.trace/1";

/// The column of times, by which rows are sorted.
pub(super) const AT: &str = "at_us";

/// All columns, in the order of the fields of [`Flat`].
const MESSAGE: &str = "
message trace {
    REQUIRED INT64 at_us;
    REQUIRED INT32 node (INTEGER(16, false));
    REQUIRED INT32 channel (INTEGER(16, false));
    OPTIONAL INT64 key (INTEGER(64, false));
    REQUIRED BYTE_ARRAY kind (STRING);
    OPTIONAL INT32 peer (INTEGER(16, false));
    OPTIONAL BYTE_ARRAY access (STRING);
    OPTIONAL BYTE_ARRAY cause (STRING);
    OPTIONAL INT32 cause_node (INTEGER(16, false));
    OPTIONAL INT64 after_us (INTEGER(64, false));
    OPTIONAL INT64 value (INTEGER(64, false));
}";

/// Rows that are converted at a time.
const CHUNK_ROWS: usize = 1 << 13;

/// The parsed schema.
pub(super) struct Columns {
    schema: TypePtr,
    descriptor: SchemaDescriptor,
}

impl Columns {
    pub(super) fn new() -> Result<Self> {
        let schema = Arc::new(parse_message_type(MESSAGE)?);
        Ok(Self { descriptor: SchemaDescriptor::new(Arc::clone(&schema)), schema })
    }

    /// Number of columns.
    pub(super) fn count(&self) -> u64 {
        self.descriptor.num_columns() as u64
    }

    pub(super) fn schema(&self) -> TypePtr {
        Arc::clone(&self.schema)
    }

    /// Checks that a file has these columns. The error is the first difference.
    pub(super) fn check(&self, found: &SchemaDescriptor) -> std::result::Result<(), String> {
        for (at, wanted) in self.descriptor.columns().iter().enumerate() {
            let is_same = found.columns().get(at).is_some_and(|column| {
                column.path() == wanted.path()
                    && column.physical_type() == wanted.physical_type()
                    && column.logical_type_ref() == wanted.logical_type_ref()
                    && column.max_def_level() == wanted.max_def_level()
                    && column.max_rep_level() == wanted.max_rep_level()
            });
            if !is_same {
                return Err(format!("its column {at} is not '{}', or of another type", wanted.name()));
            }
        }
        if found.num_columns() != self.descriptor.num_columns() {
            return Err(format!(
                "it has {} columns, and a merged trace has {}",
                found.num_columns(),
                self.descriptor.num_columns()
            ));
        }
        Ok(())
    }

    /// Writes records as a row group.
    pub(super) fn write(
        &self,
        records: &[Record],
        group: &mut SerializedRowGroupWriter<'_, std::fs::File>,
    ) -> Result<()> {
        type Of<T> = fn(&Flat) -> Option<T>;
        let longs: [Of<i64>; 4] = [
            |row| Some(row.at_us as i64),
            |row| row.key.map(|key| key as i64),
            |row| row.after_us.map(|us| us as i64),
            |row| row.value.map(|value| value as i64),
        ];
        let shorts: [Of<i32>; 4] = [
            |row| Some(row.node.into()),
            |row| Some(row.channel.into()),
            |row| row.peer.map(i32::from),
            |row| row.cause_node.map(i32::from),
        ];
        let texts: [Of<&'static str>; 3] = [|row| Some(row.kind), |row| row.access, |row| row.cause];
        for column in self.descriptor.columns() {
            let is_optional = column.max_def_level() > 0;
            match column.name() {
                AT => write::<Int64Type, _>(records, group, is_optional, longs[0])?,
                "node" => write::<Int32Type, _>(records, group, is_optional, shorts[0])?,
                "channel" => write::<Int32Type, _>(records, group, is_optional, shorts[1])?,
                "key" => write::<Int64Type, _>(records, group, is_optional, longs[1])?,
                "kind" => write::<ByteArrayType, _>(records, group, is_optional, texts[0])?,
                "peer" => write::<Int32Type, _>(records, group, is_optional, shorts[2])?,
                "access" => write::<ByteArrayType, _>(records, group, is_optional, texts[1])?,
                "cause" => write::<ByteArrayType, _>(records, group, is_optional, texts[2])?,
                "cause_node" => write::<Int32Type, _>(records, group, is_optional, shorts[3])?,
                "after_us" => write::<Int64Type, _>(records, group, is_optional, longs[2])?,
                _ => write::<Int64Type, _>(records, group, is_optional, longs[3])?,
            }
        }
        Ok(())
    }

    /// The rows of a row group.
    pub(super) fn read(&self, pages: &Arc<Pages>, group: &RowGroupMetaData) -> Result<Rows> {
        if group.num_columns() != self.descriptor.num_columns() {
            return Err(ParquetError::General("a row group lacks columns".to_owned()));
        }
        Ok(Rows {
            left: usize::try_from(group.num_rows())?,
            at_us: Column::open(pages, group, 0)?,
            node: Column::open(pages, group, 1)?,
            channel: Column::open(pages, group, 2)?,
            key: Column::open(pages, group, 3)?,
            kind: Column::open(pages, group, 4)?,
            peer: Column::open(pages, group, 5)?,
            access: Column::open(pages, group, 6)?,
            cause: Column::open(pages, group, 7)?,
            cause_node: Column::open(pages, group, 8)?,
            after_us: Column::open(pages, group, 9)?,
            value: Column::open(pages, group, 10)?,
        })
    }
}

/// Writes the next column. `of` returns its value in a row.
fn write<T: DataType, V>(
    records: &[Record],
    group: &mut SerializedRowGroupWriter<'_, std::fs::File>,
    is_optional: bool,
    of: fn(&Flat) -> Option<V>,
) -> Result<()>
where
    T::T: From<V>,
{
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("the schema has too few columns".to_owned()));
    };
    let (mut values, mut levels) = (Vec::with_capacity(CHUNK_ROWS), Vec::with_capacity(CHUNK_ROWS));
    for records in records.chunks(CHUNK_ROWS) {
        values.clear();
        levels.clear();
        for row in records.iter().filter_map(|record| Flat::of(*record)) {
            let value = of(&row);
            levels.push(i16::from(value.is_some()));
            values.extend(value.map(T::T::from));
        }
        let levels = is_optional.then_some(levels.as_slice());
        column.typed::<T>().write_batch(&values, levels, None)?;
    }
    column.close()
}

/// A column of a row group that is being read.
struct Column<T: DataType> {
    reader: ColumnReaderImpl<T>,
    is_optional: bool,
}

impl<T: DataType> Column<T> {
    fn open(pages: &Arc<Pages>, group: &RowGroupMetaData, at: usize) -> Result<Self> {
        let column = group.column(at);
        let rows = usize::try_from(group.num_rows())?;
        let descriptor = column.column_descr_ptr();
        let pages = SerializedPageReader::new(Arc::clone(pages), column, rows, None)?;
        let is_optional = descriptor.max_def_level() > 0;
        let reader = get_typed_column_reader(get_column_reader(descriptor, Box::new(pages)));
        Ok(Self { reader, is_optional })
    }

    /// The values of the next rows.
    fn next(&mut self, rows: usize) -> Result<Vec<Option<T::T>>> {
        let (mut values, mut levels) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        let mut found = 0;
        // A call may return fewer rows, at the end of a page.
        while found < rows {
            let wanted = self.is_optional.then_some(&mut levels);
            let (more, ..) = self.reader.read_records(rows - found, wanted, None, &mut values)?;
            if more == 0 {
                return Err(ParquetError::EOF("a column has fewer rows than its row group".to_owned()));
            }
            found += more;
        }
        let mut values = values.into_iter();
        if !self.is_optional {
            return Ok(values.map(Some).collect());
        }
        Ok(levels.into_iter().map(|level: i16| if level > 0 { values.next() } else { None }).collect())
    }
}

/// The rows of a row group that is being read.
pub(super) struct Rows {
    left: usize,
    at_us: Column<Int64Type>,
    node: Column<Int32Type>,
    channel: Column<Int32Type>,
    key: Column<Int64Type>,
    kind: Column<ByteArrayType>,
    peer: Column<Int32Type>,
    access: Column<ByteArrayType>,
    cause: Column<ByteArrayType>,
    cause_node: Column<Int32Type>,
    after_us: Column<Int64Type>,
    value: Column<Int64Type>,
}

impl Rows {
    /// The next rows, at most `rows_max`; `None` after the last row.
    pub(super) fn next(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        let rows = self.left.min(rows_max);
        if rows == 0 {
            return Ok(None);
        }
        self.left -= rows;
        Ok(Some(Batch {
            at_us: self.at_us.next(rows)?,
            node: self.node.next(rows)?,
            channel: self.channel.next(rows)?,
            key: self.key.next(rows)?,
            kind: self.kind.next(rows)?,
            peer: self.peer.next(rows)?,
            access: self.access.next(rows)?,
            cause: self.cause.next(rows)?,
            cause_node: self.cause_node.next(rows)?,
            after_us: self.after_us.next(rows)?,
            value: self.value.next(rows)?,
        }))
    }
}

/// Some rows.
pub(super) struct Batch {
    at_us: Vec<Option<i64>>,
    node: Vec<Option<i32>>,
    channel: Vec<Option<i32>>,
    key: Vec<Option<i64>>,
    kind: Vec<Option<ByteArray>>,
    peer: Vec<Option<i32>>,
    access: Vec<Option<ByteArray>>,
    cause: Vec<Option<ByteArray>>,
    cause_node: Vec<Option<i32>>,
    after_us: Vec<Option<i64>>,
    value: Vec<Option<i64>>,
}

impl Batch {
    pub(super) fn len(&self) -> usize {
        self.at_us.len()
    }

    /// The event of a row; `None` if the row is not an event.
    pub(super) fn record(&self, row: usize) -> Option<Record> {
        let long = |column: &[Option<i64>]| column.get(row).copied().flatten().map(|value| value as u64);
        // The checksum detects a wrong number of rows. A number that does not fit is an error.
        let short = |column: &[Option<i32>]| match column.get(row).copied().flatten() {
            Some(value) => u16::try_from(value).map(Some),
            None => Ok(None),
        };
        Flat::record(&Texts {
            at_us: long(&self.at_us)?,
            node: short(&self.node).ok()??,
            channel: short(&self.channel).ok()??,
            key: long(&self.key),
            kind: text(&self.kind, row)??,
            peer: short(&self.peer).ok()?,
            access: text(&self.access, row)?,
            cause: text(&self.cause, row)?,
            cause_node: short(&self.cause_node).ok()?,
            after_us: long(&self.after_us),
            value: long(&self.value),
        })
    }
}

/// The text of a row, if it has one; `None` if the text is not UTF-8.
fn text(column: &[Option<ByteArray>], row: usize) -> Option<Option<&str>> {
    match column.get(row) {
        Some(Some(text)) => std::str::from_utf8(text.data()).map(Some).ok(),
        Some(None) | None => Some(None),
    }
}
