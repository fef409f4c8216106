//! A run: nodes, their workers, and the network between them, event by event.

use super::checks::{self, Answers, Monotone, Sets, Traffic, Writers, progress, teardown, value_of};
use super::checks::{Call, Writer};
use super::member::{Member, State, Task, Worker};
use super::scenario::{SLACKS, Scenario};
use intendant_lapser::{Answer, Directory, Effect, GetError, Node, Variant};
use intendant_segment::{Segment, slot};
use intendant_sim::onesided::{Input, OneSided, Step};
use intendant_sim::reach::{Marker, Reach};
use intendant_sim::{Finding, Violation};
use std::collections::{BTreeMap, BTreeSet};

/// Inputs of all nodes per call at most; the busiest runs need a tenth of it.
const EVENTS_PER_CALL_MAX: u64 = 2_000;

/// How often a node that is to die in the middle of an operation looks whether it is, and how soon again.
const TRIES_MAX: u64 = 500;
const TRY_NS_MAX: u64 = 200;

/// Result of one seed.
#[derive(Clone, Debug)]
pub struct Run {
    /// The violation, if there was one.
    pub result: Result<(), Violation>,
    /// Hash of all events and of the words that were copied.
    pub hash: u64,
    /// Number of inputs of nodes.
    pub events: u64,
    /// Number of calls of all workers.
    pub calls: u64,
    /// Virtual time at the end, ns.
    pub virtual_ns: u64,
    /// Reach markers.
    pub reach: Reach,
    /// The readable trace; empty if it was not requested.
    pub trace: Vec<String>,
}

/// An input of a node besides those of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    /// A worker continues.
    Worker(usize),
    /// A look is due.
    Timer,
    /// All nodes have met.
    Met,
    /// The nodes cannot meet, because one is gone.
    Unmet(usize),
    /// The process of a node that has finished ends.
    Leave,
    /// The node dies.
    Die,
}

pub(super) struct Cluster {
    scenario: Scenario,
    directory: Directory,
    network: OneSided<Own>,
    members: Vec<Member>,
    /// Nodes that have come to the meeting.
    meeting: BTreeSet<usize>,
    /// By node and place of a slot of a copy: the key.
    slots: BTreeMap<(usize, usize), u64>,
    /// By node and key of a copy: what a write of it alone hints at.
    hints: BTreeMap<(usize, u64), u32>,
    /// By node and place of a farewell: the node of which it is.
    farewells: BTreeMap<(usize, usize), usize>,
    /// Nodes that have written theirs.
    said: BTreeSet<usize>,
    answers: Answers,
    sets: Sets,
    monotone: Monotone,
    writers: Writers,
    traffic: Traffic,
    calls: u64,
    /// How often the node that dies has looked for the right moment.
    tries: u64,
}

