//! Runs with copies: training that goes on when nodes are lost, join and leave, and never starts again.
//!
//! Engines, protocol of cuts, the decision on the next view, what nodes hold of cuts, and the programs that
//! divide what is left are those of real runs. The task and most checks are those of [`crate::restart`]. In
//! addition:
//!
//! | check | what holds |
//! | --- | --- |
//! | `goes-on` | a run goes on if enough nodes are left, and no more were lost than copies make up for |
//! | `newest` | it goes on at the newest cut that was settled, or at a newer one; a view that ends because
//! | | another number of nodes is asked for ends at a cut |
//! | `cover`, `loaded` | the parts that are left have every key once, with the values of the cut |
//! | `state` | what was trained until then is what the cut says |

use crate::checker::{resume_task, run_task};
use crate::restart::scenario::{Attempt, When, draw_start, draw_when};
use crate::restart::task::{Marks, Shape};
use crate::restart::{Failure, Run, check_cut, check_model, check_outcome};
use intendant_checkpoint::Folder;
use intendant_core::{Element, NodeId, random};
use intendant_sim::reach::{Marker, Reach};
use intendant_sim::{
    Cut, Dice, Finding, Moment, Observer, Origin, TaskConfig, TaskFailure, TaskOutcome, Trained,
};
use intendant_task::{Progress, Schedule, Task};
use intendant_techniques::Technique;
use intendant_views::{
    CutName, Fetch, Missing, Next, Offer, Process, Standing, Undecided, View, hold, load, quorum, successor,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// Changes of the nodes of a run at most.
const CHANGES_MAX: u64 = 5;

/// Nodes of a run at most.
const NODES_MAX: u64 = 6;

/// The keys that a node owned at a cut.
type Part = Rc<Vec<u64>>;
type Holdings = intendant_views::Holdings<Part, Trained>;

/// Markers that a set of so many runs must reach.
#[must_use]
pub fn expected() -> Vec<(Marker, u64)> {
    vec![
        (Marker::WentOn, 10),
        (Marker::WentOnWithAll, 40),
        (Marker::WentOnWithin, 40),
        (Marker::WentOnWithoutSeveral, 100),
        (Marker::LostWhileEntering, 100),
        (Marker::LoadedFromAnother, 200),
        (Marker::Unloaded, 200),
        (Marker::Joined, 20),
        (Marker::Left, 40),
        (Marker::CannotGoOn, 200),
    ]
}

/// Runs one seed with a technique.
#[must_use]
pub fn run(seed: u64, technique: Technique) -> Run {
    let mut run = Run { result: Ok(()), hash: 0, events: 0, reach: Reach::default() };
    // In memory, where the system has such a place: what is tested is not the disk.
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    run.result = match made {
        Err(error) => Err(Failure::Folder(error.to_string())),
        Ok(place) => {
            let dice = Dice::new(random::stream(seed, &[2]));
            if seed.is_multiple_of(4) {
                Training::<f64>::begin(seed, technique, dice)
                    .and_then(|training| training.run(place.path(), &mut run))
            } else {
                Training::<f32>::begin(seed, technique, dice)
                    .and_then(|training| training.run(place.path(), &mut run))
            }
        }
    };
    run
}

/// How the nodes of a view change.
#[derive(Clone, Debug)]
enum Change {
    /// The run ends before.
    None,
    /// A node fails then. These are dead before the nodes muster; if there are none, connections have failed,
    /// and all processes live.
    Crash { when: When, at: usize, dead: Vec<usize> },
    /// So many nodes stay, and so many join, from then on.
    Regroup { at_ns: u64, stay: u16, join: u64 },
}

/// A process.
#[derive(Clone)]
struct Node {
    offer: Offer,
    holdings: Holdings,
}

impl Node {
    fn new(id: u64) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], 1 + id as u16));
        let offer = Offer::of(Process { id, address }, None);
        Self { offer, holdings: Holdings::default() }
    }
}

/// Sees what happens in a view, and keeps what its nodes hold.
struct Watcher<'a> {
    crash: Option<(When, NodeId)>,
    seen: u64,
    view: &'a View,
    copies: usize,
    /// By rank.
    nodes: Vec<Holdings>,
    /// The cut that is being copied or written.
    pending: Option<CutName>,
    cuts: &'a mut BTreeMap<CutName, Cut>,
    settled: Option<CutName>,
    /// Batches that were trained since all nodes have copied their values.
    uncopied: u64,
    dice: Dice,
}

