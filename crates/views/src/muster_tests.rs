use super::*;
use crate::decide::{CutName, HeldCut};
use intendant_core::random;
use std::collections::BTreeSet;

const SETTINGS: u64 = 7;

fn process(id: u64) -> Process {
    Process { id, address: SocketAddr::from(([127, 0, 0, 1], 1000 + id as u16)) }
}

fn view() -> View {
    View::first(vec![process(10), process(11), process(12)])
}

/// The view after it, without process 11.
fn second() -> View {
    View { number: 2, names: vec![0, 2], next_name: 3, ..View::first(vec![process(10), process(12)]) }
}

fn offer(id: u64, entered: bool) -> Offer {
    Offer {
        process: process(id),
        settings: SETTINGS,
        entered: entered.then(view),
        entering: None,
        cuts: Vec::new(),
        gone: Vec::new(),
        leaves: false,
        seen: u64::from(entered),
    }
}

fn at(id: u64) -> Muster {
    Muster::new(offer(id, true))
}

const COORDINATOR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);

#[test]
fn the_leader_decides_when_the_others_have_come() {
    let mut leader = at(10);
    leader.me().gone = vec![11];
    // Node 12 has noticed first.
    assert_eq!(leader.answer(Tick(0), Asked::Offer(offer(12, true))), Answer::Wait);
    leader.lead(Tick(10));
    let Decision::Go(next) = leader.decide(Tick(20), COORDINATOR) else { panic!("it has all that live") };
    assert_eq!(next.view, second());
    assert_eq!(leader.answer(Tick(30), Asked::Offer(offer(12, true))), Answer::Go(next, COORDINATOR));
    // Node 11 lives. It has come too late, and may join later.
    assert_eq!(leader.answer(Tick(40), Asked::Offer(offer(11, true))), Answer::Wait);
    leader.entered(&second());
    assert_eq!(leader.joining(Tick(50)), 0);
    assert_eq!(leader.answer(Tick(60), Asked::Offer(offer(11, false))), Answer::Wait);
    assert_eq!(leader.joining(Tick(70)), 1);
    assert_eq!(leader.joining(Tick(70 + OFFER_US)), 0);
}

#[test]
fn a_member_that_is_silent_is_waited_for_and_then_passed_over() {
    let mut leader = at(10);
    leader.lead(Tick(0));
    leader.answer(Tick(1), Asked::Offer(offer(12, true)));
    assert_eq!(leader.decide(Tick(2), COORDINATOR), Decision::Wait(vec![process(11)]));
    leader.answer(Tick(PATIENCE_US), Asked::Offer(offer(12, true)));
    assert!(matches!(leader.decide(Tick(PATIENCE_US), COORDINATOR), Decision::Go(_)));
    // An offer that is not repeated does not count.
    leader.lead(Tick(0));
    leader.answer(Tick(1), Asked::Offer(offer(12, true)));
    assert!(matches!(leader.decide(Tick(PATIENCE_US), COORDINATOR), Decision::Stuck(_)));
}

#[test]
fn a_leader_that_gives_up_says_why() {
    let mut leader = at(10);
    leader.lead(Tick(0));
    assert_eq!(leader.answer(Tick(1), Asked::Offer(offer(12, true))), Answer::Wait);
    leader.give_up("a reason".to_owned());
    let told = Answer::Stuck("a reason".to_owned());
    assert_eq!(leader.answer(Tick(2), Asked::Offer(offer(12, true))), told);
    // Later it may lead, or be in a view, again.
    leader.lead(Tick(3));
    assert_eq!(leader.answer(Tick(4), Asked::Offer(offer(12, true))), Answer::Wait);
}

#[test]
fn others_are_sent_to_node_0_or_to_the_leader() {
    let mut member = at(11);
    assert_eq!(member.answer(Tick(0), Asked::Offer(offer(5, false))), Answer::Elsewhere(process(10).address));
    assert_eq!(member.answer(Tick(0), Asked::Scale(5)), Answer::Elsewhere(process(10).address));
    member.follow(process(12).address);
    assert_eq!(member.answer(Tick(0), Asked::Offer(offer(10, true))), Answer::Elsewhere(process(12).address));
    let mut first = at(10);
    assert_eq!(first.answer(Tick(0), Asked::Scale(5)), Answer::Scaling { nodes: 3 });
    assert_eq!((first.take_wanted(), first.take_wanted()), (Some(5), None));
}

