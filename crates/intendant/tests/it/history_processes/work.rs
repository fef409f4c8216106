//! The operations of a worker and its notes on them: pushes, pulls, sets and relocations of a few keys, drawn
//! from a seed.

use super::notes::RegisterNotes;
use super::{ALL, CALLS, KEYS, LANES, REGISTERS};
use intendant::{Error, Key, Layout, Ticket, Worker};
use intendant_checkers::history::{History, RecordId};
use intendant_checkers::lanes;
use intendant_core::random::{mix, stream};
use rustix::process::{Signal, getpid, kill_process};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

/// The most asynchronous pulls that a worker has under way.
const AHEAD: usize = 6;

/// A pull of one key, in the history or among the notes on registers.
#[derive(Clone, Copy)]
enum Note {
    Lanes(RecordId),
    Register(usize),
}

/// A pull for which a worker waits.
struct Pull {
    ticket: Ticket,
    keys: Vec<Key>,
    notes: Vec<Note>,
}

pub(crate) struct Recorder {
    me: usize,
    layout: Layout,
    asynchronous: bool,
    history: History,
    registers: RegisterNotes,
    sets: u32,
    ahead: VecDeque<Pull>,
    /// Pushes and sets that have not been waited for.
    changes: Vec<(Ticket, Vec<RecordId>)>,
    pub(crate) here: u64,
    pub(crate) elsewhere: u64,
}

impl Recorder {
    pub(crate) fn new(me: usize, layout: Layout, asynchronous: bool) -> Self {
        Self {
            me,
            layout,
            asynchronous,
            history: History::new(ALL),
            registers: RegisterNotes::default(),
            sets: 0,
            ahead: VecDeque::new(),
            changes: Vec::new(),
            here: 0,
            elsewhere: 0,
        }
    }

    fn elements(&self, keys: &[Key]) -> usize {
        keys.iter().map(|key| self.layout.len(*key)).sum()
    }

    /// Works, comes to rest with the others, and looks at the final values. The process kills itself after
    /// `dies_after` calls.
    pub(crate) fn work(&mut self, worker: &mut Worker<f32>, dies_after: Option<u64>) -> Result<(), Error> {
        for call in 0..CALLS {
            if dies_after == Some(call) {
                kill_process(getpid(), Signal::KILL).unwrap();
            }
            self.call(worker, stream(9, &[self.me as u64, call]))?;
            // Nodes outnumber the cores of small machines. Without the yield, each node would have the keys
            // for itself as long as it runs.
            std::thread::yield_now();
        }
        while let Some(pull) = self.ahead.pop_front() {
            self.finish(worker, pull)?;
        }
        for (ticket, records) in std::mem::take(&mut self.changes) {
            worker.wait(ticket)?;
            records.into_iter().for_each(|record| self.history.pushed(record, None));
        }
        // This call ends only when nothing is outstanding on any node.
        worker.quiesce()?;
        if self.me == 0 {
            self.look_at_the_end(worker)?;
        }
        worker.barrier("recorded")
    }

    fn call(&mut self, worker: &mut Worker<f32>, word: u64) -> Result<(), Error> {
        // Most keys are one of three lanes, whose homes are different nodes.
        let hot = |word: u64| Key(if word.is_multiple_of(3) { word / 3 % LANES } else { word / 3 % 3 * 7 });
        let mut keys: Vec<Key> = (0..1 + word % 4).map(|i| hot(mix(word ^ mix(i)))).collect();
        let register = Key(LANES + word / 4 % REGISTERS);
        match (word >> 40) % 20 {
            0..7 => self.push(worker, &keys),
            7..11 => self.pull(worker, keys),
            11 => {
                keys.push(register);
                self.pull(worker, keys)
            }
            12 => self.set(worker, register),
            13 => {
                keys.push(register);
                self.pull_if_local(worker, &keys)
            }
            14 => self.pull_if_local(worker, &keys),
            15 => worker.localize(&[register]),
            16 | 17 => worker.localize(&keys),
            // The keys arrive whether a worker waits for them or not.
            18 => worker.localize_async(&keys).map(drop),
            _ => {
                let ticket = worker.localize_async(&keys)?;
                self.push(worker, &keys)?;
                worker.wait(ticket)
            }
        }
    }

    fn push(&mut self, worker: &mut Worker<f32>, keys: &[Key]) -> Result<(), Error> {
        let mut update = Vec::new();
        keys.iter().for_each(|key| lanes::push(self.me, ALL, self.layout.len(*key), &mut update));
        let records: Vec<_> = keys.iter().map(|key| self.history.push(self.me, *key, None)).collect();
        if self.asynchronous {
            self.changes.push((worker.push_async(keys, &update)?, records));
        } else {
            worker.push(keys, &update)?;
            records.into_iter().for_each(|record| self.history.pushed(record, None));
        }
        Ok(())
    }

