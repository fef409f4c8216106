//! A channel's thread: its engine, its fabric, its inbox.

use crate::attendance::Calls;
use crate::awake::Awake;
use crate::busy_poll::BusyPoll;
use crate::delivery::Delivery;
use crate::inbox::{Command, Inbox};
use crate::mailbox::MailSender;
use crate::recording::ChannelRecording;
use crate::traffic::Traffic;
use intendant_control::Failure;
use intendant_control::MonotonicClock;
use intendant_core::{Element, NodeId, Tick};
use intendant_engine::{Action, Channel, Completion, Input, LookTimer, NetworkStats};
use intendant_membership::Health;
use intendant_membership::Membership;
use intendant_transport::{Fabric, FabricBuilder, FabricEvent, Sent};
use intendant_wire::{Packer, Saved, Unpacker};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The most inputs of one kind (commands or frames) that the thread handles before it turns to the other kind
/// and writes their output. They are enough to share the cost of a system call, and few enough to keep
/// answers moving.
const INPUTS_PER_TURN_MAX: usize = 64;

/// How long to wait for the goodbyes of peers that have agreed to leave.
const GOODBYE_WITHIN: Duration = Duration::from_secs(5);

/// A channel's engine and everything to which its thread connects it.
pub(crate) struct ChannelLoop<E> {
    pub(crate) channel: Channel<E>,
    /// The recording of the channel, if the node has a trace.
    pub(crate) recording: Option<ChannelRecording>,
    pub(crate) clock: MonotonicClock,
    pub(crate) inbox: Inbox,
    /// The number of workers of this node that are awake.
    pub(crate) awake: Awake,
    /// The state of polling, if the channel polls its rings before it sleeps; set when the fabric is
    /// finished.
    pub(crate) busy_poll: Option<BusyPoll>,
    /// Number of channels of this node.
    pub(crate) channels: usize,
    /// The mailboxes of the workers, by worker.
    pub(crate) workers: Vec<MailSender<Delivery>>,
    /// By worker, the completions of the current pass; empty between passes. A worker is woken once for all
    /// of them: waking a thread costs as much as dozens of keys.
    pub(crate) done: Vec<Vec<Completion>>,
    pub(crate) membership: Arc<Membership>,
    pub(crate) health: Arc<Health>,
    pub(crate) traffic: Arc<Traffic>,
    /// The counts of the fabric that are in `traffic` already.
    pub(crate) counted: Sent,
    /// The savings of packing that are not in `traffic` yet.
    pub(crate) saved: Saved,
    /// By node, the ends of the connections to and from it.
    pub(crate) packers: Vec<Packer>,
    pub(crate) unpackers: Vec<Unpacker>,
    pub(crate) calls: Calls,
    /// The times of the channel's looks.
    pub(crate) looks: LookTimer,
}

/// How a pass ended.
enum Turn {
    /// Something was done.
    Busy,
    /// The channel passed a tick to its engine, and did nothing else.
    Looked,
    /// There was nothing to do.
    Idle,
    /// The channel is closed.
    Over,
}

/// Runs until a command to leave, or until the cluster fails.
pub(crate) fn run<E: Element>(channel_loop: ChannelLoop<E>, fabric: FabricBuilder) {
    let (membership, health) = (Arc::clone(&channel_loop.membership), Arc::clone(&channel_loop.health));
    let name = format!("channel {}", channel_loop.channel.id());
    // `links` outlives a panic, so that peers get the reason before they see the links break.
    let mut links = None;
    let body = std::panic::AssertUnwindSafe(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        runtime.block_on(async {
            channel_loop.run(links.insert(fabric.finish()?)).await;
            Ok::<(), std::io::Error>(())
        })
    });
    let problem = match std::panic::catch_unwind(body) {
        Ok(Ok(())) => return,
        Ok(Err(error)) => format!("{name} of this node could not start: {error}"),
        Err(_) => format!("{name} of this node panicked; its message is on standard error"),
    };
    // A thread that ended silently would leave all nodes waiting.
    tracing::error!("{problem}");
    membership.abort(&problem);
    health.fail(Failure::misuse(problem));
}

