use super::*;
use crate::view::HeldCut;
use intendant_core::random;
use std::net::SocketAddr;

fn process(id: u64) -> Process {
    Process { id, address: SocketAddr::from(([127, 0, 0, 1], 1000 + id as u16)) }
}

fn view(number: u64, ids: &[u64]) -> View {
    let first = View::first(ids.iter().copied().map(process).collect());
    View { number, ..first }
}

fn offer(id: u64) -> Offer {
    Offer::of(process(id), None)
}

/// The parts that node `rank` of `nodes` holds of a cut with one copy.
fn held(view: u64, number: u64, rank: usize, nodes: usize) -> HeldCut {
    let name = CutName { view, number };
    HeldCut { name, parts: nodes, held: vec![rank, (rank + nodes - 1) % nodes], settled: true }
}

fn proven(_: &Process) -> Standing {
    Standing::Proven
}

/// The decision from these offers; the process of the first offer leads.
fn decide(
    last: &View,
    offers: &[Offer],
    is_patient: bool,
    standing: impl Fn(&Process) -> Standing,
) -> Result<Next, Undecided> {
    let leader = offers.first().map_or(0, |offer| offer.process.id);
    let offers = offers.iter().map(|offer| (offer.process.id, offer)).collect();
    quorum(last, &offers, is_patient)?;
    successor(last, leader, &offers, standing).map_err(Undecided::Stuck)
}

fn go(last: &View, offers: &[Offer]) -> Next {
    decide(last, offers, false, proven).expect("they can go on")
}

fn ids(next: &Next) -> Vec<u64> {
    next.view.members.iter().map(|member| member.id).collect()
}

fn stuck(last: &View, offers: &[Offer]) -> String {
    match decide(last, offers, false, proven) {
        Err(Undecided::Stuck(reason)) => reason,
        other @ (Err(Undecided::Wait) | Ok(_)) => panic!("{other:?}"),
    }
}

#[test]
fn the_others_go_on_at_the_newest_cut_that_is_whole() {
    let first = view(1, &[10, 11, 12, 13]);
    let of = |id: u64, rank| Offer {
        cuts: vec![held(1, 4, rank, 4), HeldCut { settled: false, held: vec![rank], ..held(1, 5, rank, 4) }],
        gone: vec![11],
        ..offer(id)
    };
    let next = decide(&first, &[of(10, 0), of(12, 2), of(13, 3)], true, proven).expect("three are left");
    let begins = Some(CutName { view: 1, number: 4 });
    assert_eq!(ids(&next), [10, 12, 13]);
    assert_eq!((&next.view.names[..], next.view.next_name), (&[0, 2, 3][..], 4));
    assert_eq!((next.view.number, next.view.begins, next.view.settled), (2, begins, true));
    let sources: Vec<Vec<u64>> =
        next.sources.iter().map(|part| part.iter().map(|holder| holder.id).collect()).collect();
    assert_eq!(sources, [vec![10], vec![12], vec![12, 13], vec![10, 13]]);
}

#[test]
fn members_that_may_live_are_waited_for() {
    let first = view(1, &[10, 11, 12]);
    let two = [offer(10), offer(12)];
    assert_eq!(decide(&first, &two, true, proven), Err(Undecided::Wait));
    assert_eq!(ids(&go(&first, &two)), [10, 12]);
}

#[test]
fn a_minority_does_not_go_on() {
    let first = view(1, &[10, 11, 12, 13]);
    let of = |ids: &[u64]| ids.iter().map(|id| offer(*id)).collect::<Vec<Offer>>();
    assert!(stuck(&first, &of(&[12])).starts_with("1 of 4 nodes are left"));
    assert!(stuck(&first, &of(&[11, 13])).starts_with("2 of 4 nodes are left"));
    assert_eq!(ids(&go(&first, &of(&[10, 13]))), [10, 13]);
    assert_eq!(ids(&go(&first, &of(&[11, 12, 13]))), [11, 12, 13]);
}

#[test]
fn the_process_that_leads_is_node_0() {
    let first = view(1, &[10, 11, 12]);
    let next = go(&first, &[offer(12), offer(10), offer(11)]);
    assert_eq!((ids(&next), &next.view.names[..]), (vec![12, 10, 11], &[2, 0, 1][..]));
}

#[test]
fn a_part_of_which_no_copy_is_left_ends_the_run() {
    let first = view(1, &[10, 11, 12, 13, 14]);
    let of = |id: u64, rank| Offer { cuts: vec![held(1, 1, rank, 5)], ..offer(id) };
    let reason = stuck(&first, &[of(12, 2), of(13, 3), of(14, 4)]);
    assert!(reason.starts_with("all copies of the values of node 0 are lost"), "{reason}");
    // The loss of one node and of another that is not its neighbour is no problem.
    assert_eq!(ids(&go(&first, &[of(11, 1), of(13, 3), of(14, 4)])), [11, 13, 14]);
}

#[test]
fn a_run_without_a_settled_cut_may_begin_again() {
    let again = view(2, &[10, 11, 12]);
    let two = [offer(10), offer(12)];
    assert_eq!(ids(&go(&again, &two)), [10, 12]);
    let unsettled = View { begins: Some(CutName { view: 1, number: 3 }), ..again.clone() };
    assert_eq!(go(&unsettled, &two).view.begins, None);
    let later = View { settled: true, ..again };
    let reason = stuck(&later, &two);
    assert!(reason.starts_with("no copies"), "{reason}");
}

