//! Messages of holders to owners about single keys: asking for a replica, refusing one, and dropping it.

use crate::channel::core::Core;
use crate::channel::effects::{Effect, Output};
use crate::outgoing::replication::RequestRoute;
use intendant_core::{Element, Key, Precision};
use intendant_techniques::{Role, SlotState};
use intendant_wire::ReplicaRequestKind;

/// The route of a holder's request about `key`: to the owner, as far as this node knows. Only deltas may be
/// written with another precision than `Exact`.
pub(super) fn route_to_owner<E: Element>(
    core: &Core<E>,
    key: Key,
    state: &SlotState,
    kind: ReplicaRequestKind,
    precision: Precision,
) -> RequestRoute {
    RequestRoute { to: core.first_hop(key, state), holder: core.node(), kind, precision, hops: 0 }
}

/// Asks the owner (the home, if homes decide) for a replica of `key` with all updates up to clock `need`.
pub(super) fn ask<E: Element>(
    core: &Core<E>,
    out: &mut Output,
    key: Key,
    state: &SlotState,
    generation: u32,
    need: u32,
) {
    if !core.policy().homes_decide() {
        ask_owner(core, out, key, state, generation, need);
        return;
    }
    let home = core.shared.directory().home(key);
    if home == core.node() {
        out.effects.push(Effect::AskHome { key, generation, need });
        return;
    }
    let (kind, precision) = (ReplicaRequestKind::Ask, Precision::Exact);
    let route = RequestRoute { to: home, holder: core.node(), kind, precision, hops: 0 };
    out.outgoing.replication.request(route, key, generation, need, (core.value_bytes(key), 0), |_| ());
}

/// Asks the owner for a replica of `key` with all updates up to clock `need`.
pub(crate) fn ask_owner<E: Element>(
    core: &Core<E>,
    out: &mut Output,
    key: Key,
    state: &SlotState,
    generation: u32,
    need: u32,
) {
    let route = route_to_owner(core, key, state, ReplicaRequestKind::Ask, Precision::Exact);
    out.outgoing.replication.request(route, key, generation, need, (core.value_bytes(key), 0), |_| ());
}

/// Asks the owner to drop the registration of `key` under `generation`.
pub(super) fn request_drop<E: Element>(
    core: &Core<E>,
    out: &mut Output,
    key: Key,
    state: &SlotState,
    generation: u32,
) {
    let route = route_to_owner(core, key, state, ReplicaRequestKind::Drop, Precision::Exact);
    out.outgoing.replication.request(route, key, generation, 0, (core.value_bytes(key), 0), |_| ());
}

/// Refuses a set-up under an old generation. Otherwise the owner would go on to treat this node as a holder.
pub(super) fn refuse<E: Element>(core: &Core<E>, out: &mut Output, key: Key, generation: u32) {
    let (entry, role) = core.shared.latch(key);
    let state = entry.state();
    drop(entry);
    if matches!(role, Role::Absent | Role::Replica) {
        request_drop(core, out, key, &state, generation);
    }
}
