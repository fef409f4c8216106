//! The file of a node's events: a header, followed by blocks of records, which are appended one by one.

use crate::error::TraceError;
use crate::event::Event;
use crate::header::{Header, VERSION};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 8] = b"ITDTRACE";
const BLOCK: &[u8; 4] = b"BLCK";

/// The longest header that a reader accepts, in bytes. Real headers are shorter.
const HEADER_BYTES_MAX: u32 = 1 << 24;

/// The most records of a block that a reader accepts. This crate writes at most [`BLOCK_RECORDS`] per block.
const RECORDS_MAX: u32 = 1 << 16;

/// The most records of a block that is written. A writer that is killed while it writes a block loses at most
/// these.
const BLOCK_RECORDS: usize = 1 << 12;

/// How many bytes behind damage a reader searches for the next block.
const SEARCH_BYTES: u64 = 1 << 24;

/// How many places of a file may look like the beginning of a block without being one. Each of them costs the
/// reader the reading of a block.
const TRIES_MAX: u32 = 256;

/// Bytes before the records of a block.
const BLOCK_START: usize = 24;

/// Returns the path at which a node writes its trace: `node-NODE.trace` in `folder`, which this function
/// creates if it is missing. A file of an earlier run moves to the subfolder `run-RUN`, where RUN is the
/// [`Header::run`] of that run in hexadecimal; there it replaces only a file of the same run. A file whose
/// header cannot be read moves to `run-unreadable`.
///
/// # Errors
/// If a folder cannot be created, or the earlier file cannot be moved.
pub fn prepare(folder: &Path, node: u16) -> Result<PathBuf, TraceError> {
    fs::create_dir_all(folder).map_err(TraceError::io("create the folder", folder))?;
    let name = format!("node-{node}.trace");
    let path = folder.join(&name);
    if fs::symlink_metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(path);
    }
    let earlier = match Trace::read_each(&path, |_| ControlFlow::Break(())) {
        Ok(trace) => format!("run-{:016x}", trace.header.run),
        Err(_) => "run-unreadable".to_owned(),
    };
    let earlier = folder.join(earlier);
    fs::create_dir_all(&earlier).map_err(TraceError::io("create the folder", &earlier))?;
    fs::rename(&path, earlier.join(name)).map_err(TraceError::io("move", &path))?;
    Ok(path)
}

/// The destination of a [`crate::Recorder`].
pub trait Target: Write + Send + 'static {
    /// Truncates the destination to its first `bytes` bytes. The next write appends to them.
    ///
    /// # Errors
    /// If it cannot be truncated.
    fn cut(&mut self, bytes: u64) -> io::Result<()>;
}

impl Target for File {
    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)?;
        self.seek(SeekFrom::Start(bytes)).map(|_| ())
    }
}

/// Writes the file of a node.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    /// Bytes of the start and of complete blocks.
    whole: u64,
    /// Events in these blocks.
    events: u64,
}

impl Writer<File> {
    /// Creates a file and writes its start.
    ///
    /// # Errors
    /// If the file cannot be created or written.
    pub fn create(path: &Path, header: &Header) -> Result<Self, TraceError> {
        let file = File::create(path).map_err(TraceError::io("create", path))?;
        Self::start(file, header).map_err(|error| TraceError::write(path, error))
    }
}

impl<W: Write> Writer<W> {
    /// Writes the start of a file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn start(mut to: W, header: &Header) -> io::Result<Self> {
        let header = serde_json::to_vec(header)?;
        to.write_all(MAGIC)?;
        to.write_all(&VERSION.to_le_bytes())?;
        to.write_all(&(header.len() as u32).to_le_bytes())?;
        to.write_all(&header)?;
        to.write_all(&xxh3_64(&header).to_le_bytes())?;
        to.flush()?;
        let whole = MAGIC.len() + size_of::<u32>() * 2 + header.len() + size_of::<u64>();
        Ok(Self { to, whole: whole as u64, events: 0 })
    }

    /// The number of events that were written so far. After an error, a reader finds exactly these.
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Writes events as blocks. From then on, a reader finds them. `dropped` is the number of events that the
    /// node has dropped so far.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn write(&mut self, events: &[Event], dropped: u64) -> io::Result<()> {
        let mut chunks = events.chunks(BLOCK_RECORDS);
        // A block without events tells how many were dropped.
        let first = chunks.next().unwrap_or_default();
        for chunk in std::iter::once(first).chain(chunks) {
            let block = block(chunk, dropped);
            self.to.write_all(&block)?;
            self.whole += block.len() as u64;
            self.events += chunk.len() as u64;
        }
        self.to.flush()
    }
}

