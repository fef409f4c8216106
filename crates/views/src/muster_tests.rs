use super::*;
use crate::view::{CutName, HeldCut};
use intendant_core::random;

const SETTINGS: u64 = 7;

fn process(id: u64) -> Process {
    Process { id, address: SocketAddr::from(([127, 0, 0, 1], 1000 + id as u16)) }
}

fn view() -> View {
    View::first(vec![process(10), process(11), process(12)])
}

/// The view after [`view`], without process 11.
fn second() -> View {
    View { number: 2, names: vec![0, 2], next_name: 3, ..View::first(vec![process(10), process(12)]) }
}

fn offer(id: u64, is_member: bool) -> Offer {
    Offer { settings: SETTINGS, ..Offer::of(process(id), is_member.then(view)) }
}

fn at(id: u64) -> Muster {
    Muster::new(offer(id, true))
}

/// A process asks the leader until the answer asks for no further vote.
fn ask(leader: &mut Muster, now: u64, asks: &mut Muster) -> Answer {
    loop {
        let answer = leader.answer(Tick(now), Asked::Offer(asks.me().clone()));
        if !asks.hear(&answer) {
            return answer;
        }
    }
}

const COORDINATOR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);

/// The leader decides, and the others vote.
fn chosen(leader: &mut Muster, now: u64, others: &mut [&mut Muster]) -> Next {
    for _ in 0..8 {
        if let Decision::Go(next) = leader.decide(Tick(now), COORDINATOR) {
            return next;
        }
        others.iter_mut().for_each(|other| drop(ask(leader, now, other)));
    }
    panic!("no view is chosen");
}

#[test]
fn the_leader_decides_when_the_others_have_voted() {
    let (mut leader, mut last) = (at(10), at(12));
    leader.lose([11]);
    // Node 12 has noticed the loss first.
    assert_eq!(ask(&mut leader, 0, &mut last), Answer::Wait);
    leader.lead(Tick(10));
    assert_eq!(leader.decide(Tick(20), COORDINATOR), Decision::Wait);
    // Node 12 promises, and then accepts.
    assert_eq!(ask(&mut leader, 30, &mut last), Answer::Wait);
    assert_eq!(leader.decide(Tick(40), COORDINATOR), Decision::Wait);
    assert_eq!(ask(&mut leader, 50, &mut last), Answer::Wait);
    let Decision::Go(next) = leader.decide(Tick(60), COORDINATOR) else { panic!("two of three have") };
    assert_eq!(next.view, second());
    assert_eq!(ask(&mut leader, 70, &mut last), Answer::Go(next, COORDINATOR));
    // Node 11 lives. It comes too late, and may join later.
    let mut late = at(11);
    assert_eq!(ask(&mut leader, 80, &mut late), Answer::Wait);
    leader.entered(&second());
    assert_eq!(leader.joining(Tick(90)), 0);
    assert_eq!(ask(&mut leader, 100, &mut late), Answer::Wait);
    assert_eq!(leader.joining(Tick(110)), 1);
    assert_eq!(leader.joining(Tick(110 + OFFER_US)), 0);
}

#[test]
fn a_member_that_is_silent_is_waited_for_and_then_passed_over() {
    let (mut leader, mut last) = (at(10), at(12));
    leader.lead(Tick(0));
    for now in [1, PATIENCE_US - 1] {
        ask(&mut leader, now, &mut last);
        assert_eq!(leader.decide(Tick(now), COORDINATOR), Decision::Wait);
    }
    assert_eq!(chosen(&mut leader, PATIENCE_US, &mut [&mut last]).view, second());
    // An offer that is not repeated does not count.
    let mut leader = at(10);
    leader.lead(Tick(0));
    ask(&mut leader, 1, &mut last);
    assert!(matches!(leader.decide(Tick(PATIENCE_US), COORDINATOR), Decision::Stuck(_)));
}

#[test]
fn a_view_that_may_have_been_chosen_is_followed() {
    let (mut first, mut second, mut third) = (at(10), at(11), at(12));
    first.lead(Tick(0));
    // All accept a view, and node 0 is lost before it says that it was chosen.
    let mut both = [&mut second, &mut third];
    let next = chosen(&mut first, 1, &mut both);
    assert_eq!(next.view.members, view().members);
    for node in both {
        node.lose([10]);
    }
    second.lead(Tick(2));
    let after = chosen(&mut second, 3, &mut [&mut third]);
    assert_eq!((next.view.number, after.view.number), (2, 3));
    assert_eq!(after.view.members, [process(11), process(12)]);
    // Node 0 lives, but has only its own vote.
    first.lead(Tick(4));
    assert_eq!(first.decide(Tick(4), COORDINATOR), Decision::Wait);
}