impl Cluster {
    pub(super) fn new(scenario: Scenario) -> Result<Self, Finding> {
        let setup = |what: String| ("setup", what);
        // As nodes exchange them.
        let declarations: Result<Vec<_>, _> = scenario
            .declarations
            .iter()
            .map(|declared| intendant_lapser::Declaration::from_bytes(&declared.to_bytes()))
            .collect();
        let declarations = declarations.map_err(|error| setup(error.to_string()))?;
        let directory = Directory::new(scenario.settings, &declarations);
        let directory = directory.map_err(|error| setup(error.to_string()))?;
        let (mut members, mut segments, mut slots) = (Vec::new(), Vec::new(), BTreeMap::new());
        let (mut farewells, mut hints) = (BTreeMap::new(), BTreeMap::new());
        for (rank, declared) in scenario.declarations.iter().enumerate() {
            let words = directory.words(rank).unwrap_or(0).max(1);
            let segment = Segment::new(words).map_err(|error| setup(error.to_string()))?;
            let node = Node::new(&directory, rank, &segment, scenario.pace);
            let node = node.map_err(|error| setup(error.to_string()))?;
            let sets = |worker: usize| {
                let keys = declared.produce.iter().map(|item| item.key).enumerate();
                keys.filter(move |(number, _)| number % scenario.workers == worker).map(|(_, key)| key)
            };
            // What it produces itself, it can get as well.
            let gets: BTreeMap<u64, u64> =
                declared.consume.iter().map(|want| (want.item.key, want.slack)).collect();
            let of_others = gets.iter().filter(|(key, _)| directory.producer(**key) != Some(rank));
            let of_others = of_others.map(|(key, slack)| (*key, *slack));
            let beyond: Vec<_> = of_others.filter(|_| scenario.beyond == Some(rank)).collect();
            let worker = |worker: usize| Worker::new(sets(worker).collect(), beyond.clone());
            let workers = (0..scenario.workers).map(worker).collect();
            for of in 0..directory.nodes() {
                farewells.extend(directory.farewell_at(of, rank).map(|at| ((rank, at), of)));
            }
            let copies = gets.keys().filter_map(|key| Some((key, directory.copy_at(*key, rank)?)));
            for (number, (key, copy)) in copies.enumerate() {
                // The first hint is that of several items. The others are for the items, in turn.
                let others = scenario.settings.hints - 1;
                hints.insert((rank, *key), (number as u32).checked_rem(others).map_or(0, |at| 1 + at));
                slots.extend([copy.pushed, copy.landing].into_iter().flatten().map(|at| ((rank, at), *key)));
            }
            members.push(Member {
                node,
                workers,
                gets: gets.into_iter().collect(),
                state: State::Working,
                timer_ns: None,
                lost: Vec::new(),
                calls: 0,
                batch: None,
                unhinted: BTreeSet::new(),
            });
            segments.push(segment);
        }
        Ok(Self {
            network: OneSided::new(scenario.network.clone(), segments),
            directory,
            members,
            meeting: BTreeSet::new(),
            slots,
            hints,
            farewells,
            said: BTreeSet::new(),
            answers: Answers::default(),
            sets: Sets::default(),
            monotone: Monotone::default(),
            writers: Writers::default(),
            traffic: Traffic::new(scenario.settings.variant),
            calls: 0,
            tries: 0,
            scenario,
        })
    }

    pub(super) fn run(&mut self) -> Result<(), Violation> {
        let scenario = format!("{:?}", self.scenario);
        self.network.note(|| scenario);
        for node in 0..self.members.len() {
            for worker in 0..self.members[node].workers.len() {
                self.wake(node, worker);
            }
        }
        if let Some((node, at_ns)) = self.scenario.death {
            self.network.schedule(node, at_ns, Own::Die);
        }
        let found = self.drive();
        found.map_err(|(check, what)| {
            let (at_ns, event) = (self.network.now_ns(), self.network.events());
            Violation { check, at_ns, event, what }
        })
    }

    pub(super) fn into_run(mut self, result: Result<(), Violation>) -> Run {
        self.mark();
        Run {
            result,
            hash: self.network.hash(),
            events: self.network.events(),
            calls: self.calls,
            virtual_ns: self.network.now_ns(),
            reach: *self.network.reach(),
            trace: self.network.take_trace(),
        }
    }

    fn drive(&mut self) -> Result<(), Finding> {
        while let Some(step) = self.network.next() {
            let members = &self.members;
            teardown::check(self.network.trespasses(), |node| !members[node].is_lost())?;
            self.step(step)?;
            let events = self.network.events();
            if events > 20_000 + self.calls * EVENTS_PER_CALL_MAX {
                return Err(progress::endless(events));
            }
        }
        if let Some(stuck) = self.members.iter().position(|member| !member.has_ended()) {
            return Err(progress::stuck(stuck, &self.answers));
        }
        if self.members.iter().any(Member::is_lost) { Ok(()) } else { self.traffic.end() }
    }

    fn step(&mut self, step: Step<Own>) -> Result<(), Finding> {
        let Step { node, input } = step;
        let now_ns = self.network.now_ns();
        self.network.note(|| format!("n{node} {input:?}"));
        let mut out = Vec::new();
        // Sets can be completed by these inputs.
        let stores = matches!(input, Input::Done(_) | Input::Failed { .. });
        let before = stores.then(|| self.produced(node));
        let segment = self.network.segment(node).clone();
        let protocol = &mut self.members[node].node;
        match input {
            Input::Done(id) => {
                self.ended(node, id);
                self.members[node].node.done(&segment, now_ns, id, &mut out);
            }
            Input::Failed { id, node: other, reason } => {
                self.ended(node, id);
                self.members[node].lose(other);
                self.members[node].node.failed(&segment, id, other, reason, &mut out);
            }
            Input::Hint { hint, from, remote, tag } => {
                // What a node had begun when it ended can have torn the slot since.
                if !self.members[from].has_ended() {
                    self.check_hint(node, remote, tag)?;
                }
                self.members[node].node.hint(&segment, hint, &mut out);
            }
            Input::Closed(other) => {
                self.members[node].lose(other);
                self.members[node].node.closed(&segment, other, "connection lost", &mut out);
            }
            Input::Own(Own::Timer) => {
                self.members[node].timer_ns = None;
                self.members[node].node.check(&segment, now_ns, &mut out);
            }
            Input::Own(Own::Met) => protocol.met(&mut out),
            Input::Own(Own::Unmet(lost)) => protocol.meeting_failed(lost, "connection lost", &mut out),
            Input::Own(Own::Worker(worker)) => return self.continue_worker(node, worker),
            Input::Own(Own::Leave) => self.network.end(node),
            Input::Own(Own::Die) => {
                self.die(node);
                return Ok(());
            }
        }
        self.execute(node, before.as_deref(), out, None)
    }