#[test]
fn a_process_that_was_passed_over_hears_of_the_later_view() {
    let mut first = at(10);
    first.me().entered = Some(second());
    assert_eq!(first.answer(Tick(0), Asked::Offer(offer(11, true))), Answer::Outside(process(10).address));
    let mut third = at(12);
    third.me().entered = Some(second());
    assert_eq!(third.answer(Tick(0), Asked::Offer(offer(11, true))), Answer::Outside(process(10).address));
    let mut passed_over = at(11);
    passed_over.start_over();
    assert_eq!(passed_over.me().entered, None);
}

#[test]
fn offers_that_cannot_be_are_refused() {
    let refused = |change: fn(&mut Offer)| {
        let mut nonsense = offer(11, true);
        change(&mut nonsense);
        matches!(at(10).answer(Tick(0), Asked::Offer(nonsense)), Answer::Refused(_))
    };
    let cut = |parts, held: Vec<usize>| HeldCut {
        name: CutName { view: 1, number: 1 },
        parts,
        held,
        settled: true,
    };
    assert!(!refused(|_| ()));
    assert!(refused(|offer| offer.seen = u64::MAX));
    assert!(refused(|offer| offer.entered = Some(View { number: u64::MAX, ..view() })));
    assert!(refused(|offer| offer.entered = Some(View { names: vec![0], ..view() })));
    assert!(refused(|offer| offer.entering = Some(View { next_name: 0, ..view() })));
    let of = |cut: HeldCut| {
        let nonsense = Offer { cuts: vec![cut], ..offer(11, true) };
        matches!(at(10).answer(Tick(0), Asked::Offer(nonsense)), Answer::Refused(_))
    };
    assert!(!of(cut(3, vec![0, 2])));
    assert!(of(cut(usize::MAX, vec![0])) && of(cut(0, vec![])) && of(cut(2, vec![2])));
    assert!(matches!(at(10).answer(Tick(0), Asked::Scale(0)), Answer::Refused(_)));
}

#[test]
fn a_process_with_other_settings_is_refused() {
    let other = Offer { settings: SETTINGS + 1, ..offer(5, false) };
    assert!(matches!(at(10).answer(Tick(0), Asked::Offer(other)), Answer::Refused(_)));
}

#[test]
fn a_process_that_leaves_is_released_when_the_next_view_has_a_cut() {
    let mut leader = at(10);
    let leaves = Offer { leaves: true, cuts: Vec::new(), ..offer(12, true) };
    leader.lead(Tick(0));
    leader.answer(Tick(0), Asked::Offer(offer(11, true)));
    leader.answer(Tick(0), Asked::Offer(leaves.clone()));
    let Decision::Go(next) = leader.decide(Tick(1), COORDINATOR) else { panic!("all are there") };
    assert_eq!(next.view.begins, None::<CutName>);
    assert_eq!(leader.answer(Tick(2), Asked::Offer(leaves.clone())), Answer::Wait);
    leader.entered(&next.view);
    leader.settle(1);
    assert_eq!(leader.answer(Tick(3), Asked::Offer(leaves.clone())), Answer::Wait);
    leader.settle(2);
    assert_eq!(leader.answer(Tick(4), Asked::Offer(leaves)), Answer::Released);
    assert_eq!(leader.joining(Tick(5)), 0);
}

/// What a process of the model does.
#[derive(Debug)]
enum Doing {
    InView,
    /// It waits for the answer with this number.
    Asks(u64),
    Leads,
    /// It is let into the view of this gather, and may have called it.
    Goes {
        gather: usize,
        called: bool,
    },
    Dead,
}

/// The first gather of a view.
struct Gather {
    next: Next,
    coordinator: SocketAddr,
    /// Whether all members were in its lobby at once.
    met: bool,
    called: BTreeSet<u64>,
    passed: bool,
}