impl<E: Element> ChannelLoop<E> {
    async fn run(mut self, fabric: &mut Fabric) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.busy_poll = BusyPoll::new(fabric.ring_peers_on_own_cores(), self.channels, cores);
        self.work(fabric).await;
        if let Some(recording) = &mut self.recording {
            recording.record_sent(self.clock.now());
        }
    }

    async fn work(&mut self, fabric: &mut Fabric) {
        let mut actions = Vec::new();
        let mut closing = None;
        let mut looked = false;
        loop {
            let turn = self.turn(fabric, &mut actions, &mut closing);
            // Most looks are no-ops. After a look, the next pass follows at once; when it finds nothing to
            // do, it sleeps, which polls the sockets as well. After a second look in a row, the thread polls
            // the sockets first: otherwise a channel that is always late would never poll them.
            let looked_before = std::mem::replace(&mut looked, matches!(turn, Turn::Looked));
            match turn {
                Turn::Over => return,
                Turn::Looked if !looked_before => {}
                // Lets the runtime poll the sockets; nothing else notices that they are ready.
                Turn::Busy | Turn::Looked => tokio::task::yield_now().await,
                // The next pass handles what the poll found.
                Turn::Idle if closing.is_none() && self.poll_rings(fabric) => {}
                Turn::Idle => {
                    let wake = closing.or_else(|| Some(self.clock.moment(self.alarm_due()?)));
                    let alarm = async {
                        match wake {
                            Some(moment) => tokio::time::sleep_until(moment).await,
                            None => std::future::pending().await,
                        }
                    };
                    let event = tokio::select! {
                        biased;
                        event = fabric.next() => event,
                        () = self.inbox.sleep() => continue,
                        // All nodes have agreed to leave, so the thread waits no longer for peers without a
                        // goodbye.
                        () = alarm => match closing {
                            Some(_) => return,
                            None => continue,
                        },
                    };
                    let begun = self.clock.now();
                    if matches!(self.on_event(event, fabric, &mut actions, closing.is_some()), Turn::Over) {
                        return;
                    }
                    self.hand_on(fabric);
                    self.looks.worked(self.clock.now().0.saturating_sub(begun.0));
                    // Otherwise the next command would be answered before the messages of this event are
                    // counted.
                    self.count(fabric.sent());
                }
            }
        }
    }

    /// Polls the rings, if polling pays, as long as no worker of this node needs the core. Returns whether
    /// there is something to do.
    fn poll_rings(&mut self, fabric: &mut Fabric) -> bool {
        let alarm = self.alarm_due();
        let Self { busy_poll: Some(busy_poll), clock, inbox, awake, .. } = self else { return false };
        let other = |now| !inbox.is_empty() || alarm.is_some_and(|alarm| now >= alarm);
        busy_poll.poll(|| clock.now(), || fabric.stirs(), other, || awake.is_none())
    }

    /// One pass of the thread. It gives the engine a tick if one is due, then commands and frames, and writes
    /// what they produce. Each of these inputs is a turn of the engine.
    fn turn(
        &mut self,
        fabric: &mut Fabric,
        actions: &mut Vec<Action>,
        closing: &mut Option<Instant>,
    ) -> Turn {
        let mut turn = Turn::Idle;
        let mut begun = self.clock.now();
        if let Some(recording) = &mut self.recording
            && recording.due().is_some_and(|due| begun >= due)
        {
            recording.record_sent(begun);
        }
        if closing.is_none() && self.tick_due().is_some_and(|due| begun >= due) {
            let round = self.channel.next_round();
            self.handle(Input::Tick, fabric, actions);
            let now = self.clock.now();
            let starts_round = self.channel.next_round() != round;
            let round = starts_round.then(|| fabric.sent().messages);
            if let Some(earliest) = self.looks.looked(now, now.0.saturating_sub(begun.0), round) {
                self.channel.postpone_round(earliest);
            }
            begun = now;
            turn = Turn::Looked;
        }
        for _ in 0..INPUTS_PER_TURN_MAX {
            match self.inbox.try_next() {
                None => break,
                Some(Command::Input(input)) => {
                    self.stir();
                    self.handle(input, fabric, actions);
                }
                Some(Command::Report(reply)) => {
                    self.handle(Input::Settle, fabric, actions);
                    // The thread that asked may have given up.
                    let _ = reply.send(self.channel.report());
                }
                Some(Command::Management(reply)) => {
                    let _ = reply.send(self.channel.management().clone());
                }
                Some(Command::Explain(key, reply)) => {
                    let _ = reply.send(self.channel.explain(key));
                }
                Some(Command::Departed) => {
                    self.calls.depart();
                    self.check_calls();
                }
                Some(Command::Close) => {
                    *closing = Some(Instant::now() + GOODBYE_WITHIN);
                    fabric.close();
                }
                Some(Command::Stop) => return Turn::Over,
            }
            turn = Turn::Busy;
        }
        for _ in 0..INPUTS_PER_TURN_MAX {
            let Some(event) = fabric.try_next() else { break };
            turn = self.on_event(event, fabric, actions, closing.is_some());
            if matches!(turn, Turn::Over) {
                self.hand_on(fabric);
                return turn;
            }
        }
        self.hand_on(fabric);
        self.count(fabric.sent());
        if !matches!(turn, Turn::Idle) {
            self.looks.worked(self.clock.now().0.saturating_sub(begun.0));
        }
        turn
    }

    /// Sends the results of a pass. Frames go first, because other nodes wait for them.
    fn hand_on(&mut self, fabric: &mut Fabric) {
        fabric.try_flush();
        for (worker, done) in self.workers.iter().zip(&mut self.done) {
            if !done.is_empty() {
                worker.send(Delivery::Completions(std::mem::take(done)));
            }
        }
    }

    /// Records activity. An idle channel stops being idle.
    fn stir(&mut self) {
        if self.looks.stir() {
            self.channel.hasten_round();
        }
    }

    /// The time of the channel's next look.
    fn tick_due(&self) -> Option<Tick> {
        Some(self.looks.next(self.channel.due()?))
    }

    /// When an idle channel wakes by itself.
    fn alarm_due(&self) -> Option<Tick> {
        let recording = self.recording.as_ref().and_then(ChannelRecording::due);
        self.tick_due().into_iter().chain(recording).min()
    }

    fn count(&mut self, sent: Sent) {
        let before = std::mem::replace(&mut self.counted, sent);
        let saved = std::mem::take(&mut self.saved);
        self.traffic.add(&NetworkStats {
            messages: sent.messages - before.messages,
            bytes: sent.bytes - before.bytes,
            unpacked_bytes: saved.unpacked,
            saved_by_runs: saved.runs,
            saved_by_key_lists: saved.key_lists,
            saved_by_compression: saved.compression,
            unix_bytes: sent.unix_bytes - before.unix_bytes,
        });
    }

    fn on_event(
        &mut self,
        event: FabricEvent,
        fabric: &mut Fabric,
        actions: &mut Vec<Action>,
        closing: bool,
    ) -> Turn {
        match event {
            FabricEvent::Frame { from, frame } => match self.unpackers[from.index()].unpack(frame) {
                Ok(message) => {
                    self.stir();
                    self.calls.hear(&message);
                    self.handle(Input::Message { from, message }, fabric, actions);
                    self.check_calls();
                }
                Err(error) => self.broken(from, &error.to_string()),
            },
            // A peer leaves after all nodes have agreed to leave, when its requests have been answered.
            FabricEvent::Closed { .. } => {}
            FabricEvent::Lost { peer, error } if !closing => self.membership.lost(peer, &error.to_string()),
            // Peers may close early during shutdown.
            FabricEvent::Lost { .. } => {}
            FabricEvent::Finished => return Turn::Over,
        }
        Turn::Busy
    }

    fn handle(&mut self, input: Input, fabric: &mut Fabric, actions: &mut Vec<Action>) {
        let now = self.clock.now();
        let result = self.channel.handle(now, input, actions);
        for action in actions.drain(..) {
            match action {
                Action::Send { to, message } => {
                    let (head, values) = self.packers[to.index()].pack(&message, &mut self.saved);
                    if let Some(recording) = &mut self.recording {
                        recording.sends(now, to, head.len() + values.len());
                    }
                    fabric.send_parts(to, head, values);
                }
                Action::Complete { worker, completion } => {
                    if let Some(done) = self.done.get_mut(worker.index()) {
                        done.push(completion);
                    }
                }
                Action::CompleteSnapshot { worker, part } => {
                    if let Some(worker) = self.workers.get(worker.index()) {
                        worker.send(Delivery::Snapshot(part));
                    }
                }
            }
        }
        if let Some(recording) = &mut self.recording {
            recording.record(self.channel.take_events());
        }
        if let Err(violation) = result {
            self.broken(violation.from, &violation.what.to_string());
        }
    }

    fn check_calls(&self) {
        if self.calls.are_hopeless(self.channel.management().sync_rounds) {
            self.membership
                .abort("workers of other nodes synchronize replicas, but a worker of this node was dropped");
        }
    }

    fn broken(&self, peer: NodeId, what: &str) {
        self.membership.abort(&format!("node {peer} broke the protocol: {what}"));
    }
}