    /// The words of the slots of all items that a node produces, and of the head.
    fn produced(&self, node: usize) -> Vec<u64> {
        let ends = self.scenario.declarations[node]
            .produce
            .iter()
            .filter_map(|item| Some(self.directory.produced_at(item.key)? + slot::words(item.words)));
        let mut words = vec![0; ends.max().unwrap_or(0)];
        self.network.segment(node).read(0, &mut words);
        words
    }

    fn ended(&mut self, node: usize, id: u64) {
        self.writers.ends(node, id);
        self.traffic.ended(node, id);
    }

    /// A worker makes its next call.
    fn continue_worker(&mut self, node: usize, number: usize) -> Result<(), Finding> {
        let now_ns = self.network.now_ns();
        let member = &mut self.members[node];
        let worker = &mut member.workers[number];
        worker.woken = false;
        if member.state != State::Working || worker.ended {
            return Ok(());
        }
        if member.batch == Some(number) && worker.is_idle() {
            member.batch = None;
            let mut out = Vec::new();
            member.node.end_batch(&mut out);
            self.execute(node, None, out, None)?;
        }
        let scenario = &self.scenario.nodes[node];
        let member = &mut self.members[node];
        let worker = &mut member.workers[number];
        let program = (self.scenario.iterations, self.scenario.sets);
        let task = worker.next(scenario, program, &member.gets, self.network.dice());
        let (segment, mut out) = (self.network.segment(node).clone(), Vec::new());
        let Some(task) = task else {
            if member.workers.iter().all(|worker| worker.ended) {
                member.state = State::Finishing;
                let op = self.call(node, number, Call::Finish);
                let finished = self.members[node].node.finish(&segment, op, &mut out);
                finished.map_err(|error| ("answers", error.to_string()))?;
                return self.execute(node, None, out, None);
            }
            return Ok(());
        };
        worker.outstanding += 1;
        if worker.outstanding < scenario.outstanding {
            self.wake(node, number);
        }
        match task {
            Task::Set { key, clock } => {
                let (batches, member) = (self.scenario.nodes[node].batches, &mut self.members[node]);
                if batches && member.batch.is_none() {
                    member.batch = Some(number);
                    member.node.begin_batch();
                }
                let before = self.produced(node);
                let mut value = vec![0; self.directory.value_words(key).unwrap_or(0)];
                value_of(key, clock, &mut value);
                let op = self.call(node, number, Call::Set { key, clock });
                let set = self.members[node].node.set(&segment, op, key, clock, &value, &mut out);
                set.map_err(|error| ("answers", error.to_string()))?;
                self.execute(node, Some(&before), out, None)
            }
            Task::Get { key, clock, slack, prefetch } => {
                // Mostly the declared slack.
                let dice = self.network.dice();
                let other = self.scenario.slack.is_none() && dice.once_in(8);
                let slack = if other { dice.pick(&SLACKS) } else { slack };
                if prefetch {
                    let wanted = clock.saturating_sub(slack);
                    let asked = self.members[node].node.prefetch(&segment, key, clock, slack, &mut out);
                    asked.map_err(|error| ("answers", error.to_string()))?;
                    self.network.reach().mark(Marker::Prefetched);
                    self.execute(node, None, std::mem::take(&mut out), Some(wanted))?;
                }
                let op = self.call(node, number, Call::Get { key, clock, slack });
                let got = self.members[node].node.get(&segment, now_ns, op, key, clock, slack, &mut out);
                got.map_err(|error| ("answers", error.to_string()))?;
                self.execute(node, None, out, None)
            }
        }
    }