#[test]
fn a_leader_of_an_earlier_ballot_is_not_heard() {
    let (mut first, mut second, mut third) = (at(10), at(11), at(12));
    first.lose([11]);
    first.lead(Tick(0));
    ask(&mut first, 0, &mut third);
    first.decide(Tick(0), COORDINATOR);
    let accept = first.answer(Tick(0), Asked::Offer(third.me().clone()));
    assert!(matches!(accept, Answer::Accept(..)));
    // Node 12 promises a later ballot before the answer comes.
    second.lead(Tick(1));
    let mut offer = third.me().clone();
    second.answer(Tick(1), Asked::Offer(offer.clone()));
    second.decide(Tick(1), COORDINATOR);
    ask(&mut second, 1, &mut third);
    assert!(!third.hear(&accept), "it has promised {:?}", third.me().vote);
    // The first leader tries again.
    offer = third.me().clone();
    first.answer(Tick(2), Asked::Offer(offer));
    assert_eq!(chosen(&mut first, 2, &mut [&mut third]).view.members, [process(10), process(12)]);
}

#[test]
fn a_leader_that_is_passed_over_leads_those_who_are_left() {
    let four: Vec<Process> = (10..14).map(process).collect();
    let at = |id: u64| {
        Muster::new(Offer { settings: SETTINGS, ..Offer::of(process(id), Some(View::first(four.clone()))) })
    };
    let (mut first, mut second, mut third, mut fourth) = (at(10), at(11), at(12), at(13));
    // Node 0 is stopped, and the others accept a view without it. Then the process that leads is lost.
    second.lose([10]);
    second.lead(Tick(0));
    let next = chosen(&mut second, 1, &mut [&mut third, &mut fourth]);
    assert_eq!(next.view.members, four[1..]);
    // Node 0 has no place in that view, which counts. It may nevertheless lead to the view after it.
    first.lose([11]);
    first.lead(Tick(2));
    let after = chosen(&mut first, 3, &mut [&mut third, &mut fourth]);
    assert_eq!((after.view.number, after.view.members), (3, vec![four[0], four[2], four[3]]));
    // Node 0 uses no ballot twice, although it has no vote of its own.
    let used = first.me().vote.promised();
    first.lead(Tick(4));
    assert!(first.me().vote.promised() > used);
}

#[test]
fn a_leader_that_gives_up_says_why() {
    let (mut leader, mut other) = (at(10), at(12));
    leader.lead(Tick(0));
    assert_eq!(ask(&mut leader, 1, &mut other), Answer::Wait);
    leader.give_up("a reason".to_owned());
    assert_eq!(ask(&mut leader, 2, &mut other), Answer::Stuck("a reason".to_owned()));
    // Later it may lead again, or be in a view again.
    leader.lead(Tick(3));
    assert_eq!(ask(&mut leader, 4, &mut other), Answer::Wait);
}

#[test]
fn others_are_sent_to_node_0_or_to_the_leader() {
    let mut member = at(11);
    let mut joins = Muster::new(offer(5, false));
    assert_eq!(ask(&mut member, 0, &mut joins), Answer::Elsewhere(process(10).address));
    assert_eq!(member.answer(Tick(0), Asked::Scale(5)), Answer::Elsewhere(process(10).address));
    member.follow(process(12).address);
    assert_eq!(member.answer(Tick(0), Asked::Offer(offer(10, true))), Answer::Elsewhere(process(12).address));
    let mut first = at(10);
    assert_eq!(first.answer(Tick(0), Asked::Scale(5)), Answer::Scaling { nodes: 3 });
    assert_eq!((first.take_wanted(), first.take_wanted()), (Some(5), None));
}

#[test]
fn a_process_that_was_passed_over_hears_of_the_later_view() {
    for id in [10, 12] {
        let (mut member, mut passed_over) = (at(id), at(11));
        member.entered(&second());
        let told = member.answer(Tick(0), Asked::Offer(passed_over.me().clone()));
        assert_eq!(told, Answer::Chosen(second()));
        assert!(passed_over.is_member() && passed_over.hear(&told) && !passed_over.is_member());
        // Node 0 lets it in.
        let then = member.answer(Tick(1), Asked::Offer(passed_over.me().clone()));
        let expected = if id == 10 { Answer::Wait } else { Answer::Elsewhere(process(10).address) };
        assert_eq!((then, member.joining(Tick(1))), (expected, 1));
        // The process votes no more on the view that follows the one in which it was.
        assert!(!passed_over.hear(&Answer::Promise(Ballot { view: 1, round: 9, leader: 12 })));
        assert!(!passed_over.hear(&Answer::Promise(Ballot { view: 2, round: 9, leader: 12 })));
    }
}

