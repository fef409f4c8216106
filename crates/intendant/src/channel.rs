//! A channel's thread: its engine, its fabric, its inbox.

use crate::control::Failure;
use crate::health::Health;
use crate::inbox::{Command, Inbox};
use crate::node::NetworkStats;
use crate::plane::Plane;
use crate::worker::Delivery;
use crossbeam_channel::Sender;
use intendant_core::{Element, NodeId};
use intendant_engine::{Action, Channel, Input};
use intendant_transport::{Fabric, FabricBuilder, FabricEvent, Sent};
use intendant_wire::Message;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Inputs of one kind that are handled before the other kind gets its turn and what they caused is written. Enough to share
/// the cost of a system call, few enough to keep answers moving.
const INPUTS_PER_TURN_MAX: usize = 64;

/// What a channel's thread works with.
pub(crate) struct Post<E> {
    pub(crate) channel: Channel<E>,
    pub(crate) inbox: Inbox,
    /// By worker.
    pub(crate) workers: Vec<Sender<Delivery>>,
    pub(crate) plane: Arc<Plane>,
    pub(crate) health: Arc<Health>,
    pub(crate) traffic: Arc<Traffic>,
    /// What of the fabric's counts is in `traffic` already.
    pub(crate) counted: Sent,
}

/// What the channels of a node have sent.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl Traffic {
    pub(crate) fn stats(&self) -> NetworkStats {
        // Relaxed: statistics.
        NetworkStats {
            messages: self.messages.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// How a turn ended.
enum Turn {
    /// Something was done.
    Busy,
    /// Nothing was there to do.
    Idle,
    /// All has been said.
    Over,
}

/// Runs until told to leave, or until the cluster fails.
pub(crate) fn run<E: Element>(post: Post<E>, fabric: FabricBuilder) {
    let (plane, health) = (Arc::clone(&post.plane), Arc::clone(&post.health));
    let name = format!("channel {}", post.channel.id());
    let body = std::panic::AssertUnwindSafe(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        runtime.block_on(async {
            post.run(fabric.finish()?).await;
            Ok::<(), std::io::Error>(())
        })
    });
    let problem = match std::panic::catch_unwind(body) {
        Ok(Ok(())) => return,
        Ok(Err(error)) => format!("{name} of this node could not start: {error}"),
        Err(_) => format!("{name} of this node panicked; its message is on standard error"),
    };
    // A thread that vanished would leave everybody waiting.
    tracing::error!("{problem}");
    plane.abort(&problem);
    health.fail(Failure::misuse(problem));
}

impl<E: Element> Post<E> {
    async fn run(mut self, mut fabric: Fabric) {
        let mut actions = Vec::new();
        let mut closing = false;
        loop {
            match self.turn(&mut fabric, &mut actions, &mut closing) {
                Turn::Over => return,
                // Lets the runtime look at the sockets; readiness is noticed nowhere else.
                Turn::Busy => tokio::task::yield_now().await,
                Turn::Idle => {
                    let event = tokio::select! {
                        biased;
                        event = fabric.next() => event,
                        () = self.inbox.sleep() => continue,
                    };
                    if matches!(self.on_event(event, &mut fabric, &mut actions), Turn::Over) {
                        return;
                    }
                    fabric.try_flush();
                }
            }
        }
    }

    fn turn(&mut self, fabric: &mut Fabric, actions: &mut Vec<Action>, closing: &mut bool) -> Turn {
        let mut turn = Turn::Idle;
        for _ in 0..INPUTS_PER_TURN_MAX {
            match self.inbox.try_next() {
                None => break,
                Some(Command::Input(input)) => self.handle(input, fabric, actions),
                Some(Command::Report(reply)) => {
                    // Whoever asked may have given up.
                    let _ = reply.send(self.channel.report());
                }
                Some(Command::Close) if !*closing => {
                    *closing = true;
                    fabric.close();
                }
                Some(Command::Close) => {}
                Some(Command::Stop) if *closing && fabric.nodes() > 1 && self.health.check().is_ok() => {}
                Some(Command::Stop) => return Turn::Over,
            }
            turn = Turn::Busy;
        }
        for _ in 0..INPUTS_PER_TURN_MAX {
            let Some(event) = fabric.try_next() else { break };
            turn = self.on_event(event, fabric, actions);
            if matches!(turn, Turn::Over) {
                return turn;
            }
        }
        fabric.try_flush();
        self.count(fabric.sent());
        turn
    }

    fn count(&mut self, sent: Sent) {
        let before = std::mem::replace(&mut self.counted, sent);
        // Relaxed: statistics.
        self.traffic.messages.fetch_add(sent.messages - before.messages, Ordering::Relaxed);
        self.traffic.bytes.fetch_add(sent.bytes - before.bytes, Ordering::Relaxed);
    }

    fn on_event(&mut self, event: FabricEvent, fabric: &mut Fabric, actions: &mut Vec<Action>) -> Turn {
        match event {
            FabricEvent::Frame { from, frame } => match Message::decode(frame) {
                Ok(message) => self.handle(Input::Message { from, message }, fabric, actions),
                Err(error) => self.broken(from, &error.to_string()),
            },
            // A peer leaves after everybody has agreed to; what it asked for has been answered.
            FabricEvent::Closed { .. } => {}
            FabricEvent::Lost { peer, error } => self.plane.lost(peer, &error.to_string()),
            FabricEvent::Finished => return Turn::Over,
        }
        Turn::Busy
    }

    fn handle(&mut self, input: Input, fabric: &mut Fabric, actions: &mut Vec<Action>) {
        let result = self.channel.handle(input, actions);
        for action in actions.drain(..) {
            match action {
                Action::Send { to, message } => fabric.send(to, message.encode()),
                // A worker that is gone waits for nothing.
                Action::Complete { worker, completion } => {
                    if let Some(worker) = self.workers.get(worker.index()) {
                        let _ = worker.send(Delivery::Completion(completion));
                    }
                }
                Action::CompleteSnapshot { worker, part } => {
                    if let Some(worker) = self.workers.get(worker.index()) {
                        let _ = worker.send(Delivery::Snapshot(part));
                    }
                }
            }
        }
        if let Err(violation) = result {
            self.broken(violation.from, &violation.what);
        }
    }

    fn broken(&self, peer: NodeId, what: &str) {
        self.plane.abort(&format!("node {peer} broke the protocol: {what}"));
    }
}
