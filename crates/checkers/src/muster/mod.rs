//! Processes of a run with copies that look for its next view, in virtual time: nodes die, stand still or are
//! cut off, messages are late or lost, others join, and some of these cannot be nodes.
//!
//! What a process asks, answers and decides is that of real runs (`intendant_views`). What it does in a view
//! is written anew here: it enters with the others, notices losses, and trains nothing.
//!
//! | check | what holds |
//! | --- | --- |
//! | `follows` | one view at most has each number, so that one at most follows another one |
//! | `ends` | where few things go wrong, no process looks for a view for ever |
//! | `goes-on` | where few things go wrong, all healthy processes end up in one view, and none of them ends |
//! | | where one node dies while another one stands still or does not reach a third, so do all others |
//! | | a process that joins may end where another one that joins fails, or a node dies |
//! | `spoilt` | processes that cannot be nodes do not keep the others from their work again and again |

mod process;

use intendant_core::{Tick, random};
use intendant_sim::Dice;
use intendant_sim::muster::{Net, Outside, Program, Seen, execute, process, process_on};
use intendant_sim::reach::{Marker, Reach};
use intendant_views::{Answer, Asked, Muster, Offer, SearchError, View};
use process::{End, Fault, Node, Run as History};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Nothing goes wrong after this time.
const QUIET_US: u64 = 60_000_000;

/// When a run ends: all have found each other, or have given up.
const END_US: u64 = 240_000_000;

/// For so long a process looks for a view at most: two times, if the first one that it finds does not begin.
const SEARCH_US_MAX: u64 = 130_000_000;

/// For so long a change of nodes lasts at most, if a process cannot be one.
const CHANGE_US_MAX: u64 = 40_000_000;

/// Where they are.
const FAULTY_MACHINE: u64 = 999;

/// Faulty processes that want to join at most.
const FAULTY_MAX: u64 = 10;

/// Views that faulty processes may spoil until then: at 0, 10, 30, 70 and 150 s after the first.
const SPOILT_MAX: u64 = 5;

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{check}: {what}")]
pub struct Failure {
    /// The check.
    pub check: &'static str,
    /// What was found.
    pub what: String,
}

/// Result of one seed.
#[derive(Clone, Debug)]
pub struct Run {
    /// The failure, if there was one.
    pub result: Result<(), Failure>,
    /// Hash of all events.
    pub hash: u64,
    /// Events.
    pub events: u64,
    /// Reach markers.
    pub reach: Reach,
}

/// Markers that a set of so many runs must reach.
#[must_use]
pub fn expected() -> Vec<(Marker, u64)> {
    vec![
        (Marker::ViewFollowed, 10),
        (Marker::JoinedView, 20),
        (Marker::ViewSpoilt, 20),
        (Marker::ViewVoid, 20),
        (Marker::LeftView, 50),
        (Marker::NodesDivided, 40),
        (Marker::PassedOver, 200),
        (Marker::SearchStuck, 100),
    ]
}

/// What goes wrong.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Dies(u64),
    /// When it has changed what it promises, accepts or knows so often.
    DiesWhen {
        id: u64,
        changes: u64,
    },
    Unlinks {
        id: u64,
        other: u64,
        until: u64,
    },
    Freezes {
        id: u64,
        until: u64,
    },
    Divides {
        sides: u64,
        until: u64,
    },
    Scales(u16),
}

/// How much goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A node dies, or processes that join cannot be nodes.
    Mild,
    /// A node dies while another one stands still or does not reach a third.
    Middling,
    /// So much that the run may end.
    Wild,
}

/// What is drawn from a seed.
#[derive(Debug)]
struct Scenario {
    nodes: u64,
    /// When, and what.
    troubles: Vec<(u64, Trouble)>,
    /// Those that join: when, at which process, and what is wrong with them.
    joins: Vec<(u64, u64, Fault)>,
    kind: Kind,
    /// Whether machines die with their processes: nothing answers there.
    is_silent: bool,
    delay_us: u64,
    loses: u64,
}

