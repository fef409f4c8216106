//! Mirrors in windows: a key that is mirrored in the window of a node is owned by that node, and has no
//! replicas elsewhere; and the mirror has the value of the main copy, to the bit.

use intendant_core::{Element, Key, Layout, copy_to_bytes};
use intendant_sim::Finding;
use intendant_sim::cluster::Nodes;
use intendant_techniques::Role;

/// Longer values are compared by the checks of histories only: comparing them at every event would take
/// minutes.
const ELEMENTS_MAX: usize = 1_000;

/// Checks the windows of all nodes.
pub(crate) fn check<E: Element>(layout: &Layout, nodes: Nodes<'_, E>) -> Result<(), Finding> {
    let bytes = |value: &[E]| {
        let mut bytes = Vec::new();
        copy_to_bytes(value, &mut bytes);
        bytes
    };
    let keys = || (0..layout.keys()).map(Key).filter(|key| layout.len(*key) <= ELEMENTS_MAX);
    for node in nodes.iter() {
        for key in keys() {
            let Some(mirrored) = node.mirrored(key) else { continue };
            let (role, here) = (node.role(key).0, node.node());
            if role != Role::Owner {
                return Err(("mirrors", format!("node {here} is {role:?} of {key:?} and mirrors it")));
            }
            let value = node.value(key).unwrap_or_default();
            if bytes(&value) != bytes(&mirrored) {
                let what = format!("node {here} mirrors {key:?} as {mirrored:?}, but its value is {value:?}");
                return Err(("mirrors", what));
            }
        }
    }
    Ok(())
}
