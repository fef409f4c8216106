use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The behaviour of the thread that writes a node's parts: a part is written by some later meeting, or fails.
#[derive(Clone, Copy, Debug)]
struct Write {
    meetings: usize,
    fails: bool,
    /// Whether the node has the copies that it should have.
    is_copied: bool,
}

/// A random run of the protocol.
#[derive(Clone, Debug)]
struct Run {
    nodes: usize,
    workers: usize,
    seconds: f64,
    /// Milliseconds of the leader's clock until each meeting.
    meetings: Vec<u64>,
    /// The differences of the other workers' clocks to the leader's.
    skews: Vec<u64>,
    /// Whether the folder refuses the cut that is begun at a meeting.
    refused: Vec<bool>,
    /// For each cut, the writes of all nodes.
    writes: Vec<Vec<Write>>,
}

fn runs() -> impl Strategy<Value = Run> {
    let write = (0_usize..4, prop::bool::weighted(0.1), any::<bool>());
    let write = write.prop_map(|(meetings, fails, is_copied)| Write { meetings, fails, is_copied });
    (1_usize..5, 1_usize..4, 1_usize..24).prop_flat_map(move |(nodes, workers, meetings)| {
        (
            Just((nodes, workers)),
            0.0..3.0_f64,
            prop::collection::vec(0_u64..3_000, meetings),
            prop::collection::vec(0_u64..10_000, nodes * workers),
            prop::collection::vec(prop::bool::weighted(0.1), meetings),
            prop::collection::vec(prop::collection::vec(write.clone(), nodes), meetings),
        )
            .prop_map(|((nodes, workers), seconds, meetings, skews, refused, writes)| Run {
                nodes,
                workers,
                seconds,
                meetings,
                skews,
                refused,
                writes,
            })
    })
}

/// A part whose name contains its cut and its node.
fn part(cut: u64, node: usize) -> Part {
    Part { file: format!("{cut}/{node}"), bytes: 0, keys: 0, blocks: Vec::new() }
}

/// The parts that nodes write: by node, the cut, the number of meetings until the part is written, and its
/// outcome.
type Writers = Vec<Option<(u64, usize, Written)>>;

fn written(writers: &Writers, node: usize, waits: bool) -> Option<Written> {
    let (_, meetings, written) = writers[node].as_ref()?;
    (*meetings == 0 || waits).then(|| written.clone())
}

impl Run {
    /// Runs the protocol, checks it after every meeting, and returns the number of cuts that were begun and
    /// the outcome of each.
    fn check(&self) -> (u64, BTreeMap<u64, Settled>) {
        let seat = |worker| Seat {
            node: (worker / self.workers) as u16,
            worker: worker % self.workers,
            workers: self.workers,
        };
        let all = || 0..self.nodes * self.workers;
        let mut now: Vec<Duration> = self.skews.iter().map(|skew| Duration::from_millis(*skew)).collect();
        let mut protocols: Vec<Protocol> =
            all().map(|worker| Protocol::new(seat(worker), self.seconds, now[worker])).collect();
        let (mut begun, mut settled): (u64, BTreeMap<u64, Settled>) = (0, BTreeMap::new());
        let mut writers: Writers = vec![None; self.nodes];
        for (meeting, millis) in self.meetings.iter().enumerate() {
            now.iter_mut().for_each(|now| *now += Duration::from_millis(*millis));
            writers.iter_mut().flatten().for_each(|(_, meetings, _)| *meetings = meetings.saturating_sub(1));
            let is_end = meeting + 1 == self.meetings.len();
            let mut cut = None;
            let due: Vec<usize> = all().filter(|at| protocols[*at].is_due(now[*at], is_end)).collect();
            if let [first, others @ ..] = &due[..] {
                assert_eq!((*first, others), (0, &[][..]), "only the leader begins cuts");
                assert!(is_end || protocols[0].pending().is_none(), "one at a time");
                protocols[0].begun(now[0]);
                if !self.refused[meeting] {
                    begun += 1;
                    cut = Some(begun);
                }
            }
            let votes: Vec<Vote> = all()
                .map(|worker| {
                    let written = written(&writers, worker / self.workers, is_end);
                    protocols[worker].vote(now[worker], 1 + meeting as u64, cut, written)
                })
                .collect();
            self.hear(&mut protocols, &votes, &mut writers, &mut settled);
            assert_eq!(protocols[0].pending().is_some(), cut.is_some() || writers[0].is_some());
            if let Some(cut) = cut {
                for (node, write) in self.writes[meeting].iter().enumerate() {
                    let unwritten =
                        || Unwritten { reason: format!("{cut}/{node}"), is_copied: write.is_copied };
                    let result = if write.fails { Err(unwritten()) } else { Ok(part(cut, node)) };
                    assert_eq!(writers[node], None, "a writer has one part at a time");
                    writers[node] = Some((cut, write.meetings, result));
                }
            }
            all().for_each(|worker| protocols[worker].leave(now[worker]));
        }
        let last =
            |worker: usize| protocols[worker].last_vote(written(&writers, worker / self.workers, true));
        let votes: Vec<Vote> = all().map(last).collect();
        self.hear(&mut protocols, &votes, &mut writers, &mut settled);
        (begun, settled)
    }

