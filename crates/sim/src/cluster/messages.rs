//! Short descriptions of messages, for readable traces.

use intendant_wire::Message;

/// A short description of `message`.
pub(super) fn describe_message(message: &Message) -> String {
    match message {
        Message::Request(r) => {
            let (node, worker, op) = (r.origin.node, r.origin.worker, r.origin.op);
            format!("{:?} {:?} for {node:?} {worker:?} {op:?}, {} hops", r.kind, r.keys, r.hops)
        }
        Message::Response(r) => format!("answer to {:?} {:?}, positions {:?}", r.worker, r.op, r.positions),
        Message::SnapshotRequest(r) => {
            format!("snapshot of {:?}..{:?} for {:?}", r.start, r.end, r.origin.node)
        }
        Message::Localize(m) => {
            format!("localize {:?} for {:?}, {} hops", m.keys, m.requester, m.hops)
        }
        Message::Relocate(m) => {
            format!("order to hand {:?} over to {:?}, counters {:?}", m.keys, m.to, m.counters)
        }
        Message::HandOver(m) if m.holders.is_empty() => {
            format!("hand-over of {:?}, counters {:?}", m.keys, m.counters)
        }
        Message::HandOver(m) => {
            format!("hand-over of {:?}, counters {:?}, holders {:?}", m.keys, m.counters, m.holders)
        }
        Message::Moved(m) => format!("notice that {:?} moved here, counters {:?}", m.keys, m.counters),
        Message::ReplicaRequest(m) => {
            let (holder, kind) = (m.holder, m.kind);
            let lists = (&m.keys, &m.generations, &m.numbers);
            format!("{kind:?} of {holder:?}: (keys, generations, numbers) {lists:?}, {} hops", m.hops)
        }
        Message::ReplicaUpdate(m) => {
            let lists = (&m.keys, &m.generations, &m.seqs, &m.versions);
            format!("update {:?} at clock {}: (keys, generations, seqs, versions) {lists:?}", m.kind, m.clock)
        }
        Message::Clock(m) => format!("{:?} clock {}", m.scope, m.clock),
        Message::Reduce(m) => {
            let end = if m.last { ", the last part" } else { "" };
            format!("step {} of all-reduce {}: indices {:?}{end}", m.step, m.round, m.indices)
        }
        Message::IntentReport(m) => {
            format!("intent report: begun {:?}, ended {:?}", m.begun, m.over)
        }
        Message::Locate(m) => format!("locate {:?}", m.keys),
        Message::Located(m) => format!("{:?} are at {:?}", m.keys, m.at),
        Message::Void(m) => {
            format!("void broadcasts: (keys, after, up to) {:?}", (&m.keys, &m.after, &m.upto))
        }
        Message::SnapshotPart(p) => format!("snapshot part of {} keys for {:?}", p.keys.len(), p.worker),
    }
}
