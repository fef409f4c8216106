//! Views: which processes are the nodes of a run, from one change to the next.
//!
//! A run whose nodes hold copies of each other's values survives the loss of a node, and nodes can join and
//! leave it. Its nodes are then those of a *view*: an ordinary cluster, with ranks from 0, that meets, trains
//! and ends. When it ends because a node was lost, or because the number of nodes is to change, its processes
//! *muster*: each makes an [`Offer`] to the process of lowest rank that lives, which decides on the next
//! view.
//!
//! [`decide`] is that decision, without streams and without a clock. It promises two things. No two views
//! are entered that follow the same one, also if processes only cannot reach each other. And the next view
//! begins with values of which no part is missing.
//!
//! **Entering.** All members of a view call a first gather, or none passes it. A process that has called it
//! is *entering*, one that has passed it has *entered*. If a member has not called it, no process has passed
//! it.
//!
//! **Quorum.** The next view needs more than half of the members of the last view that was entered, or half
//! of them with its node 0. Members that leave count only if no member is missing: then all that stay are in
//! the next view, and no other view can be entered without them.

use intendant_core::limits;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// A process that is a node of a run, or wants to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Process {
    /// A random number that no other process has.
    pub id: u64,
    /// Where it answers others in every view.
    pub address: SocketAddr,
}

/// The nodes of a run, by rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Counts from 1.
    pub number: u64,
    /// The processes, by rank.
    pub members: Vec<Process>,
    /// Their names, by rank: small numbers that they keep from view to view.
    pub names: Vec<u64>,
    /// The least number that no process has had as its name.
    pub next_name: u64,
    /// The cut at which it begins; `None` at the start of the run.
    pub begins: Option<CutName>,
    /// Whether a cut was settled before. If not, a view that follows may begin at the start of the run, too:
    /// a cut that is not settled can be whole, and have fewer copies than it should.
    pub settled: bool,
}

impl View {
    /// The first view of a run.
    #[must_use]
    pub fn first(members: Vec<Process>) -> Self {
        let next_name = members.len() as u64;
        let names = (0..next_name).collect();
        Self { number: 1, members, names, next_name, begins: None, settled: false }
    }

    /// Whether a process is one of the members.
    #[must_use]
    pub fn has(&self, id: u64) -> bool {
        self.rank(id).is_some()
    }

    /// The rank of a process.
    #[must_use]
    pub fn rank(&self, id: u64) -> Option<usize> {
        self.members.iter().position(|member| member.id == id)
    }

    /// Whether so many of the members may decide for all of them.
    fn is_quorum(&self, present: impl Fn(u64) -> bool) -> bool {
        let count = self.members.iter().filter(|member| present(member.id)).count();
        let has_first = self.members.first().is_some_and(|first| present(first.id));
        count * 2 > self.members.len() || (count * 2 == self.members.len() && has_first)
    }
}

/// The name of a cut: the view that made it, and its number there. Later cuts are greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CutName {
    /// The view.
    pub view: u64,
    /// Counts from 1 in each view.
    pub number: u64,
}

/// What a process holds of a cut: all values of the model when the cluster was at rest, a part per node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldCut {
    /// Its name.
    pub name: CutName,
    /// Number of parts: nodes of the view that made it.
    pub parts: usize,
    /// The parts that the process holds, by rank of the node that owned the values.
    pub held: Vec<usize>,
    /// Whether the process knows that all nodes hold all that they should.
    pub settled: bool,
}

/// What a process tells when it musters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Itself.
    pub process: Process,
    /// A digest of its settings and data. Processes with different ones cannot train together.
    pub settings: u64,
    /// The last view that it has entered, or that others have, as it has heard; `None` if it wants to join.
    pub entered: Option<View>,
    /// A later view that it was entering.
    pub entering: Option<View>,
    /// The cuts of which it holds parts.
    pub cuts: Vec<HeldCut>,
    /// Processes that it takes for lost. They are not waited for.
    pub gone: Vec<u64>,
    /// Whether it will be no member of the next view.
    pub leaves: bool,
    /// The greatest number of a view that it knows.
    pub seen: u64,
}

