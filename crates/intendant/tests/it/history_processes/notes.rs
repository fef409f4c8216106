//! The files that nodes write besides histories: the writes to and reads of registers, and the cost of
//! managing keys.

use super::{KEYS, LANES};
use intendant::{Key, Node};
use intendant_checkers::registers::{BadRegister, Registers};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The operations of one worker on registers, one per line: `set KEY TAG`, `pull KEY TAG`, `final KEY TAG`. A
/// tag names a set among all sets of all workers; 0 is the initial value.
#[derive(Default)]
pub(crate) struct RegisterNotes {
    lines: Vec<(&'static str, Key, Option<u32>)>,
}

impl RegisterNotes {
    pub(crate) fn set(&mut self, key: Key, tag: u32) {
        self.lines.push(("set", key, Some(tag)));
    }

    /// A pull is issued; the caller passes the value that it sees to [`RegisterNotes::pulled`].
    pub(crate) fn pull(&mut self, key: Key) -> usize {
        self.lines.push(("pull", key, None));
        self.lines.len() - 1
    }

    pub(crate) fn pulled(&mut self, pull: usize, value: &[f32]) {
        self.lines[pull].2 = Some(tag(self.lines[pull].1, value));
    }

    pub(crate) fn ended(&mut self, key: Key, value: &[f32]) {
        self.lines.push(("final", key, Some(tag(key, value))));
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (what, key, tag) in &self.lines {
            let tag = tag.expect("all pulls were waited for");
            writeln!(text, "{what} {} {tag}", key.0).unwrap();
        }
        text
    }
}

/// The tag that all elements of a value contain.
fn tag(key: Key, value: &[f32]) -> u32 {
    assert!(value.iter().all(|element| *element == value[0]), "a torn value of {key:?}: {value:?}");
    assert_eq!(value[0].fract(), 0.0, "{key:?} is {}", value[0]);
    value[0] as u32
}

/// Checks the notes of all workers, by worker.
pub(crate) fn check_registers(files: &[String]) -> Result<(), BadRegister> {
    let mut registers = Registers::default();
    // The checker numbers sets by itself.
    let mut numbers = BTreeMap::from([(0, 0)]);
    let (mut pulls, mut finals) = (Vec::new(), Vec::new());
    for (worker, file) in files.iter().enumerate() {
        for line in file.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let (key, tag) = (Key(words[1].parse().unwrap()), words[2].parse::<u32>().unwrap());
            match words[0] {
                "set" => assert!(numbers.insert(tag, registers.set(worker, key)).is_none()),
                "pull" => pulls.push((registers.pull(worker, key), tag)),
                "final" => finals.push((key, tag)),
                other => panic!("a note that says '{other}'"),
            }
        }
    }
    assert!(numbers.len() > 100 && pulls.len() > 100, "registers were hardly used");
    // No set has written a tag that is not among the numbers.
    let value = |tag: u32| [*numbers.get(&tag).unwrap_or(&u32::MAX) as f32];
    for (pull, tag) in pulls {
        registers.pulled(pull, &value(tag))?;
    }
    registers.check()?;
    assert!(finals.iter().map(|(key, _)| key.0).eq(LANES..KEYS), "each register has a final value");
    finals.iter().try_for_each(|(key, tag)| registers.ended(*key, &value(*tag)))
}

/// The same notes, but the last pull saw the initial value.
pub(crate) fn with_a_comeback(file: &str) -> String {
    let mut lines: Vec<String> = file.lines().map(str::to_owned).collect();
    let last = lines.iter_mut().rfind(|line| line.starts_with("pull ")).expect("a pull");
    let key = last.split(' ').nth(1).unwrap();
    *last = format!("pull {key} 0");
    lines.join("\n")
}

/// The counts of a node at the end, or the sum over several nodes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeNotes {
    pub(crate) held: u64,
    pub(crate) messages: u64,
    pub(crate) relocations: u64,
    pub(crate) conflicts: u64,
    pub(crate) queued: u64,
    pub(crate) forwarded: u64,
    pub(crate) relocation_times: u64,
    pub(crate) blocking_times: u64,
    /// Keys that calls of `pull_if_local` found on their node, and did not find.
    pub(crate) here: u64,
    pub(crate) elsewhere: u64,
    /// Keys that were read in windows.
    pub(crate) windows: u64,
}

impl NodeNotes {
    /// `looked` has for each worker the number of keys that it looked for and found on its node, the number
    /// that it did not find, and the number that it read in windows.
    pub(crate) fn of(node: &Node<f32>, looked: &[[u64; 3]]) -> Self {
        let management = node.management().unwrap();
        Self {
            held: node.held() as u64,
            messages: node.network().messages,
            relocations: management.relocations,
            conflicts: management.localization_conflicts,
            queued: management.queued,
            forwarded: management.forwards[1..].iter().sum(),
            relocation_times: management.relocation.count(),
            blocking_times: management.blocking.count(),
            here: looked.iter().map(|[here, ..]| here).sum(),
            elsewhere: looked.iter().map(|[_, elsewhere, _]| elsewhere).sum(),
            windows: looked.iter().map(|[.., windows]| windows).sum(),
        }
    }

    fn numbers(&mut self) -> [&mut u64; 11] {
        [
            &mut self.held,
            &mut self.messages,
            &mut self.relocations,
            &mut self.conflicts,
            &mut self.queued,
            &mut self.forwarded,
            &mut self.relocation_times,
            &mut self.blocking_times,
            &mut self.here,
            &mut self.elsewhere,
            &mut self.windows,
        ]
    }

    pub(crate) fn write(mut self, dir: &Path, rank: usize) {
        let text: Vec<String> = self.numbers().map(|number| number.to_string()).into();
        fs::write(dir.join(format!("node.{rank}")), text.join(" ")).unwrap();
    }

    pub(crate) fn read(text: &str) -> Self {
        let mut notes = Self::default();
        for (to, word) in notes.numbers().into_iter().zip(text.split(' ')) {
            *to = word.parse().unwrap();
        }
        notes
    }

    pub(crate) fn plus(mut self, other: &Self) -> Self {
        let mut other = *other;
        for (to, more) in self.numbers().into_iter().zip(other.numbers()) {
            *to += *more;
        }
        self
    }
}
