//! The tables of techniques in pages are those of the declarations.
//!
//! With `INTENDANT_WRITE_PAGES=1` in the environment, the tests write the tables instead of comparing them.

use super::args::{CommonArgs, ServerArgs};
use super::flag::Attributes;
use super::technique::Technique;
use clap::{Args, Command};
use intendant::{Choice, Initiator, Policy, Replicas, StaticReplicas};
use intendant_apptest::pages::compare;
use std::collections::BTreeSet;
use std::fmt::Write as _;

fn policies() -> impl Iterator<Item = Policy> {
    intendant::Technique::ALL.into_iter().map(intendant::Technique::policy)
}

#[test]
fn pages_have_the_techniques() {
    let mut table =
        "| `--technique` | management of a parameter | source |\n| --- | --- | --- |\n".to_owned();
    let single = Technique::Single;
    writeln!(table, "| `{}` | {} | baseline |", single.name(), single.meaning()).expect("memory");
    for technique in intendant::Technique::ALL {
        let declaration = technique.declaration();
        let (meaning, source) = (declaration.meaning, declaration.source);
        writeln!(table, "| `{technique}` | {meaning} | {source} |").expect("memory");
    }
    compare("README.md", "techniques", &table);
}

/// The process tests of applications read this table.
#[test]
fn pages_have_the_mechanisms_of_techniques() {
    let mut table =
        "| technique | keys move | replicas | static replicas | intents | operations on a key |\n".to_owned();
    table += "| --- | --- | --- | --- | --- | --- |\n";
    for policy in policies() {
        let moves = match policy.relocation {
            None => "",
            Some(Initiator::Requester) => "by request",
            Some(Initiator::Owner) => "by owners",
        };
        let only_moves = policy.intents.is_some_and(|intents| intents.choice == Choice::Relocate);
        let replicas = match policy.replicas {
            _ if only_moves => "",
            None => "",
            Some(Replicas::Directed { .. }) => "by intent",
            Some(Replicas::Lazy) => "by reads, until stale",
            Some(Replicas::Eager) => "by reads, for the run",
        };
        let of_keys = match policy.static_replicas {
            None => "",
            Some(StaticReplicas::Assigned) => "of some keys",
            Some(StaticReplicas::All) => "of all keys",
        };
        let intents = match policy.intents {
            None => "",
            Some(_) if policy.homes_decide() => "homes decide",
            Some(_) => "owners decide",
        };
        let (name, order) = (policy.name, policy.order);
        writeln!(table, "| `{name}` | {moves} | {replicas} | {of_keys} | {intents} | {order} |")
            .expect("memory");
    }
    compare("docs/report.md", "techniques", &table);
}

#[test]
fn pages_have_the_guarantees_of_techniques() {
    let mut table = "| technique | guarantee |\n| --- | --- |\n".to_owned();
    for policy in policies() {
        writeln!(table, "| `{}` | {} |", policy.name, policy.guarantee()).expect("memory");
    }
    compare("docs/testing.md", "guarantees", &table);
}

/// Another test compares the table with what the program refuses.
#[test]
fn the_page_of_flags_has_all_flags_of_some_techniques_only() {
    let command = CommonArgs::augment_args(Attributes::declare(Command::new("task")));
    let command = ServerArgs::augment_args(command);
    let attributes = Attributes::of(&command, BTreeSet::new());
    let page = include_str!("../../README.md");
    let (_, table) = page.split_once("<!-- flags: ").expect("a table begins");
    let (table, _) = table.split_once("<!-- end -->").expect("a table ends");
    let flags: BTreeSet<&str> = attributes.of_some_techniques().collect();
    assert!(flags.contains("staleness"), "{flags:?}");
    for flag in flags {
        assert!(table.contains(&format!("`--{flag}`")), "crates/train/README.md lacks --{flag}");
    }
}
