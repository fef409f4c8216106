//! The course of a process from view to view: it finds a view, enters it with the others, begins to work in
//! it, and decides what follows when the view ends.
//!
//! ```text
//! found ──▶ entered ──▶ begins ──▶ ended ──▶ looks for the next view, leaves, or ends
//!   └──────────┴──────────────────▶
//! ```
//!
//! A view can end before it is entered, and before its work begins. Such attempts are parts of one change:
//! the nodes that were lost and that have joined are counted when the work begins.

use crate::view::{Next, Process, View};

/// How long the nodes of a later view wait for each other: they have just agreed on it.
const MEET_US: u64 = 6_000_000;

/// After views that did not begin they wait longer, up to this many times as long.
const MEET_LONGER: u64 = 4;

/// The most views in a row whose values could not be loaded.
const UNLOADED_MAX: u32 = 5;

/// The reason for which a view has ended for one of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A node was lost; its rank, if it is known.
    Lost(Option<usize>),
    /// The values with which it begins could not be fetched: a process that holds some is lost.
    Unloaded,
    /// The node with this rank has ended it, for a reason of its own.
    By(usize),
    /// Another number of nodes was asked for; this many of the present nodes stay.
    Regroups(usize),
    /// It has ended for another reason.
    Other,
}

/// The next step of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    /// It looks for the next view. These processes are lost.
    Musters(Vec<u64>),
    /// It leaves the run, and holds its values as long as the others need them.
    Leaves,
    /// It ends.
    Ends,
}

/// How the nodes have changed since the view in which the process worked before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Nodes that were lost.
    pub lost: u64,
    /// Nodes that have joined.
    pub joined: u64,
    /// Nodes that have left.
    pub left: u64,
}

/// The views of a process. See the module's description.
#[derive(Debug)]
pub struct Course {
    id: u64,
    /// Whether it has joined a run that existed before.
    has_joined: bool,
    /// The view that it is to enter, or has entered last, if it follows another one.
    next: Option<Next>,
    /// The view that it has entered last.
    entered: Option<View>,
    /// The last view in which it has worked.
    worked: Option<View>,
    is_beginning: bool,
    /// Nodes that leave with the change that is under way.
    leaving: u64,
    /// Numbers of views in a row that did not begin, and whose values could not be loaded.
    failures: u32,
    unloaded: u32,
}

impl Course {
    /// The course of process `id`, which is a node of the first view, or joins a run.
    #[must_use]
    pub const fn new(id: u64, has_joined: bool) -> Self {
        Self {
            id,
            has_joined,
            next: None,
            entered: None,
            worked: None,
            is_beginning: false,
            leaving: 0,
            failures: 0,
            unloaded: 0,
        }
    }

    /// The view that it is to enter, or has entered last, if it follows another one.
    #[must_use]
    pub const fn next(&self) -> Option<&Next> {
        self.next.as_ref()
    }

    /// The view that it has entered last.
    #[must_use]
    pub const fn entered(&self) -> Option<&View> {
        self.entered.as_ref()
    }

    /// The processes that have joined with a view that ends before its work begins, and that may be the
    /// reason: the one that `ended` names, or all of them if it names none.
    #[must_use]
    pub fn blamed(&self, ended: Ended) -> Vec<Process> {
        let Some(next) = self.next.as_ref().filter(|_| self.is_beginning) else { return Vec::new() };
        let is_named = |rank: usize| match ended {
            Ended::Lost(Some(named)) | Ended::By(named) => rank == named,
            Ended::Lost(None) | Ended::Unloaded | Ended::Other => true,
            Ended::Regroups(_) => false,
        };
        let is_new = |process: &Process| self.worked.as_ref().is_some_and(|view| !view.has(process.id));
        let ranked = next.view.members.iter().enumerate();
        ranked
            .filter(|(rank, process)| is_named(*rank) && is_new(process))
            .map(|(_, process)| *process)
            .collect()
    }