    /// Notes a call, and returns its number.
    fn call(&mut self, node: usize, worker: usize, call: Call) -> u64 {
        self.network.note(|| format!("n{node} worker {worker} {call:?}"));
        let member = &mut self.members[node];
        member.calls += 1;
        self.calls += 1;
        self.answers.call(node, member.calls, worker, call);
        member.calls
    }

    /// Executes what a node asks for. `before` are the words of its slots before the call, if it may have
    /// stored;
    /// `prefetched` is the clock that a prefetch needs.
    fn execute(
        &mut self,
        node: usize,
        before: Option<&[u64]>,
        out: Vec<Effect>,
        prefetched: Option<u64>,
    ) -> Result<(), Finding> {
        if let Some(before) = before {
            self.stored(node, before, &out)?;
        }
        for effect in out {
            match effect {
                Effect::Read { from, remote, into, words, id } => {
                    let key = self.key_at(node, into)?;
                    let wanted = self.answers.wanted(node, key).chain(prefetched);
                    self.traffic.reads(node, key, id, wanted)?;
                    self.writers.writes(node, into, words, Writer::Reads)?;
                    self.network.read(node, from, remote, into, words, id);
                }
                Effect::Write { to, local, remote, words, hint, id }
                    if self.farewells.contains_key(&(to, remote)) =>
                {
                    self.says_farewell(node, (to, remote), local, words)?;
                    self.writers.begins(node, id, local, words);
                    self.network.write(node, to, local, remote, words, hint, id, 0);
                }
                Effect::Write { to, local, remote, words, hint, id } => {
                    let key = self.key_at(to, remote)?;
                    self.traffic.writes(key, to);
                    self.writers.writes(to, remote, words, Writer::Writes { of: node })?;
                    self.writers.begins(node, id, local, words);
                    let (unhinted, own) = (&mut self.members[node].unhinted, self.hints.get(&(to, key)));
                    if checks::check_hint_of_batch(unhinted, node, to, hint, own.copied())? {
                        self.network.reach().mark(Marker::HintOfSeveral);
                    }
                    let tag = self.sets.last(key);
                    self.network.write(node, to, local, remote, words, hint, id, tag);
                }
                Effect::Answer(answer) => {
                    self.answer(node, answer)?;
                    if self.members[node].state == State::Failed {
                        return Ok(());
                    }
                }
                Effect::Meet => self.meets(node),
                Effect::Release => {
                    if self.network.is_in_flight(node) {
                        return Err(("teardown", format!("n{node} releases its segment before it is idle")));
                    }
                    self.network.release(node);
                }
            }
        }
        let member = &self.members[node];
        if member.batch.is_none() && !member.unhinted.is_empty() {
            let to = &member.unhinted;
            return Err(("hinted", format!("n{node} has given no hint at what it has written to {to:?}")));
        }
        self.set_timer(node);
        Ok(())
    }

    /// A node writes its farewell to another one.
    fn says_farewell(
        &mut self,
        node: usize,
        (to, remote): (usize, usize),
        local: usize,
        words: usize,
    ) -> Result<(), Finding> {
        let (of, own) = (self.farewells.get(&(to, remote)), self.farewells.get(&(node, local)));
        if of != Some(&node) || own != Some(&node) || words != slot::words(0) {
            return Err((
                "writers",
                format!("n{node} writes to n{to} at {remote}, where it has no farewell"),
            ));
        }
        self.writers.writes(to, remote, words, Writer::Writes { of: node })?;
        if self.said.insert(node) {
            // The processor has stored it just now.
            self.writers.stores(node, local, words)?;
            let spread = self.scenario.nodes[node].set;
            let for_ns = self.network.dice().between(spread.min_ns, spread.max_ns);
            self.network.storing(node, local, &vec![0; words], for_ns);
        }
        Ok(())
    }

    /// The key of the slot that an operation reaches.
    fn key_at(&self, node: usize, at: usize) -> Result<u64, Finding> {
        let key = self.slots.get(&(node, at)).copied();
        key.ok_or_else(|| ("writers", format!("word {at} of n{node} is not where a copy begins")))
    }

