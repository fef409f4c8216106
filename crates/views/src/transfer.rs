//! Which parts of cuts a process fetches from which others: to hold copies of them, and to begin a view.
//!
//! [`Fetch`] is the transfer itself. In real runs it is a connection to another process; in simulated runs it
//! is a look at what that process holds, if it lives.

use crate::holdings::{Holdings, before};
use crate::view::{CutName, Next, Process, View};

/// Fetches what other processes hold.
pub trait Fetch {
    /// A part of a cut.
    type Part;
    /// The state of the training at a cut.
    type State;
    /// The reason for which a process does not send it.
    type Error;

    /// Fetches a part of a cut from a process.
    ///
    /// # Errors
    /// If the process does not answer, or does not hold the part.
    fn part(&mut self, from: Process, cut: CutName, part: usize) -> Result<Self::Part, Self::Error>;

    /// Fetches the state of the training at a cut from a process.
    ///
    /// # Errors
    /// If the process does not answer, or does not know the state.
    fn state(&mut self, from: Process, cut: CutName) -> Result<Self::State, Self::Error>;
}

/// What no process has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing<E> {
    /// The part; `None` for the state of the training.
    pub part: Option<usize>,
    /// Why the process did not send it that was asked last; `None` if no process holds it.
    pub error: Option<E>,
}

/// Fetches the parts of a cut that node `rank` of the view that made it should hold: those of the `copies`
/// nodes before it. `keep` gets each of them with its number.
///
/// # Errors
/// If a node does not send its part.
pub fn hold<F: Fetch>(
    fetch: &mut F,
    cut: CutName,
    (view, rank, copies): (&View, usize, usize),
    mut keep: impl FnMut(usize, F::Part),
) -> Result<(), Missing<F::Error>> {
    for part in before(rank, view.members.len(), copies) {
        let fetched = fetch.part(view.members[part], cut, part);
        keep(part, fetched.map_err(|error| Missing { part: Some(part), error: Some(error) })?);
    }
    Ok(())
}

/// Gets what node `rank` of a view needs to begin at a cut: the state of the training, which it returns, and
/// all parts, which `keep` gets with their numbers. It takes from its own `holdings` what they have.
///
/// # Errors
/// If no process sends the state or a part.
pub fn load<F: Fetch>(
    fetch: &mut F,
    holdings: &Holdings<F::Part, F::State>,
    (next, cut, rank): (&Next, CutName, usize),
    mut keep: impl FnMut(usize, F::Part),
) -> Result<F::State, Missing<F::Error>>
where
    F::Part: Clone,
    F::State: Clone,
{
    let state = match holdings.state(cut) {
        Some(state) => state.clone(),
        None => ask_each(next.sources.iter().flatten(), None, |from| fetch.state(from, cut))?,
    };
    for (part, sources) in next.sources.iter().enumerate() {
        let loaded = match holdings.part(cut, part) {
            Some(content) => content.clone(),
            None => {
                // Nodes begin with different processes, so that these share the work.
                let (earlier, later) = sources.split_at(rank % sources.len().max(1));
                ask_each(later.iter().chain(earlier), Some(part), |from| fetch.part(from, cut, part))?
            }
        };
        keep(part, loaded);
    }
    Ok(state)
}

/// What the first process sends that sends something.
fn ask_each<'a, T, E>(
    sources: impl Iterator<Item = &'a Process>,
    part: Option<usize>,
    mut ask: impl FnMut(Process) -> Result<T, E>,
) -> Result<T, Missing<E>> {
    let mut missing = Missing { part, error: None };
    for source in sources {
        match ask(*source) {
            Ok(sent) => return Ok(sent),
            Err(error) => missing.error = Some(error),
        }
    }
    Err(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const CUT: CutName = CutName { view: 1, number: 3 };

    fn process(id: u64) -> Process {
        Process { id, address: ([127, 0, 0, 1], 1000 + id as u16).into() }
    }

    /// Processes that send what they are asked for, but for those that are lost.
    #[derive(Default)]
    struct Others {
        lost: BTreeSet<u64>,
        asked: Vec<(u64, Option<usize>)>,
    }

    impl Others {
        fn ask(&mut self, from: Process, part: Option<usize>) -> Result<(u64, Option<usize>), u64> {
            self.asked.push((from.id, part));
            if self.lost.contains(&from.id) { Err(from.id) } else { Ok((from.id, part)) }
        }
    }

    impl Fetch for Others {
        type Part = (u64, Option<usize>);
        type State = (u64, Option<usize>);
        type Error = u64;

        fn part(&mut self, from: Process, cut: CutName, part: usize) -> Result<Self::Part, u64> {
            assert_eq!(cut, CUT);
            self.ask(from, Some(part))
        }

        fn state(&mut self, from: Process, cut: CutName) -> Result<Self::State, u64> {
            assert_eq!(cut, CUT);
            self.ask(from, None)
        }
    }

    #[test]
    fn a_node_holds_the_parts_of_the_nodes_before_it() {
        let view = View::first((0..4).map(process).collect());
        let (mut others, mut kept) = (Others::default(), Vec::new());
        hold(&mut others, CUT, (&view, 1, 2), |part, content| kept.push((part, content))).expect("all send");
        assert_eq!(kept, [(0, (0, Some(0))), (3, (3, Some(3)))]);
        others.lost.insert(3);
        let missing = hold(&mut others, CUT, (&view, 1, 2), |_, _| ()).expect_err("one is lost");
        assert_eq!(missing, Missing { part: Some(3), error: Some(3) });
    }

    #[test]
    fn what_a_process_holds_is_not_fetched_and_another_one_is_asked_if_one_is_lost() {
        let view = View::first((0..3).map(process).collect());
        let sources = vec![vec![process(0), process(1)], vec![process(1), process(2)], vec![process(2)]];
        let next = Next { view, sources };
        let mut holdings = Holdings::default();
        holdings.publish(CUT, (0, 3), (0, Some(0)));
        let mut others = Others { lost: BTreeSet::from([1]), ..Others::default() };
        let mut kept = Vec::new();
        let state = load(&mut others, &holdings, (&next, CUT, 0), |part, content| kept.push((part, content)));
        assert_eq!(state, Ok((0, None)), "it does not know the state yet");
        assert_eq!(kept, [(0, (0, Some(0))), (1, (2, Some(1))), (2, (2, Some(2)))]);
        assert_eq!(others.asked, [(0, None), (1, Some(1)), (2, Some(1)), (2, Some(2))]);
        holdings.copied(CUT, (9, None));
        others = Others { lost: BTreeSet::from([2]), ..Others::default() };
        let missing = load(&mut others, &holdings, (&next, CUT, 1), |_, _| ());
        assert_eq!(missing, Err(Missing { part: Some(2), error: Some(2) }));
        assert_eq!(others.asked, [(2, Some(1)), (1, Some(1)), (2, Some(2))], "it begins with its own rank");
        let unheld = Next { sources: vec![Vec::new()], ..next };
        let missing = load(&mut others, &Holdings::default(), (&unheld, CUT, 0), |_, _| ());
        assert_eq!(missing, Err(Missing { part: None, error: None }));
    }
}
