use super::*;
use crate::protocol::Unwritten;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// The outcome of a node's part of a cut, and the number of questions after which it is known.
#[derive(Clone, Copy, Debug)]
struct Write {
    questions: usize,
    /// Whether the node gets the copies that it should hold.
    is_copied: bool,
    /// Whether the part fits on its disk.
    is_written: bool,
}

impl Write {
    /// The report of the node, for a cut that has a place in the folder or not.
    fn outcome(self, cut: u64, node: usize, has_place: bool) -> Written {
        let unwritten = |is_copied| Unwritten { reason: format!("of {cut} fails"), is_copied };
        if !self.is_copied {
            return Err(unwritten(false));
        }
        if has_place && !self.is_written { Err(unwritten(true)) } else { Ok(part(cut, node)) }
    }
}

/// A random run.
#[derive(Clone, Debug)]
struct Run {
    nodes: usize,
    workers: usize,
    rules: CutRules,
    /// For each meeting: the milliseconds before it, whether a cut must be made, and the node that asks for
    /// an end.
    meetings: Vec<(u64, bool, Option<u16>)>,
    /// Whether the folder refuses the n-th cut that is begun, and the n-th commit.
    begins: Vec<bool>,
    commits: Vec<bool>,
    /// For each cut, the writes of all nodes.
    writes: Vec<Vec<Write>>,
    /// The order in which workers take their turns.
    turns: Vec<usize>,
}

fn runs() -> impl Strategy<Value = Run> {
    let rare = || prop::bool::weighted(0.15);
    let write = (0_usize..4, rare(), rare()).prop_map(|(questions, lacks_copies, is_full)| Write {
        questions,
        is_copied: !lacks_copies,
        is_written: !is_full,
    });
    let rules = (0.0..3.0_f64, any::<bool>(), any::<bool>()).prop_map(|(seconds, writes, copies)| CutRules {
        seconds,
        writes: writes || !copies,
        copies,
        first_meeting: None,
        best: None,
    });
    (1_usize..4, 1_usize..3, 1_usize..12, rules).prop_flat_map(move |(nodes, workers, meetings, rules)| {
        let ends = prop::option::weighted(0.05, 0..nodes as u16);
        // The end makes another cut.
        let cuts = 2 * meetings + 2;
        (
            prop::collection::vec((0_u64..3_000, rare(), ends), meetings),
            prop::collection::vec(rare(), cuts),
            prop::collection::vec(rare(), cuts),
            prop::collection::vec(prop::collection::vec(write.clone(), nodes), cuts),
            prop::collection::vec(any::<usize>(), 64),
        )
            .prop_map(move |(meetings, begins, commits, writes, turns)| Run {
                nodes,
                workers,
                rules,
                meetings,
                begins,
                commits,
                writes,
                turns,
            })
    })
}

/// The events of a cut so far.
#[derive(Debug, Default)]
struct Cut {
    copied: BTreeSet<usize>,
    ordered: BTreeSet<usize>,
    recorded: BTreeSet<usize>,
    has_place: bool,
    settled: BTreeMap<usize, bool>,
    committed: Option<bool>,
    given_up: bool,
}

/// The interpreter: nodes whose disks are as the run says.
struct World<'a> {
    run: &'a Run,
    now: Duration,
    begun: usize,
    commits: usize,
    newest: u64,
    /// By node: the cut of its part, the outcome of the part, and the number of questions until the outcome
    /// is known.
    parts: Vec<Option<(u64, Written, usize)>>,
    committing: Option<u64>,
    cuts: BTreeMap<u64, Cut>,
}

fn refused() -> CheckpointError {
    CheckpointError::Io { what: "write", path: "cuts".into(), source: std::io::Error::other("full") }
}

fn part(cut: u64, node: usize) -> Part {
    Part { file: format!("{cut}/{node}"), bytes: 0, keys: 0, blocks: Vec::new() }
}

/// Whether all workers execute an operation together: they go on when each of them has reached it.
fn is_common(op: &CutOp) -> bool {
    matches!(op, CutOp::Tell(_) | CutOp::Rest | CutOp::Share | CutOp::Leave)
}

fn is_end(op: &CutOp) -> bool {
    matches!(op, CutOp::Train { .. } | CutOp::Ends(_) | CutOp::Left)
}