impl<W: Target> Writer<W> {
    /// Replaces the incomplete block that an error of [`Writer::write`] has left by a block with the number
    /// of dropped events. It may be called again with a larger number.
    ///
    /// # Errors
    /// If the file cannot be truncated or written.
    pub fn write_dropped(&mut self, dropped: u64) -> io::Result<()> {
        self.to.cut(self.whole)?;
        self.to.write_all(&block(&[], dropped))?;
        self.to.flush()
    }
}

/// The bytes of a block.
fn block(events: &[Event], dropped: u64) -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK_START + size_of_val(events));
    block.extend_from_slice(BLOCK);
    block.extend_from_slice(&(events.len() as u32).to_le_bytes());
    block.extend_from_slice(&dropped.to_le_bytes());
    block.extend_from_slice(&[0; 8]);
    events.iter().for_each(|event| block.extend_from_slice(&event.to_record()));
    let sum = sum(&block);
    block[16..BLOCK_START].copy_from_slice(&sum.to_le_bytes());
    block
}

/// The checksum of a block, over both its numbers and its records.
fn sum(block: &[u8]) -> u64 {
    xxh3_64(&block[BLOCK_START..]) ^ xxh3_64(&block[4..16])
}

/// The events of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The description of the node and its run.
    pub header: Header,
    /// The events, in the order in which they were written.
    pub events: Vec<Event>,
    /// Events that the node has dropped because they did not fit into its memory or because the disk was
    /// full.
    pub dropped: u64,
    /// Events of kinds that this version does not know.
    pub unknown: u64,
    /// Bytes at the end of the file that do not form a complete block: the writer was killed, or the file is
    /// damaged there.
    pub lost_bytes: u64,
    /// Bytes before complete blocks that do not form a complete block: the file is damaged there.
    pub damaged_bytes: u64,
}

impl Trace {
    /// Reads the complete blocks of a file.
    ///
    /// # Errors
    /// If the file cannot be read, is not a trace, or has another version. [`Trace::read_at_most`] bounds the
    /// number of events.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        Self::read_at_most(path, u64::MAX)
    }

    /// Reads the first events of a file: at most `events_max`, each of which has 32 bytes in the file.
    ///
    /// # Errors
    /// If the file cannot be read, is not a trace, or has another version.
    pub fn read_at_most(path: &Path, events_max: u64) -> Result<Self, TraceError> {
        let mut events = Vec::new();
        let trace = Self::read_each(path, |event| {
            if events.len() as u64 == events_max {
                return ControlFlow::Break(());
            }
            events.push(event);
            ControlFlow::Continue(())
        })?;
        Ok(Self { events, ..trace })
    }

    /// Calls `each` with the events of a file, one by one, until `each` breaks. The returned trace contains
    /// no events; after a break, its numbers cover the part that was read.
    ///
    /// # Errors
    /// If the file cannot be read, is not a trace, or has another version.
    pub fn read_each(
        path: &Path,
        mut each: impl FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(TraceError::io("read", path))?;
        let bytes = file.metadata().map_err(TraceError::io("read", path))?.len();
        let mut from = Counted { from: BufReader::with_capacity(1 << 16, file), read: 0 };
        let header = read_header(&mut from, path)?;
        let mut trace =
            Self { header, events: Vec::new(), dropped: 0, unknown: 0, lost_bytes: 0, damaged_bytes: 0 };
        let (mut whole, mut tries) = (from.read, TRIES_MAX);
        loop {
            let block = read_block(&mut from).map_err(TraceError::io("read", path))?;
            let block = match block {
                None => from.find_block(whole + 1, &mut tries).map_err(TraceError::io("read", path))?,
                found => found,
            };
            let Some(block) = block else { break };
            trace.damaged_bytes += from.read - block.len() as u64 - whole;
            whole = from.read;
            trace.dropped = block[8..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            let (records, _) = block[BLOCK_START..].as_chunks::<{ Event::BYTES }>();
            for record in records {
                match Event::of_record(record) {
                    Some(event) if each(event).is_break() => return Ok(trace),
                    Some(_) => {}
                    None => trace.unknown += 1,
                }
            }
        }
        trace.lost_bytes = bytes.saturating_sub(whole);
        Ok(trace)
    }
}

