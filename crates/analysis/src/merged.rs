//! Merged files: a run as one Parquet file. `docs/traces.md` documents the columns.
//!
//! The library that decodes Parquet trusts what a file says about its sizes, and some of its decoders panic
//! if a page is damaged. So this module checks sizes before it takes memory: those of the footer, the rows,
//! and each page. A checksum of all pages and of their positions detects damage before anything is decoded.
//! Only files that were forged to look like ours get past these checks; for those, a panic of the decoder
//! becomes an error.

mod columns;
mod footer;
mod pages;
mod thrift;

pub use columns::SCHEMA;

use crate::align::Alignment;
use crate::error::AnalysisError;
use crate::limits::{Limits, check_header};
use crate::node::NodeInfo;
use crate::record::{AT_MAX, Record};
use columns::{Batch, Columns};
use footer::Fault;
use intendant_trace::Header;
use pages::Pages;
use parquet::basic::{Compression, Encoding};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    KeyValue, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData, SortingColumn,
};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::Length;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// The name of the metadata entry that has what the columns do not contain.
const ABOUT: &str = "intendant.trace";

/// Rows of a row group. The writer holds their columns in memory until it writes them.
const GROUP_ROWS: usize = 1 << 20;

/// Rows that are converted at a time.
const BATCH_ROWS: usize = 1 << 13;

/// The most rows of a row group that is read: positions within a larger one would not fit.
const GROUP_ROWS_MAX: i64 = 1 << 31;

/// The metadata that the columns do not contain.
#[derive(Debug, Serialize, Deserialize)]
struct About {
    schema: String,
    /// Number of events.
    events: u64,
    /// Bytes of the file up to the end of its pages.
    bytes: u64,
    /// The checksum, see [`sum`], in hexadecimal digits.
    sum: String,
    #[serde(flatten)]
    run: Described,
}

/// A run without its events.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Described {
    pub(crate) header: Header,
    pub(crate) nodes: Vec<NodeInfo>,
    pub(crate) alignment: Alignment,
}

/// XXH3 of the description of a run, of the positions of the pages of its columns, and of the pages.
fn sum(file: &File, bytes: u64, run: &Described, groups: &[RowGroupMetaData]) -> io::Result<String> {
    let mut sum = Xxh3::new();
    sum.update(&serde_json::to_vec(run)?);
    for group in groups {
        sum.update(&group.num_rows().to_le_bytes());
        for column in group.columns() {
            let numbers = [
                column.num_values(),
                column.data_page_offset(),
                column.dictionary_page_offset().unwrap_or(0),
                column.compressed_size(),
            ];
            numbers.iter().for_each(|number| sum.update(&number.to_le_bytes()));
            sum.update(column.compression().to_string().as_bytes());
        }
    }
    let (mut at, mut buffer) = (0, vec![0; 1 << 20]);
    while at < bytes {
        let wanted = buffer.len().min(usize::try_from(bytes - at).unwrap_or(usize::MAX));
        file.read_exact_at(&mut buffer[..wanted], at)?;
        sum.update(&buffer[..wanted]);
        at += wanted as u64;
    }
    Ok(format!("{:016x}", sum.digest()))
}

/// The name under which a file is written until it is complete.
#[must_use]
pub fn part_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".part");
    PathBuf::from(name)
}

/// Writes a run to a file beside `path`, and moves this file to `path` when it is complete. If `path` is a
/// symbolic link, it stays one, and the file that it names is replaced.
pub(crate) fn write(run: Described, records: &[Record], path: &Path) -> Result<(), AnalysisError> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let path = target.as_path();
    if fs::metadata(path).is_ok_and(|facts| !facts.is_file()) {
        return Err(AnalysisError::not_a_run(path, "it is no regular file; name the file to write"));
    }
    let part = part_of(path);
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&part);
    let file = file.map_err(AnalysisError::io("create", &part))?;
    let written =
        write_to(run, records, file).map_err(|source| AnalysisError::Write { path: part.clone(), source });
    let written = written.and_then(|file| file.sync_all().map_err(AnalysisError::io("write", &part)));
    if written.is_err() {
        // An error of the removal is ignored, because the first error says more.
        let _ = fs::remove_file(&part);
    }
    written?;
    fs::rename(&part, path).map_err(AnalysisError::io("create", path))
}