/// Processes that send each message on its own: it may be late, or lost.
struct Model {
    seed: u64,
    random: u64,
    now: u64,
    processes: BTreeMap<u64, (Muster, Doing)>,
    asked: Vec<(u64, u64, u64, Offer)>,
    answers: Vec<(u64, u64, Answer)>,
    messages: u64,
    gathers: Vec<Gather>,
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut new = Self {
            seed,
            random: seed,
            now: 0,
            processes: BTreeMap::new(),
            asked: Vec::new(),
            answers: Vec::new(),
            messages: 0,
            gathers: Vec::new(),
        };
        let count = 2 + new.below(4);
        let first = View::first((0..count).map(process).collect());
        for id in 0..count {
            let muster = Muster::new(Offer::of(process(id), Some(first.clone())));
            new.processes.insert(id, (muster, Doing::InView));
        }
        new
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random = random::stream(self.random, &[self.seed]);
        self.random % end
    }

    fn any(&mut self) -> u64 {
        let at = self.below(self.processes.len() as u64) as usize;
        *self.processes.keys().nth(at).expect("it is below their number")
    }

    fn step(&mut self) {
        let (id, now) = (self.any(), Tick(self.now));
        match self.below(16) {
            0 if self.below(40) == 0 => {
                let new = 100 + self.processes.len() as u64;
                let muster = Muster::new(Offer::of(process(new), None));
                self.processes.insert(new, (muster, Doing::Asks(0)));
            }
            0 if self.below(40) == 0 => self.processes.get_mut(&id).expect("it is one").1 = Doing::Dead,
            1 if self.below(8) == 0 => self.now += self.below(2 * PATIENCE_US),
            1 => self.now += self.below(OFFER_US / 8),
            2 if self.below(8) == 0 => {
                let gone = self.any();
                self.processes.get_mut(&id).expect("it is one").0.me().gone.push(gone);
            }
            3..=5 => self.deliver_question(),
            6..=8 => self.deliver_answer(),
            _ => self.act(id, now),
        }
    }

    fn act(&mut self, id: u64, now: Tick) {
        let dice = self.below(24);
        let leads = |(id, (_, doing)): &(&u64, &(Muster, Doing))| match doing {
            Doing::Leads => true,
            Doing::Goes { gather, .. } => self.gathers[*gather].coordinator == process(**id).address,
            Doing::InView | Doing::Asks(_) | Doing::Dead => false,
        };
        let leader = self.processes.iter().find(leads).map(|(id, _)| *id);
        let other = leader.filter(|_| self.below(4) > 0).unwrap_or_else(|| self.any());
        let (muster, doing) = self.processes.get_mut(&id).expect("it is one");
        match *doing {
            Doing::Dead => {}
            // The view has ended for it.
            Doing::InView if dice < 4 => *doing = Doing::Asks(0),
            Doing::InView if dice == 4 => {
                muster.me().leaves = true;
                *doing = Doing::Asks(0);
            }
            Doing::InView => {}
            Doing::Asks(_)
                if !muster.me().leaves
                    && dice < 3
                    && muster.me().entered.as_ref().is_some_and(|view| view.has(id)) =>
            {
                muster.lead(now);
                *doing = Doing::Leads;
            }
            // It waits for an answer for a while.
            Doing::Asks(number) if number > 0 && dice > 5 => {}
            Doing::Asks(_) => {
                self.messages += 1;
                muster.follow(process(other).address);
                *doing = Doing::Asks(self.messages);
                self.asked.push((id, other, self.messages, muster.me().clone()));
            }
            Doing::Leads => {
                let coordinator = process(id).address;
                match muster.decide(now, coordinator) {
                    Decision::Go(next) => {
                        muster.go(&next);
                        *doing = Doing::Goes { gather: self.gathers.len(), called: false };
                        let called = BTreeSet::new();
                        self.gathers.push(Gather { next, coordinator, met: false, called, passed: false });
                    }
                    Decision::Wait(_) | Decision::Stuck(_) if dice < 4 => *doing = Doing::Asks(0),
                    Decision::Wait(_) | Decision::Stuck(_) => {}
                }
            }
            // The others have not come.
            Doing::Goes { called: false, .. } if dice == 0 => *doing = Doing::Asks(0),
            Doing::Goes { gather, called: false } => self.call(id, gather),
            Doing::Goes { gather, called: true } => {
                let Gather { next, called, .. } = &self.gathers[gather];
                if dice == 0 {
                    // It waits no longer.
                    *doing = Doing::Asks(0);
                } else if next.view.members.iter().all(|member| called.contains(&member.id)) {
                    muster.entered(&next.view);
                    *doing = Doing::InView;
                    self.pass(gather);
                }
            }
        }
    }

    /// A process calls a gather, if all members are in its lobby, or were.
    fn call(&mut self, id: u64, gather: usize) {
        let Gather { next, met, called, .. } = &mut self.gathers[gather];
        let is_here = |member: &Process| {
            let doing = self.processes.get(&member.id).map(|(_, doing)| doing);
            matches!(doing, Some(Doing::Goes { gather: at, .. }) if *at == gather)
        };
        *met |= next.view.members.iter().all(is_here);
        if *met {
            called.insert(id);
            let (muster, doing) = self.processes.get_mut(&id).expect("it is one");
            muster.entering(&next.view);
            *doing = Doing::Goes { gather, called: true };
        }
    }

    fn deliver_question(&mut self) {
        if self.asked.is_empty() {
            return;
        }
        let at = self.below(self.asked.len() as u64) as usize;
        let (from, to, number, offer) = self.asked.swap_remove(at);
        let is_lost = self.below(4) == 0;
        let (muster, doing) = self.processes.get_mut(&to).expect("it is one");
        if !is_lost && !matches!(doing, Doing::Dead) {
            let answer = muster.answer(Tick(self.now), Asked::Offer(offer));
            self.answers.push((from, number, answer));
        }
    }

    fn deliver_answer(&mut self) {
        if self.answers.is_empty() {
            return;
        }
        let at = self.below(self.answers.len() as u64) as usize;
        let (to, number, answer) = self.answers.swap_remove(at);
        let (muster, doing) = self.processes.get_mut(&to).expect("it is one");
        if !matches!(doing, Doing::Asks(asked) if *asked == number) || self.random.is_multiple_of(4) {
            return;
        }
        match answer {
            Answer::Go(next, coordinator) => {
                let gather = self
                    .gathers
                    .iter()
                    .position(|known| known.next == next && known.coordinator == coordinator);
                muster.go(&next);
                let gather = gather.expect("a leader has decided on it");
                *doing = Doing::Goes { gather, called: false };
            }
            Answer::Outside(_) => muster.start_over(),
            Answer::Refused(reason) => panic!("seed {}: {reason}", self.seed),
            Answer::Wait | Answer::Elsewhere(_) | Answer::Stuck(_) | Answer::Released => {
                *doing = Doing::Asks(0)
            }
            Answer::Scaling { .. } => panic!("no process was asked to scale"),
        }
    }

    /// A process has passed a gather: no view may follow the same one.
    fn pass(&mut self, gather: usize) {
        let Gather { next, .. } = &self.gathers[gather];
        for (number, other) in self.gathers.iter().enumerate().filter(|(_, other)| other.passed) {
            assert!(
                number == gather || other.next.follows != next.follows,
                "seed {}: {:?} and {:?} are entered, and follow the same view",
                self.seed,
                other.next,
                next
            );
        }
        self.gathers[gather].passed = true;
    }
}

