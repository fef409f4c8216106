//! What a process of a run with copies does beside its training, as `intendant-train` does: it enters views,
//! notices that nodes are lost, lets others in, and looks for the next view.

use intendant_sim::muster::{Outside, process};
use intendant_views::{Course, Ended, Found, Next, Process, SearchError, Then, View, World, find, leave};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;

/// How long a process looks for the next view.
const MUSTER_US: u64 = 60_000_000;

/// How long the nodes of a view wait for each other's values.
const LOAD_US: u64 = 6_000_000;

/// How often a process looks whether others have come, or the view has ended.
const LOOK_US: u64 = 20_000;
const TRAIN_US: u64 = 300_000;

/// Until a node is lost that does not reach the others.
const LOST_US: u64 = 3_000_000;

/// When the first cut of a view is settled.
const SETTLED_US: u64 = 1_000_000;

/// Between two looks of node 0 for those that want to join.
const JOINING_US: u64 = 1_000_000;

/// How long a process that leaves holds its values.
const LEAVE_US: u64 = 3_600_000_000;

/// What is wrong with a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// It cannot be connected to the others.
    BeforeEntering,
    /// It cannot load its values.
    AfterEntering,
}

/// How a process has ended.
#[derive(Debug)]
pub(super) enum End {
    /// Its own fault.
    Fault,
    /// It has left the run, as it was asked to.
    Left,
    /// It could not be a node, and was not before.
    NeverIn,
    /// There is no next view for it.
    Search(SearchError),
}

/// A view that is about to begin, has begun, or could not.
#[derive(Debug, Default)]
pub(super) struct Meeting {
    next: Option<Next>,
    /// Members that are here, and that have loaded their values.
    here: BTreeSet<u64>,
    loaded: BTreeSet<u64>,
    /// Members for which the view has ended: the others lose their connections to them.
    left: BTreeSet<u64>,
    has_met: bool,
    /// Why it ended.
    ended: Option<Ended>,
}

/// What all processes and the checks see of a run.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// By the place where the view meets.
    meetings: BTreeMap<SocketAddr, Meeting>,
    /// The views that a process has entered.
    pub(super) entered: Vec<Next>,
    /// The place of the view in which each process trains, and when each has trained last.
    pub(super) trains: BTreeMap<u64, SocketAddr>,
    pub(super) trained: BTreeMap<u64, u64>,
    pub(super) ends: BTreeMap<u64, End>,
    /// Views that did not begin because of a fault of a process that joined.
    pub(super) spoilt: u64,
}

impl Run {
    /// Nodes of the view that meets there.
    pub(super) fn members(&self, place: SocketAddr) -> &[Process] {
        let next = self.meetings.get(&place).and_then(|meeting| meeting.next.as_ref());
        next.map_or(&[], |next| &next.view.members)
    }

    fn meeting(&mut self, place: SocketAddr) -> &mut Meeting {
        self.meetings.entry(place).or_default()
    }
}

/// A process of the run.
pub(super) struct Node {
    pub(super) outside: Outside,
    pub(super) run: Rc<RefCell<Run>>,
    pub(super) fault: Fault,
    /// Where it wants to join.
    pub(super) door: Option<SocketAddr>,
    course: Course,
}

impl Node {
    pub(super) const fn new(
        outside: Outside,
        run: Rc<RefCell<Run>>,
        fault: Fault,
        door: Option<SocketAddr>,
    ) -> Self {
        let course = Course::new(outside.id, door.is_some());
        Self { outside, run, fault, door, course }
    }

    fn with<R>(&self, act: impl FnOnce(&mut Run) -> R) -> R {
        act(&mut self.run.borrow_mut())
    }

    fn now(&self) -> u64 {
        self.outside.now().0
    }

    /// From the first view on, or from the moment at which it wants to join.
    pub(super) async fn live(mut self, first: Option<View>, from_us: u64) {
        self.outside.sleep(from_us).await;
        let end = self.until_end(first).await;
        let id = self.outside.id;
        self.outside.with(|net| {
            if let Some(seen) = net.seen.get_mut(&id) {
                seen.lives = false;
            }
        });
        self.with(|run| {
            run.trains.remove(&id);
            run.ends.insert(id, end);
        });
    }

