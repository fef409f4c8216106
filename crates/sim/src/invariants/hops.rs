//! A request is forwarded a bounded number of times.
//!
//! | keys move | bound | why |
//! | --- | --- | --- |
//! | never | 0; 1 with hints | the node of a stale hint forwards to the home, which owns the key |
//! | as the home decides | 1; 2 with caches | as above; the home knows the owner, or the next one |
//! | as owners decide | relocations since what the sender knew | each forward follows newer knowledge |
//! | the same, over the home | relocations since what the home knew, plus 1 | the home forwards once |
//!
//! The last bound counts more than the relocations during the flight: what a sender remembers may be old, and
//! then its request visits all owners since. A sender that knows nothing asks the home, and what the home
//! knows may be old as well.

use super::{Finding, Ledger};
use hashbrown::HashMap;
use intendant_core::{Key, NodeId};
use intendant_techniques::{Initiator, Policy};
use intendant_wire::{Origin, ReplicaRequest, Request};

/// The bound in force.
pub(crate) enum Hops {
    /// The same for all requests.
    Fixed(u8),
    /// Per access and per message of a holder about a key, the counter of what its sender knew.
    PerFlight { accesses: HashMap<(Origin, u32), u32, Hash>, words: HashMap<Word, u32, Hash> },
}

/// What a holder says about a key: holder, key, kind, generation, number.
type Word = (NodeId, Key, u8, u32, u32);

type Hash = foldhash::fast::FixedState;

impl Hops {
    pub(crate) fn new(policy: &Policy) -> Self {
        match policy.relocation {
            None => Self::Fixed(u8::from(policy.caches)),
            Some(Initiator::Requester) => Self::Fixed(1 + u8::from(policy.caches)),
            Some(Initiator::Owner) => {
                Self::PerFlight { accesses: HashMap::default(), words: HashMap::default() }
            }
        }
    }

    /// A request leaves a node. `known` tells the counter of what that node knows of a key.
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

    /// What a holder says leaves a node. As with requests; where keys do not move, it is never forwarded. It
    /// may take a `detour` of so many forwards.
    pub(crate) fn said(
        &mut self,
        sync: &ReplicaRequest,
        ledger: &Ledger,
        detour: u32,
        known: impl Fn(Key) -> u32,
    ) -> Result<(), Finding> {
        let ReplicaRequest { kind, holder, hops, keys, generations, numbers, .. } = sync;
        for (at, key) in keys.iter().enumerate() {
            let bound = match self {
                Self::Fixed(_) => 0,
                Self::PerFlight { words, .. } => {
                    let number = numbers.get(at).copied().unwrap_or_default();
                    let word = (*holder, *key, *kind as u8, generations[at], number);
                    if *hops == 0 {
                        words.entry(word).or_insert_with(|| known(*key));
                    }
                    detour + ledger.place(*key).counter - words.get(&word).copied().unwrap_or_default()
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