struct Counted<R> {
    from: R,
    read: u64,
}

impl<R: Read> Counted<R> {
    /// Fills `bytes`. Returns `false` if the input has fewer bytes left; all of them are then read.
    fn fill(&mut self, mut bytes: &mut [u8]) -> io::Result<bool> {
        // If the input ends early, `read_exact` does not report how many bytes it has read.
        while !bytes.is_empty() {
            match self.from.read(bytes) {
                Ok(0) => return Ok(false),
                Ok(read) => {
                    self.read += read as u64;
                    bytes = &mut bytes[read..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

impl Counted<BufReader<File>> {
    /// Goes to a position.
    fn go_to(&mut self, at: u64) -> io::Result<()> {
        // A seek within the buffer does not read the file again.
        self.from.seek_relative(at.cast_signed() - self.read.cast_signed())?;
        self.read = at;
        Ok(())
    }

    /// Searches for the first complete block that begins at or after `at`, within [`SEARCH_BYTES`].
    fn find_block(&mut self, at: u64, tries: &mut u32) -> io::Result<Option<Vec<u8>>> {
        let mut at = at;
        let end = at.saturating_add(SEARCH_BYTES);
        while *tries > 0 && at < end {
            self.go_to(at)?;
            let skipped = loop {
                let bytes = self.from.fill_buf()?;
                if bytes.is_empty() || self.read >= end {
                    return Ok(None);
                }
                match bytes.iter().position(|byte| *byte == BLOCK[0]) {
                    Some(skipped) => break skipped,
                    None => {
                        let all = bytes.len();
                        self.from.consume(all);
                        self.read += all as u64;
                    }
                }
            };
            at = self.read + skipped as u64;
            self.go_to(at)?;
            let mut start = [0; BLOCK.len()];
            if self.fill(&mut start)? && start == *BLOCK {
                *tries -= 1;
                self.go_to(at)?;
                if let Some(block) = read_block(self)? {
                    return Ok(Some(block));
                }
            }
            at += 1;
        }
        Ok(None)
    }
}

fn read_header(from: &mut Counted<impl Read>, path: &Path) -> Result<Header, TraceError> {
    let mut start = [0; 16];
    let filled = from.fill(&mut start).map_err(TraceError::io("read", path))?;
    if !filled || start[..8] != *MAGIC {
        return Err(TraceError::not_a_trace(path, "it does not begin as one"));
    }
    let number = |at: usize| start[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let (version, len) = (number(8), number(12));
    if version != VERSION {
        return Err(TraceError::Version { path: path.to_owned(), found: version });
    }
    if len > HEADER_BYTES_MAX {
        return Err(TraceError::not_a_trace(path, format!("its header would have {len} bytes")));
    }
    let (mut header, mut sum) = (vec![0; len as usize], [0; 8]);
    let filled = from.fill(&mut header).and_then(|filled| Ok(filled && from.fill(&mut sum)?));
    if !filled.map_err(TraceError::io("read", path))? || u64::from_le_bytes(sum) != xxh3_64(&header) {
        return Err(TraceError::not_a_trace(path, "its header is damaged"));
    }
    serde_json::from_slice(&header).map_err(|error| TraceError::not_a_trace(path, error.to_string()))
}

/// Reads the next block. Returns `None` if the block is incomplete or damaged.
fn read_block(from: &mut Counted<impl Read>) -> io::Result<Option<Vec<u8>>> {
    let mut start = [0; BLOCK_START];
    if !from.fill(&mut start)? || start[..4] != *BLOCK {
        return Ok(None);
    }
    let records = start[4..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    if records > RECORDS_MAX {
        return Ok(None);
    }
    let mut block = vec![0; BLOCK_START + records as usize * Event::BYTES];
    block[..BLOCK_START].copy_from_slice(&start);
    if !from.fill(&mut block[BLOCK_START..])? {
        return Ok(None);
    }
    let written = block[16..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    Ok((sum(&block) == written).then_some(block))
}
