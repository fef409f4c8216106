//! Record of a run: always a hash over all events and messages, on demand also readable lines.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The record of a run.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    events: u64,
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(crate) fn new(text: bool) -> Self {
        Self { hash: 0, events: 0, lines: text.then(Vec::new) }
    }

    /// Hashes an event and counts it.
    #[inline]
    pub(crate) fn event(&mut self, at_ns: u64, kind: u8, subject: u32, detail: u32) {
        let mut bytes = [0; 17];
        bytes[..8].copy_from_slice(&at_ns.to_le_bytes());
        bytes[8..12].copy_from_slice(&subject.to_le_bytes());
        bytes[12..16].copy_from_slice(&detail.to_le_bytes());
        bytes[16] = kind;
        self.hash = xxh3_64_with_seed(&bytes, self.hash);
        self.events += 1;
    }

    /// Hashes the content of a message.
    #[inline]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.hash = xxh3_64_with_seed(bytes, self.hash);
    }

    /// Whether the readable trace is enabled.
    #[inline]
    pub(crate) fn has_lines(&self) -> bool {
        self.lines.is_some()
    }

    /// Appends a line if the readable trace is enabled.
    #[inline]
    pub(crate) fn line(&mut self, at_ns: u64, text: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{at_ns:>12} ns  {}", text()));
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// Number of events so far.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        self.lines.take().unwrap_or_default()
    }
}
