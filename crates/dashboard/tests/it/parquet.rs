//! Merged files that were forged to look like ours, and that would harm the process if they were decoded.

use crate::server::Server;
use bytes::Bytes;
use intendant_analysis::{Limits, Run};
use intendant_dashboard::Settings;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use serde_json::Value;
use std::fs;
use xxhash_rust::xxh3::Xxh3;

/// A Parquet file without pages.
fn of_footer(footer: &[u8]) -> Vec<u8> {
    [b"PAR1", footer, &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A version, and a schema of `elements` elements, each of which claims to have `children` children.
fn schema(elements: usize, children: u64) -> Vec<u8> {
    let element = [[0x48, 1, b'a', 0x15].as_slice(), &varint(2 * children), &[0]].concat();
    let start = [[0x15, 2, 0x19, 0xfc].as_slice(), &varint(elements as u64)].concat();
    [start, element.repeat(elements), vec![0]].concat()
}

fn refused(server: &Server, file: &[u8], reason: &str) {
    let response = server.upload(&[("run.parquet", file)]);
    assert_eq!(response.status, 422, "{}", response.text());
    assert!(response.error().contains(reason), "'{reason}' is not in {}", response.error());
}

#[test]
fn schemas_that_would_end_the_process_are_refused() {
    let server = Server::start(Settings::default());
    for (elements, children) in [(2000, 1), (200_000, 1), (9000, (1 << 31) - 1), (12, (1 << 31) - 1), (12, 1)]
    {
        refused(&server, &of_footer(&schema(elements, children)), "it has other columns");
    }
    // Lists that claim to be longer than memory: a list of row groups, and a list that is declared as a text.
    let claimed = varint((1 << 31) - 1);
    let groups = [[0x15, 2, 0x39, 0xfc].as_slice(), &claimed, &[0]].concat();
    refused(&server, &of_footer(&groups), "a list that is too long");
    let disguised = [[0x15, 2, 0x48, 6, 0xfc].as_slice(), &claimed, &[0]].concat();
    refused(&server, &of_footer(&disguised), "a value of another type");
    refused(&server, &of_footer(&[0xfc].repeat(1000)), "its footer");
    refused(&server, &of_footer(&[[0x1c].repeat(100_000), vec![0; 100_001]].concat()), "its footer");
    assert_eq!(server.get("/").status, 200);
}

/// A merged file of enough events for a page of 1 MiB.
fn merged() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    crate::synthetic::write_large(folder.path(), 1 << 40, 60_000);
    let path = folder.path().join("run.parquet");
    Run::open(folder.path(), Limits::default()).unwrap().write_parquet(&path).unwrap();
    fs::read(&path).unwrap()
}

/// Replaces the checksum in a file by the checksum of its present content.
fn with_right_sum(file: &mut [u8], metadata: &ParquetMetaData) {
    let entry = &metadata.file_metadata().key_value_metadata().unwrap()[0];
    let text = entry.value.as_deref().unwrap();
    let about: Value = serde_json::from_str(text).unwrap();
    let (bytes, told) = (about["bytes"].as_u64().unwrap() as usize, about["sum"].as_str().unwrap());
    let mut sum = Xxh3::new();
    // The text after the numbers of the file describes the run.
    let run = text.find("\"header\":").unwrap();
    sum.update(format!("{{{}", &text[run..]).as_bytes());
    for group in metadata.row_groups() {
        sum.update(&group.num_rows().to_le_bytes());
        for column in group.columns() {
            for number in [
                column.num_values(),
                column.data_page_offset(),
                column.dictionary_page_offset().unwrap_or(0),
                column.compressed_size(),
            ] {
                sum.update(&number.to_le_bytes());
            }
            sum.update(column.compression().to_string().as_bytes());
        }
    }
    sum.update(&file[..bytes]);
    let at = file.windows(16).rposition(|digits| digits == told.as_bytes()).unwrap();
    file[at..at + 16].copy_from_slice(format!("{:016x}", sum.digest()).as_bytes());
}

/// The length of the header of a page: the fields of our headers, up to the end.
fn header_len(page: &[u8]) -> usize {
    let mut at = 0;
    let (mut depth, mut ends) = (1, 0);
    while depth > 0 {
        match page[at] {
            0 => (depth, ends, at) = (depth - 1, ends + 1, at + 1),
            field if field & 15 == 12 => (depth, at) = (depth + 1, at + 1),
            field => {
                assert_eq!(field & 15, 5, "{:x?}", &page[..40]);
                at += 1 + page[at + 1..].iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
            }
        }
    }
    assert_eq!(ends, 2);
    at
}

#[test]
fn pages_that_would_take_gigabytes_are_refused() {
    let server = Server::start(Settings::default());
    let whole = merged();
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&Bytes::from(whole.clone())).unwrap();
    // A page of keys without a dictionary: its header has the most bytes.
    let (at, len) = metadata.row_groups()[0]
        .columns()
        .iter()
        .map(|column| column.data_page_offset() as usize)
        .map(|at| (at, header_len(&whole[at..])))
        .max_by_key(|(_, len)| *len)
        .unwrap();
    let with_header = |header: &[u8]| {
        let mut file = whole.clone();
        // The encoding of an integer may have more bytes than it needs.
        let mut padded = header.to_vec();
        while padded.len() < len {
            let end = padded.iter().position(|byte| *byte == 0x11).unwrap();
            padded[end] |= 0x80;
            padded.insert(end + 1, 0x11);
        }
        padded.iter_mut().filter(|byte| **byte == 0x11).for_each(|byte| *byte = 0);
        padded.iter_mut().filter(|byte| **byte == 0x91).for_each(|byte| *byte = 0x80);
        assert_eq!(padded.len(), len, "{header:x?}");
        file[at..at + len].copy_from_slice(&padded);
        with_right_sum(&mut file, &metadata);
        file
    };
    // The helper computes the right checksum.
    let mut same = whole.clone();
    with_right_sum(&mut same, &metadata);
    assert_eq!(server.upload(&[("run.parquet", &same)]).status, 200);
    // 0x11 stands for a zero that may be padded. First, the page claims two gigabytes outright.
    let huge = [0xfe, 0xff, 0xff, 0xff, 0x0f];
    let start = [0x15, 0x11, 0x15];
    let outright =
        [&start, huge.as_slice(), &[0x15, 2, 0x2c, 0x15, 2, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0]].concat();
    refused(&server, &with_header(&outright), "a page would have 2147483647 bytes");
    // Then it claims them in a second field with the same number, which the library would use.
    let inner = [0x15, 2, 0x15, 2, 0x2c, 0x15, 2, 0x15, 0, 0x15, 6, 0x15, 6, 0];
    let twice = [&start[..2], &inner, &[0x05, 4], &[0xfe, 0xff, 0xff, 0x7f], &[0]].concat();
    refused(&server, &with_header(&twice), "has a field twice");
    assert_eq!(server.get("/").status, 200);
}