    async fn until_end(&mut self, first: Option<View>) -> End {
        let mut ended = None;
        if let Some(view) = first {
            // Before the first view there is no other.
            let next = Next { view, sources: Vec::new() };
            let place = process(0).address;
            self.with(|run| run.meeting(place).next = Some(next.clone()));
            self.outside.muster(|muster| muster.entered(&next.view));
            self.course.enter(next.view.members.clone()).expect("it is the first view");
            self.course.begin();
            ended = Some(self.train(place, &next).await);
            self.with(|run| run.meeting(place).left.insert(self.outside.id));
        }
        loop {
            if let Some(ended) = ended.take()
                && let Err(end) = self.follow(ended).await
            {
                return end;
            }
            let found = match find(&self.outside, self.door, MUSTER_US).await {
                Ok(found) => found,
                Err(error) => return End::Search(error),
            };
            let place = found.coordinator;
            let view = self.view(found).await;
            self.with(|run| run.meeting(place).left.insert(self.outside.id));
            match view {
                Ok(it) => ended = Some(it),
                Err(end) => return end,
            }
        }
    }

    /// A view has ended: whether the process looks for another one.
    async fn follow(&mut self, ended: Ended) -> Result<(), End> {
        let (now, blamed) = (self.outside.now(), self.course.blamed(ended));
        self.outside.muster(|muster| muster.failed(now, &blamed));
        match self.course.end(ended) {
            Then::Musters(gone) => {
                self.outside.muster(|muster| muster.lose(gone));
                Ok(())
            }
            Then::Leaves => {
                leave(&self.outside, LEAVE_US).await;
                Err(End::Left)
            }
            Then::Ends => Err(End::NeverIn),
        }
    }

    /// Enters a view, and trains in it until it ends.
    async fn view(&mut self, found: Found) -> Result<Ended, End> {
        let Found { next, coordinator, .. } = found;
        self.course.find(next.clone());
        if let Some(ended) = self.enter(coordinator, &next).await? {
            return Ok(ended);
        }
        self.course.begin();
        self.outside.muster(|muster| muster.began(&next));
        Ok(self.train(coordinator, &next).await)
    }

    /// Enters a view with all others and loads its values, or says why that fails.
    async fn enter(&mut self, place: SocketAddr, next: &Next) -> Result<Option<Ended>, End> {
        let id = self.outside.id;
        let deadline = self.now() + self.course.meet_us();
        self.with(|run| {
            let meeting = run.meeting(place);
            meeting.next.get_or_insert(next.clone());
            meeting.here.insert(id);
        });
        if self.fault == Fault::BeforeEntering {
            return Err(self.abort(place, next));
        }
        let all = |set: &BTreeSet<u64>| next.view.members.iter().all(|member| set.contains(&member.id));
        // They meet.
        if let Some(ended) = self
            .wait(place, next, deadline, |meeting| {
                meeting.has_met |= all(&meeting.here);
                meeting.has_met
            })
            .await
        {
            self.with(|run| run.meeting(place).here.remove(&id));
            return Ok(Some(ended));
        }
        self.outside.muster(|muster| muster.entered(&next.view));
        self.course.enter(next.view.members.clone()).expect("these are its members");
        self.with(|run| {
            if !run.entered.contains(next) {
                run.entered.push(next.clone());
            }
        });
        let deadline = self.now() + LOAD_US;
        // They load their values.
        if self.fault == Fault::AfterEntering {
            return Err(self.abort(place, next));
        }
        self.with(|run| run.meeting(place).loaded.insert(id));
        Ok(self.wait(place, next, deadline, |meeting| all(&meeting.loaded)).await)
    }

    /// The process ends, and tells the others that it does.
    fn abort(&self, place: SocketAddr, next: &Next) -> End {
        let rank = next.view.rank(self.outside.id).unwrap_or_default();
        self.with(|run| {
            let ended = &mut run.meeting(place).ended;
            let is_first = ended.is_none();
            ended.get_or_insert(Ended::By(rank));
            run.spoilt += u64::from(is_first);
        });
        End::Fault
    }