    fn set(&mut self, worker: &mut Worker<f32>, key: Key) -> Result<(), Error> {
        // The tag differs from those of all other sets, and is small enough for a float.
        let tag = self.sets * ALL as u32 + self.me as u32 + 1;
        self.sets += 1;
        self.registers.set(key, tag);
        let value = vec![tag as f32; self.layout.len(key)];
        if self.asynchronous {
            self.changes.push((worker.set_async(&[key], &value)?, Vec::new()));
            return Ok(());
        }
        worker.set(&[key], &value)
    }

    fn pull(&mut self, worker: &mut Worker<f32>, keys: Vec<Key>) -> Result<(), Error> {
        let notes = self.note_pulls(&keys);
        if self.asynchronous {
            let ticket = worker.pull_async(&keys)?;
            self.ahead.push_back(Pull { ticket, keys, notes });
            if self.ahead.len() > AHEAD
                && let Some(pull) = self.ahead.pop_front()
            {
                self.finish(worker, pull)?;
            }
        } else {
            let mut values = vec![0.0; self.elements(&keys)];
            worker.pull(&keys, &mut values)?;
            self.pulled(&keys, &notes, &values);
        }
        Ok(())
    }

    fn pull_if_local(&mut self, worker: &mut Worker<f32>, keys: &[Key]) -> Result<(), Error> {
        let mut values = vec![f32::NAN; self.elements(keys)];
        let here = worker.pull_if_local(keys, &mut values)?;
        let mut at = 0;
        for (key, here) in keys.iter().zip(here) {
            let value = &values[at..at + self.layout.len(*key)];
            at += value.len();
            if here {
                self.here += 1;
                let notes = self.note_pulls(&[*key]);
                self.pulled(&[*key], &notes, value);
            } else {
                self.elsewhere += 1;
                assert!(
                    value.iter().all(|v| v.is_nan()),
                    "{key:?} is not here, and its place was written to"
                );
            }
        }
        Ok(())
    }

    fn finish(&mut self, worker: &mut Worker<f32>, pull: Pull) -> Result<(), Error> {
        let mut values = vec![0.0; self.elements(&pull.keys)];
        worker.wait_pull(pull.ticket, &mut values)?;
        self.pulled(&pull.keys, &pull.notes, &values);
        Ok(())
    }

    fn note_pulls(&mut self, keys: &[Key]) -> Vec<Note> {
        let note = |key: &Key| {
            if key.0 < LANES {
                Note::Lanes(self.history.pull(self.me, *key, None))
            } else {
                Note::Register(self.registers.pull(*key))
            }
        };
        keys.iter().map(note).collect()
    }

    fn pulled(&mut self, keys: &[Key], notes: &[Note], values: &[f32]) {
        let (mut at, mut seen) = (0, [0; ALL]);
        for (key, note) in keys.iter().zip(notes) {
            let value = &values[at..at + self.layout.len(*key)];
            at += value.len();
            match note {
                Note::Lanes(record) => {
                    lanes::read(*key, value, &mut seen).unwrap();
                    self.history.pulled(*record, &seen, None);
                }
                Note::Register(pull) => self.registers.pulled(*pull, value),
            }
        }
    }

    fn look_at_the_end(&mut self, worker: &mut Worker<f32>) -> Result<(), Error> {
        let (layout, mut finals) = (self.layout.clone(), std::collections::BTreeMap::new());
        worker.snapshot(0..KEYS, &mut |keys, values| {
            let mut at = 0;
            for key in keys {
                let value = &values[at..at + layout.len(*key)];
                at += value.len();
                assert!(finals.insert(*key, value.to_vec()).is_none(), "{key:?} has two owners");
            }
        })?;
        assert_eq!(finals.len() as u64, KEYS);
        for (key, value) in finals {
            if key.0 < LANES {
                let mut seen = [0; ALL];
                lanes::read(key, &value, &mut seen).unwrap();
                self.history.ended(key, &seen);
            } else {
                self.registers.ended(key, &value);
            }
        }
        Ok(())
    }

    pub(crate) fn write(&self, dir: &Path) {
        let mut file = BufWriter::new(File::create(dir.join(format!("history.{}", self.me))).unwrap());
        self.history.write(&mut file).unwrap();
        file.flush().unwrap();
        fs::write(dir.join(format!("registers.{}", self.me)), self.registers.text()).unwrap();
    }
}
