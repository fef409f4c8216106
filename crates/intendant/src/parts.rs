//! State that the threads of a node share.

use crate::attendance::Attendance;
use crate::awake::Awake;
use crate::inbox::{Command, InboxSender};
use crate::recording::Recording;
use crossbeam_channel::Sender;
use intendant_control::Failure;
use intendant_control::MonotonicClock;
use intendant_core::{ChannelId, Element, Key, Tick};
use intendant_engine::{Advanced, ChannelReport, Input, Shared};
use intendant_membership::Health;
use intendant_membership::Meetings;
use intendant_membership::Membership;
use intendant_sampling::{Locality, Manager, NearKeys};
use std::sync::Arc;

/// The reason that calls report after the shutdown.
pub(crate) const DOWN: &str = "the node is shut down";

/// State that workers, loaders and the node's handle share.
pub(crate) struct NodeParts<E> {
    pub(crate) shared: Arc<Shared<E>>,
    pub(crate) clock: MonotonicClock,
    pub(crate) seed: u64,
    pub(crate) sampling: Manager,
    pub(crate) inboxes: Vec<InboxSender>,
    pub(crate) membership: Arc<Membership>,
    pub(crate) health: Arc<Health>,
    pub(crate) meetings: Meetings,
    pub(crate) attendance: Attendance,
    /// The number of workers that are awake.
    pub(crate) awake: Awake,
    pub(crate) outstanding_bytes: usize,
    /// Whether there are more threads of workers and channels than cores for them.
    pub(crate) shares_cores: bool,
    pub(crate) recording: Option<Recording>,
}

impl<E: Element> NodeParts<E> {
    /// Sends a command to all channels, and returns their answers.
    pub(crate) fn ask_channels<R>(&self, command: impl Fn(Sender<R>) -> Command) -> Result<Vec<R>, Failure> {
        let mut answers = Vec::with_capacity(self.inboxes.len());
        for inbox in &self.inboxes {
            let (reply, answer) = crossbeam_channel::bounded(1);
            inbox.send(command(reply));
            match answer.recv() {
                Ok(answer) => answers.push(answer),
                // The channel's thread ends only when the cluster does.
                Err(_) => {
                    self.health.check()?;
                    return Err(Failure::misuse(DOWN));
                }
            }
        }
        Ok(answers)
    }

    /// Reports the clock of this node's workers to the channels. If the channels have ended, the cluster has
    /// failed, and every other call returns the failure.
    pub(crate) fn advanced(&self, advanced: Advanced) {
        if let Some(clock) = advanced.clock {
            for inbox in &self.inboxes {
                inbox.send(Command::Input(Input::Clock(clock)));
            }
        }
        self.wake(&advanced.wake);
    }

    /// Wakes channels that sleep.
    pub(crate) fn wake(&self, channels: &[ChannelId]) {
        for channel in channels {
            self.inboxes[channel.index()].send(Command::Input(Input::Wake));
        }
    }

    /// Meets all other nodes. Returns the payloads in rank order.
    pub(crate) fn gather(&self, name: &str, label: &str, payload: Vec<u8>) -> Result<Vec<Vec<u8>>, Failure> {
        let recording = self.recording.as_ref();
        let meeting = recording.map(Recording::came);
        let gathered = self.membership.gather(name, label, payload)?;
        if let (Some(recording), Some(meeting)) = (recording, meeting) {
            recording.went_on(meeting);
        }
        Ok(gathered)
    }

    /// Lets all channels synchronise their copies, and returns the sum of their reports. All workers of this
    /// node wait for quiescence then.
    pub(crate) fn report(&self) -> Result<ChannelReport, Failure> {
        let mut sum = ChannelReport::default();
        self.ask_channels(Command::Report)?.into_iter().for_each(|report| sum.merge(report));
        Ok(sum)
    }
}

impl<E: Element> Locality for NodeParts<E> {
    fn is_local(&self, key: Key) -> bool {
        // A distribution may reach beyond the last key; the pull then returns the error.
        self.shared.layout().contains(key) && self.shared.is_local(key)
    }

    fn part(&self, key: Key) -> u32 {
        if self.shared.layout().contains(key) { self.shared.part(key) } else { 0 }
    }

    fn find_parts(&self, keys: &[Key], parts: &mut [u32]) {
        keys.iter().for_each(|key| self.shared.prefetch_part(*key));
        keys.iter().zip(parts).for_each(|(key, part)| *part = self.part(*key));
    }

    fn near(&self) -> Option<&NearKeys> {
        self.shared.near()
    }

    fn nodes(&self) -> u32 {
        self.shared.layout().nodes() as u32
    }

    fn now(&self) -> Tick {
        self.clock.now()
    }
}