#[test]
fn one_view_follows_another_however_late_messages_are() {
    let (mut decided, mut entered) = (0, 0);
    for seed in 0..20_000 {
        let mut model = Model::new(seed);
        (0..1000).for_each(|_| model.step());
        decided += model.gathers.len();
        entered += model.gathers.iter().filter(|gather| gather.passed).count();
    }
    assert!(entered > 3_000 && decided > 3 * entered, "{decided} views were decided, {entered} entered");
}

#[test]
fn processes_that_spoil_views_wait_longer_and_longer() {
    let mut first = at(10);
    let joined = View { number: 2, names: vec![0, 1, 2, 3], ..View::first((10..14).map(process).collect()) };
    let next = Next { view: joined.clone(), follows: view(), sources: Vec::new(), lost: Vec::new() };
    let mut now = Tick(0);
    for pause in [10, 20, 40, 80, 160, 320, 320] {
        // It passes the first gather, and cannot begin.
        first.entered(&joined);
        first.failed(now, &next);
        first.entered(&view());
        first.began(&Next { view: view(), follows: view(), sources: Vec::new(), lost: Vec::new() });
        let wants = |muster: &mut Muster, at: Tick| {
            muster.answer(at, Asked::Offer(offer(20, false)));
            muster.joining(at)
        };
        assert_eq!(wants(&mut first, now.after(pause * 1_000_000 - 1)), 0);
        now = now.after(pause * 1_000_000);
        assert_eq!(wants(&mut first, now), 1);
    }
    first.entered(&joined);
    first.began(&next);
    first.entered(&view());
    first.failed(now, &next);
    assert_eq!(first.closed, now.after(CLOSED_US), "one that has begun makes up for those before");
}