impl Watcher<'_> {
    /// A step of a gather that all nodes take; if one dies there, some may have taken it.
    fn all(&mut self, dies: bool, mut step: impl FnMut(&mut Holdings)) {
        for node in &mut self.nodes {
            if !dies || self.dice.once_in(2) {
                step(node);
            }
        }
    }
}

impl Observer for Watcher<'_> {
    fn moment(&mut self, moment: Moment) -> Option<NodeId> {
        let dies = match self.crash {
            Some((When::Nth(kind, nth), node)) => {
                self.seen += u64::from(kind.is(moment));
                (kind.is(moment) && self.seen == nth).then_some(node)
            }
            Some((When::At(_), _)) | None => None,
        };
        match (moment, self.pending) {
            (Moment::Copied, Some(name)) => {
                self.uncopied = 0;
                let state = self.cuts[&name].trained.clone();
                self.all(dies.is_some(), |node| node.copied(name, state.clone()));
            }
            (Moment::Written(NodeId(node)), Some(name)) => {
                let (rank, mut parts) = (usize::from(node), Vec::new());
                let mut members = Members { view: self.view, nodes: &self.nodes };
                let keep = |part, content| parts.push((part, content));
                let held = hold(&mut members, name, (self.view, rank, self.copies), keep);
                assert!(held.is_ok(), "all nodes have copied their values before a part is written");
                parts.into_iter().for_each(|(part, content)| self.nodes[rank].add(name, part, content));
            }
            (Moment::Voted { is_settled: true, .. }, Some(name)) => {
                self.settled = Some(name);
                self.all(dies.is_some(), |node| node.settle(name));
            }
            (
                Moment::Voted { .. }
                | Moment::Resting
                | Moment::Copied
                | Moment::Written(_)
                | Moment::Committed(_),
                _,
            ) => {}
        }
        dies
    }

    fn batch(&mut self, _worker: usize, _progress: &Progress) {
        self.uncopied += 1;
    }

    fn cut(&mut self, cut: &Cut) {
        let name = CutName { view: self.view.number, number: cut.number };
        let nodes = self.nodes.len();
        for (rank, node) in self.nodes.iter_mut().enumerate() {
            let own = (0..).zip(&cut.owners).filter(|(_, owner)| usize::from(**owner) == rank);
            node.publish(name, (rank, nodes), Rc::new(own.map(|(key, _)| key).collect()));
        }
        self.pending = Some(name);
        self.cuts.insert(name, cut.clone());
    }
}

/// A run, from its first view to its end.
struct Training<E: Element> {
    technique: Technique,
    shape: Shape,
    task: Arc<Marks<E>>,
    reference: TaskOutcome<E>,
    copies: usize,
    dice: Dice,
    /// Processes that live.
    nodes: BTreeMap<u64, Node>,
    /// The number of the next process.
    next_id: u64,
    view: View,
    cuts: BTreeMap<CutName, Cut>,
    /// The newest cut that all nodes held.
    settled: Option<CutName>,
    /// Nodes that were lost since then.
    lost: usize,
    /// How many of these losses the copies of that cut make up for.
    spare: usize,
    reach: Reach,
}

impl<E: Element> Training<E> {
    fn begin(seed: u64, technique: Technique, mut dice: Dice) -> Result<Self, Failure> {
        let shape = Shape {
            seed,
            examples: dice.between(20, 200),
            batch: dice.between(1, 3),
            epochs: dice.between(1, 3) as u32,
            blocked: dice.once_in(4),
            in_place: dice.once_in(3),
        };
        let task = Arc::new(Marks::<E>::new(shape));
        let schedule = Schedule { test: false, ..Schedule::epochs(shape.epochs) };
        let reference = run_task(&task, &TaskConfig::new(1, 1, schedule), &mut ());
        let reference = reference.map_err(Failure::Reference)?;
        let copies = dice.between(1, 2);
        let count = dice.between(copies + 1, NODES_MAX);
        let mut nodes: BTreeMap<u64, Node> = (0..count).map(|id| (id, Node::new(id))).collect();
        let members = nodes.values().map(|node| node.offer.process).collect();
        let view = View::first(members);
        nodes.values_mut().for_each(|node| node.offer.last = Some(view.clone()));
        Ok(Self {
            technique,
            shape,
            task,
            reference,
            copies: copies as usize,
            dice,
            nodes,
            next_id: count,
            view,
            cuts: BTreeMap::new(),
            settled: None,
            lost: 0,
            spare: copies as usize,
            reach: Reach::default(),
        })
    }