    /// How long the nodes of the view wait for each other, in microseconds.
    #[must_use]
    pub fn meet_us(&self) -> u64 {
        MEET_US * (u64::from(self.failures) + 1).min(MEET_LONGER)
    }

    /// It has found this view.
    pub fn find(&mut self, next: Next) {
        (self.next, self.is_beginning) = (Some(next), true);
    }

    /// It has entered its view, together with these processes, by rank. Returns the view.
    ///
    /// # Errors
    /// If the view should have other members.
    pub fn enter(&mut self, members: Vec<Process>) -> Result<&View, String> {
        let view = match &self.next {
            Some(next) if next.view.members == members => next.view.clone(),
            Some(next) => return Err(format!("view {} has other nodes than it should", next.view.number)),
            None => View::first(members),
        };
        if self.next.is_none() {
            // From now on, the nodes that it loses count.
            self.worked = Some(view.clone());
        }
        Ok(self.entered.insert(view))
    }

    /// How the nodes of this view differ from those of the view in which the process has worked last.
    #[must_use]
    pub fn change(&self, view: &View) -> Change {
        let Some(worked) = &self.worked else { return Change::default() };
        let without = |one: &View, other: &View| {
            one.members.iter().filter(|member| !other.has(member.id)).count() as u64
        };
        let missing = without(worked, view);
        let left = self.leaving.min(missing);
        Change { lost: missing - left, joined: without(view, worked), left }
    }

    /// It begins to work in the view that it has entered.
    pub fn begin(&mut self) -> Change {
        let change = self.entered.as_ref().map(|view| self.change(view)).unwrap_or_default();
        self.worked.clone_from(&self.entered);
        (self.is_beginning, self.leaving, self.failures, self.unloaded) = (false, 0, 0, 0);
        change
    }

    /// Whether the run can go on after a view that has ended for this reason. If a node cannot take part in a
    /// view that begins, it ends that view, and not the run.
    #[must_use]
    pub fn goes_on(&self, ended: Ended) -> bool {
        match ended {
            Ended::Lost(_) | Ended::Unloaded | Ended::Regroups(_) => true,
            Ended::By(rank) => self.is_beginning && self.rank() != Some(rank),
            Ended::Other => false,
        }
    }

    /// Its view has ended.
    pub fn end(&mut self, ended: Ended) -> Then {
        if !self.goes_on(ended) {
            return Then::Ends;
        }
        if ended == Ended::Unloaded {
            self.unloaded += 1;
            if self.unloaded > UNLOADED_MAX {
                return Then::Ends;
            }
        }
        let lost = match ended {
            Ended::Regroups(stay) => {
                if self.rank().is_none_or(|rank| rank >= stay) {
                    return Then::Leaves;
                }
                let members = self.entered.as_ref().map_or(0, |view| view.members.len());
                self.leaving = members.saturating_sub(stay) as u64;
                return Then::Musters(Vec::new());
            }
            Ended::Lost(Some(rank)) => self.current().and_then(|view| view.members.get(rank)),
            Ended::Lost(None) | Ended::Unloaded | Ended::By(_) | Ended::Other => None,
        };
        if self.has_joined && self.worked.is_none() && self.entered.is_some() && lost.is_none() {
            // This process may be the reason: as a member, it would keep the others from their work again and
            // again.
            return Then::Ends;
        }
        if self.next.is_none() && self.entered.is_none() {
            return Then::Ends;
        }
        let gone = lost.map(|lost| lost.id).into_iter().collect();
        self.failures += u32::from(self.is_beginning);
        Then::Musters(gone)
    }

    /// The view that it is in, or is to enter.
    fn current(&self) -> Option<&View> {
        self.next.as_ref().map(|next| &next.view).or(self.entered.as_ref())
    }