#[test]
fn those_that_leave_do_not_wait_for_each_other() {
    let (mut one, mut other) = (at(10), at(11));
    one.leave();
    other.leave();
    assert!(matches!(one.answer(Tick(0), Asked::Offer(other.me().clone())), Answer::Stuck(_)));
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
    assert!(refused(|offer| offer.last = Some(View { number: u64::MAX, ..view() })));
    assert!(refused(|offer| offer.last = Some(View { names: vec![0], ..view() })));
    assert!(refused(|offer| offer.last = Some(View { next_name: 0, ..view() })));
    assert!(refused(|offer| {
        offer.vote.promise(Ballot { view: 1, round: u64::MAX, leader: 1 });
    }));
    assert!(refused(|offer| {
        let next = Next { view: View { number: 3, ..view() }, sources: Vec::new() };
        offer.vote.accept(Ballot { view: 1, round: 1, leader: 1 }, &next);
    }));
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
    let (mut leader, mut other) = (at(10), at(11));
    let leaves = Offer { leaves: true, ..offer(12, true) };
    leader.lead(Tick(0));
    leader.answer(Tick(0), Asked::Offer(leaves.clone()));
    let next = chosen(&mut leader, 1, &mut [&mut other]);
    assert_eq!(next.view.members, [process(10), process(11)]);
    assert_eq!(leader.answer(Tick(2), Asked::Offer(leaves.clone())), Answer::Wait);
    leader.entered(&next.view);
    leader.settle(1);
    assert_eq!(leader.answer(Tick(3), Asked::Offer(leaves.clone())), Answer::Wait);
    leader.settle(2);
    assert_eq!(leader.answer(Tick(4), Asked::Offer(leaves)), Answer::Released);
    assert_eq!(leader.joining(Tick(5)), 0);
}

/// The state of a process of the model.
#[derive(Debug)]
enum Doing {
    InView,
    /// It waits for the answer with this number.
    Asks(u64),
    Leads,
    /// It enters the view that was chosen.
    Goes(Next),
    Dead,
}

/// Processes that send each message separately: a message may be late, or lost.
struct Model {
    seed: u64,
    random: u64,
    now: u64,
    processes: BTreeMap<u64, (Muster, Doing)>,
    asked: Vec<(u64, u64, u64, Offer)>,
    answers: Vec<(u64, u64, Answer)>,
    messages: u64,
    /// The chosen views of which processes have learned, by number.
    chosen: BTreeMap<u64, View>,
    entered: usize,
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
            chosen: BTreeMap::new(),
            entered: 0,
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
        match self.below(20) {
            0 if self.below(100) == 0 => {
                let new = 100 + self.processes.len() as u64;
                let muster = Muster::new(Offer::of(process(new), None));
                self.processes.insert(new, (muster, Doing::Asks(0)));
            }
            0 if self.below(100) == 0 => self.processes.get_mut(&id).expect("it is one").1 = Doing::Dead,
            1 if self.below(15) == 0 => self.now += self.below(2 * PATIENCE_US),
            1 => self.now += self.below(OFFER_US / 4),
            2 if self.below(3) == 0 => {
                let gone = self.any();
                self.processes.get_mut(&id).expect("it is one").0.lose([gone]);
            }
            3..=6 => self.deliver_question(),
            7..=10 => self.deliver_answer(),
            _ => self.act(id, now),
        }
        self.look();
    }

    fn act(&mut self, id: u64, now: Tick) {
        let dice = self.below(24);
        let leads = |(_, (_, doing)): &(&u64, &(Muster, Doing))| matches!(doing, Doing::Leads);
        let leader = self.processes.iter().find(leads).map(|(id, _)| *id);
        let other = leader.filter(|_| self.below(4) > 0).unwrap_or_else(|| self.any());
        let (muster, doing) = self.processes.get_mut(&id).expect("it is one");
        match doing {
            Doing::Dead => {}
            // The view has ended for this process.
            Doing::InView if dice < 4 => *doing = Doing::Asks(0),
            Doing::InView if dice == 4 => {
                muster.leave();
                *doing = Doing::Asks(0);
            }
            Doing::InView => {}
            Doing::Asks(_) if !muster.me().leaves && dice == 0 && muster.is_member() => {
                muster.lead(now);
                *doing = Doing::Leads;
            }
            // It waits for an answer for a while.
            Doing::Asks(number) if *number > 0 && dice > 3 => {}
            Doing::Asks(_) => {
                self.messages += 1;
                muster.follow(process(other).address);
                *doing = Doing::Asks(self.messages);
                self.asked.push((id, other, self.messages, muster.me().clone()));
            }
            Doing::Leads => match muster.decide(now, process(id).address) {
                Decision::Go(next) => *doing = Doing::Goes(next),
                Decision::Wait | Decision::Stuck(_) if dice == 0 => *doing = Doing::Asks(0),
                Decision::Wait | Decision::Stuck(_) => {}
            },
            // The others have not come.
            Doing::Goes(_) if dice == 0 => *doing = Doing::Asks(0),
            Doing::Goes(next) => {
                let next = next.clone();
                if next.view.members.iter().all(|member| self.has_come(member.id, &next.view)) {
                    let (muster, doing) = self.processes.get_mut(&id).expect("it is one");
                    muster.entered(&next.view);
                    if dice < 8 {
                        muster.failed(Tick(self.now), &next.view.members);
                    } else {
                        muster.began(&next);
                    }
                    *doing = Doing::InView;
                    self.entered += 1;
                }
            }
        }
    }

    /// Whether a process is at the place where a view meets, or has entered it.
    fn has_come(&self, id: u64, view: &View) -> bool {
        self.processes.get(&id).is_some_and(|(muster, doing)| match doing {
            Doing::Goes(next) => next.view == *view,
            Doing::InView => muster.me().last.as_ref() == Some(view),
            Doing::Asks(_) | Doing::Leads | Doing::Dead => false,
        })
    }

    /// Checks that no two views that processes know to be chosen have the same number, so that at most one
    /// view follows another one.
    fn look(&mut self) {
        for (muster, doing) in self.processes.values() {
            if let Some(last) = &muster.me().last {
                let known = self.chosen.entry(last.number).or_insert_with(|| last.clone());
                assert_eq!(known, last, "seed {}", self.seed);
            }
            if let Doing::Goes(next) = doing {
                let known = self.chosen.entry(next.view.number).or_insert_with(|| next.view.clone());
                assert_eq!(*known, next.view, "seed {}", self.seed);
            }
        }
    }

    fn deliver_question(&mut self) {
        if self.asked.is_empty() {
            return;
        }
        let at = self.below(self.asked.len() as u64) as usize;
        let (from, to, number, offer) = self.asked.swap_remove(at);
        let is_lost = self.below(10) == 0;
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
        if !matches!(doing, Doing::Asks(asked) if *asked == number) || self.random.is_multiple_of(10) {
            return;
        }
        muster.hear(&answer);
        *doing = match answer {
            Answer::Go(next, _) if muster.go(&next) => Doing::Goes(next),
            Answer::Refused(reason) => panic!("seed {}: {reason}", self.seed),
            Answer::Wait
            | Answer::Promise(_)
            | Answer::Accept(..)
            | Answer::Chosen(_)
            | Answer::Elsewhere(_)
            | Answer::Go(..)
            | Answer::Stuck(_)
            | Answer::Released => Doing::Asks(0),
            Answer::Scaling { .. } => panic!("no process was asked to scale"),
        };
    }
}