impl Scenario {
    fn draw(dice: &mut Dice) -> Self {
        if dice.once_in(4) {
            return Self::draw_middling(dice);
        }
        let is_mild = dice.once_in(2);
        let nodes = dice.between(if is_mild { 3 } else { 2 }, 6);
        let when = |dice: &mut Dice| dice.below(QUIET_US);
        let mut troubles = Vec::new();
        if is_mild {
            // One that is not the only one left, and time to get over it.
            match dice.below(4) {
                0 => troubles.push((when(dice), Trouble::Dies(dice.below(nodes)))),
                1 => troubles.push((0, dies_when(dice, nodes))),
                _ => {}
            }
        } else {
            for _ in 0..dice.between(1, 5) {
                let at = when(dice);
                let until = (at + dice.between(1, 20) * 1_000_000).min(QUIET_US);
                troubles.push((
                    at,
                    match dice.below(6) {
                        0 => Trouble::Dies(dice.below(nodes)),
                        1 => dies_when(dice, nodes),
                        2 => Trouble::Unlinks { id: dice.below(nodes), other: dice.below(nodes), until },
                        3 => Trouble::Freezes { id: dice.below(nodes), until },
                        4 => Trouble::Divides { sides: dice.word(), until },
                        _ => Trouble::Scales(dice.between(1, nodes + 1) as u16),
                    },
                ));
            }
        }
        troubles.sort_by_key(|(at, _)| *at);
        let mut joins = Vec::new();
        for _ in 0..dice.below(3) {
            joins.push((when(dice), dice.below(nodes), Fault::None));
        }
        // In mild runs, not where a node dies as well.
        let faults = [Fault::None, Fault::BeforeEntering, Fault::AfterEntering];
        let faulty = if is_mild && !troubles.is_empty() { Fault::None } else { dice.pick(&faults) };
        if faulty != Fault::None {
            // It is started again and again.
            let (mut at, door) = (when(dice), dice.below(nodes));
            for _ in 0..dice.between(1, FAULTY_MAX) {
                joins.push((at, door, faulty));
                at += dice.between(0, 30_000_000);
            }
        }
        let loses = if is_mild { 0 } else { dice.pick(&[0, 3, 20]) };
        let delay_us =
            if is_mild { dice.pick(&[1_000, 20_000]) } else { dice.pick(&[1_000, 20_000, 300_000]) };
        let kind = if is_mild { Kind::Mild } else { Kind::Wild };
        let is_silent = !is_mild && dice.once_in(2);
        Self { nodes, troubles, joins, kind, is_silent, delay_us, loses }
    }

    fn draw_middling(dice: &mut Dice) -> Self {
        let nodes = dice.between(5, 7);
        let at = dice.below(QUIET_US / 2);
        let until = at + dice.between(1, 20) * 1_000_000;
        let id = dice.below(nodes);
        let hindered = if dice.once_in(2) {
            Trouble::Freezes { id, until }
        } else {
            Trouble::Unlinks { id, other: (id + dice.between(1, nodes - 1)) % nodes, until }
        };
        let about = |dice: &mut Dice| (at + dice.below(15_000_000)).saturating_sub(5_000_000);
        let dies = (id + dice.between(1, nodes - 1)) % nodes;
        let dies = if dice.once_in(2) {
            (about(dice), Trouble::Dies(dies))
        } else {
            (about(dice), Trouble::DiesWhen { id: dies, changes: dice.between(1, 6) })
        };
        let mut troubles = vec![(at, hindered), dies];
        troubles.sort_by_key(|(at, _)| *at);
        let joins = (0..dice.below(2)).map(|_| (about(dice), dice.below(nodes), Fault::None)).collect();
        let (is_silent, delay_us) = (dice.once_in(2), dice.pick(&[1_000, 20_000]));
        Self { nodes, troubles, joins, kind: Kind::Middling, is_silent, delay_us, loses: 0 }
    }
}

/// A node dies at a moment of the protocol.
fn dies_when(dice: &mut Dice, nodes: u64) -> Trouble {
    Trouble::DiesWhen { id: dice.below(nodes), changes: dice.between(2, 12) }
}

