use super::*;
use intendant_core::random;

fn process(id: u64) -> Process {
    Process { id, address: SocketAddr::from(([127, 0, 0, 1], 1000 + id as u16)) }
}

fn view(number: u64, ids: &[u64]) -> View {
    let first = View::first(ids.iter().copied().map(process).collect());
    View { number, ..first }
}

fn offer(id: u64, entered: Option<&View>) -> Offer {
    Offer {
        process: process(id),
        settings: 0,
        entered: entered.cloned(),
        entering: None,
        cuts: Vec::new(),
        gone: Vec::new(),
        leaves: false,
        seen: entered.map_or(0, |view| view.number),
    }
}

/// What node `rank` of `nodes` holds of a cut with one copy.
fn held(view: u64, number: u64, rank: usize, nodes: usize) -> HeldCut {
    let name = CutName { view, number };
    HeldCut { name, parts: nodes, held: vec![rank, (rank + nodes - 1) % nodes], settled: true }
}

fn offers(all: impl IntoIterator<Item = Offer>) -> BTreeMap<u64, Offer> {
    all.into_iter().map(|offer| (offer.process.id, offer)).collect()
}

fn next(decision: Decision) -> Next {
    match decision {
        Decision::Go(next) => next,
        other @ (Decision::Wait(_) | Decision::Stuck(_)) => panic!("{other:?}"),
    }
}

fn ids(next: &Next) -> Vec<u64> {
    next.view.members.iter().map(|member| member.id).collect()
}

fn stuck(decision: Decision) -> String {
    match decision {
        Decision::Stuck(reason) => reason,
        other @ (Decision::Wait(_) | Decision::Go(_)) => panic!("{other:?}"),
    }
}

#[test]
fn the_others_go_on_at_the_newest_cut_that_is_whole() {
    let first = view(1, &[10, 11, 12, 13]);
    let of = |id: u64, rank| Offer {
        cuts: vec![held(1, 4, rank, 4), HeldCut { settled: false, held: vec![rank], ..held(1, 5, rank, 4) }],
        gone: vec![11],
        ..offer(id, Some(&first))
    };
    let three = offers([of(10, 0), of(12, 2), of(13, 3)]);
    let next = next(decide(&three, true, true));
    let begins = Some(CutName { view: 1, number: 4 });
    assert_eq!(ids(&next), [10, 12, 13]);
    assert_eq!((&next.view.names[..], next.view.next_name), (&[0, 2, 3][..], 4));
    assert_eq!((next.view.number, next.view.begins, next.view.settled), (2, begins, true));
    assert_eq!(next.lost, [1]);
    let sources: Vec<Vec<u64>> =
        next.sources.iter().map(|part| part.iter().map(|holder| holder.id).collect()).collect();
    assert_eq!(sources, [vec![10], vec![12], vec![12, 13], vec![10, 13]]);
}

#[test]
fn members_that_may_live_are_waited_for() {
    let first = view(1, &[10, 11, 12]);
    let two = offers([offer(10, Some(&first)), offer(12, Some(&first))]);
    assert_eq!(decide(&two, true, true), Decision::Wait(vec![process(11)]));
    assert_eq!(ids(&next(decide(&two, false, true))), [10, 12]);
}

#[test]
fn a_minority_does_not_go_on() {
    let first = view(1, &[10, 11, 12, 13]);
    let of = |ids: &[u64]| offers(ids.iter().map(|id| offer(*id, Some(&first))));
    assert!(stuck(decide(&of(&[12]), false, true)).starts_with("1 of 4 nodes are left"));
    assert!(stuck(decide(&of(&[11, 13]), false, true)).starts_with("2 of 4 nodes are left"));
    assert_eq!(ids(&next(decide(&of(&[10, 13]), false, true))), [10, 13]);
    assert_eq!(ids(&next(decide(&of(&[11, 12, 13]), false, true))), [11, 12, 13]);
}