    /// Waits until this holds of the meeting, as node 0 of the view tells it; `None` then.
    async fn wait(
        &self,
        place: SocketAddr,
        next: &Next,
        deadline: u64,
        mut holds: impl FnMut(&mut Meeting) -> bool,
    ) -> Option<Ended> {
        let id = self.outside.id;
        let first = next.view.members.first().map_or(id, |first| first.id);
        loop {
            let us = self.outside.with(|net| LOOK_US + net.dice.below(5 * LOOK_US));
            self.outside.sleep(us).await;
            if self.outside.with(|net| net.reaches(id, first)) {
                // What node 0 has told arrives before what it tells later.
                if self.with(|run| holds(run.meeting(place))) {
                    return None;
                }
                if let Some(ended) = self.with(|run| run.meeting(place).ended) {
                    return Some(ended);
                }
            }
            // Those that have met are connected, and notice the end of another one.
            if self.with(|run| run.meeting(place).has_met)
                && let Some(lost) =
                    next.view.members.iter().position(|member| self.is_disconnected(place, member.id))
            {
                return Some(Ended::Lost(Some(lost)));
            }
            if self.now() >= deadline {
                // The others have not come.
                return Some(Ended::Lost(None));
            }
        }
    }

    /// Whether another node of a view has closed its connections: it is dead, or the view has ended for it.
    fn is_disconnected(&self, place: SocketAddr, id: u64) -> bool {
        let has_left = self.with(|run| run.meeting(place).left.contains(&id));
        id != self.outside.id
            && (self.outside.is_closed(id)
                || has_left && self.outside.with(|net| net.reaches(self.outside.id, id)))
    }

    /// Trains in a view until it ends.
    async fn train(&self, place: SocketAddr, next: &Next) -> Ended {
        let id = self.outside.id;
        let members = &next.view.members;
        let first = members.first().map_or(id, |first| first.id);
        let began = self.now();
        self.with(|run| run.trains.insert(id, place));
        let (mut unreached, mut looked) = (BTreeMap::new(), began);
        let ended = loop {
            let us = self.outside.with(|net| TRAIN_US + net.dice.below(TRAIN_US));
            self.outside.sleep(us).await;
            let now = self.now();
            if self.outside.with(|net| net.reaches(id, first))
                && let Some(ended) = self.with(|run| run.meeting(place).ended)
            {
                break ended;
            }
            if now >= began + SETTLED_US {
                self.outside.muster(|muster| muster.settle(next.view.number));
            }
            // All messages of the training go there as well.
            let missing = members.iter().position(|member| {
                let reaches = self.outside.with(|net| net.reaches(id, member.id));
                if reaches {
                    unreached.remove(&member.id);
                }
                self.is_disconnected(place, member.id)
                    || !reaches && now >= *unreached.entry(member.id).or_insert(now) + LOST_US
            });
            if missing.is_some() {
                let lost = Ended::Lost(missing);
                break if self.outside.with(|net| net.reaches(id, first)) {
                    self.with(|run| *run.meeting(place).ended.get_or_insert(lost))
                } else {
                    lost
                };
            }
            if id == first && now >= looked + JOINING_US && now >= began + SETTLED_US {
                looked = now;
                if let Some(stay) = self.asked(members.len()) {
                    break self.with(|run| *run.meeting(place).ended.get_or_insert(Ended::Regroups(stay)));
                }
            }
        };
        let now = self.now();
        self.with(|run| {
            run.trains.remove(&id);
            run.trained.insert(id, now);
        });
        ended
    }

    /// How many of the nodes stay, if another number is asked for, or processes want to join.
    fn asked(&self, nodes: usize) -> Option<usize> {
        let now = self.outside.now();
        self.outside.muster(|muster| {
            let fewer = muster.take_wanted().map(usize::from).filter(|wanted| (1..nodes).contains(wanted));
            fewer.or_else(|| (muster.joining(now) > 0).then_some(nodes))
        })
    }
}