/// Views and cuts of a run at most: more are nonsense.
const NUMBER_MAX: u64 = 1 << 48;

/// Cuts that a process holds at most: views that failed early leave some.
const CUTS_MAX: usize = 4096;

impl Offer {
    /// Says what no process can offer.
    pub(crate) fn nonsense(&self) -> Option<&'static str> {
        let views = || [&self.entered, &self.entering].into_iter().flatten();
        let is_wrong = |view: &View| {
            view.members.len() != view.names.len()
                || view.members.len() > limits::NODES_MAX
                || view.names.iter().any(|name| *name >= view.next_name)
                || view.number.max(view.next_name) > NUMBER_MAX
        };
        if self.seen > NUMBER_MAX || views().any(is_wrong) {
            return Some("a view that cannot be");
        }
        let is_wrong = |cut: &HeldCut| {
            !(1..=limits::NODES_MAX).contains(&cut.parts)
                || cut.held.iter().any(|part| *part >= cut.parts)
                || cut.name.view.max(cut.name.number) > NUMBER_MAX
        };
        let too_many = self.cuts.len() > CUTS_MAX || self.gone.len() > CUTS_MAX;
        (too_many || self.cuts.iter().any(is_wrong)).then_some("a cut that cannot be")
    }

    /// That of a process that holds nothing; `entered` is the view that it comes from.
    #[must_use]
    pub fn of(process: Process, entered: Option<View>) -> Self {
        let seen = entered.as_ref().map_or(0, |view| view.number);
        Self {
            process,
            settings: 0,
            entered,
            entering: None,
            cuts: Vec::new(),
            gone: Vec::new(),
            leaves: false,
            seen,
        }
    }
}

/// A view that follows another one, and where it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Next {
    /// The view.
    pub view: View,
    /// The view that it follows. A process that hears of this one counts that one as entered.
    pub follows: View,
    /// Per part of the cut at which the view begins, the processes that hold it.
    pub sources: Vec<Vec<Process>>,
    /// Ranks of the last view that are not members of this one and have not left.
    pub lost: Vec<usize>,
}

impl Next {
    /// Whether a process joins with this view.
    pub(crate) fn has_joined(&self) -> bool {
        self.view.members.iter().any(|member| !self.follows.has(member.id))
    }
}

/// What follows from some offers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and none is kept")]
pub enum Decision {
    /// The next view.
    Go(Next),
    /// Nothing yet: these members are missing.
    Wait(Vec<Process>),
    /// Nothing can follow without others, for this reason.
    Stuck(String),
}

