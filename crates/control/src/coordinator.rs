//! The coordinator as a state machine: seats, open gathers, silent nodes, and the end of the cluster.
//!
//! The caller calls one method, and then executes the actions in `out`, in order. A cluster ends once,
//! because all nodes have left or because of a failure, and all nodes get the same reason. Node 0's own seat
//! gets the reason *last*, when the other streams have ended or a short time has passed: its process hosts
//! the coordinator, and must not end before the others know the reason.
//!
//! While the cluster is forming, a node that differs from node 0 ends the cluster: that node will not return
//! with other settings, and the others would wait for it in vain. Once the cluster is complete, refused nodes
//! do not disturb it.
//!
//! The coordinator has no streams and no clock. The server checks tokens before it calls this module.

use crate::failure::{Failure, FailureKind, shorten};
use crate::gathers::Gathers;
use crate::proto::{
    self, Closed, Complete, Failed, FromMember, HealthReply, Join, Refused, Setting, Waiting, failed,
    from_member, health_reply, refused, to_member,
};
use crate::watch::{BeatTimer, Watch};
use intendant_core::{ElementType, NodeId, Tick};
use intendant_transport::Address;
use intendant_transport::socket::InvalidUnixName;
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// How long the coordinator holds reports of broken data connections back. A node that died breaks its own
/// stream at once, so a node that is still accused after this time has lost data connections only.
pub(super) const REPORT_US: u64 = 1_500_000;

/// How long node 0's own seat waits until the others have taken note of the end. A stopped process never
/// does.
pub(super) const FAREWELL_US: u64 = 500_000;

/// How long after a process has claimed the rank of a missing node with another token that node may still
/// join. A stranger or a process left over from another run should not end a cluster whose nodes all join.
pub(super) const TOKEN_GRACE_US: u64 = 3_000_000;

/// Node 0's own introduction, with which joining nodes are compared.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub(super) protocol: u32,
    pub(super) version: String,
    pub(super) nodes: usize,
    pub(super) layout: u64,
    /// Element type and channels of the data plane, if the cluster has one.
    pub(super) data: Option<(ElementType, u16)>,
    pub(super) settings: Vec<(String, String)>,
    /// How long to wait for all nodes, in microseconds.
    pub(super) deadline_us: u64,
}

/// Work for the shell.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Send the message on the node's stream, in order.
    Send {
        /// The node.
        to: NodeId,
        /// The message.
        message: to_member::Kind,
    },
    /// End the node's stream after what was sent.
    HangUp {
        /// The node.
        to: NodeId,
    },
    /// A sentence for the log.
    Note(String),
    /// A warning for the log: its reader may have to act.
    Warning(String),
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hangup {
    /// It was closed or broke.
    Gone,
    /// It carried data that are not a message of this protocol.
    Garbage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Absent,
    Present,
    /// It has said goodbye; its stream is still open.
    Left,
    /// Its stream has ended.
    Ended,
}

#[derive(Clone, Debug)]
struct Seat {
    presence: Presence,
    /// Whether its node was refused, so that it knows how the cluster ended.
    refused: bool,
    watch: Watch,
    address: Option<Address>,
}

/// How the cluster ended.
#[derive(Clone, Debug)]
enum ClusterEnd {
    Closed,
    Failed(Failure),
    Incomplete(Vec<NodeId>),
}

#[derive(Clone, Debug)]
enum Phase {
    Joining,
    Running,
    Over { end: ClusterEnd, own_due: Tick, own_told: bool },
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
    beats: BeatTimer,
    reports: Vec<Report>,
    reports_due: Tick,
    /// A missing node whose rank a process claimed with another token, and the time at which the coordinator
    /// gives the node up.
    shut_out: Option<(Tick, NodeId)>,
}

impl Coordinator {
    pub(super) fn new(now: Tick, expected: Expected, cluster: u64) -> Self {
        let seat = Seat { presence: Presence::Absent, refused: false, watch: Watch::new(now), address: None };
        Self {
            deadline: now.after(expected.deadline_us),
            seats: vec![seat; expected.nodes],
            gathers: Gathers::new(expected.nodes),
            phase: Phase::Joining,
            beats: BeatTimer::new(now),
            reports: Vec::new(),
            reports_due: now,
            shut_out: None,
            cluster,
            expected,
        }
    }

