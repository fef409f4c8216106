//! `--explain KEYS`: at the end of a run, why these keys are where they are, as all nodes see it.

use crate::error::TrainError;
use crate::parameters::Parameters;
use intendant::{Explanation, Role};
use intendant_core::{Element, Key};
use std::fmt::Write;

/// Keys that can be explained in one run: what is told about more nobody reads.
const KEYS_MAX: usize = 100;

/// Decisions that a node tells of a key.
const DECISIONS_MAX: usize = 16;

/// The keys to explain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys(pub(crate) Vec<Key>);

/// Reads the flag: numbers and ranges `first..end` without their ends, separated by commas.
pub(crate) fn keys(text: &str) -> Result<Vec<Key>, String> {
    let number = |text: &str| {
        let number = text.trim().parse::<u64>();
        number.map_err(|_| format!("'{text}' is not a key; use numbers and ranges like 3,10..20"))
    };
    let mut keys = Vec::new();
    for part in text.split(',') {
        let range = match part.split_once("..") {
            Some((first, end)) => number(first)?..number(end)?,
            None => number(part)?..number(part)?.saturating_add(1),
        };
        if range.is_empty() {
            return Err(format!("'{part}' is empty: the end of a range does not belong to it"));
        }
        if range.end - range.start > (KEYS_MAX - keys.len()) as u64 {
            return Err(format!("these are more than {KEYS_MAX} keys; ask for fewer"));
        }
        keys.extend(range.map(Key));
    }
    Ok(keys)
}

/// What one node says, a line for each thing.
pub(crate) fn describe(node: u16, keys: impl IntoIterator<Item = (Key, Explanation)>) -> String {
    let mut text = String::new();
    for (key, explanation) in keys {
        let Explanation { role, owner, holders, intents, decisions } = explanation;
        // A string takes whatever is written.
        let _ = write!(text, "key {key}, node {node}: ");
        let _ = match role {
            Role::Owner | Role::Hub => write!(text, "owns it"),
            Role::Replica => write!(text, "has a replica, of node {owner}"),
            Role::Static => write!(text, "has a static replica"),
            Role::Arriving | Role::Leaving => write!(text, "is about to get it"),
            Role::Absent => write!(text, "does not have it, and would look at node {owner}"),
        };
        if !holders.is_empty() {
            let holders: Vec<String> = holders.iter().map(ToString::to_string).collect();
            let _ = write!(text, "; replicas at {}", holders.join(", "));
        }
        if intents > 0 {
            let _ = write!(text, "; {}", crate::logging::counted(intents.into(), "active intent"));
        }
        text.push('\n');
        // The last ones: all that nodes say must fit into a meeting.
        for decision in &decisions[decisions.len().saturating_sub(DECISIONS_MAX)..] {
            let _ = writeln!(text, "  {:>10.3} ms  {}", decision.at.0 as f64 / 1e3, decision.what);
        }
    }
    text
}

/// Collects what all nodes say, and tells it on rank 0.
pub(crate) fn tell<E: Element, P: Parameters<E>>(
    parameters: &mut P,
    keys: &[Key],
    rank: u16,
    worker: usize,
) -> Result<(), TrainError> {
    if keys.is_empty() {
        return Ok(());
    }
    let mut said = String::new();
    if worker == 0 {
        for key in keys {
            let explanation = parameters.explain(*key)?;
            said += &describe(rank, explanation.map(|explanation| (*key, explanation)));
        }
    }
    let all = parameters.gather("explain", said.into_bytes())?;
    if rank == 0 && worker == 0 {
        crate::logging::say(&combine(all.iter().map(|said| String::from_utf8_lossy(said).into_owned())));
    }
    Ok(())
}

/// What nodes say, key by key.
pub(crate) fn combine(said: impl Iterator<Item = String>) -> String {
    let mut blocks: Vec<(u64, usize, String)> = Vec::new();
    for text in said {
        for line in text.lines() {
            match line.strip_prefix("key ").and_then(|rest| rest.split(',').next()?.parse().ok()) {
                Some(key) => blocks.push((key, blocks.len(), line.to_owned())),
                None => {
                    if let Some((_, _, block)) = blocks.last_mut() {
                        block.push('\n');
                        block.push_str(line);
                    }
                }
            }
        }
    }
    blocks.sort();
    let blocks: Vec<String> = blocks.into_iter().map(|(_, _, block)| block).collect();
    blocks.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant::{Cause, Decision, DecisionKind, NodeId, Tick};

    #[test]
    fn keys_are_numbers_and_ranges() {
        assert_eq!(keys("3, 10..12"), Ok(vec![Key(3), Key(10), Key(11)]));
        for wrong in ["", "x", "3,", "5..5", "7..3", "-1", "0..101", "0..18446744073709551615"] {
            assert!(keys(wrong).is_err(), "{wrong}");
        }
        assert!(keys("5..5").unwrap_err().contains("does not belong"));
    }

    #[test]
    fn nodes_are_told_key_by_key() {
        let explanation = |role, decisions| Explanation {
            role,
            owner: NodeId(1),
            holders: vec![NodeId(2)],
            intents: 3,
            decisions,
        };
        let moved = DecisionKind::Moved(NodeId(1), Cause::Ended(NodeId(0)));
        let decision = Decision { at: Tick(1_500), key: Key(4), what: moved };
        let zero = describe(
            0,
            [(Key(4), explanation(Role::Absent, vec![decision])), (Key(5), explanation(Role::Hub, vec![]))],
        );
        let one = describe(1, [(Key(4), explanation(Role::Owner, vec![]))]);
        let all = combine([zero, one].into_iter());
        let lines: Vec<&str> = all.lines().collect();
        assert!(lines[0].starts_with("key 4, node 0: does not have it, and would look at node 1"), "{all}");
        assert!(
            lines[1].contains("1.500 ms  moves to node 1, the only one that is left: that of node 0 is over"),
            "{all}"
        );
        assert!(lines[2].starts_with("key 4, node 1: owns it; replicas at 2; 3 active intents"), "{all}");
        assert!(lines[3].starts_with("key 5, node 0: owns it"), "{all}");
    }
}