    fn rank(&self) -> Option<usize> {
        self.current()?.rank(self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(id: u64) -> Process {
        Process { id, address: ([127, 0, 0, 1], 1000 + id as u16).into() }
    }

    fn view(number: u64, ids: &[u64]) -> View {
        View { number, ..View::first(ids.iter().copied().map(process).collect()) }
    }

    fn next(number: u64, ids: &[u64]) -> Next {
        Next { view: view(number, ids), sources: Vec::new() }
    }

    /// Process 1, which has worked in the first view.
    fn working() -> Course {
        let mut course = Course::new(1, false);
        course.enter([1, 2, 3].map(process).into()).expect("it is the first view");
        assert_eq!(course.begin(), Change::default());
        course
    }

    #[test]
    fn attempts_that_do_not_begin_are_parts_of_one_change() {
        let mut course = working();
        assert_eq!(course.end(Ended::Lost(Some(1))), Then::Musters(vec![2]));
        course.find(next(2, &[1, 3, 7]));
        assert_eq!(course.meet_us(), MEET_US);
        // The rank is that of the view that begins.
        assert_eq!(course.end(Ended::Lost(Some(1))), Then::Musters(vec![3]));
        course.find(next(3, &[1, 7, 8]));
        assert_eq!(course.meet_us(), 2 * MEET_US);
        assert!(course.enter([1, 8, 7].map(process).into()).is_err());
        course.enter([1, 7, 8].map(process).into()).expect("these are its members");
        assert_eq!(course.begin(), Change { lost: 2, joined: 2, left: 0 });
        assert_eq!(course.meet_us(), MEET_US);
    }

    #[test]
    fn nodes_of_the_highest_ranks_leave() {
        let mut course = working();
        assert_eq!(course.end(Ended::Regroups(2)), Then::Musters(Vec::new()));
        course.find(next(2, &[1]));
        course.enter(vec![process(1)]).expect("it is alone");
        assert_eq!(course.begin(), Change { lost: 1, joined: 0, left: 1 });
        let mut last = Course::new(3, false);
        last.enter([1, 2, 3].map(process).into()).expect("it is the first view");
        assert_eq!(last.end(Ended::Regroups(2)), Then::Leaves);
    }

    #[test]
    fn a_problem_of_another_node_ends_a_view_that_begins_and_no_other() {
        let mut course = working();
        assert_eq!(course.end(Ended::By(1)), Then::Ends);
        course.find(next(2, &[1, 2, 3]));
        assert_eq!(course.end(Ended::By(1)), Then::Musters(Vec::new()));
        assert_eq!(course.end(Ended::By(0)), Then::Ends, "it is its own problem");
        assert_eq!(course.end(Ended::Other), Then::Ends);
    }

    #[test]
    fn those_that_join_are_blamed_if_no_other_is_named() {
        let mut course = working();
        assert_eq!(course.blamed(Ended::Lost(None)), []);
        course.find(next(2, &[1, 2, 3, 7, 8]));
        assert_eq!(course.blamed(Ended::Lost(None)), [process(7), process(8)]);
        assert_eq!(course.blamed(Ended::By(4)), [process(8)]);
        assert_eq!(course.blamed(Ended::Lost(Some(0))), []);
    }

    #[test]
    fn a_process_that_has_joined_may_be_the_reason() {
        let mut course = Course::new(3, true);
        assert_eq!(course.end(Ended::Lost(None)), Then::Ends, "it has not been let in");
        course.find(next(2, &[1, 2, 3]));
        assert_eq!(course.end(Ended::Lost(None)), Then::Musters(Vec::new()), "it did not come to be");
        course.find(next(3, &[1, 2, 3]));
        course.enter([1, 2, 3].map(process).into()).expect("these are its members");
        assert_eq!(course.end(Ended::Lost(Some(0))), Then::Musters(vec![1]), "another one is");
        assert_eq!(course.end(Ended::By(1)), Then::Ends);
        assert_eq!(course.end(Ended::Unloaded), Then::Ends);
        course.begin();
        for _ in 0..UNLOADED_MAX {
            assert_eq!(course.end(Ended::Unloaded), Then::Musters(Vec::new()));
        }
        assert_eq!(course.end(Ended::Unloaded), Then::Ends);
    }
}