#[test]
fn nodes_join_and_leave() {
    let first = view(1, &[10, 11, 12]);
    let of = |id: u64, rank| Offer { cuts: vec![held(1, 9, rank, 3)], ..offer(id) };
    let leaves = |id, rank| Offer { leaves: true, ..of(id, rank) };
    let next = go(&first, &[of(10, 0), leaves(11, 1), of(12, 2), offer(5)]);
    assert_eq!(ids(&next), [10, 12, 5]);
    assert_eq!((&next.view.names[..], next.view.next_name), (&[0, 2, 3][..], 4));
    // The process that leaves holds its part until the others have it.
    assert!(next.sources[1].contains(&process(11)));
    assert_eq!(ids(&go(&first, &[of(10, 0), leaves(11, 1), leaves(12, 2)])), [10]);
    let all_leave = [leaves(10, 0), leaves(11, 1), leaves(12, 2), offer(5)];
    assert_eq!(stuck(&first, &all_leave), "all nodes leave");
    // A member that leaves counts for the quorum.
    assert_eq!(ids(&go(&first, &[of(12, 2), leaves(11, 1)])), [12]);
    let four = [of(10, 0), of(11, 1), of(12, 2), offer(5)];
    let barred = |process: &Process| if process.id == 5 { Standing::Barred } else { Standing::Proven };
    assert_eq!(ids(&decide(&first, &four, true, barred).expect("all are there")), [10, 11, 12]);
}

#[test]
fn those_that_were_there_before_are_a_quorum_without_those_that_join() {
    let first = view(1, &[10, 11]);
    let offers: Vec<Offer> = [10, 11, 20, 21, 22].map(offer).into();
    let next = go(&first, &offers);
    assert_eq!(ids(&next), [10, 11, 20, 21]);
    assert!(next.view.is_quorum(|id| first.has(id)));
    assert_eq!(ids(&go(&next.view, &offers)), [10, 11, 20, 21, 22]);
    // Members that have not worked yet come after those that were there before.
    let standing = |process: &Process| match process.id {
        10 | 11 => Standing::Proven,
        20 => Standing::Barred,
        _ => Standing::Welcome,
    };
    let third = decide(&next.view, &offers, true, standing).expect("all are there");
    assert_eq!((ids(&third), &third.view.names[..]), (vec![10, 11, 21, 22], &[0, 1, 3, 4][..]));
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = random::stream(self.0, &[1]);
        self.0 % end
    }

    fn some_of(&mut self, all: &[u64]) -> Vec<u64> {
        all.iter().copied().filter(|_| self.below(3) > 0).collect()
    }
}

/// Processes die, are cut off from each other, and join. A view never begins before a settled cut of which
/// all parts are there, and never with a part that no process holds.
#[test]
fn views_begin_at_cuts_that_are_whole() {
    let (mut entered, mut stuck) = (0, 0);
    for seed in 0..20_000u64 {
        let mut dice = Dice(random::stream(seed, &[7]));
        let count = 2 + dice.below(5);
        let ids: Vec<u64> = (0..count).collect();
        let mut last = view(1, &ids);
        let start = |id: &u64| {
            let cuts = vec![held(1, 1, *id as usize, ids.len())];
            (*id, Offer { cuts, ..offer(*id) })
        };
        let mut all: BTreeMap<u64, Offer> = ids.iter().map(start).collect();
        let (mut settled, mut nodes_of_settled) = (CutName { view: 1, number: 1 }, ids.len());
        for step in 0..12 {
            if dice.below(4) == 0 {
                all.insert(100 + step, offer(100 + step));
            }
            let alive: Vec<u64> = all.keys().copied().collect();
            if dice.below(3) == 0
                && let Some(dies) = alive.get(dice.below(alive.len().max(1) as u64) as usize)
            {
                all.remove(dies);
            }
            let alive: Vec<u64> = all.keys().copied().collect();
            let group: Vec<Offer> = dice.some_of(&alive).iter().map(|id| all[id].clone()).collect();
            let next = match decide(&last, &group, false, proven) {
                Ok(next) => next,
                Err(Undecided::Stuck(_)) => {
                    stuck += 1;
                    continue;
                }
                Err(Undecided::Wait) => panic!("members are waited for"),
            };
            entered += 1;
            let cuts = group.iter().flat_map(|offer| offer.cuts.iter().filter(|cut| cut.name == settled));
            let parts: BTreeSet<usize> = cuts.flat_map(|cut| cut.held.iter().copied()).collect();
            let is_whole = parts.len() == nodes_of_settled;
            assert!(
                !is_whole || next.view.begins >= Some(settled),
                "seed {seed}: {:?} is older than {settled:?}",
                next.view.begins
            );
            assert!(
                next.view.begins.is_some() && next.sources.iter().all(|part| !part.is_empty()),
                "seed {seed}"
            );
            last = next.view;
            if dice.below(2) == 0 {
                // All nodes hold their parts of a cut; some know that.
                let nodes = last.members.len();
                (settled, nodes_of_settled) = (CutName { view: last.number, number: 1 }, nodes);
                for (rank, member) in last.members.iter().enumerate() {
                    let knows = dice.below(2) == 0;
                    let cut = HeldCut { settled: knows, ..held(settled.view, 1, rank, nodes) };
                    let cuts = &mut all.get_mut(&member.id).expect("a member").cuts;
                    if knows {
                        cuts.clear();
                    }
                    cuts.push(cut);
                }
            }
        }
    }
    assert!(
        entered > 10_000 && stuck > 10_000,
        "{entered} views were entered, {stuck} attempts did not lead to one"
    );
}