#[test]
fn a_part_of_which_no_copy_is_left_ends_the_run() {
    let first = view(1, &[10, 11, 12, 13, 14]);
    let of = |id: u64, rank| Offer { cuts: vec![held(1, 1, rank, 5)], ..offer(id, Some(&first)) };
    let reason = stuck(decide(&offers([of(12, 2), of(13, 3), of(14, 4)]), false, true));
    assert!(reason.starts_with("all copies of the values of node 0 are lost"), "{reason}");
    // Those of one node and of another that is not its neighbour are no problem.
    assert_eq!(next(decide(&offers([of(11, 1), of(13, 3), of(14, 4)]), false, true)).lost, [0, 2]);
}

#[test]
fn a_run_without_a_settled_cut_may_begin_again() {
    let again = view(2, &[10, 11, 12]);
    let of = |id, view: &View| offer(id, Some(view));
    assert_eq!(ids(&next(decide(&offers([of(10, &again), of(12, &again)]), false, true))), [10, 12]);
    let unsettled = View { begins: Some(CutName { view: 1, number: 3 }), ..again.clone() };
    let begins = next(decide(&offers([of(10, &unsettled), of(12, &unsettled)]), false, true)).view.begins;
    assert_eq!(begins, None);
    let later = View { settled: true, ..again };
    let reason = stuck(decide(&offers([of(10, &later), of(12, &later)]), false, true));
    assert!(reason.starts_with("no copies"), "{reason}");
}

#[test]
fn nodes_join_and_leave() {
    let first = view(1, &[10, 11, 12]);
    let of = |id: u64, rank| Offer { cuts: vec![held(1, 9, rank, 3)], ..offer(id, Some(&first)) };
    let leaves = Offer { leaves: true, ..of(11, 1) };
    let next = next(decide(&offers([of(10, 0), leaves, of(12, 2), offer(5, None)]), true, true));
    assert_eq!(ids(&next), [10, 12, 5]);
    assert_eq!((&next.view.names[..], next.view.next_name), (&[0, 2, 3][..], 4));
    // It holds its part until the others have it.
    assert!(next.sources[1].contains(&process(11)));
    assert_eq!(next.lost, [0usize; 0]);
    assert!(stuck(decide(&offers([offer(5, None)]), false, true)).starts_with("no process"));
    let leaves = |id, rank| Offer { leaves: true, ..of(id, rank) };
    assert_eq!(
        ids(&self::next(decide(&offers([of(10, 0), leaves(11, 1), leaves(12, 2)]), true, true))),
        [10]
    );
    let all_leave = offers([leaves(10, 0), leaves(11, 1), leaves(12, 2), offer(5, None)]);
    assert_eq!(stuck(decide(&all_leave, true, true)), "all nodes leave");
    // Process 12 may be in another group, with process 11 as well.
    assert!(stuck(decide(&offers([of(10, 0), leaves(11, 1)]), false, true)).starts_with("1 of 3 nodes"));
    let four = offers([of(10, 0), of(11, 1), of(12, 2), offer(5, None)]);
    assert_eq!(ids(&self::next(decide(&four, true, false))), [10, 11, 12]);
}

#[test]
fn a_view_that_may_have_been_entered_by_others_is_not_passed_over() {
    let (first, second) = (view(1, &[10, 11, 12, 13]), view(2, &[10, 11, 13]));
    let entering = |id| Offer { entering: Some(second.clone()), seen: 2, ..offer(id, Some(&first)) };
    let entered = |id| offer(id, Some(&second));
    let before = |id| offer(id, Some(&first));
    // Node 13 has called the gather, and does not know whether the others have passed it.
    assert!(stuck(decide(&offers([before(12), entering(13)]), false, true)).contains("do not know whether"));
    assert!(
        stuck(decide(&offers([before(12), entering(13), entering(11)]), false, true)).contains("do not know")
    );
    // One member has not called it: no process has passed it.
    let two = offers([before(10), before(12), entering(13)]);
    assert_eq!(ids(&next(decide(&two, false, true))), [10, 12, 13]);
    // One has passed it, or all of them tell that they have not.
    let values = |mut offer: Offer, rank| {
        offer.cuts = vec![held(1, 1, rank, 4)];
        offer
    };
    let two = offers([values(entered(11), 1), values(entering(13), 3)]);
    assert_eq!(ids(&next(decide(&two, false, true))), [11, 13]);
    let three = offers([values(entering(10), 0), values(entering(11), 1), values(entering(13), 3)]);
    assert_eq!(ids(&next(decide(&three, false, true))), [10, 11, 13]);
}

