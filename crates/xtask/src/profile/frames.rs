//! The functions at an address of a program, inlined ones included.

use crate::process;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// A function, and the file with its source; outside of the program, the object with its code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Frame {
    pub(super) function: String,
    pub(super) file: String,
}

/// Why there is no `addr2line` here, if so.
pub(super) fn check() -> Result<(), String> {
    process::text(Command::new("addr2line").arg("--version")).map(drop).map_err(|error| {
        format!("addr2line names the sampled functions; install it (package binutils): {error}")
    })
}

/// The frames at each offset of the file of a program, the innermost one first. An inlined function comes
/// before the function that contains it.
pub(super) fn at(program: &Path, offsets: &[u64]) -> Result<BTreeMap<u64, Vec<Frame>>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", program.display());
    let bytes = std::fs::read(program).map_err(|error| failed(&error))?;
    let segments = segments(&bytes).ok_or_else(|| failed(&"this is no 64-bit ELF program"))?;
    let addresses = offsets.iter().filter_map(|&offset| Some((offset, address(&segments, offset)?)));
    let addresses: Vec<(u64, u64)> = addresses.collect();
    // As a file of arguments: too many for a command line.
    let list = program.with_extension("addresses");
    let lines: Vec<String> = addresses.iter().map(|(_, address)| format!("{address:#x}")).collect();
    std::fs::write(&list, lines.join("\n")).map_err(|error| format!("{}: {error}", list.display()))?;
    let mut command = Command::new("addr2line");
    command.args(["--addresses", "--functions", "--inlines", "--demangle", "--exe"]).arg(program);
    let found = parse(&process::text(command.arg(format!("@{}", list.display())))?);
    let frames = |address| found.get(&address).cloned().unwrap_or_default();
    Ok(addresses.into_iter().map(|(offset, address)| (offset, frames(address))).collect())
}

/// Part of a program that is loaded into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    offset: u64,
    bytes: u64,
    address: u64,
}

/// The segments of a 64-bit little-endian ELF program that are loaded.
fn segments(program: &[u8]) -> Option<Vec<Segment>> {
    const LOADED: u32 = 1;
    let long = |at: usize| Some(u64::from_le_bytes(program.get(at..at + 8)?.try_into().ok()?));
    let short = |at: usize| Some(usize::from(u16::from_le_bytes(program.get(at..at + 2)?.try_into().ok()?)));
    if !program.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (first, size, count) = (usize::try_from(long(0x20)?).ok()?, short(0x36)?, short(0x38)?);
    let mut found = Vec::new();
    for header in (0..count).map(|index| first + index * size) {
        let kind = u32::from_le_bytes(program.get(header..header + 4)?.try_into().ok()?);
        if kind == LOADED {
            found.push(Segment {
                offset: long(header + 8)?,
                bytes: long(header + 32)?,
                address: long(header + 16)?,
            });
        }
    }
    Some(found)
}

/// The address to which `offset` is linked.
fn address(segments: &[Segment], offset: u64) -> Option<u64> {
    let segment =
        segments.iter().find(|segment| (segment.offset..segment.offset + segment.bytes).contains(&offset))?;
    Some(segment.address + (offset - segment.offset))
}

/// Parses what `addr2line` prints: an address, and for each frame a line with the function and one with
/// `FILE:LINE`.
fn parse(text: &str) -> BTreeMap<u64, Vec<Frame>> {
    let mut found: BTreeMap<u64, Vec<Frame>> = BTreeMap::new();
    let mut address = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(number) = line.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
            address = Some(number);
        } else if let (Some(address), Some(place)) = (address, lines.next()) {
            let file = place.rsplit_once(':').map_or(place, |(file, _)| file);
            let frame = Frame { function: line.to_owned(), file: file.to_owned() };
            found.entry(address).or_default().push(frame);
        }
    }
    found.values_mut().for_each(place_symbol);
    found
}

/// Line tables have short names of functions, without modules. Instead of that of the innermost function,
/// `addr2line` often prints the symbol that contains all frames; it belongs to the outermost one.
fn place_symbol(frames: &mut Vec<Frame>) {
    let [innermost, .., outermost] = &mut frames[..] else { return };
    let path = innermost.function.split('<').next().unwrap_or_default();
    if path.is_empty() || path.contains("::") {
        let symbol = std::mem::replace(&mut innermost.function, "?".to_owned());
        let symbol = Frame { function: symbol, file: outermost.file.clone() };
        frames.push(symbol);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inlined_functions_come_first_and_the_symbol_last() {
        let found = parse(include_str!("fixtures/frames.txt"));
        let frames: Vec<(u64, Vec<(&str, &str)>)> = found
            .iter()
            .map(|(address, frames)| {
                (
                    *address,
                    frames.iter().map(|frame| (frame.function.as_str(), frame.file.as_str())).collect(),
                )
            })
            .collect();
        let (latch, lend) = ("/w/crates/store/src/latch.rs", "/w/crates/engine/src/node/lend.rs");
        let [atomic, read] =
            ["sync/atomic.rs", "ptr/mod.rs"].map(|file| format!("/rustc/abc/library/core/src/{file}"));
        let symbol = ("<intendant_engine::node::Shared<E>>::find_absent", lend);
        let expected = [
            (0x1234, vec![("?", atomic.as_str()), ("latch<f32>", latch), ("find_absent<f32>", lend), symbol]),
            (0x1240, vec![("read<u8>", read.as_str()), ("find_absent<f32>", lend)]),
            (0x1260, vec![symbol]),
            (0x9999, vec![("??", "??")]),
        ];
        assert_eq!(frames, expected);
    }

    #[test]
    fn addresses_are_those_of_the_loaded_segment() {
        let mut program = vec![0; 0x40 + 3 * 56];
        program[..6].copy_from_slice(b"\x7fELF\x02\x01");
        program[0x20] = 0x40;
        program[0x36] = 56;
        program[0x38] = 3;
        let mut header = |index: usize, kind: u8, [offset, address, bytes]: [u64; 3]| {
            let at = 0x40 + index * 56;
            program[at] = kind;
            for (place, number) in [(8, offset), (16, address), (32, bytes)] {
                program[at + place..at + place + 8].copy_from_slice(&number.to_le_bytes());
            }
        };
        header(0, 1, [0, 0, 0x100]);
        header(1, 6, [0x100, 0x7000, 0x400]);
        header(2, 1, [0x100, 0x1100, 0x400]);
        let segments = segments(&program).expect("a program");
        assert_eq!(segments.len(), 2, "the second is not loaded");
        let addresses = [0x20, 0x100, 0x4ff, 0x500].map(|offset| address(&segments, offset));
        assert_eq!(addresses, [Some(0x20), Some(0x1100), Some(0x14ff), None]);
        assert_eq!(super::segments(b"#!/bin/sh"), None);
        assert_eq!(super::segments(&program[..0x60]), None, "cut off");
    }

    #[test]
    fn this_program_is_read() {
        let program = std::env::current_exe().expect("a program");
        if cfg!(target_os = "linux") && check().is_ok() {
            let offset = 0x40;
            let found = at(&program, &[offset]).expect("an ELF program");
            assert_eq!(
                found.keys().copied().collect::<Vec<_>>(),
                [offset],
                "the first segment has the headers"
            );
        }
    }
}