    /// Accounts for the values that a node has stored, which become visible bit by bit.
    fn stored(&mut self, node: usize, before: &[u64], out: &[Effect]) -> Result<(), Finding> {
        let mut stored = false;
        for effect in out {
            let Effect::Answer(Answer::Set { op }) = effect else { continue };
            let Some(Call::Set { key, clock }) = self.answers.of(node, *op) else { continue };
            let (Some(at), Some(words)) = (self.directory.produced_at(key), self.directory.value_words(key))
            else {
                continue;
            };
            self.writers.stores(node, at, slot::words(words))?;
            self.sets.set(key, clock);
            self.traffic.set(&self.directory, key, clock);
            stored = true;
        }
        if stored {
            let spread = self.scenario.nodes[node].set;
            let for_ns = self.network.dice().between(spread.min_ns, spread.max_ns);
            self.network.storing(node, 0, before, for_ns);
        }
        Ok(())
    }

    fn answer(&mut self, node: usize, answer: Answer) -> Result<(), Finding> {
        self.network.note(|| format!("n{node} {answer:?}"));
        let op = match &answer {
            Answer::Got { op, .. }
            | Answer::NotGot { op, .. }
            | Answer::Set { op }
            | Answer::NotSet { op, .. }
            | Answer::Finished { op, .. } => *op,
        };
        let (worker, call) = self.answers.answer(node, op)?;
        match (answer, call) {
            (Answer::Set { .. }, Call::Set { .. }) => {}
            (Answer::Got { key, clock, .. }, Call::Get { key: asked, clock: t, slack }) if key == asked => {
                self.got(node, key, clock, (t, slack))?;
            }
            (
                Answer::NotGot { error: error @ GetError::ProducerFinished { .. }, .. },
                Call::Get { key, clock, slack },
            ) => {
                let (wanted, last) = (clock.saturating_sub(slack), self.sets.last(key));
                let producer = self.directory.producer(key).unwrap_or(node);
                let has_ended = self.members[producer].workers.iter().all(|worker| worker.ended);
                let expected = GetError::ProducerFinished { key, node: producer, wanted, clock: last };
                if error != expected || wanted <= last || !has_ended {
                    return Err((
                        "answers",
                        format!("n{node} does not get key {key}, set up to {last}: {error}"),
                    ));
                }
                self.network.reach().mark(Marker::GetBeyond);
            }
            (Answer::NotGot { error, .. }, Call::Get { key, .. }) => {
                let producer = self.directory.producer(key);
                let gone = |lost: usize| self.members[lost].is_lost();
                Answers::not_got(node, key, &error, producer, gone)?;
                self.network.reach().mark(Marker::ProducerLost);
                self.leave(node, State::Failed);
                return Ok(());
            }
            (Answer::Finished { result, .. }, Call::Finish) => {
                if let Err(error) = &result
                    && !self.members.iter().any(Member::is_lost)
                {
                    return Err(("answers", format!("n{node} does not finish: {error}")));
                }
                self.members[node].state = State::Finished(result);
                let detect = self.scenario.network.detect;
                let at_ns = self.network.now_ns() + self.network.dice().between(0, detect.max_ns);
                self.network.schedule(node, at_ns, Own::Leave);
                return Ok(());
            }
            (answer, call) => return Err(("answers", format!("n{node} answers {call:?} by {answer:?}"))),
        }
        self.members[node].workers[worker].outstanding -= 1;
        self.wake(node, worker);
        Ok(())
    }

    /// Checks what a get returns.
    fn got(&mut self, node: usize, key: u64, clock: u64, (t, slack): (u64, u64)) -> Result<(), Finding> {
        let mut value = vec![0; self.directory.value_words(key).unwrap_or(0)];
        let segment = self.network.segment(node);
        let found = self.members[node].node.value(segment, key, &mut value);
        if found != Ok(clock) {
            return Err((
                "torn",
                format!("n{node} gets key {key} at clock {clock}, and its value is {found:?}"),
            ));
        }
        self.sets.got(node, key, clock, &value)?;
        checks::check_fresh(node, key, (t, slack), clock)?;
        self.monotone.got(node, key, clock)?;
        self.traffic.got(node, key, clock);
        let producer = self.directory.producer(key);
        if producer.is_some_and(|producer| self.members[node].lost.contains(&producer)) {
            self.network.reach().mark(Marker::GotAfterLoss);
        }
        Ok(())
    }

