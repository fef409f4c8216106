use super::*;
use crate::decide::{CutName, HeldCut};

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
    leader.me().entered = Some(second());
    leader.enter();
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
    leader.me().entered = Some(next.view.clone());
    leader.enter();
    leader.settle(1);
    assert_eq!(leader.answer(Tick(3), Asked::Offer(leaves.clone())), Answer::Wait);
    leader.settle(2);
    assert_eq!(leader.answer(Tick(4), Asked::Offer(leaves)), Answer::Released);
    assert_eq!(leader.joining(Tick(5)), 0);
}
