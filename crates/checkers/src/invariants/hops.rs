//! Hops: a request is forwarded a bounded number of times.
//!
//! | relocation | bound | reason |
//! | --- | --- | --- |
//! | none | 0; 1 with hints | the node that a stale hint names forwards to the home, which owns the key |
//! | the home decides | 1; 2 with caches, requests | as above; the home knows the next owner |
//! | owners decide | relocations since the sender's knowledge | each forward follows newer knowledge |
//! | owners decide, via the home | relocations since the home's knowledge, plus 1 | the home forwards once |
//!
//! The last two bounds count more than the relocations during the flight: if the sender's or the home's
//! knowledge is old, the request visits all owners since.

use super::Ledger;
use hashbrown::HashMap;
use intendant_core::{Key, NodeId};
use intendant_sim::Finding;
use intendant_techniques::{Initiator, Location, Policy};
use intendant_wire::{Origin, ReplicaRequest, Request};

/// The bound in force.
pub(crate) enum Hops {
    /// The same for all requests.
    Fixed(u8),
    /// Per access, and per holder's message about a key: the relocation counter that the sender knew.
    PerFlight {
        accesses: HashMap<(Origin, u32), u32, Hash>,
        replica_messages: HashMap<ReplicaMessage, u32, Hash>,
    },
}

/// A holder's message about a key: holder, key, kind, generation, number.
type ReplicaMessage = (NodeId, Key, u8, u32, u32);

type Hash = foldhash::fast::FixedState;

impl Hops {
    pub(crate) fn new(policy: &Policy) -> Self {
        match policy.relocation {
            None => Self::Fixed(u8::from(policy.caches())),
            Some(Initiator::Requester) => match policy.location {
                Location::Home { caches } => Self::Fixed(1 + u8::from(caches)),
                Location::Request => Self::Fixed(2),
                Location::BroadcastOperations => Self::Fixed(0),
                Location::BroadcastRelocations => Self::per_flight(),
            },
            Some(Initiator::Owner) => Self::per_flight(),
        }
    }

    fn per_flight() -> Self {
        Self::PerFlight { accesses: HashMap::default(), replica_messages: HashMap::default() }
    }

    /// Checks a request that leaves a node. `known` returns the relocation counter that the node knows of a
    /// key.
    pub(crate) fn sent(
        &mut self,
        request: &Request,
        ledger: &Ledger,
        known: impl Fn(Key) -> u32,
    ) -> Result<(), Finding> {
        let Request { hops, keys, positions, origin, .. } = request;
        let finding = |keys: &[Key], bound: u32| {
            let node = origin.node;
            Err((
                "hops",
                format!("a request of {node:?} for {keys:?} is forwarded {hops} times; the bound is {bound}"),
            ))
        };
        match self {
            Self::Fixed(max) if *hops <= *max => Ok(()),
            Self::Fixed(max) => finding(keys, u32::from(*max)),
            Self::PerFlight { accesses: flights, .. } => {
                for (key, position) in keys.iter().zip(positions) {
                    let flight = (*origin, *position);
                    if *hops == 0 {
                        flights.insert(flight, known(*key));
                        continue;
                    }
                    let start = flights.get(&flight).copied().unwrap_or_default();
                    let bound = ledger.place(*key).counter - start;
                    if u32::from(*hops) > bound {
                        return finding(&[*key], bound);
                    }
                }
                Ok(())
            }
        }
    }

    /// Checks a holder's message that leaves a node. The bounds are those of requests, plus `detour`; where
    /// keys do not move, messages are never forwarded.
    pub(crate) fn replica_request_sent(
        &mut self,
        request: &ReplicaRequest,
        ledger: &Ledger,
        detour: u32,
        known: impl Fn(Key) -> u32,
    ) -> Result<(), Finding> {
        let ReplicaRequest { kind, holder, hops, keys, generations, numbers, .. } = request;
        for (at, key) in keys.iter().enumerate() {
            let bound = match self {
                Self::Fixed(_) => 0,
                Self::PerFlight { replica_messages, .. } => {
                    let number = numbers.get(at).copied().unwrap_or_default();
                    let message = (*holder, *key, *kind as u8, generations[at], number);
                    if *hops == 0 {
                        replica_messages.entry(message).or_insert_with(|| known(*key));
                    }
                    detour + ledger.place(*key).counter
                        - replica_messages.get(&message).copied().unwrap_or_default()
                }
            };
            if u32::from(*hops) > bound {
                let what = format!("a {kind:?} of {holder:?} for {key:?} is forwarded {hops} times");
                return Err(("hops", format!("{what}; the bound is {bound}")));
            }
        }
        Ok(())
    }
}