    fn run(mut self, place: &Path, run: &mut Run) -> Result<(), Failure> {
        let changes = self.dice.between(1, CHANGES_MAX);
        let mut origin: Option<Origin<E>> = None;
        for attempt in 0..=changes {
            let found = |(check, what): Finding| Failure::Check { attempt: attempt as usize, check, what };
            // The parts are written as well, to a folder of the view; they are not read.
            let folder = Folder::at(place.join(attempt.to_string()));
            let folder = &folder.map_err(|error| Failure::Folder(error.to_string()))?;
            let change = if attempt < changes { self.draw_change() } else { Change::None };
            let ended =
                self.train(&change, origin.as_ref(), folder, run).map_err(|failure| match failure {
                    Ok(finding) => found(finding),
                    Err(source) => Failure::Task { attempt: attempt as usize, source },
                })?;
            if ended {
                run.reach.merge(&self.reach);
                return Ok(());
            }
            origin = match self.muster(&change).map_err(found)? {
                None => {
                    run.reach.merge(&self.reach);
                    return Ok(());
                }
                Some(origin) => origin,
            };
        }
        let what = "the last view did not end".to_owned();
        Err(Failure::Check { attempt: changes as usize, check: "goes-on", what })
    }

    fn draw_change(&mut self) -> Change {
        let (count, dice) = (self.view.members.len() as u64, &mut self.dice);
        if dice.once_in(3) {
            let stay = if dice.once_in(2) { dice.between(1, count) } else { count };
            let join = if stay == count { dice.between(1, 2) } else { dice.below(2) };
            let join = join.min(NODES_MAX.saturating_sub(stay));
            let within = 1 << dice.between(10, 24);
            return Change::Regroup { at_ns: dice.below(within), stay: stay as u16, join };
        }
        // Sometimes more than copies make up for.
        let deaths =
            if dice.once_in(10) { dice.between(1, count) } else { dice.between(1, self.copies as u64) };
        let mut ranks: Vec<usize> = (0..count as usize).collect();
        while ranks.len() as u64 > deaths {
            let at = dice.below(ranks.len() as u64) as usize;
            ranks.remove(at);
        }
        let at = ranks[dice.below(ranks.len() as u64) as usize];
        let when = draw_when(dice);
        Change::Crash { when, at, dead: if dice.once_in(6) { Vec::new() } else { ranks } }
    }

    /// Trains in a view. Returns whether the run has ended.
    fn train(
        &mut self,
        change: &Change,
        origin: Option<&Origin<E>>,
        folder: &Folder,
        run: &mut Run,
    ) -> Result<bool, Result<Finding, TaskFailure>> {
        let nodes = self.view.members.len();
        let workers = self.dice.between(1, 2) as usize;
        let crash = match change {
            Change::Crash { when, at, .. } => Some((*when, NodeId(*at as u16))),
            Change::None | Change::Regroup { .. } => None,
        };
        let what = (&self.shape, self.technique);
        let Attempt { mut config, crash } =
            draw_start(&mut self.dice, what, (nodes, workers), |_| crash, folder);
        if let Some(cuts) = &mut config.cuts {
            (cuts.copies, cuts.refuses) = (true, 0);
            if let Change::Regroup { at_ns, stay, .. } = change {
                cuts.regroup = Some((*at_ns, *stay));
            }
        }
        let members: Vec<u64> = self.view.members.iter().map(|member| member.id).collect();
        let mut watcher = Watcher {
            crash,
            seen: 0,
            view: &self.view,
            copies: self.copies,
            nodes: members.iter().map(|id| self.nodes[id].holdings.clone()).collect(),
            pending: None,
            cuts: &mut self.cuts,
            settled: self.settled,
            uncopied: 0,
            dice: Dice::new(self.dice.word()),
        };
        let outcome = resume_task(&self.task, &config, origin, &mut watcher);
        let Watcher { nodes: holdings, settled, pending, uncopied, .. } = watcher;
        self.settled = settled;
        for (id, holdings) in members.iter().zip(holdings) {
            if let Some(node) = self.nodes.get_mut(id) {
                node.offer.cuts = holdings.held();
                node.holdings = holdings;
            }
        }
        for cut in self.cuts.values().filter(|cut| !cut.owners.is_empty()) {
            check_cut(&self.shape, cut).map_err(Ok)?;
        }
        match outcome {
            // Nothing that was trained is lost.
            Err(TaskFailure::Regrouped { .. }) if uncopied > 0 => {
                let what = format!("the view ends {uncopied} batches after its last cut");
                Err(Ok(("newest", what)))
            }
            Err(TaskFailure::Regrouped { .. }) if pending > settled => {
                Err(Ok(("newest", format!("the view ends, and its last cut {pending:?} is not settled"))))
            }
            Err(TaskFailure::Crashed { .. } | TaskFailure::Regrouped { .. }) => Ok(false),
            Err(source) => Err(Err(source)),
            Ok(outcome) => {
                run.hash = run.hash.wrapping_add(outcome.hash);
                run.events += outcome.events;
                run.reach.merge(&outcome.reach);
                // A view that begins at the end of the training makes no cut.
                let last = self.settled.max(self.view.begins).and_then(|name| self.cuts.get(&name));
                check_outcome((&self.shape, false), &outcome, &self.reference).map_err(Ok)?;
                let last = last.ok_or_else(|| Ok(("end", "no cut was settled".to_owned())))?;
                check_model(&self.shape, last, &outcome).map_err(Ok)?;
                Ok(true)
            }
        }
    }