/// Runs one seed.
#[must_use]
pub fn run(seed: u64) -> Run {
    let mut dice = Dice::new(random::stream(seed, &[0]));
    let scenario = Scenario::draw(&mut dice);
    let net = Net::new(dice, scenario.delay_us, scenario.loses);
    let (net, seen) = (Rc::new(RefCell::new(net)), Rc::new(RefCell::new(History::default())));
    let mut programs: BTreeMap<u64, Program> = BTreeMap::new();
    let first = View::first((1..=scenario.nodes).map(process).collect());
    let mut add = |id: u64, offer: Offer, fault: Fault, view: Option<View>, door: Option<u64>, from: u64| {
        let muster = Muster::new(offer);
        net.borrow_mut().seen.insert(id, Seen::new(muster));
        net.borrow_mut().wake(id, 0);
        let outside = Outside { net: Rc::clone(&net), id };
        let node = Node::new(outside, Rc::clone(&seen), fault, door.map(|id| process(id).address));
        programs.insert(id, Box::pin(node.live(view, from)));
    };
    for id in 1..=scenario.nodes {
        add(id, Offer::of(process(id), Some(first.clone())), Fault::None, Some(first.clone()), None, 0);
    }
    for (number, (at, door, fault)) in (0..).zip(&scenario.joins) {
        let id = 100 + number;
        // One that is faulty is started again and again on its machine.
        let machine = if *fault == Fault::None { id } else { FAULTY_MACHINE };
        add(id, Offer::of(process_on(id, machine), None), *fault, None, Some(door + 1), *at);
    }
    let mut reach = Reach::default();
    for (at, trouble) in &scenario.troubles {
        execute(&net, &mut programs, *at);
        strike(&net, *at, trouble, scenario.is_silent);
        if matches!(trouble, Trouble::Divides { .. }) {
            reach.mark(Marker::NodesDivided);
        }
    }
    execute(&net, &mut programs, END_US);
    let seen = seen.borrow();
    mark(&mut reach, &seen, &net.borrow().chosen);
    let (hash, events) = (net.borrow().hash, net.borrow().events);
    let alive: Vec<u64> = programs.keys().copied().filter(|id| net.borrow().seen[id].lives).collect();
    // Those that want to join, also again, wait as long as they are answered, and those that leave as long as
    // they are needed.
    let waits = |id: &u64| {
        let net = net.borrow();
        let muster = net.seen.get(id).map(|seen| &seen.muster);
        muster.is_some_and(|muster| muster.me().leaves || !muster.is_member())
    };
    let waiting: Vec<u64> = alive.iter().copied().filter(waits).collect();
    let result = match net.borrow().apart.clone() {
        Some(what) => Err(Failure { check: "follows", what }),
        None => check(&scenario, &seen, (&alive, &waiting)),
    };
    Run { result, hash, events, reach }
}

/// Something goes wrong.
fn strike(net: &Rc<RefCell<Net>>, at: u64, trouble: &Trouble, is_silent: bool) {
    let net = &mut *net.borrow_mut();
    net.now = net.now.max(at);
    match *trouble {
        Trouble::Dies(id) => {
            if let Some(seen) = net.seen.get_mut(&(id + 1)) {
                (seen.lives, seen.is_silent) = (false, is_silent);
            }
        }
        Trouble::DiesWhen { id, changes } => {
            if let Some(seen) = net.seen.get_mut(&(id + 1)) {
                seen.is_silent = is_silent;
                seen.dies_at = Some(seen.changes + changes);
            }
        }
        Trouble::Unlinks { id, other, until } => {
            net.unlinked.push((id.min(other) + 1, id.max(other) + 1, until));
        }
        Trouble::Freezes { id, until } => {
            if let Some(seen) = net.seen.get_mut(&(id + 1)) {
                seen.frozen_until = until;
            }
        }
        Trouble::Divides { sides, until } => {
            net.divided_until = until;
            for (at, seen) in net.seen.values_mut().enumerate() {
                seen.side = (sides >> (at % 64) & 1) as u8;
            }
        }
        Trouble::Scales(nodes) => {
            // It is said to the first that takes it.
            let now = Tick(net.now);
            let takes = |seen: &mut Seen| {
                matches!(seen.muster.answer(now, Asked::Scale(nodes)), Answer::Scaling { .. })
            };
            net.seen.values_mut().filter(|seen| seen.lives).any(takes);
        }
    }
}

