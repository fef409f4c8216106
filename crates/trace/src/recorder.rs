//! Recording: the threads of a node append events to buffers; one thread fetches the events and writes them.

use crate::error::TraceError;
use crate::event::Event;
use crate::file::{Target, Writer};
use crate::header::Header;
use intendant_core::lock;
use std::io;
use std::mem;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

/// How many events of a sink may wait to be fetched. Further events are dropped.
const WAITING_MAX: usize = 1 << 16;

/// How long events wait at most, unless the disk is slow. If a run is killed, its file lacks at most the
/// events of this time.
const WITHIN: Duration = Duration::from_millis(100);

/// Writes the events of a node on a thread of its own.
///
/// A recorder that is dropped without [`Recorder::finish`] writes the waiting events and discards the final
/// error. If the thread that drops the recorder is panicking, the drop does not wait until these events are
/// written.
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), TraceError>>>,
}

/// The state that the sinks share with the writing thread.
#[derive(Debug, Default)]
struct Shared {
    sinks: Mutex<Vec<Arc<Waiting>>>,
    dropped: AtomicU64,
    is_over: AtomicBool,
}

/// The waiting events of a sink.
#[derive(Debug, Default)]
struct Waiting(Mutex<Vec<Event>>);

impl Recorder {
    /// Creates the file and starts the writing thread. When the file can no longer be written, that thread
    /// calls `warn` at once and drops all later events.
    ///
    /// # Errors
    /// If the file cannot be created, or the thread cannot be started.
    pub fn start(
        path: &Path,
        header: &Header,
        warn: impl FnOnce(&TraceError) + Send + 'static,
    ) -> Result<Self, TraceError> {
        Self::to(Writer::create(path, header)?, path, warn)
    }

    /// Like [`Recorder::start`], for a file or another [`Target`] whose start has been written. Errors name
    /// it `path`.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn to<W: Target>(
        writer: Writer<W>,
        path: &Path,
        warn: impl FnOnce(&TraceError) + Send + 'static,
    ) -> Result<Self, TraceError> {
        let shared = Arc::<Shared>::default();
        let (run, at) = (Arc::clone(&shared), path.to_owned());
        let thread = thread::Builder::new()
            .name("trace".to_owned())
            .spawn(move || run.write(writer, &at, warn))
            .map_err(TraceError::io("start a thread to write", path))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Creates a sink, in which one thread of the node records events.
    #[must_use]
    pub fn sink(&self) -> Sink {
        let waiting = Arc::<Waiting>::default();
        lock(&self.shared.sinks).push(Arc::clone(&waiting));
        let writer = self.thread.as_ref().map(|thread| thread.thread().clone());
        Sink { waiting, shared: Arc::clone(&self.shared), writer }
    }

    /// The number of events that were dropped so far.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Waits until all events that were recorded so far are written. Returns how many events were dropped.
    ///
    /// # Errors
    /// If the file could not be written; the error says how many events are missing.
    ///
    /// # Panics
    /// If the thread has panicked.
    pub fn finish(mut self) -> Result<u64, TraceError> {
        self.end().unwrap_or(Ok(()))?;
        Ok(self.dropped())
    }

    fn end(&mut self) -> Option<Result<(), TraceError>> {
        let thread = self.stop()?;
        Some(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }

    /// Makes the thread write the waiting events and end.
    fn stop(&mut self) -> Option<JoinHandle<Result<(), TraceError>>> {
        let thread = self.thread.take()?;
        // Release: pairs with the Acquire of the thread, which then finds all events.
        self.shared.is_over.store(true, Ordering::Release);
        thread.thread().unpark();
        Some(thread)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if thread::panicking() {
            // If the writing thread has panicked, `end` would raise a second panic here.
            self.stop();
        } else {
            let _ = self.end();
        }
    }
}

impl Shared {
    /// Writes the waiting events again and again, until the recorder ends. After an error, it drops the
    /// waiting events and writes the number of dropped events. The block with this number is small and
    /// replaces an incomplete block, so it may fit.
    fn write<W: Target>(
        &self,
        mut writer: Writer<W>,
        path: &Path,
        warn: impl FnOnce(&TraceError),
    ) -> Result<(), TraceError> {
        let (mut events, mut told, mut failed, mut warn) = (Vec::new(), 0, None, Some(warn));
        loop {
            let is_over = self.is_over.load(Ordering::Acquire);
            let sinks = lock(&self.sinks).clone();
            for waiting in sinks {
                // The sink gets the memory of the events that were written before.
                mem::swap(&mut *lock(&waiting.0), &mut events);
                let dropped = self.dropped.load(Ordering::Relaxed);
                if failed.is_some() {
                    self.dropped.fetch_add(events.len() as u64, Ordering::Relaxed);
                } else if !events.is_empty() || dropped > told {
                    let before = writer.events();
                    told = dropped;
                    if let Err(source) = writer.write(&events, dropped) {
                        let lost = events.len() as u64 - (writer.events() - before);
                        self.dropped.fetch_add(lost, Ordering::Relaxed);
                        told = 0;
                        let same = io::Error::new(source.kind(), source.to_string());
                        if let Some(warn) = warn.take() {
                            warn(&TraceError::write(path, same));
                        }
                        failed = Some(source);
                    }
                }
                events.clear();
            }
            let dropped = self.dropped.load(Ordering::Relaxed);
            if failed.is_some() && dropped > told && writer.write_dropped(dropped).is_ok() {
                told = dropped;
            }
            if is_over {
                let incomplete =
                    |source| Err(TraceError::Incomplete { path: path.to_owned(), dropped, source });
                return failed.map_or(Ok(()), incomplete);
            }
            thread::park_timeout(WITHIN);
        }
    }
}

/// The recording end of one thread. It does not wait for the disk: if the writing thread is too slow, the
/// sink drops events and counts them.
#[derive(Debug)]
pub struct Sink {
    waiting: Arc<Waiting>,
    shared: Arc<Shared>,
    writer: Option<Thread>,
}

impl Sink {
    /// Records events.
    pub fn record(&mut self, events: impl IntoIterator<Item = Event>) {
        let mut waiting = lock(&self.waiting.0);
        let (before, mut dropped) = (waiting.len(), 0);
        for event in events {
            if waiting.len() < WAITING_MAX {
                waiting.push(event);
            } else {
                dropped += 1;
            }
        }
        let is_half_full = before < WAITING_MAX / 2 && waiting.len() >= WAITING_MAX / 2;
        drop(waiting);
        if dropped > 0 {
            self.shared.dropped.fetch_add(dropped, Ordering::Relaxed);
        }
        if let Some(writer) = self.writer.as_ref().filter(|_| is_half_full) {
            writer.unpark();
        }
    }
}
