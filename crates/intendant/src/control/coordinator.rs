//! The coordinator as a state machine: who has which seat, which gathers are open, who is silent, and how the cluster ends.
//!
//! One mutation, then the caller carries out what it finds in `out`, in order. A cluster ends once, by everybody's leaving or
//! by a failure, and everybody is told the same. Node 0's own seat is told *last*, when the other streams have ended or a
//! short time has passed: its process hosts the coordinator, and must not be gone before the others know why.
//!
//! Absent on purpose: streams, tokens (checked before anything gets here), the clock.

use super::failure::{Failure, shorten};
use super::gathers::Gathers;
use super::proto::{
    self, Closed, Complete, Failed, FromMember, HealthReply, Join, Refused, Waiting, failed, from_member,
    health_reply, refused, to_member,
};
use super::watch::{Pace, Watch};
use intendant_core::{ElementType, NodeId, Tick};
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// How long reports of broken data connections are held back: a node that died breaks its own stream at once, so that whoever
/// is left after this time is accused by the data plane only.
pub(super) const REPORT_US: u64 = 1_500_000;

/// How long node 0's own seat waits for the others to take note of the end. A stopped process never does.
pub(super) const FAREWELL_US: u64 = 500_000;

/// What joining nodes are compared with: node 0's own introduction.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub(super) protocol: u32,
    pub(super) version: String,
    pub(super) nodes: usize,
    pub(super) layout: u64,
    pub(super) element: ElementType,
    pub(super) channels: u16,
    /// How long to wait for all nodes, in microseconds.
    pub(super) deadline_us: u64,
}

/// What the shell has to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Put the message on the node's stream; order is kept.
    Send {
        /// The node.
        to: NodeId,
        /// What.
        message: to_member::Kind,
    },
    /// End the node's stream after what was sent.
    HangUp {
        /// The node.
        to: NodeId,
    },
    /// A sentence for the log.
    Note(String),
    /// A sentence for the log that its reader may have to act on.
    Warning(String),
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hangup {
    /// It was closed or broke.
    Gone,
    /// It carried something that is not a message of this protocol.
    Garbage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Absent,
    Present,
    /// Said goodbye; its stream is still open.
    Left,
    /// Its stream has ended.
    Ended,
}

#[derive(Clone, Debug)]
struct Seat {
    presence: Presence,
    watch: Watch,
    address: Option<SocketAddr>,
}

/// How the cluster ended.
#[derive(Clone, Debug)]
enum Verdict {
    Closed,
    Failed(Failure),
    Incomplete(Vec<NodeId>),
}

#[derive(Clone, Debug)]
enum Phase {
    Joining,
    Running,
    Over { verdict: Verdict, own_due: Tick, own_told: bool },
}

#[derive(Debug)]
struct Report {
    reporter: NodeId,
    accused: NodeId,
    reason: String,
}

/// The coordinator of one cluster.
#[derive(Debug)]
pub(super) struct Coordinator {
    expected: Expected,
    cluster: u64,
    deadline: Tick,
    seats: Vec<Seat>,
    gathers: Gathers,
    phase: Phase,
    pace: Pace,
    reports: Vec<Report>,
    reports_due: Tick,
}

impl Coordinator {
    pub(super) fn new(now: Tick, expected: Expected, cluster: u64) -> Self {
        let seat = Seat { presence: Presence::Absent, watch: Watch::new(now), address: None };
        Self {
            deadline: now.after(expected.deadline_us),
            seats: vec![seat; expected.nodes],
            gathers: Gathers::new(expected.nodes),
            phase: Phase::Joining,
            pace: Pace::new(now),
            reports: Vec::new(),
            reports_due: now,
            cluster,
            expected,
        }
    }

    /// A node asks for a seat.
    ///
    /// # Errors
    /// The refusal to send it; nothing has changed then.
    pub(super) fn join(
        &mut self,
        now: Tick,
        join: Join,
        out: &mut Vec<Action>,
    ) -> Result<NodeId, Box<Refused>> {
        let (rank, address) = self.admit(&join)?;
        self.seats[rank.index()] =
            Seat { presence: Presence::Present, watch: Watch::new(now), address: Some(address) };
        if join.version != self.expected.version {
            let (theirs, ours) = (&join.version, &self.expected.version);
            out.push(Action::Note(format!("node {rank} runs version {theirs}, the coordinator {ours}")));
        }
        let missing = self.missing();
        if missing.is_empty() {
            self.phase = Phase::Running;
            let data_addresses = self
                .seats
                .iter()
                .filter_map(|seat| seat.address)
                .map(|address| address.to_string())
                .collect();
            let complete = Complete { cluster: self.cluster, data_addresses };
            self.to_all(to_member::Kind::Complete(complete), out);
        } else {
            out.push(Action::Send { to: rank, message: waiting(&missing) });
        }
        Ok(rank)
    }