    /// A node asks for a seat.
    ///
    /// # Errors
    /// The refusal to send to the node. A cluster that is still forming is over then.
    pub(super) fn join(
        &mut self,
        now: Tick,
        join: Join,
        out: &mut Vec<Action>,
    ) -> Result<NodeId, Box<Refused>> {
        let (rank, address) = match self.admit(&join) {
            Ok(admitted) => admitted,
            Err(refused) => {
                let node = u16::try_from(join.rank).ok().map(NodeId);
                if let Some(seat) = node.and_then(|node| self.seats.get_mut(node.index())) {
                    seat.refused = true;
                }
                if matches!(self.phase, Phase::Joining) {
                    self.fail(now, Failure::mismatch(node, self.difference(join.rank, &refused)), out);
                }
                return Err(refused);
            }
        };
        self.seats[rank.index()] =
            Seat { presence: Presence::Present, refused: false, watch: Watch::new(now), address };
        if join.version != self.expected.version {
            let (theirs, ours) = (&join.version, &self.expected.version);
            out.push(Action::Note(format!("node {rank} runs version {theirs}, the coordinator {ours}")));
        }
        let missing = self.missing();
        if missing.is_empty() {
            self.phase = Phase::Running;
            let addresses = self.seats.iter().filter_map(|seat| seat.address);
            let (data_addresses, data_sockets) = addresses
                .map(|Address { tcp, unix }| {
                    (tcp.to_string(), unix.map(|name| name.to_string()).unwrap_or_default())
                })
                .unzip();
            let complete = Complete { cluster: self.cluster, data_addresses, data_sockets };
            self.to_all(to_member::Kind::Complete(complete), out);
        } else {
            out.push(Action::Send { to: rank, message: waiting(&missing) });
        }
        Ok(rank)
    }

    /// A process that calls itself node `rank` of `nodes` showed another token than the cluster's.
    pub(super) fn shut_out(&mut self, now: Tick, rank: u32, nodes: u32) {
        let seat = self.seats.get(rank as usize).filter(|_| nodes as usize == self.seats.len());
        let missing = seat.is_some_and(|seat| seat.presence == Presence::Absent);
        if missing && matches!(self.phase, Phase::Joining) && self.shut_out.is_none() {
            self.shut_out = Some((now.after(TOKEN_GRACE_US), NodeId(rank as u16)));
        }
    }

    /// Data of a node arrived.
    pub(super) fn heard(&mut self, now: Tick, from: NodeId) {
        self.seats[from.index()].watch.heard(now);
    }

    /// The rest of a sentence that starts with the name of a refused node.
    pub(super) fn difference(&self, rank: u32, refused: &Refused) -> String {
        use refused::Why;
        let Refused { cluster, joining, detail, .. } = refused;
        let what = match refused.why() {
            Why::Protocol => {
                format!("it speaks protocol {joining}, and node 0 {cluster}; start all nodes from one build")
            }
            Why::WorldSize => format!(
                "it was started for {joining} nodes, and node 0 for {cluster}; start all with the same WORLD_SIZE"
            ),
            Why::Rank => format!("the {cluster} nodes have ranks from 0"),
            Why::Setting => {
                let value = |setting: &Option<Setting>| setting.clone().unwrap_or_default().value;
                let name = refused.cluster_setting.clone().unwrap_or_default().name;
                let (ours, theirs) = (value(&refused.cluster_setting), value(&refused.joining_setting));
                let what = format!("{name} is {ours} on node 0 and {theirs} on node {rank}");
                return format!("and node 0 were started differently: {what}");
            }
            Why::Layout => "its layout differs from that of node 0".to_owned(),
            Why::Element => {
                let name = |tag: u64| {
                    if tag == 0 {
                        return "none (it has no data plane)".to_owned();
                    }
                    let element = u8::try_from(tag).ok().and_then(ElementType::from_tag);
                    element.map_or_else(|| format!("of type {tag}"), |element| element.to_string())
                };
                format!("its values are {}, and those of node 0 {}", name(*joining), name(*cluster))
            }
            Why::Channels => format!("it has {joining} channels, and node 0 {cluster}"),
            Why::DuplicateRank => format!("another process has joined as node {joining} from {detail}"),
            Why::Address => format!("others cannot reach its data address: {detail}"),
            Why::Over | Why::Unknown => detail.clone(),
        };
        format!("cannot join: {what}")
    }