impl World<'_> {
    fn cut(&mut self, cut: u64) -> &mut Cut {
        self.cuts.entry(cut).or_default()
    }

    /// Executes an operation of one worker.
    fn carry_out(&mut self, worker: usize, op: CutOp) -> CutEvent {
        let (node, is_first) = (worker / self.run.workers, worker.is_multiple_of(self.run.workers));
        let is_leader = worker == 0;
        let is_of_leader = matches!(
            op,
            CutOp::Begin { .. } | CutOp::AwaitCommit | CutOp::Commit { .. } | CutOp::GiveUp { .. }
        );
        assert!(is_first && (is_leader || !is_of_leader), "worker {worker}: {op:?}");
        match op {
            CutOp::Begin { after } => {
                assert_eq!(after, self.newest, "no number is given twice");
                self.begun += 1;
                if self.run.begins[self.begun - 1] {
                    return CutEvent::Begun(Err(refused()));
                }
                CutEvent::Begun(Ok(after + 1))
            }
            CutOp::AskPart { waits } => {
                let Some((_, written, questions)) = &mut self.parts[node] else {
                    panic!("node {node} is asked for no part")
                };
                let is_known = *questions == 0 || waits;
                *questions = questions.saturating_sub(1);
                CutEvent::Part(is_known.then(|| written.clone()))
            }
            CutOp::Settled { cut, is_copied } => {
                let (of, _, _) = self.parts[node].take().expect("the part was told");
                assert_eq!(of, cut);
                assert_eq!(self.cut(cut).settled.insert(node, is_copied), None);
                CutEvent::Done
            }
            CutOp::AwaitCommit => {
                let cut = self.committing.take().expect("it was ordered");
                self.commits += 1;
                let committed = if self.run.commits[self.commits - 1] { Err(refused()) } else { Ok(()) };
                self.cut(cut).committed = Some(committed.is_ok());
                CutEvent::Committed(Some(committed))
            }
            CutOp::Commit { cut, parts, .. } => {
                assert_eq!(parts, (0..self.run.nodes).map(|node| part(cut, node)).collect::<Vec<_>>());
                assert!(self.cut(cut).recorded.contains(&0), "its manifest needs the state of the run");
                assert_eq!(self.committing.replace(cut), None, "one at a time");
                CutEvent::Done
            }
            CutOp::GiveUp { cut, .. } => {
                assert!(!std::mem::replace(&mut self.cut(cut).given_up, true));
                CutEvent::Done
            }
            CutOp::Copy { cut, is_written } => {
                self.cut(cut).has_place = is_written;
                assert!(self.cut(cut).copied.insert(node), "a node copies once");
                CutEvent::Done
            }
            CutOp::Record { cut } => {
                assert_eq!(self.cut(cut).copied.len(), self.run.nodes, "all have copied");
                assert!(is_leader || self.run.rules.copies);
                assert!(self.cut(cut).recorded.insert(node));
                CutEvent::Done
            }
            CutOp::Write { cut } => {
                if self.run.rules.copies {
                    assert!(self.cut(cut).recorded.contains(&node), "others may fetch the part now");
                }
                assert!(self.cut(cut).ordered.insert(node));
                let write = self.run.writes[cut as usize - 1][node];
                let written = write.outcome(cut, node, self.cut(cut).has_place);
                assert!(self.parts[node].replace((cut, written, write.questions)).is_none(), "one at a time");
                CutEvent::Done
            }
            CutOp::Tell(_)
            | CutOp::Rest
            | CutOp::Share
            | CutOp::Leave
            | CutOp::Train { .. }
            | CutOp::Ends(_)
            | CutOp::Left => unreachable!("{op:?} is not one worker's own"),
        }
    }
}

impl Run {
    /// Steps all workers, in a random order, until each of them trains, ends or has left.
    fn go(&self, world: &mut World<'_>, drivers: &mut [CutDriver], events: Vec<CutEvent>) -> Vec<CutOp> {
        let now = world.now;
        let step = |(driver, event): (&mut CutDriver, CutEvent)| driver.step(event, now);
        let mut ops: Vec<CutOp> = drivers.iter_mut().zip(events).map(step).collect();
        let mut turn = 0;
        loop {
            let busy: Vec<usize> =
                (0..ops.len()).filter(|at| !is_common(&ops[*at]) && !is_end(&ops[*at])).collect();
            if !busy.is_empty() {
                turn += 1;
                let worker = busy[self.turns[turn % self.turns.len()] % busy.len()];
                let event = world.carry_out(worker, ops[worker].clone());
                ops[worker] = drivers[worker].step(event, now);
                continue;
            }
            let alike = |op: &CutOp| std::mem::discriminant(op) == std::mem::discriminant(&ops[0]);
            assert!(ops.iter().all(alike), "all workers decide alike: {ops:?}");
            if is_end(&ops[0]) {
                return ops;
            }
            if ops[0] == CutOp::Rest {
                world.parts.iter().for_each(|part| assert!(part.is_none(), "one copy at a time"));
            }
            let votes: Vec<Vote> = ops
                .iter()
                .filter_map(|op| if let CutOp::Tell(vote) = op { Some(vote.clone()) } else { None })
                .collect();
            let event = |_| {
                if votes.is_empty() { CutEvent::Done } else { CutEvent::Votes(votes.clone()) }
            };
            let events: Vec<CutEvent> = (0..ops.len()).map(event).collect();
            ops = drivers.iter_mut().zip(events).map(|(driver, event)| driver.step(event, now)).collect();
        }
    }