#[test]
fn one_view_follows_another_however_late_messages_are() {
    let (mut chosen, mut entered) = (0, 0);
    for seed in 0..2_500 {
        let mut model = Model::new(seed);
        (0..3000).for_each(|_| model.step());
        chosen += model.chosen.len() - 1;
        entered += model.entered;
    }
    assert!(
        entered > 1_500 && chosen > 4_500,
        "{chosen} views were chosen; nodes have entered {entered} times"
    );
}

#[test]
fn machines_that_spoil_views_wait_longer_and_longer() {
    let mut first = at(10);
    let joined = View {
        number: 2,
        names: vec![0, 1, 2, 3],
        next_name: 4,
        ..View::first((10..14).map(process).collect())
    };
    let next = Next { view: joined.clone(), sources: Vec::new() };
    let on = |id: u64, machine: u8| {
        let address = SocketAddr::from(([127, 0, 0, machine], 1));
        Offer { settings: SETTINGS, ..Offer::of(Process { id, address }, None) }
    };
    let mut now = Tick(0);
    first.entered(&view());
    first.entered(&joined);
    for pause in [10, 20, 40, 80, 160, 320, 320] {
        // A process that has joined cannot begin.
        first.failed(now, &[process(13)]);
        let wants = |muster: &mut Muster, at: Tick| {
            muster.entered(&joined);
            muster.answer(at, Asked::Offer(on(20, 1)));
            muster.joining(at)
        };
        assert_eq!(wants(&mut first, now.after(pause * 1_000_000 - 1)), 0);
        // Processes of another machine may join.
        first.answer(now, Asked::Offer(on(21, 2)));
        assert_eq!(first.joining(now), 1);
        now = now.after(pause * 1_000_000);
        assert_eq!(wants(&mut first, now), 1);
    }
    first.began(&next);
    first.failed(now, &[process(13)]);
    first.answer(now.after(CLOSED_US), Asked::Offer(on(20, 1)));
    assert_eq!(first.joining(now.after(CLOSED_US)), 1, "one that has begun makes up for those before");
}