    /// Compares everything that must be equal, first the protocol, which the rest depends on.
    fn admit(&self, join: &Join) -> Result<(NodeId, Option<Address>), Box<Refused>> {
        use refused::Why;
        let refuse = |why: Why, cluster: u64, joining: u64, detail: String| {
            Err(Box::new(Refused { why: why.into(), cluster, joining, detail, ..Refused::default() }))
        };
        let Expected { protocol, version, nodes, layout, data, settings, .. } = &self.expected;
        if join.protocol != *protocol {
            return refuse(Why::Protocol, (*protocol).into(), join.protocol.into(), version.clone());
        }
        if join.nodes as usize != *nodes {
            return refuse(Why::WorldSize, *nodes as u64, join.nodes.into(), String::new());
        }
        if join.rank as usize >= *nodes {
            return refuse(Why::Rank, *nodes as u64, join.rank.into(), String::new());
        }
        if let Some((ours, theirs)) = first_difference(settings, &join.settings) {
            return Err(Box::new(Refused {
                why: Why::Setting.into(),
                cluster_setting: Some(ours),
                joining_setting: Some(theirs),
                ..Refused::default()
            }));
        }
        if join.layout != *layout {
            return refuse(Why::Layout, *layout, join.layout, String::new());
        }
        let (element, channels) =
            data.map_or((0, 0), |(element, channels)| (element as u32, channels.into()));
        if join.element != element {
            return refuse(Why::Element, element.into(), join.element.into(), String::new());
        }
        if join.channels != channels {
            return refuse(Why::Channels, channels.into(), join.channels.into(), String::new());
        }
        if let Phase::Over { end, .. } = &self.phase {
            let mut over = refuse(Why::Over, 0, 0, end.text(&self.expected));
            if let (Err(refused), ClusterEnd::Failed(failure)) = (&mut over, end) {
                refused.failure = Some(failure.to_wire());
            }
            return over;
        }
        let seat = &self.seats[join.rank as usize];
        match seat.presence {
            Presence::Present => {
                let place = seat.address.map(|address| address.tcp.to_string()).unwrap_or_default();
                return refuse(Why::DuplicateRank, 0, join.rank.into(), place);
            }
            Presence::Left | Presence::Ended => {
                return refuse(Why::Over, 0, 0, format!("node {} has left it", join.rank));
            }
            Presence::Absent => {}
        }
        let node = NodeId(join.rank as u16);
        if data.is_none() && join.data_address.is_empty() && join.data_socket.is_empty() {
            return Ok((node, None));
        }
        let unix = match join.data_socket.as_str() {
            "" => None,
            name => match name.parse() {
                Ok(name) => Some(name),
                Err(InvalidUnixName { .. }) => {
                    return refuse(Why::Address, 0, 0, "its Unix socket has no valid name".into());
                }
            },
        };
        match join.data_address.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_unspecified() => {
                refuse(Why::Address, 0, 0, "it stands for all addresses of a machine".into())
            }
            Ok(address) if address.port() == 0 => refuse(Why::Address, 0, 0, "its port is 0".into()),
            Ok(tcp) => Ok((node, Some(Address { tcp, unix }))),
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
            Some(from_member::Kind::GaveUp(gave_up)) => {
                self.fail(now, Failure::gave_up(from, gave_up.silent_ms), out);
            }
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
                    self.end(now, ClusterEnd::Closed, out);
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
        let turn = self.beats.turn(now);
        if turn.away {
            self.seats.iter_mut().for_each(|seat| seat.watch.excuse(now));
        }
        let shut_out = self.missing_for_its_token(now);
        match self.phase {
            Phase::Over { .. } => return self.tell_own(now, out),
            Phase::Joining if shut_out.is_some() => {
                let reason = "cannot join: its token is another one than that of node 0; give all nodes the \
                     same INTENDANT_TOKEN or INTENDANT_TOKEN_FILE, or none of them any";
                return self.fail(now, Failure::mismatch(shut_out, reason), out);
            }
            Phase::Joining if now >= self.deadline => {
                let missing = self.missing();
                return self.end(now, ClusterEnd::Incomplete(missing), out);
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

    /// The node that was shut out for its token, if it is still missing and its time is over.
    fn missing_for_its_token(&mut self, now: Tick) -> Option<NodeId> {
        let (due, node) = self.shut_out?;
        if self.seats[node.index()].presence != Presence::Absent {
            self.shut_out = None;
            return None;
        }
        (now >= due).then_some(node)
    }

    /// Whether all nodes know of the end: those that joined have no open stream any more, and after a
    /// mismatch those that had not joined were refused since.
    pub(super) fn finished(&self) -> bool {
        let mismatch = matches!(&self.phase, Phase::Over { end: ClusterEnd::Failed(failure), .. }
            if failure.kind == FailureKind::Mismatch);
        let unaware = |seat: &Seat| match seat.presence {
            Presence::Present | Presence::Left => true,
            Presence::Absent => mismatch && !seat.refused,
            Presence::Ended => false,
        };
        matches!(self.phase, Phase::Over { own_told: true, .. }) && !self.seats[1..].iter().any(unaware)
    }

    /// The state of the cluster, for tools.
    pub(super) fn health(&self, now: Tick) -> HealthReply {
        use health_reply::{Gather, Member, State, member};
        let (state, failure) = match &self.phase {
            Phase::Joining => (State::Joining, String::new()),
            Phase::Running => (State::Running, String::new()),
            Phase::Over { end: ClusterEnd::Closed, .. } => (State::Closed, String::new()),
            Phase::Over { end, .. } => (State::Failed, end.text(&self.expected)),
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
            data_address: seat.address.map(|address| address.tcp.to_string()).unwrap_or_default(),
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

    /// The node that most other nodes have lost. Among several such nodes, the one that was reported first.
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
        self.end(now, ClusterEnd::Failed(failure), out);
    }

    fn end(&mut self, now: Tick, end: ClusterEnd, out: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Over { .. }) {
            return;
        }
        out.push(Action::Note(end.text(&self.expected)));
        let message = end.message();
        self.phase = Phase::Over { end, own_due: now.after(FAREWELL_US), own_told: false };
        self.gathers.clear();
        for to in self.listeners().into_iter().filter(|&to| to != NodeId(0)) {
            out.push(Action::Send { to, message: message.clone() });
            out.push(Action::HangUp { to });
        }
        self.tell_own(now, out);
    }

    /// Reports the end to node 0's own seat, once it is due.
    fn tell_own(&mut self, now: Tick, out: &mut Vec<Action>) {
        let others = self.listeners().into_iter().any(|node| node != NodeId(0));
        if let Phase::Over { end, own_due, own_told } = &mut self.phase
            && !*own_told
            && (!others || now >= *own_due)
        {
            *own_told = true;
            out.push(Action::Send { to: NodeId(0), message: end.message() });
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

impl ClusterEnd {
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

/// The most bytes of a setting's value that a message repeats.
const VALUE_BYTES_MAX: usize = 200;

/// The first setting that two nodes do not have in common, with both values.
fn first_difference(ours: &[(String, String)], theirs: &[Setting]) -> Option<(Setting, Setting)> {
    const ABSENT: &str = "not set";
    let our = |name: &str| ours.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
    let their =
        |name: &str| theirs.iter().find(|theirs| theirs.name == name).map(|theirs| theirs.value.as_str());
    let names = ours.iter().map(|(name, _)| name).chain(theirs.iter().map(|setting| &setting.name));
    let name = names.into_iter().find(|name| our(name) != their(name))?;
    let setting = |value: Option<&str>| {
        let mut value = value.unwrap_or(ABSENT).to_owned();
        value.truncate(value.floor_char_boundary(VALUE_BYTES_MAX));
        Setting { name: name.clone(), value }
    };
    Some((setting(our(name)), setting(their(name))))
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
