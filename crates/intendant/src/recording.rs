//! Traces: a node that records what happens to its parameters.
//!
//! Each thread that notices events has a [`Sink`] of its own. One thread per node, that of the [`Recorder`],
//! writes them.

use crate::error::Error;
use intendant_control::MonotonicClock;
use intendant_core::{ChannelId, Element, NodeId, Tick, lock, random};
use intendant_engine::Shared;
use intendant_trace::{Event, Filter, Header, Mark, Recorder, Sink, TraceError, What};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

/// The longest time between sending bytes and recording them, in µs.
const SENT_WITHIN: u64 = 50_000;

/// What a node records.
#[derive(Clone, Debug, Default)]
pub struct TraceConfig {
    /// The folder of the traces, which is created if it is missing. Each node writes a file `node-RANK.trace`
    /// there; a file of an earlier run moves to a folder within it: see [`intendant_trace::prepare`].
    pub folder: PathBuf,
    /// The keys whose events are recorded.
    pub filter: Filter,
    /// A number that no other run has; 0 lets the cluster choose one.
    pub run: u64,
    /// The task, for human readers.
    pub task: String,
    /// Settings of the run, for human readers.
    pub settings: Vec<(String, String)>,
}

impl TraceConfig {
    /// Chooses a number for a run of nodes in this process, unless the caller has chosen one.
    pub(crate) fn choose_run(&mut self) {
        if self.run == 0 {
            self.run =
                random::stream(u64::from(std::process::id()), &[wall_clock_us(MonotonicClock::start())]);
        }
    }
}

/// The trace of a node.
pub(crate) struct Recording {
    recorder: Mutex<Option<Recorder>>,
    /// The sink for events that no channel notices.
    general: Mutex<General>,
    clock: MonotonicClock,
    path: PathBuf,
}

struct General {
    sink: Sink,
    /// Number of meetings of all nodes so far.
    meetings: u64,
}

impl Recording {
    /// Begins the trace of a node whose clock is `clock`.
    pub(crate) fn start<E: Element>(
        config: TraceConfig,
        shared: &Shared<E>,
        clock: MonotonicClock,
    ) -> Result<Self, Error> {
        let TraceConfig { folder, filter, run, task, settings } = config;
        let header = Header {
            run,
            epoch_us: wall_clock_us(clock),
            filter: filter.to_string(),
            task,
            settings,
            ..shared.trace_header()
        };
        let path = intendant_trace::prepare(&folder, header.node)?;
        let recorder = Recorder::start(&path, &header, |error| {
            tracing::warn!("{error}; the run goes on, and nothing more is recorded");
        })?;
        let general = Mutex::new(General { sink: recorder.sink(), meetings: 0 });
        Ok(Self { recorder: Mutex::new(Some(recorder)), general, clock, path })
    }

    /// The recording of a channel, in a cluster of `nodes` nodes; `None` once the trace has ended.
    pub(crate) fn channel(&self, id: ChannelId, nodes: usize) -> Option<ChannelRecording> {
        let sink = lock(&self.recorder).as_ref()?.sink();
        Some(ChannelRecording { sink, id, sent: vec![0; nodes], due: None })
    }

    /// Records a moment of the run.
    pub(crate) fn mark(&self, mark: Mark, number: u64) {
        self.record(&mut lock(&self.general), What::Marked { mark, number });
    }

    /// This node comes to a meeting of all nodes. Returns its number.
    pub(crate) fn came(&self) -> u64 {
        let mut general = lock(&self.general);
        let meeting = general.meetings;
        general.meetings += 1;
        self.record(&mut general, What::Came { meeting });
        meeting
    }

    /// This node goes on after a meeting.
    pub(crate) fn went_on(&self, meeting: u64) {
        self.record(&mut lock(&self.general), What::WentOn { meeting });
    }

    fn record(&self, general: &mut General, what: What) {
        // The clock is read under the lock, because the times of a sink ascend.
        general.sink.record([Event { at: self.clock.now(), channel: ChannelId(0), key: None, what }]);
    }

    /// Writes what is recorded, and ends the trace. The second call does nothing.
    pub(crate) fn end(&self) -> Result<(), TraceError> {
        let Some(recorder) = lock(&self.recorder).take() else { return Ok(()) };
        let dropped = recorder.finish()?;
        if dropped > 0 {
            tracing::warn!(
                "{dropped} events are missing in {}: the disk was too slow for them; trace fewer keys",
                self.path.display()
            );
        }
        Ok(())
    }
}

/// The time of the wall clock when `clock` was 0, in microseconds since 1970. If the wall clock is wrong by
/// decades, this is 1, because 0 stands for virtual time.
#[expect(clippy::disallowed_methods, reason = "a trace tells when it was recorded")]
fn wall_clock_us(clock: MonotonicClock) -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_micros() as u64).saturating_sub(clock.now().0).max(1)
}

/// The part of a trace that a channel's thread records.
pub(crate) struct ChannelRecording {
    sink: Sink,
    id: ChannelId,
    /// By node, the bytes that were sent to it and are not recorded yet.
    sent: Vec<u64>,
    /// When they must be recorded, if there are any.
    due: Option<Tick>,
}

impl ChannelRecording {
    /// A message of `bytes` bytes goes to a node.
    pub(crate) fn sends(&mut self, now: Tick, to: NodeId, bytes: usize) {
        if let Some(sent) = self.sent.get_mut(to.index()) {
            *sent += bytes as u64;
            self.due.get_or_insert(now.after(SENT_WITHIN));
        }
    }

    /// Records the events of an input.
    pub(crate) fn record(&mut self, events: impl Iterator<Item = Event>) {
        self.sink.record(events);
    }

    /// When [`ChannelRecording::record_sent`] is due; `None` if everything that was sent is recorded.
    pub(crate) const fn due(&self) -> Option<Tick> {
        self.due
    }

    /// Records what was sent since the last time.
    pub(crate) fn record_sent(&mut self, at: Tick) {
        self.due = None;
        let channel = self.id;
        let sent = (0..).map(NodeId).zip(&mut self.sent).filter(|(_, bytes)| **bytes > 0);
        self.sink.record(sent.map(|(to, bytes)| {
            let what = What::Sent { to, bytes: std::mem::take(bytes) };
            Event { at, channel, key: None, what }
        }));
    }
}