    /// All workers get the votes, and come to the same decisions.
    fn hear(
        &self,
        protocols: &mut [Protocol],
        votes: &[Vote],
        writers: &mut Writers,
        settled: &mut BTreeMap<u64, Settled>,
    ) {
        let pending = protocols[0].pending();
        let heard: Vec<Heard> = protocols.iter_mut().map(|one| one.hear(votes)).collect();
        assert!(heard.iter().all(|one| *one == heard[0]), "all workers decide alike: {heard:?}");
        for one in &*protocols {
            assert_eq!(one.pending(), protocols[0].pending());
            assert_eq!(one.next_meeting(), protocols[0].next_meeting(), "all workers meet again");
        }
        let Some(what) = heard[0].settled.clone() else { return };
        let (Settled::Complete { cut, .. } | Settled::Failed { cut, .. }) = what;
        assert_eq!(Some(cut), pending, "what is settled is the cut that was pending");
        if let Settled::Failed { is_copied, .. } = &what {
            let mut written = writers.iter().flatten().map(|(_, _, written)| written);
            let all = written.all(|written| written.as_ref().map_or_else(|why| why.is_copied, |_| true));
            assert_eq!(*is_copied, all);
        }
        for (node, writer) in writers.iter_mut().enumerate() {
            let (of, _, written) = writer.take().expect("all nodes have told");
            assert_eq!(of, cut);
            match (&what, &written) {
                (Settled::Complete { parts, .. }, written) => assert_eq!(Ok(&parts[node]), written.as_ref()),
                (Settled::Failed { node: failed, reason, .. }, Err(why)) if *failed == node => {
                    assert_eq!(*reason, why.reason);
                }
                (Settled::Failed { node: failed, .. }, written) => {
                    assert!(written.is_ok() && node != *failed || node > *failed, "the first is named");
                }
            }
        }
        assert!(settled.insert(cut, what).is_none(), "a cut is settled once");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// All workers agree; a cut is committed only if all parts *of it* are written; a part that is late never
    /// counts for the next cut; each cut is settled before the workers leave.
    #[test]
    fn workers_agree_and_commit_what_is_whole(run in runs()) {
        let (begun, settled) = run.check();
        prop_assert_eq!(settled.keys().copied().collect::<Vec<_>>(), (1..=begun).collect::<Vec<_>>());
        for (cut, what) in settled {
            match what {
                Settled::Complete { parts, .. } => {
                    let expected: Vec<Part> = (0..run.nodes).map(|node| part(cut, node)).collect();
                    prop_assert_eq!(parts, expected);
                }
                Settled::Failed { node, reason, .. } => prop_assert_eq!(reason, format!("{cut}/{node}")),
            }
        }
    }
}

const ALONE: Seat = Seat { node: 0, worker: 0, workers: 1 };

#[test]
fn meetings_follow_the_leaders_clock() {
    let second = Duration::from_secs;
    let mut leader = Protocol::new(ALONE, 8.0, second(100));
    assert_eq!(leader.next_meeting(), 16);
    let meet = |leader: &mut Protocol, at: u64, batches: u64| {
        let vote = leader.vote(second(at), batches, None, None);
        leader.hear(&[vote]);
        leader.leave(second(at));
        leader.next_meeting()
    };
    // The next meeting is after a quarter of 8 s, at 4 batches per second.
    assert_eq!(meet(&mut leader, 104, 16), 8);
    // Batches become much faster, but meetings become at most 8 times rarer.
    assert_eq!(meet(&mut leader, 104, 8), 64);
    // Batches become much slower, so workers meet after each batch.
    assert_eq!(meet(&mut leader, 1_000, 64), 1);
    // There are at most 5 s between meetings, however rare cuts are.
    let mut rare = Protocol::new(ALONE, 1e6, second(0));
    assert_eq!(meet(&mut rare, 4, 16), 20);
}

#[test]
fn a_cut_is_due_when_its_time_has_come_and_none_is_pending() {
    let second = Duration::from_secs;
    let mut leader = Protocol::new(ALONE, 8.0, second(0));
    assert!(!leader.is_due(second(7), false));
    assert!(leader.is_due(second(7), true), "at the end in any case");
    assert!(leader.is_due(second(8), false));
    let follower = Protocol::new(Seat { worker: 1, workers: 2, ..ALONE }, 8.0, second(0));
    assert!(!follower.is_due(second(9), true));
    leader.begun(second(8));
    let vote = leader.vote(second(8), 1, Some(7), None).without_place(true);
    assert_eq!(leader.hear(&[vote]), Heard { settled: None, cut: Some(7), is_unsaved: true, end: None });
    assert!(!leader.is_due(second(100), false), "one is pending");
    let written = leader.vote(second(101), 1, None, Some(Ok(part(7, 0))));
    let settled = Some(Settled::Complete { cut: 7, parts: vec![part(7, 0)] });
    assert_eq!(leader.hear(&[written]), Heard { settled, cut: None, is_unsaved: false, end: None });
    assert!(leader.is_due(second(101), false));
    assert_eq!(leader.hear(&[]), Heard { settled: None, cut: None, is_unsaved: false, end: None });
}

#[test]
fn an_end_that_one_node_is_asked_for_is_heard_by_all() {
    let seat = |node| Seat { node, worker: 0, workers: 1 };
    let mut all = [0, 1, 2].map(|node| Protocol::new(seat(node), 60.0, Duration::ZERO));
    let votes = |all: &[Protocol; 3], asked: [Option<End>; 3]| {
        let vote = |(protocol, asked): (&Protocol, Option<End>)| {
            protocol.vote(Duration::ZERO, 1, None, None).asking_for_end(asked)
        };
        all.iter().zip(asked).map(vote).collect::<Vec<_>>()
    };
    for (asked, end) in [
        ([None; 3], None),
        ([None, None, Some(End::Signal(15))], Some(End::Signal(15))),
        ([Some(End::Nodes(2)), Some(End::Signal(15)), None], Some(End::Nodes(2))),
    ] {
        let votes = votes(&all, asked);
        for protocol in &mut all {
            assert_eq!(protocol.hear(&votes).end, end);
        }
    }
    // In this case a cut is made, however long ago the last one was.
    assert!(!all[0].is_due(Duration::ZERO, false) && all[0].is_due(Duration::ZERO, true));
}
