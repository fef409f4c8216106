//! Decides which view should follow another one, from the offers of processes: two pure functions, without
//! streams and without a clock.
//!
//! [`quorum`] says whether the processes that are there may choose at all, and [`successor`] which view they
//! should choose. This module does not ensure that only one view follows another one; [votes](crate::Vote)
//! do.
//!
//! **Who goes on.** All members of the last view that are there and do not leave go on, in the order of their
//! ranks; the process that leads is node 0. Then come the processes that join, at most as many as stay: if
//! all of these are lost at once, the others are a quorum of the view. A member that has not worked in a view
//! yet counts among the processes that join ([`Standing`]).
//!
//! **Where it begins.** The view begins at the newest cut of which the processes that are there hold every
//! part.

use crate::message::Offer;
use crate::view::{CutName, Next, Process, View};
use intendant_core::limits;
use std::collections::{BTreeMap, BTreeSet};

/// Why there is no next view yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undecided {
    /// Members are missing, or have not voted.
    Wait,
    /// No view can follow unless more processes come, for this reason.
    Stuck(String),
}

/// The standing of a process for the process that leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has worked as a node of the run.
    Proven,
    /// It has not, and may join.
    Welcome,
    /// It has not, and may not join yet.
    Barred,
}

/// Whether the members of a view that are there may choose the next one. If `is_patient` is true, they wait
/// for members that have not come, unless these are known to be gone.
///
/// # Errors
/// The reason, if they may not.
pub fn quorum(last: &View, offers: &BTreeMap<u64, &Offer>, is_patient: bool) -> Result<(), Undecided> {
    let gone: BTreeSet<u64> = offers.values().flat_map(|offer| offer.gone.iter().copied()).collect();
    let is_awaited = |member: &Process| !offers.contains_key(&member.id) && !gone.contains(&member.id);
    if is_patient && last.members.iter().any(is_awaited) {
        return Err(Undecided::Wait);
    }
    if last.is_quorum(|id| offers.contains_key(&id)) {
        return Ok(());
    }
    let left = last.members.iter().filter(|member| offers.contains_key(&member.id)).count();
    let all = last.members.len();
    Err(Undecided::Stuck(format!(
        "{left} of {all} nodes are left; to go on, a run needs more than half of them, or half of them with node 0"
    )))
}

/// The view that should follow `last`, with `leader` as its node 0. The leader need not be a member of
/// `last`: it may have led before it knew of that view.
///
/// # Errors
/// A sentence that says what is missing.
pub fn successor(
    last: &View,
    leader: u64,
    offers: &BTreeMap<u64, &Offer>,
    standing: impl Fn(&Process) -> Standing,
) -> Result<Next, String> {
    let (begins, sources) = begins(last, offers)?;
    let wants = offers.values().filter(|offer| !offer.leaves).map(|offer| offer.process);
    let stays = |process: &Process| {
        process.id == leader || last.has(process.id) && standing(process) == Standing::Proven
    };
    let (mut staying, mut joining): (Vec<Process>, Vec<Process>) = wants.partition(stays);
    if staying.is_empty() {
        return Err("all nodes leave".to_owned());
    }
    staying.sort_by_key(|process| (process.id != leader, last.rank(process.id)));
    joining.retain(|process| standing(process) != Standing::Barred);
    joining.truncate(staying.len().min(limits::NODES_MAX.saturating_sub(staying.len())));
    let mut next_name = last.next_name;
    let mut name = |process: &Process| {
        let known = last.rank(process.id).and_then(|rank| last.names.get(rank)).copied();
        known.unwrap_or_else(|| {
            next_name += 1;
            next_name - 1
        })
    };
    let members: Vec<Process> = staying.into_iter().chain(joining).collect();
    let names = members.iter().map(&mut name).collect();
    let mut cuts = offers.values().filter(|offer| last.has(offer.process.id)).flat_map(|offer| &offer.cuts);
    let settled = last.settled || cuts.any(|cut| cut.settled);
    let view = View { number: last.number + 1, members, names, next_name, begins, settled };
    Ok(Next { view, sources })
}

/// The newest cut of which all parts are held, and the processes that hold each part.
type Begins = (Option<CutName>, Vec<Vec<Process>>);

fn begins(last: &View, offers: &BTreeMap<u64, &Offer>) -> Result<Begins, String> {
    let mut cuts: BTreeMap<CutName, (Vec<Vec<Process>>, bool)> = BTreeMap::new();
    for offer in offers.values() {
        for cut in &offer.cuts {
            let (parts, settled) =
                cuts.entry(cut.name).or_insert_with(|| (vec![Vec::new(); cut.parts], false));
            for part in &cut.held {
                if let Some(part) = parts.get_mut(*part) {
                    part.push(offer.process);
                }
            }
            // The knowledge of processes that are no members may be older than the beginning of this view.
            *settled |= cut.settled && last.has(offer.process.id);
        }
    }
    let mut lost = None;
    for (name, (parts, settled)) in cuts.into_iter().rev() {
        match parts.iter().position(Vec::is_empty) {
            None => return Ok((Some(name), parts)),
            // Nodes may have dropped older cuts; but if an older cut is whole, the view can begin there.
            Some(part) if settled => {
                lost.get_or_insert(part);
            }
            Some(_) => {}
        }
    }
    match lost {
        Some(part) => Err(format!(
            "all copies of the values of node {part} are lost; more --copies survive the loss of more nodes at once"
        )),
        None if !last.settled => Ok((None, Vec::new())),
        None => Err("no copies of values are left".to_owned()),
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