    /// Compares everything that must be equal, first what the rest is read with.
    fn admit(&self, join: &Join) -> Result<(NodeId, SocketAddr), Box<Refused>> {
        use refused::Why;
        let refuse = |why: Why, cluster: u64, joining: u64, detail: String| {
            Err(Box::new(Refused { why: why.into(), cluster, joining, detail, failure: None }))
        };
        let Expected { protocol, version, nodes, layout, element, channels, .. } = &self.expected;
        if join.protocol != *protocol {
            return refuse(Why::Protocol, (*protocol).into(), join.protocol.into(), version.clone());
        }
        if join.nodes as usize != *nodes {
            return refuse(Why::WorldSize, *nodes as u64, join.nodes.into(), String::new());
        }
        if join.rank as usize >= *nodes {
            return refuse(Why::Rank, *nodes as u64, join.rank.into(), String::new());
        }
        if join.layout != *layout {
            return refuse(Why::Layout, *layout, join.layout, String::new());
        }
        if join.element != *element as u32 {
            return refuse(Why::Element, *element as u64, join.element.into(), String::new());
        }
        if join.channels != u32::from(*channels) {
            return refuse(Why::Channels, (*channels).into(), join.channels.into(), String::new());
        }
        if let Phase::Over { verdict, .. } = &self.phase {
            let mut over = refuse(Why::Over, 0, 0, verdict.text(&self.expected));
            if let (Err(refused), Verdict::Failed(failure)) = (&mut over, verdict) {
                refused.failure = Some(failure.to_wire());
            }
            return over;
        }
        let seat = &self.seats[join.rank as usize];
        match seat.presence {
            Presence::Present => {
                let place = seat.address.map(|address| address.to_string()).unwrap_or_default();
                return refuse(Why::DuplicateRank, 0, join.rank.into(), place);
            }
            Presence::Left | Presence::Ended => {
                return refuse(Why::Over, 0, 0, format!("node {} has left it", join.rank));
            }
            Presence::Absent => {}
        }
        match join.data_address.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_unspecified() => {
                refuse(Why::Address, 0, 0, "it stands for all addresses of a machine".into())
            }
            Ok(address) if address.port() == 0 => refuse(Why::Address, 0, 0, "its port is 0".into()),
            Ok(address) => Ok((NodeId(join.rank as u16), address)),
            Err(error) => refuse(Why::Address, 0, 0, error.to_string()),
        }
    }

    /// A message of a node that has a seat.
    pub(super) fn receive(&mut self, now: Tick, from: NodeId, message: FromMember, out: &mut Vec<Action>) {
        let running = match self.phase {
            Phase::Over { .. } => return,
            Phase::Joining => false,
            Phase::Running => true,
        };
        self.seats[from.index()].watch.heard(now);
        match message.kind {
            Some(from_member::Kind::Beat(_)) => {}
            Some(from_member::Kind::Abort(abort)) => {
                self.fail(now, Failure::aborted(from, shorten(abort.reason)), out);
            }
            Some(from_member::Kind::Contribution(part)) if running => {
                match self.gathers.contribute(now, from, part) {
                    Ok(Some(messages)) => {
                        for message in messages {
                            self.to_all(to_member::Kind::Gathered(message), out);
                        }
                    }
                    Ok(None) => self.check_leavers(now, out),
                    Err(reason) => self.fail(now, Failure::disagreement(from, reason), out),
                }
            }
            Some(from_member::Kind::Leave(_)) if running => {
                self.seats[from.index()].presence = Presence::Left;
                if self.seats.iter().all(|seat| seat.presence != Presence::Present) {
                    self.end(now, Verdict::Closed, out);
                } else {
                    self.check_leavers(now, out);
                }
            }
            Some(from_member::Kind::Lost(lost)) if running => {
                let accused =
                    u16::try_from(lost.rank).ok().map(NodeId).filter(|n| n.index() < self.seats.len());
                match accused {
                    Some(accused) => self.report(now, from, accused, shorten(lost.reason)),
                    None => {
                        let reason = format!("reports the loss of node {}, which does not exist", lost.rank);
                        self.fail(now, Failure::disagreement(from, reason), out);
                    }
                }
            }
            Some(
                from_member::Kind::Join(_)
                | from_member::Kind::Contribution(_)
                | from_member::Kind::Leave(_)
                | from_member::Kind::Lost(_),
            )
            | None => self.fail(now, Failure::disagreement(from, "sent a message out of turn"), out),
        }
    }

    /// The stream of a node that has a seat ended.
    pub(super) fn hung_up(&mut self, now: Tick, node: NodeId, how: Hangup, out: &mut Vec<Action>) {
        let seat = &mut self.seats[node.index()];
        let before = std::mem::replace(&mut seat.presence, Presence::Ended);
        match self.phase {
            Phase::Over { .. } => self.tell_own(now, out),
            Phase::Joining | Phase::Running if before == Presence::Present => {
                let reason = match how {
                    Hangup::Gone => "closed its connection without leaving",
                    Hangup::Garbage => "sent something that is not a message of the control plane",
                };
                self.fail(now, Failure::lost(node, reason), out);
            }
            Phase::Joining | Phase::Running => {}
        }
    }

    /// Time has passed.
    pub(super) fn turn(&mut self, now: Tick, out: &mut Vec<Action>) {
        let turn = self.pace.turn(now);
        if turn.away {
            self.seats.iter_mut().for_each(|seat| seat.watch.excuse(now));
        }
        match self.phase {
            Phase::Over { .. } => return self.tell_own(now, out),
            Phase::Joining if now >= self.deadline => {
                let missing = self.missing();
                return self.end(now, Verdict::Incomplete(missing), out);
            }
            Phase::Joining | Phase::Running => {}
        }
        let mut seats = (0..).map(NodeId).zip(&self.seats);
        let overdue = seats.find_map(|(node, seat)| match seat.presence {
            Presence::Present => Some((node, seat.watch.overdue(now)?)),
            Presence::Absent | Presence::Left | Presence::Ended => None,
        });
        if let Some((node, reason)) = overdue {
            return self.fail(now, Failure::lost(node, reason), out);
        }
        if !self.reports.is_empty() && now >= self.reports_due {
            let failure = self.most_accused();
            return self.fail(now, failure, out);
        }
        if turn.beat {
            let message = match self.phase {
                Phase::Joining => waiting(&self.missing()),
                Phase::Running | Phase::Over { .. } => to_member::Kind::Beat(proto::Beat {}),
            };
            self.to_all(message, out);
            out.extend(self.gathers.mentions(now).into_iter().map(Action::Warning));
        }
    }

    /// Whether everybody has been told of the end and nobody's stream is open any more.
    pub(super) fn finished(&self) -> bool {
        let open = |seat: &Seat| matches!(seat.presence, Presence::Present | Presence::Left);
        matches!(self.phase, Phase::Over { own_told: true, .. }) && !self.seats[1..].iter().any(open)
    }

    /// What tools are told.
    pub(super) fn health(&self, now: Tick) -> HealthReply {
        use health_reply::{Gather, Member, State, member};
        let (state, failure) = match &self.phase {
            Phase::Joining => (State::Joining, String::new()),
            Phase::Running => (State::Running, String::new()),
            Phase::Over { verdict: Verdict::Closed, .. } => (State::Closed, String::new()),
            Phase::Over { verdict, .. } => (State::Failed, verdict.text(&self.expected)),
        };
        let members = (0..).zip(&self.seats).map(|(rank, seat)| Member {
            rank,
            state: match seat.presence {
                Presence::Absent => member::State::Absent,
                Presence::Present => member::State::Present,
                Presence::Left => member::State::Left,
                Presence::Ended => member::State::Ended,
            }
            .into(),
            data_address: seat.address.map(|address| address.to_string()).unwrap_or_default(),
            silent_ms: seat.watch.silence_us(now) / 1000,
        });
        let gathers = self.gathers.open().map(|open| Gather {
            name: open.name.to_owned(),
            missing: open.missing.iter().map(|node| node.0.into()).collect(),
            waiting_ms: now.0.saturating_sub(open.since.0) / 1000,
        });
        HealthReply {
            state: state.into(),
            cluster: self.cluster,
            version: self.expected.version.clone(),
            members: members.collect(),
            gathers: gathers.collect(),
            failure,
        }
    }

    fn missing(&self) -> Vec<NodeId> {
        let seats = (0..).map(NodeId).zip(&self.seats);
        seats.filter(|(_, seat)| seat.presence == Presence::Absent).map(|(node, _)| node).collect()
    }

    /// A gather that waits for a node that has left can never complete.
    fn check_leavers(&mut self, now: Tick, out: &mut Vec<Action>) {
        let gone = |seat: &Seat| matches!(seat.presence, Presence::Left | Presence::Ended);
        let stuck =
            (0..).map(NodeId).zip(&self.seats).filter(|(_, seat)| gone(seat)).find_map(|(node, _)| {
                let (name, waits) = self.gathers.waiting_for(node)?;
                Some((node, format!("left the cluster while node {waits} waits for it in '{name}'")))
            });
        if let Some((node, reason)) = stuck {
            self.fail(now, Failure::disagreement(node, reason), out);
        }
    }

    fn report(&mut self, now: Tick, reporter: NodeId, accused: NodeId, reason: String) {
        let known = |report: &Report| report.reporter == reporter && report.accused == accused;
        // A node that has left may close its connections.
        if self.seats[accused.index()].presence != Presence::Present || self.reports.iter().any(known) {
            return;
        }
        if self.reports.is_empty() {
            self.reports_due = now.after(REPORT_US);
        }
        self.reports.push(Report { reporter, accused, reason });
    }

    /// The node that most others have lost; among equals the one reported first.
    fn most_accused(&self) -> Failure {
        let reporters = |accused: NodeId| {
            let reports = self.reports.iter().filter(|report| report.accused == accused);
            reports.map(|report| report.reporter).collect::<BTreeSet<_>>()
        };
        let first = self.reports.iter().rev().max_by_key(|report| reporters(report.accused).len());
        match first {
            Some(Report { reporter, accused, reason }) => {
                Failure::lost(*accused, format!("is lost to node {reporter}: {reason}"))
            }
            None => Failure::lost(NodeId(0), "ended the cluster without a reason"),
        }
    }

    fn fail(&mut self, now: Tick, failure: Failure, out: &mut Vec<Action>) {
        self.end(now, Verdict::Failed(failure), out);
    }

    fn end(&mut self, now: Tick, verdict: Verdict, out: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Over { .. }) {
            return;
        }
        out.push(Action::Note(verdict.text(&self.expected)));
        let message = verdict.message();
        self.phase = Phase::Over { verdict, own_due: now.after(FAREWELL_US), own_told: false };
        self.gathers.clear();
        for to in self.listeners().into_iter().filter(|&to| to != NodeId(0)) {
            out.push(Action::Send { to, message: message.clone() });
            out.push(Action::HangUp { to });
        }
        self.tell_own(now, out);
    }

    /// Tells node 0's own seat of the end, once its time has come.
    fn tell_own(&mut self, now: Tick, out: &mut Vec<Action>) {
        let others = self.listeners().into_iter().any(|node| node != NodeId(0));
        if let Phase::Over { verdict, own_due, own_told } = &mut self.phase
            && !*own_told
            && (!others || now >= *own_due)
        {
            *own_told = true;
            out.push(Action::Send { to: NodeId(0), message: verdict.message() });
            out.push(Action::HangUp { to: NodeId(0) });
        }
    }

    /// Nodes whose streams are open.
    fn listeners(&self) -> Vec<NodeId> {
        let seats = (0..).map(NodeId).zip(&self.seats);
        seats
            .filter(|(_, seat)| matches!(seat.presence, Presence::Present | Presence::Left))
            .map(|(node, _)| node)
            .collect()
    }

    fn to_all(&self, message: to_member::Kind, out: &mut Vec<Action>) {
        let sends = self.listeners().into_iter().map(|to| Action::Send { to, message: message.clone() });
        out.extend(sends);
    }
}

impl Verdict {
    fn message(&self) -> to_member::Kind {
        match self {
            Self::Closed => to_member::Kind::Closed(Closed {}),
            Self::Failed(failure) => to_member::Kind::Failed(failure.to_wire()),
            Self::Incomplete(missing) => to_member::Kind::Failed(Failed {
                kind: failed::Kind::Incomplete.into(),
                rank: None,
                reason: String::new(),
                missing: ranks(missing),
            }),
        }
    }

    fn text(&self, expected: &Expected) -> String {
        match self {
            Self::Closed => "all nodes have left it".to_owned(),
            Self::Failed(failure) => failure.to_string(),
            Self::Incomplete(missing) => {
                let seconds = expected.deadline_us / 1_000_000;
                format!("of {} nodes {missing:?} did not join within {seconds} s", expected.nodes)
            }
        }
    }
}

fn ranks(nodes: &[NodeId]) -> Vec<u32> {
    nodes.iter().map(|node| node.0.into()).collect()
}

fn waiting(missing: &[NodeId]) -> to_member::Kind {
    to_member::Kind::Waiting(Waiting { missing: ranks(missing) })
}

#[cfg(test)]
#[path = "coordinator_tests.rs"]
mod tests;