    /// The nodes change, and those that are left decide on the next view and load its values. Returns where
    /// it begins; `None` if they cannot go on, and need not.
    fn muster(&mut self, change: &Change) -> Result<Option<Option<Origin<E>>>, Finding> {
        if self.settled.is_some_and(|settled| settled.view == self.view.number) {
            self.nodes.retain(|id, node| self.view.has(*id) || !node.offer.leaves);
            // A view of few nodes has fewer copies.
            (self.lost, self.spare) = (0, self.copies.min(self.view.members.len() - 1));
        }
        match change {
            Change::None => return Err(("goes-on", "the run ended early".to_owned())),
            Change::Crash { dead, .. } => {
                let ids: Vec<u64> = dead.iter().map(|rank| self.view.members[*rank].id).collect();
                ids.iter().for_each(|id| drop(self.nodes.remove(id)));
                self.lost += ids.len();
                self.nodes.values_mut().for_each(|node| node.offer.gone.extend(&ids));
            }
            Change::Regroup { stay, join, .. } => {
                for leaver in self.view.members.iter().skip((*stay).into()) {
                    if let Some(node) = self.nodes.get_mut(&leaver.id) {
                        node.offer.leaves = true;
                        self.reach.mark(Marker::Left);
                    }
                }
                for _ in 0..*join {
                    self.nodes.insert(self.next_id, Node::new(self.next_id));
                    self.next_id += 1;
                    self.reach.mark(Marker::Joined);
                }
            }
        }
        let mut last = self.view.clone();
        loop {
            let next = match self.decide(&last) {
                Ok(next) => next,
                Err(Undecided::Wait) => {
                    return Err(("goes-on", "nodes are waited for that are known to be gone".to_owned()));
                }
                Err(Undecided::Stuck(reason)) => {
                    let left = last.members.iter().filter(|member| self.nodes.contains_key(&member.id));
                    let (left, all) = (left.count(), last.members.len());
                    if left * 2 > all && self.lost <= self.spare {
                        return Err(("goes-on", format!("{left} of {all} nodes cannot go on: {reason}")));
                    }
                    self.reach.mark(Marker::CannotGoOn);
                    return Ok(None);
                }
            };
            if self.lost <= self.spare && next.view.begins < self.settled {
                let (cut, settled) = (next.view.begins, self.settled);
                return Err(("newest", format!("the run goes on at {cut:?}, and {settled:?} was settled")));
            }
            if next.view.members.len() > 1 && self.dice.once_in(6) {
                // One dies while the view begins: it was chosen, and another one follows it.
                let dies = next.view.members[self.dice.below(next.view.members.len() as u64) as usize].id;
                self.nodes.remove(&dies);
                self.mourn(&[dies]);
                self.reach.mark(Marker::LostWhileEntering);
                last = next.view;
                continue;
            }
            let origin = match next.view.begins.map(|name| self.load(&next, name)).transpose()? {
                Some(None) => {
                    last = next.view;
                    continue;
                }
                Some(Some(origin)) => Some(origin),
                None => None,
            };
            let awaited = |id: &u64| self.nodes.get(id).is_some_and(|node| !node.offer.leaves);
            let left_out = last.members.iter().map(|member| member.id).filter(awaited);
            let left_out: Vec<u64> = left_out.filter(|id| !next.view.has(*id)).collect();
            if !left_out.is_empty() {
                return Err(("goes-on", format!("processes {left_out:?} are there, and left out")));
            }
            if matches!(change, Change::Crash { dead, .. } if dead.is_empty()) {
                self.reach.mark(Marker::WentOnWithAll);
            }
            if self.lost > 0 {
                self.reach.mark(if self.lost > 1 { Marker::WentOnWithoutSeveral } else { Marker::WentOn });
            }
            self.enter(next);
            return Ok(Some(origin));
        }
    }