    fn check(&self) {
        let workers = self.nodes * self.workers;
        let seat = |at: usize| Seat {
            node: (at / self.workers) as u16,
            worker: at % self.workers,
            workers: self.workers,
        };
        let mut drivers: Vec<CutDriver> =
            (0..workers).map(|at| CutDriver::new(seat(at), self.rules, Duration::ZERO)).collect();
        let mut world = World {
            run: self,
            now: Duration::ZERO,
            begun: 0,
            commits: 0,
            newest: 0,
            parts: vec![None; self.nodes],
            committing: None,
            cuts: BTreeMap::new(),
        };
        let mut has_ended = false;
        for (number, (millis, must, asks)) in self.meetings.iter().enumerate() {
            world.now += Duration::from_millis(*millis);
            let is_end = number + 1 == self.meetings.len();
            let before = world.cuts.len();
            let meeting = |at: usize| Meeting {
                batches: number as u64 + 1,
                must: *must || is_end,
                best: None,
                end: asks.filter(|node| *node == seat(at).node).map(|_| End::Signal(15)),
            };
            let events = (0..workers).map(|at| CutEvent::Meet(meeting(at))).collect();
            let ops = self.go(&mut world, &mut drivers, events);
            world.newest = world.cuts.keys().next_back().copied().unwrap_or(world.newest);
            let first = number == 0 && self.rules.copies;
            let refused = world.begun > 0 && self.begins[world.begun - 1] && self.rules.writes;
            if *must || is_end || first || asks.is_some() {
                let has_cut = world.cuts.len() == before + 1;
                assert!(has_cut || refused && !self.rules.copies, "a cut must be made");
            }
            match (&ops[0], asks) {
                (CutOp::Ends(End::Signal(15)), Some(_)) => has_ended = true,
                (CutOp::Train { batches }, None) => {
                    assert!(ops.iter().all(|op| *op == CutOp::Train { batches: *batches }), "{ops:?}");
                }
                other => panic!("{other:?}"),
            }
            if has_ended {
                break;
            }
        }
        let events = (0..workers).map(|_| CutEvent::End).collect();
        assert!(self.go(&mut world, &mut drivers, events).iter().all(|op| *op == CutOp::Left));
        let again = (0..workers).map(|_| CutEvent::End).collect();
        assert!(self.go(&mut world, &mut drivers, again).iter().all(|op| *op == CutOp::Left));
        self.check_cuts(&world, &mut drivers[0]);
    }

    /// Every cut has come to an end, and the leader knows that of the last one.
    fn check_cuts(&self, world: &World<'_>, leader: &mut CutDriver) {
        assert!(world.committing.is_none() && world.parts.iter().all(Option::is_none), "nothing is left");
        for (number, cut) in &world.cuts {
            let all: BTreeSet<usize> = (0..self.nodes).collect();
            assert_eq!((&cut.copied, &cut.ordered), (&all, &all), "cut {number}");
            assert_eq!(cut.settled.keys().copied().collect::<BTreeSet<_>>(), all, "cut {number}");
            let is_copied = *cut.settled.values().next().expect("a node");
            assert!(cut.settled.values().all(|one| *one == is_copied), "nodes keep the same copies");
            let writes = &self.writes[*number as usize - 1];
            assert_eq!(is_copied, writes.iter().all(|write| write.is_copied), "cut {number}");
            let is_written = writes.iter().all(|write| write.outcome(*number, 0, cut.has_place).is_ok());
            // A run without a folder commits its cuts as well: it can go on from them.
            let counts = cut.has_place || !self.rules.writes;
            assert_eq!(cut.committed.is_some(), is_written && counts, "cut {number}");
            assert_eq!(cut.given_up, !is_written && counts, "cut {number}");
        }
        let last = world.cuts.iter().next_back();
        let made = last.filter(|(_, cut)| cut.committed == Some(true)).map(|(number, _)| *number);
        match leader.saved() {
            Some(saved) => {
                assert_eq!(Some(saved), made);
                assert!(leader.unsaved().is_none());
            }
            None => assert!(leader.unsaved().is_some() || last.is_none()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// All workers execute the same joint operations; only workers that may execute an operation do so; a cut
    /// is committed if and only if all of its parts are written, and nothing is pending when the workers have
    /// left.
    #[test]
    fn every_cut_comes_to_an_end_that_all_workers_know(run in runs()) {
        run.check();
    }
}