fn write_to(run: Described, records: &[Record], file: File) -> Result<File, ParquetError> {
    let columns = Columns::new()?;
    let at = ColumnPath::from(columns::AT);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        // Times ascend: their differences are small.
        .set_column_dictionary_enabled(at.clone(), false)
        .set_column_encoding(at, Encoding::DELTA_BINARY_PACKED)
        .set_sorting_columns(Some(vec![SortingColumn {
            column_idx: 0,
            descending: false,
            nulls_first: false,
        }]))
        .set_created_by(concat!("intendant ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    let mut writer = SerializedFileWriter::new(file, columns.schema(), Arc::new(properties))?;
    for records in records.chunks(GROUP_ROWS) {
        let mut group = writer.next_row_group()?;
        columns.write(records, &mut group)?;
        group.close()?;
    }
    writer.flush()?;
    let bytes = writer.inner().metadata()?.len();
    let sum = sum(writer.inner(), bytes, &run, writer.flushed_row_groups())?;
    let about = About { schema: SCHEMA.to_owned(), events: records.len() as u64, bytes, sum, run };
    let about = serde_json::to_string(&about).map_err(|error| ParquetError::External(Box::new(error)))?;
    writer.append_key_value_metadata(KeyValue::new(ABOUT.to_owned(), about));
    writer.into_inner()
}

/// Reads a run and its events, which are in order.
pub(crate) fn read(path: &Path, limits: Limits) -> Result<(Described, Vec<Record>), AnalysisError> {
    let damaged = |error: &dyn std::fmt::Display| AnalysisError::damaged(path, error.to_string());
    let file = File::open(path).map_err(AnalysisError::io("read", path))?;
    let pages = Pages::of(file).map_err(AnalysisError::io("read", path))?;
    let columns = Columns::new().map_err(|error| damaged(&error))?;
    pages.check_footer(columns.count()).map_err(|fault| match fault {
        Fault::Foreign => AnalysisError::not_a_run(path, fault.to_string()),
        Fault::NoEnd | Fault::Bytes(_) | Fault::Malformed(_) => damaged(&fault),
    })?;
    let metadata =
        ParquetMetaDataReader::new().parse_and_finish(&pages.plain()).map_err(|error| damaged(&error))?;
    let about = about(&metadata, path)?;
    columns.check(metadata.file_metadata().schema_descr()).map_err(|error| damaged(&error))?;
    if about.events > limits.events_max {
        return Err(AnalysisError::TooMany { path: path.to_owned(), events_max: limits.events_max });
    }
    let rows = metadata.row_groups().iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(u64::MAX));
    if rows.fold(0, u64::saturating_add) != about.events
        || metadata.row_groups().iter().any(|group| group.num_rows() > GROUP_ROWS_MAX)
    {
        return Err(damaged(&"its row groups do not have as many rows as it tells of events"));
    }
    let found = sum(pages.file(), about.bytes.min(pages.len()), &about.run, metadata.row_groups());
    if found.map_err(AnalysisError::io("read", path))? != about.sum {
        return Err(damaged(&"its content is not what was written"));
    }
    let records = decoded(pages, &columns, &metadata, &about).map_err(|reason| damaged(&reason))?;
    Ok((about.run, records))
}

/// Decodes the events. A panic of the decoder becomes an error.
fn decoded(
    pages: Pages,
    columns: &Columns,
    metadata: &ParquetMetaData,
    about: &About,
) -> Result<Vec<Record>, String> {
    // After a panic, nothing that the decoder has changed is used.
    let decode = AssertUnwindSafe(|| decode(pages, columns, metadata, about));
    catch_unwind(decode).unwrap_or_else(|_| Err("its pages cannot be decoded".to_owned()))
}

fn decode(
    pages: Pages,
    columns: &Columns,
    metadata: &ParquetMetaData,
    about: &About,
) -> Result<Vec<Record>, String> {
    let text = |error: ParquetError| error.to_string();
    let mut records = Vec::new();
    // The file may lie about its number of events. The reserved memory is used only as far as rows are read.
    records.reserve_exact(usize::try_from(about.events).unwrap_or(0));
    let pages = Arc::new(pages);
    for group in metadata.row_groups() {
        let mut rows = columns.read(&pages, group).map_err(text)?;
        while let Some(batch) = rows.next(BATCH_ROWS).map_err(text)? {
            take(&batch, about.run.header.nodes, &mut records)?;
        }
    }
    Ok(records)
}

/// Appends a batch of rows to `records`.
fn take(batch: &Batch, nodes: u16, records: &mut Vec<Record>) -> Result<(), String> {
    let before = records.len();
    let mut last = records.last().map_or(0, |record| record.at);
    for row in 0..batch.len() {
        let record = batch.record(row).ok_or_else(|| format!("row {} is no event", before + row))?;
        // The time includes an offset, so its limit is higher.
        let fits = Record { at: 0, ..record }.fits(nodes) && record.at < 4 * AT_MAX;
        if !fits || record.at < last {
            return Err(format!("row {} names a node or a time that cannot be there", before + row));
        }
        last = record.at;
        records.push(record);
    }
    Ok(())
}

/// The description of the run in the metadata.
fn about(metadata: &ParquetMetaData, path: &Path) -> Result<About, AnalysisError> {
    #[derive(Deserialize)]
    struct Version {
        schema: String,
    }
    let entries = metadata.file_metadata().key_value_metadata().map_or(&[][..], Vec::as_slice);
    let text = entries.iter().find(|entry| entry.key == ABOUT).and_then(|entry| entry.value.as_deref());
    let Some(text) = text else {
        return Err(AnalysisError::not_a_run(
            path,
            "it is a Parquet file, but no merged trace: its metadata has no 'intendant.trace'. Other programs leave \
             it out when they write the file again; name the file that intendant trace merge has written",
        ));
    };
    let broken =
        |error: serde_json::Error| AnalysisError::damaged(path, format!("its 'intendant.trace': {error}"));
    let Version { schema } = serde_json::from_str(text).map_err(broken)?;
    if schema != SCHEMA {
        let found: String = schema.chars().filter(|letter| !letter.is_control()).take(80).collect();
        return Err(AnalysisError::Version { path: path.to_owned(), found });
    }
    let about: About = serde_json::from_str(text).map_err(broken)?;
    check_header(&about.run.header).map_err(|reason| AnalysisError::damaged(path, reason))?;
    let ranks = about.run.nodes.iter().map(|info| info.node);
    if !ranks.eq(0..about.run.header.nodes) {
        return Err(AnalysisError::damaged(path, "it does not tell of each node once"));
    }
    Ok(about)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Run;
    use intendant_core::{ChannelId, Key, NodeId, Tick};
    use intendant_trace::{Access, Event, Trace, What};

    /// Forged files can have the right checksum, so this test does not compare checksums.
    #[test]
    fn pages_with_any_byte_changed_are_decoded_or_refused() {
        let event = |at: u64| Event {
            at: Tick(at),
            channel: ChannelId(0),
            key: Some(Key(at % 7)),
            what: What::Remote { access: Access::Push, by: NodeId(0), after: at * at },
        };
        let header = Header { nodes: 1, ..Header::default() };
        let events = (0..100).map(event).collect();
        let trace = Trace { header, events, dropped: 0, unknown: 0, lost_bytes: 0, damaged_bytes: 0 };
        let run = Run::of_traces(vec![trace]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.parquet");
        run.write_parquet(&path).unwrap();
        let whole = fs::read(&path).unwrap();
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&File::open(&path).unwrap()).unwrap();
        let about = about(&metadata, &path).unwrap();
        let columns = Columns::new().unwrap();
        let mut refused = 0;
        for at in 4..about.bytes as usize {
            for value in [0xff, whole[at] ^ 1] {
                let mut changed = whole.clone();
                changed[at] = value;
                fs::write(&path, &changed).unwrap();
                let pages = Pages::of(File::open(&path).unwrap()).unwrap();
                refused += usize::from(decoded(pages, &columns, &metadata, &about).is_err());
            }
        }
        assert!(refused > 500, "{refused}");
    }
}