    /// The processes that are left notice that these have died.
    fn mourn(&mut self, dead: &[u64]) {
        self.nodes.values_mut().for_each(|node| node.offer.gone.extend(dead));
        self.lost += dead.len();
    }

    /// The view that should follow this one, of all that are there.
    fn decide(&mut self, last: &View) -> Result<Next, Undecided> {
        let is_patient = self.dice.once_in(2);
        let offers: BTreeMap<u64, &Offer> = self.nodes.iter().map(|(id, node)| (*id, &node.offer)).collect();
        // The first that is left leads.
        let leads = |id: &u64| offers.get(id).is_some_and(|offer| !offer.leaves);
        let leader = last.members.iter().map(|member| member.id).find(leads);
        let leader = leader.ok_or_else(|| Undecided::Stuck("no node is left".to_owned()))?;
        quorum(last, &offers, is_patient)?;
        successor(last, leader, &offers, |_| Standing::Proven).map_err(Undecided::Stuck)
    }

    /// The nodes of a view enter it.
    fn enter(&mut self, next: Next) {
        for node in self.nodes.values_mut().filter(|node| !node.offer.leaves) {
            node.offer.gone.clear();
            node.offer.last = Some(next.view.clone());
        }
        // Those that leave hold their parts until the view has a cut.
        self.nodes.retain(|id, node| next.view.has(*id) || node.offer.leaves);
        self.view = next.view;
    }

    /// The nodes of a view load the values of the cut at which it begins, while processes that hold them may
    /// die. `None` if the view cannot begin for this reason.
    fn load(&mut self, next: &Next, name: CutName) -> Result<Option<Origin<E>>, Finding> {
        let (mut dead, mut origin, mut is_complete) = (Vec::new(), None, true);
        for (rank, member) in next.view.members.iter().enumerate() {
            let Some(holdings) = self.nodes.get(&member.id).map(|node| node.holdings.clone()) else {
                continue;
            };
            let (before, mut parts) = (dead.len(), BTreeMap::new());
            let (nodes, dice) = (&mut self.nodes, &mut self.dice);
            let mut others = Others { nodes, dice, dead: &mut dead, unheld: None };
            let keep = |part, content| drop(parts.insert(part, content));
            let loaded = load(&mut others, &holdings, (next, name, rank), keep);
            if let Some((id, part)) = others.unheld {
                return Err(("loaded", format!("process {id} does not hold part {part} of {name:?}")));
            }
            match loaded {
                Ok(state) => {
                    if dead.len() > before {
                        self.reach.mark(Marker::LoadedFromAnother);
                    }
                    origin = Some(self.assemble(name, &state, &parts)?);
                }
                Err(Missing { part, error: Some(NotSent::Dead) }) => {
                    self.check_unloaded(next, name, part)?;
                    self.reach.mark(Marker::Unloaded);
                    is_complete = false;
                    break;
                }
                Err(Missing { part: Some(part), .. }) => {
                    return Err(("loaded", format!("no process sends part {part} of {name:?}")));
                }
                Err(Missing { part: None, .. }) => {
                    return Err(("state", format!("no process knows what was trained until {name:?}")));
                }
            }
        }
        self.mourn(&dead);
        let is_whole = next.view.members.iter().all(|member| self.nodes.contains_key(&member.id));
        Ok(origin.filter(|_| is_complete && is_whole))
    }