/// Decides which view follows. `is_patient` says that members who have not come are waited for, unless they
/// are known to be gone; `is_open`, that processes may join.
#[must_use]
pub fn decide(offers: &BTreeMap<u64, Offer>, is_patient: bool, is_open: bool) -> Decision {
    let last = match last_view(offers) {
        Ok(Some(last)) => last,
        Ok(None) => return Decision::Stuck("no process that musters was a node of the run".to_owned()),
        Err(reason) => return Decision::Stuck(reason),
    };
    let is_present = |id: u64| offers.contains_key(&id);
    let gone: BTreeSet<u64> = offers.values().flat_map(|offer| offer.gone.iter().copied()).collect();
    let missing: Vec<Process> =
        last.members.iter().filter(|member| !is_present(member.id)).copied().collect();
    let awaited: Vec<Process> = missing.iter().filter(|member| !gone.contains(&member.id)).copied().collect();
    if is_patient && !awaited.is_empty() {
        return Decision::Wait(awaited);
    }
    // A member that leaves calls no gather, so that it could help two views into being.
    let counts = |id: u64| offers.get(&id).is_some_and(|offer| missing.is_empty() || !offer.leaves);
    if !last.is_quorum(counts) {
        let left = last.members.iter().filter(|member| counts(member.id)).count();
        let all = last.members.len();
        return Decision::Stuck(format!(
            "{left} of {all} nodes are left; to go on, a run needs more than half of them, or half of them with node 0"
        ));
    }
    let (begins, sources) = match begins(offers, last) {
        Ok(begins) => begins,
        Err(reason) => return Decision::Stuck(reason),
    };
    let stays = |id: &u64| offers.get(id).is_some_and(|offer| !offer.leaves);
    let old = last.members.iter().zip(&last.names).filter(|(member, _)| stays(&member.id));
    let joins = |offer: &&Offer| is_open && !last.has(offer.process.id) && !offer.leaves;
    let new = offers.values().filter(joins);
    let room = limits::NODES_MAX.saturating_sub(last.members.len());
    let new = new.take(room).zip(last.next_name..).map(|(offer, name)| (offer.process, name));
    let (members, names): (Vec<Process>, Vec<u64>) =
        old.map(|(member, name)| (*member, *name)).chain(new).unzip();
    let next_name = names.iter().map(|name| name + 1).fold(last.next_name, u64::max);
    if !members.iter().any(|member| last.has(member.id)) {
        // Those who only join could do so in two views.
        return Decision::Stuck("all nodes leave".to_owned());
    }
    let seen = |offer: &Offer| {
        let views = [&offer.entered, &offer.entering].into_iter().flatten();
        views.map(|view| view.number).chain([offer.seen]).max().unwrap_or(0)
    };
    let settled = last.settled || offers.values().flat_map(|offer| &offer.cuts).any(|cut| cut.settled);
    let number = offers.values().map(seen).max().unwrap_or(0) + 1;
    let lost = (0..last.members.len()).filter(|rank| !is_present(last.members[*rank].id)).collect();
    Decision::Go(Next {
        view: View { number, members, names, next_name, begins, settled },
        follows: last.clone(),
        sources,
        lost,
    })
}

/// The last view that a process may have entered.
fn last_view(offers: &BTreeMap<u64, Offer>) -> Result<Option<&View>, String> {
    let entered = offers.values().filter_map(|offer| offer.entered.as_ref());
    let entered = entered.max_by_key(|view| view.number);
    let entering = offers.values().filter_map(|offer| offer.entering.as_ref());
    // The newest first. One that was entered is newer than all that were not and are older.
    let mut entering: Vec<&View> =
        entering.filter(|view| entered.is_none_or(|entered| view.number > entered.number)).collect();
    entering.sort_by_key(|view| std::cmp::Reverse(view.number));
    for view in entering {
        let called = |id: u64| {
            offers.get(&id).is_some_and(|offer| {
                [&offer.entered, &offer.entering].into_iter().flatten().any(|its| its == view)
            })
        };
        let is_void = view.members.iter().any(|member| offers.contains_key(&member.id) && !called(member.id));
        if is_void {
            continue;
        }
        if view.members.iter().all(|member| called(member.id)) {
            return Ok(Some(view));
        }
        return Err(format!(
            "nodes were lost while view {} began, and those that are left do not know whether the others have begun it",
            view.number
        ));
    }
    Ok(entered)
}

/// The newest cut of which all parts are held, and who holds them.
type Begins = (Option<CutName>, Vec<Vec<Process>>);

fn begins(offers: &BTreeMap<u64, Offer>, last: &View) -> Result<Begins, String> {
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
            *settled |= cut.settled;
        }
    }
    let mut lost = None;
    for (name, (parts, settled)) in cuts.into_iter().rev() {
        match parts.iter().position(Vec::is_empty) {
            None => return Ok((Some(name), parts)),
            // Nodes may have dropped older ones; but if one is whole, it will do.
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
