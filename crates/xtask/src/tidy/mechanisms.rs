//! Mechanisms: the module of a mechanism of the engine names no other mechanism's module, so that each can be
//! read alone.

use super::{Check, Finding, relative};
use crate::rust::{Crate, Module};
use std::path::Path;

/// The modules of the mechanisms. Only the channel knows several of them.
const MECHANISMS: [&str; 6] =
    ["access", "location", "relocation", "replication", "static_replicas", "intent"];
/// The module that calls the mechanisms, and the parts of it that mechanisms may name.
const CHANNEL: &str = "channel";
const CHANNEL_PARTS: [&str; 2] = ["core", "effects"];

/// Finds names of other mechanisms in the mechanisms of the crate at `library`.
pub(super) fn find(root: &Path, library: &str) -> Result<Vec<Finding>, String> {
    let found = Crate::read(&root.join(library))?;
    let mut findings = Vec::new();
    for (number, module) in found.modules.iter().enumerate() {
        let Some(own) = module.path.first().filter(|name| MECHANISMS.contains(&name.as_str())) else {
            continue;
        };
        for (path, line) in named(module) {
            let Some(target) = found.resolve(number, path) else { continue };
            if let Some(what) = objection(own, &found.modules[target].path) {
                let what = format!("the mechanism `{own}` names `{}`, {what}", path.join("::"));
                findings.push(Finding {
                    check: Check::Mechanisms,
                    file: relative(root, &module.file),
                    line,
                    what,
                });
            }
        }
    }
    Ok(findings)
}

fn named(module: &Module) -> impl Iterator<Item = (&[String], usize)> {
    let uses = module.uses.iter().map(|import| (&import.path[..], import.line));
    uses.chain(module.named.iter().map(|named| (&named.path[..], named.line)))
}

/// Why the mechanism `own` must not name `target`, if it must not.
fn objection(own: &str, target: &[String]) -> Option<String> {
    let first = target.first()?;
    if MECHANISMS.contains(&first.as_str()) && first != own {
        return Some(format!("which belongs to the mechanism `{first}`: use an effect instead"));
    }
    let part = target.get(1).map_or("", String::as_str);
    (first == CHANNEL && !CHANNEL_PARTS.contains(&part)).then(|| {
        format!(
            "which belongs to the channel: mechanisms may only name its parts {}",
            CHANNEL_PARTS.join(" and ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rust::tests::folder;

    #[test]
    fn a_mechanism_that_names_another_is_found() {
        let sources = folder(
            "mechanisms",
            &[
                (
                    "lib.rs",
                    "mod access;\nmod channel;\nmod node;\nmod relocation;\npub use relocation::Moves;\n",
                ),
                (
                    "access/mod.rs",
                    "mod queue;\nuse crate::node::Shared;\nuse crate::channel::{core::Core, turn};\n\
                     fn f() { crate::relocation::go() }\n",
                ),
                (
                    "access/queue.rs",
                    "use super::super::relocation::{self, Moves as M};\nuse crate::Moves;\n\
                     #[cfg(test)]\nmod tests { use crate::relocation::go; }\n",
                ),
                ("channel/mod.rs", "mod core;\nmod turn;\nuse crate::{access, relocation};\n"),
                ("channel/core.rs", "pub struct Core;\n"),
                ("channel/turn.rs", ""),
                ("node.rs", "pub struct Shared;\n"),
                (
                    "relocation.rs",
                    "pub struct Moves;\npub fn go() {}\nuse crate::node;\nuse self::Moves as Own;\n",
                ),
            ],
        );
        let findings = find(sources.parent().unwrap(), "src/lib.rs").unwrap();
        let found: Vec<(&str, usize)> =
            findings.iter().map(|finding| (finding.file.as_str(), finding.line)).collect();
        let expected = [
            ("src/access/mod.rs", 3),
            ("src/access/mod.rs", 4),
            ("src/access/queue.rs", 1),
            ("src/access/queue.rs", 1),
            ("src/access/queue.rs", 2),
        ];
        assert_eq!(found, expected, "{findings:#?}");
        assert!(findings[1].what.contains("`access` names `crate::relocation::go`"), "{}", findings[1]);
    }
}