    /// Checks the slot to which a write with a hint went.
    fn check_hint(&self, node: usize, remote: usize, clock: u64) -> Result<(), Finding> {
        if let Some(of) = self.farewells.get(&(node, remote)) {
            let mut image = vec![0; slot::words(0)];
            self.network.segment(node).read(remote, &mut image);
            let incarnation = self.directory.incarnation(*of).unwrap_or(0);
            return match slot::decode(incarnation, *of as u64, 0, &image) {
                Ok(_) => Ok(()),
                Err(torn) => Err(("hinted", format!("a hint announces the farewell of n{of}: {torn}"))),
            };
        }
        // The first words of a slot tell which it is.
        let slot = self.slots.range(..=(node, remote)).next_back().filter(|((of, _), _)| *of == node);
        let Some(((_, at), key)) = slot else {
            return Err((
                "writers",
                format!("a write reaches word {remote} of n{node}, which has no copy there"),
            ));
        };
        let words = self.directory.value_words(*key).unwrap_or(0);
        let mut image = vec![0; slot::words(words)];
        self.network.segment(node).read(*at, &mut image);
        let producer = self.directory.producer(*key).and_then(|rank| self.directory.incarnation(rank));
        let landing = self.network.is_landing(node, *at, image.len());
        checks::check_hinted((node, *key), producer.unwrap_or(0), words, &image, clock, landing)
    }

    /// A node dies: at once, or in the middle of an operation.
    fn die(&mut self, node: usize) {
        if self.members[node].has_ended() {
            return;
        }
        if self.scenario.inside && self.tries < TRIES_MAX && !self.network.is_inside(node) {
            self.tries += 1;
            let at_ns = self.network.now_ns() + self.network.dice().between(1, TRY_NS_MAX);
            self.network.schedule(node, at_ns, Own::Die);
            return;
        }
        self.leave(node, State::Died);
    }

    /// A node has come to the meeting.
    fn meets(&mut self, node: usize) {
        self.meeting.insert(node);
        let detect = self.scenario.network.detect;
        if self.meeting.len() == self.members.len() {
            for member in 0..self.members.len() {
                let at_ns = self.network.now_ns() + self.network.dice().between(0, detect.max_ns);
                self.network.schedule(member, at_ns, Own::Met);
            }
        } else if let Some(lost) = self.members.iter().position(Member::is_lost) {
            let at_ns = self.network.now_ns() + detect.max_ns;
            self.network.schedule(node, at_ns, Own::Unmet(lost));
        }
    }

    /// A node ends without having finished. Those that wait for it at the meeting are told.
    fn leave(&mut self, node: usize, state: State) {
        self.members[node].state = state;
        self.network.end(node);
        if self.meeting.len() == self.members.len() {
            return;
        }
        let at_ns = self.network.now_ns() + self.scenario.network.detect.max_ns;
        for member in self.meeting.clone() {
            self.network.schedule(member, at_ns, Own::Unmet(node));
        }
    }

    fn wake(&mut self, node: usize, worker: usize) {
        let spread = self.scenario.nodes[node].pause;
        let dice = self.network.dice();
        let pause_ns = dice.between(spread.min_ns, spread.max_ns);
        let tail = spread.tail_once_in > 0 && dice.once_in(spread.tail_once_in);
        if !std::mem::replace(&mut self.members[node].workers[worker].woken, true) {
            let at_ns = self.network.now_ns() + if tail { pause_ns * 16 } else { pause_ns };
            self.network.schedule(node, at_ns, Own::Worker(worker));
        }
    }

    /// Schedules the next look of a node, unless one is scheduled before.
    fn set_timer(&mut self, node: usize) {
        let member = &mut self.members[node];
        let Some(due_ns) = member.node.next_check() else { return };
        if member.timer_ns.is_none_or(|timer_ns| due_ns < timer_ns) {
            member.timer_ns = Some(due_ns);
            self.network.schedule(node, due_ns, Own::Timer);
        }
    }

    /// Marks what the nodes report to have done.
    fn mark(&mut self) {
        let reads = self.scenario.settings.variant != Variant::Push;
        let mut reach = Reach::default();
        for member in &self.members {
            let stats = member.node.stats();
            let counts = [
                (Marker::TornRead, stats.torn_reads),
                (Marker::StaleRead, stats.stale_reads),
                (Marker::TornLook, stats.torn_looks),
                (Marker::Reread, if reads { stats.rereads } else { 0 }),
                (Marker::HintInVain, stats.hints_in_vain),
                (Marker::LateLook, stats.late_looks),
                (Marker::SetWaited, stats.sets_waited),
            ];
            for (marker, count) in counts {
                (0..count).for_each(|_| reach.mark(marker));
            }
        }
        self.network.reach().merge(&reach);
    }
}