fn mark(reach: &mut Reach, seen: &History, chosen: &BTreeMap<u64, View>) {
    for next in &seen.entered {
        reach.mark(Marker::ViewFollowed);
        let before = chosen.get(&(next.view.number - 1));
        if next.view.members.iter().any(|member| before.is_some_and(|before| !before.has(member.id))) {
            reach.mark(Marker::JoinedView);
        }
    }
    let is_entered = |number: &u64| seen.entered.iter().any(|next| next.view.number == *number);
    chosen
        .keys()
        .filter(|number| **number > 1 && !is_entered(number))
        .for_each(|_| reach.mark(Marker::ViewVoid));
    if seen.spoilt > 0 {
        reach.mark(Marker::ViewSpoilt);
    }
    for end in seen.ends.values() {
        match end {
            End::Left => reach.mark(Marker::LeftView),
            End::NeverIn => reach.mark(Marker::PassedOver),
            End::Search(SearchError::Stuck(_)) => reach.mark(Marker::SearchStuck),
            End::Search(_) | End::Fault => {}
        }
    }
}

fn check(scenario: &Scenario, seen: &History, (alive, waiting): (&[u64], &[u64])) -> Result<(), Failure> {
    let failed = |check, what| Err(Failure { check, what });
    let searches = |id: &&u64| {
        let since = seen.trained.get(*id).map_or(0, |trained| END_US - trained);
        !waiting.contains(*id) && !seen.trains.contains_key(*id) && since > SEARCH_US_MAX
    };
    // Where much goes wrong, views can fail again and again.
    if let Some(id) = alive.iter().find(searches).filter(|_| scenario.kind != Kind::Wild) {
        return failed("ends", format!("process {id} still looks for a view"));
    }
    let is_faulty = scenario.joins.iter().any(|(_, _, fault)| *fault != Fault::None);
    if scenario.kind == Kind::Mild && seen.spoilt > SPOILT_MAX {
        return failed(
            "spoilt",
            format!("{} views did not begin because of a process that joined", seen.spoilt),
        );
    }
    if scenario.kind == Kind::Wild {
        return Ok(());
    }
    let kills = !scenario.troubles.is_empty();
    let healthy = |id: &u64| *id < 100 || scenario.joins[(*id - 100) as usize].2 == Fault::None;
    if let Some((id, end)) = seen.ends.iter().find(|(id, _)| healthy(id)) {
        // A process that joins may be taken for the reason of what another one does.
        if !((is_faulty || kills) && *id >= 100) {
            return failed("goes-on", format!("process {id} has ended: {end:?}"));
        }
    }
    // While a faulty process tries to join, a change of nodes is under way.
    let trains = |id: &u64| match seen.trains.get(id) {
        Some(place) => Some(Some(place)),
        None if is_faulty && seen.trained.get(id).is_some_and(|at| END_US - at < CHANGE_US_MAX) => Some(None),
        None => None,
    };
    let mut places: Vec<_> =
        alive.iter().filter(|id| healthy(id) && (!is_faulty && !kills || **id < 100)).map(trains).collect();
    let place = places.first().copied().flatten().flatten();
    places.dedup();
    if places.len() != 1 || places[0].is_none() {
        return failed("goes-on", format!("{alive:?} are not in one view: {:?}", seen.trains));
    }
    let members = place.map_or(0, |place| seen.members(*place).len());
    let expected = alive.iter().filter(|id| healthy(id)).count();
    if members < expected && !is_faulty {
        return failed("goes-on", format!("{members} nodes train, and {expected} could"));
    }
    Ok(())
}