    /// A view does not begin only if no process is left that holds what a node lacks: this part, or the
    /// state.
    fn check_unloaded(&self, next: &Next, name: CutName, part: Option<usize>) -> Result<(), Finding> {
        let sources = next.sources.iter().enumerate().filter(|(at, _)| part.is_none_or(|part| part == *at));
        let left = sources.flat_map(|(_, sources)| sources).find(|source| {
            let holdings = self.nodes.get(&source.id).map(|node| &node.holdings);
            holdings.is_some_and(|holdings| match part {
                Some(part) => holdings.part(name, part).is_some(),
                None => holdings.state(name).is_some(),
            })
        });
        match left {
            Some(source) => {
                Err(("goes-on", format!("process {} holds what a node lacks of {name:?}", source.id)))
            }
            None => Ok(()),
        }
    }

    /// Checks what a node has loaded. Returns the origin that it makes.
    fn assemble(
        &mut self,
        name: CutName,
        state: &Trained,
        parts: &BTreeMap<usize, Part>,
    ) -> Result<Origin<E>, Finding> {
        let cut = &self.cuts[&name];
        let mut rows: Vec<Option<&[f64]>> = vec![None; cut.owners.len()];
        let mut places = Vec::with_capacity(rows.len());
        let mut at = 0;
        for key in 0..rows.len() as u64 {
            let row = at..at + self.task.model().range(intendant_core::Key(key)).row();
            at = row.end;
            places.push(row);
        }
        for key in parts.values().flat_map(|keys| keys.iter()) {
            let row = &cut.values[places[*key as usize].clone()];
            if rows[*key as usize].replace(row).is_some() {
                return Err(("cover", format!("key {key} is in two parts of {name:?}")));
            }
        }
        let Some(rows) = rows.into_iter().collect::<Option<Vec<_>>>() else {
            return Err(("cover", format!("a key is in no part of {name:?}")));
        };
        if *state != cut.trained {
            return Err(("state", format!("a process has another state of {name:?}")));
        }
        if cut.trained.under_way.is_some() {
            self.reach.mark(Marker::WentOnWithin);
        }
        let cut = Cut { values: rows.concat(), ..cut.clone() };
        Origin::of_cut(&*self.task, cut).map_err(|error| ("loaded", error.to_string()))
    }
}

/// The reason for which a process sends nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotSent {
    Dead,
    NotHeld,
}

/// The processes that are asked for what they hold. Each may die when it is asked.
struct Others<'a> {
    nodes: &'a mut BTreeMap<u64, Node>,
    dice: &'a mut Dice,
    dead: &'a mut Vec<u64>,
    /// A process that was asked for a part that it does not hold.
    unheld: Option<(u64, usize)>,
}

impl Others<'_> {
    fn ask<T>(&mut self, from: Process, held: impl FnOnce(&Holdings) -> Option<&T>) -> Result<T, NotSent>
    where
        T: Clone,
    {
        if self.dice.once_in(40) && self.nodes.remove(&from.id).is_some() {
            self.dead.push(from.id);
        }
        let node = self.nodes.get(&from.id).ok_or(NotSent::Dead)?;
        held(&node.holdings).cloned().ok_or(NotSent::NotHeld)
    }
}

impl Fetch for Others<'_> {
    type Part = Part;
    type State = Trained;
    type Error = NotSent;

    fn part(&mut self, from: Process, cut: CutName, part: usize) -> Result<Part, NotSent> {
        let sent = self.ask(from, |holdings| holdings.part(cut, part));
        if sent.as_ref().is_err_and(|error| *error == NotSent::NotHeld) {
            self.unheld = Some((from.id, part));
        }
        sent
    }

    fn state(&mut self, from: Process, cut: CutName) -> Result<Trained, NotSent> {
        self.ask(from, |holdings| holdings.state(cut))
    }
}

/// The nodes of a view, which copy parts of each other.
struct Members<'a> {
    view: &'a View,
    nodes: &'a [Holdings],
}

impl Fetch for Members<'_> {
    type Part = Part;
    type State = Trained;
    type Error = NotSent;

    fn part(&mut self, from: Process, cut: CutName, part: usize) -> Result<Part, NotSent> {
        let holdings = self.view.rank(from.id).map(|rank| &self.nodes[rank]);
        holdings.and_then(|holdings| holdings.part(cut, part)).cloned().ok_or(NotSent::NotHeld)
    }

    fn state(&mut self, _from: Process, _cut: CutName) -> Result<Trained, NotSent> {
        Err(NotSent::NotHeld)
    }
}
