//! `--explain KEYS`: at the end of a run, the location of these keys and its reasons, as each node sees them.

use super::parameters::Parameters;
use crate::error::TrainError;
use crate::settings::keys::{KEYS_MAX, Keys, Part};
use intendant::{Explanation, Role};
use intendant_core::{Element, Key, Layout};
use intendant_task::Task;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Decisions that a node reports of a key.
const DECISIONS_MAX: usize = 16;

/// The keys to explain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Explained {
    pub(crate) keys: Vec<Key>,
    /// The names by which the user asked for keys.
    names: BTreeMap<Key, String>,
}

/// Looks the names up.
pub(crate) fn resolve<T: Task>(wanted: &Keys, task: &T, layout: &Layout) -> Result<Explained, TrainError> {
    let mut explained = Explained::default();
    let mut named = |name: &str| {
        let keys = task.keys_named(name);
        for key in &keys {
            explained.names.insert(*key, name.to_owned());
        }
        keys
    };
    let has_names = wanted.parts.iter().any(|part| matches!(part, Part::Name(_)));
    // A name may have commas itself.
    let mut keys = if has_names { named(&wanted.text) } else { Vec::new() };
    if keys.is_empty() {
        for part in &wanted.parts {
            match part {
                Part::Keys(range) => keys.extend(range.clone().map(Key)),
                Part::Name(name) => {
                    let found = named(name);
                    if found.is_empty() {
                        return Err(TrainError::usage(format!(
                            "--explain names '{name}', and the model has no parameter of this name; keys 0 to {} can be named \
                             by their numbers",
                            layout.keys() - 1
                        )));
                    }
                    keys.extend(found);
                }
            }
        }
    }
    if let Some(key) = keys.iter().find(|key| !layout.contains(**key)) {
        let last = layout.keys() - 1;
        return Err(TrainError::usage(format!("--explain names key {key}; the model has keys 0 to {last}")));
    }
    if keys.len() > KEYS_MAX {
        return Err(TrainError::usage(format!("--explain names more than {KEYS_MAX} keys; ask for fewer")));
    }
    for (key, name) in &mut explained.names {
        let range = layout.ranges().iter().find(|range| range.keys.contains(&key.0));
        *name = format!("{name}, {}", range.map_or("", |range| range.name.as_str()));
    }
    explained.keys = keys;
    Ok(explained)
}

/// The explanations of one node, as lines.
pub(crate) fn describe(node: u16, keys: impl IntoIterator<Item = (Key, Explanation)>) -> String {
    let mut text = String::new();
    for (key, explanation) in keys {
        let Explanation { role, owner, holders, intents, decisions } = explanation;
        // Writing to a string does not fail.
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
        // The last ones: the explanations of all nodes must fit into one gather.
        for decision in &decisions[decisions.len().saturating_sub(DECISIONS_MAX)..] {
            let _ = writeln!(text, "  {:>10.3} ms  {}", decision.at.0 as f64 / 1e3, decision.what);
        }
    }
    text
}

/// Collects the explanations of all nodes and prints them on rank 0.
#[inline(never)]
pub(crate) fn tell<E: Element, P: Parameters<E>>(
    parameters: &mut P,
    explained: &Explained,
    rank: u16,
    worker: usize,
) -> Result<(), TrainError> {
    if explained.keys.is_empty() {
        return Ok(());
    }
    let mut said = String::new();
    if worker == 0 {
        for key in &explained.keys {
            let explanation = parameters.explain(*key)?;
            said += &describe(rank, explanation.map(|explanation| (*key, explanation)));
        }
    }
    let all = parameters.gather("explain", said.into_bytes())?;
    if rank == 0 && worker == 0 {
        let said = all.iter().map(|said| String::from_utf8_lossy(said).into_owned());
        crate::logging::say(&combine(said, explained));
    }
    Ok(())
}

/// The explanations of all nodes, key by key.
pub(crate) fn combine(said: impl Iterator<Item = String>, explained: &Explained) -> String {
    let mut blocks: Vec<(u64, usize, String)> = Vec::new();
    for text in said {
        for line in text.lines() {
            match line.strip_prefix("key ").and_then(|rest| rest.split(',').next()?.parse().ok()) {
                Some(key) => {
                    let mut line = line.to_owned();
                    if let Some(name) = explained.names.get(&Key(key)) {
                        line = line.replacen(',', &format!(" ({name}),"), 1);
                    }
                    blocks.push((key, blocks.len(), line));
                }
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
    use crate::settings::keys::keys;
    use intendant::{Cause, Event, NodeId, Tick, What};
    use intendant_core::ChannelId;

    #[test]
    fn keys_are_numbers_ranges_and_names() {
        let keys = |text: &str| keys(text).map(|keys| keys.parts);
        let name = |name: &str| Part::Name(name.to_owned());
        assert_eq!(keys("3, 10..12"), Ok(vec![Part::Keys(3..4), Part::Keys(10..12)]));
        assert_eq!(keys("virus, 3..x,-1"), Ok(vec![name("virus"), name("3..x"), name("-1")]));
        for wrong in ["", "3,", "5..5", "7..3", "0..101", "0..18446744073709551615", "0..60,100..160"] {
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
        let what = What::Left { to: NodeId(1), cause: Cause::Ended(NodeId(0)) };
        let decision = Event { at: Tick(1_500), channel: ChannelId(0), key: Some(Key(4)), what };
        let zero = describe(
            0,
            [(Key(4), explanation(Role::Absent, vec![decision])), (Key(5), explanation(Role::Hub, vec![]))],
        );
        let one = describe(1, [(Key(4), explanation(Role::Owner, vec![]))]);
        let names = BTreeMap::from([(Key(5), "virus, input".to_owned())]);
        let all = combine([zero, one].into_iter(), &Explained { keys: Vec::new(), names });
        let lines: Vec<&str> = all.lines().collect();
        assert!(lines[0].starts_with("key 4, node 0: does not have it, and would look at node 1"), "{all}");
        assert!(
            lines[1].contains("1.500 ms  moves to node 1, the only one with intent: that of node 0 is over"),
            "{all}"
        );
        assert!(lines[2].starts_with("key 4, node 1: owns it; replicas at 2; 3 active intents"), "{all}");
        assert!(lines[3].starts_with("key 5 (virus, input), node 0: owns it"), "{all}");
    }
}