/// A process in the test below.
#[derive(Clone)]
struct Model {
    offer: Offer,
    lives: bool,
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

/// Processes that die, are cut off from each other, lose the answers of gathers, and join: never do two views
/// follow one, and never is a settled cut passed over of which all parts are there.
#[test]
fn views_follow_each_other() {
    let (mut entered, mut stuck) = (0, 0);
    for seed in 0..20_000u64 {
        let mut dice = Dice(random::stream(seed, &[7]));
        let count = 2 + dice.below(5);
        let ids: Vec<u64> = (0..count).collect();
        let first = view(1, &ids);
        let mut all: BTreeMap<u64, Model> = ids
            .iter()
            .map(|id| {
                let cuts = vec![held(1, 1, *id as usize, ids.len())];
                (*id, Model { offer: Offer { cuts, ..offer(*id, Some(&first)) }, lives: true })
            })
            .collect();
        let mut last = first;
        let mut decided: Vec<(View, View)> = Vec::new();
        let (mut settled, mut nodes_of_settled) = (CutName { view: 1, number: 1 }, ids.len());
        for step in 0..12 {
            if dice.below(4) == 0 {
                let id = 100 + step;
                all.insert(id, Model { offer: offer(id, None), lives: true });
            }
            let alive: Vec<u64> = all.iter().filter(|(_, model)| model.lives).map(|(id, _)| *id).collect();
            if dice.below(3) == 0
                && let Some(dies) = alive.get(dice.below(alive.len().max(1) as u64) as usize)
            {
                all.get_mut(dies).expect("it is one of them").lives = false;
            }
            let alive: Vec<u64> = all.iter().filter(|(_, model)| model.lives).map(|(id, _)| *id).collect();
            let group = dice.some_of(&alive);
            let offers = offers(group.iter().map(|id| all[id].offer.clone()));
            let next = match decide(&offers, false, true) {
                Decision::Go(next) => next,
                Decision::Stuck(_) => {
                    stuck += 1;
                    continue;
                }
                Decision::Wait(missing) => panic!("{missing:?} are waited for"),
            };
            decided.push((next.view.clone(), next.follows.clone()));
            for member in &next.view.members {
                let offer = &mut all.get_mut(&member.id).expect("a member offered").offer;
                offer.seen = offer.seen.max(next.view.number);
                (offer.entered, offer.entering) = (Some(next.follows.clone()), None);
            }
            let members: Vec<u64> = next.view.members.iter().map(|member| member.id).collect();
            let called = if dice.below(2) == 0 { members.clone() } else { dice.some_of(&members) };
            for id in &called {
                all.get_mut(id).expect("a member").offer.entering = Some(next.view.clone());
            }
            if called.len() < members.len() {
                continue;
            }
            let passed = if dice.below(2) == 0 { members.clone() } else { dice.some_of(&members) };
            if passed.is_empty() {
                continue;
            }
            entered += 1;
            assert!(next.view.number > last.number, "seed {seed}: {:?} after {last:?}", next.view);
            let mut follows = &next.view;
            while *follows != last {
                let before = decided.iter().rev().find(|(view, _)| view == follows);
                follows =
                    &before.unwrap_or_else(|| panic!("seed {seed}: {:?} passes {last:?} over", next.view)).1;
            }
            let parts: BTreeSet<usize> = offers
                .values()
                .flat_map(|offer| offer.cuts.iter().filter(|cut| cut.name == settled))
                .flat_map(|cut| cut.held.iter().copied())
                .collect();
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
            last = next.view.clone();
            for id in &passed {
                let offer = &mut all.get_mut(id).expect("a member").offer;
                (offer.entered, offer.entering) = (Some(next.view.clone()), None);
            }
            if passed.len() == members.len() && dice.below(2) == 0 {
                // All hold their parts of a cut; some know it.
                (settled, nodes_of_settled) = (CutName { view: next.view.number, number: 1 }, members.len());
                for (rank, id) in members.iter().enumerate() {
                    let knows = dice.below(2) == 0;
                    let cut = HeldCut { settled: knows, ..held(settled.view, 1, rank, members.len()) };
                    let cuts = &mut all.get_mut(id).expect("a member").offer.cuts;
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
