//! No operation reaches a segment that was released, unless its node has named a node that is gone.

use intendant_sim::Finding;

/// Checks the operations that have reached released segments: which node began them, and whose segment it
/// was.
pub(crate) fn check(
    trespasses: &[(usize, usize)],
    in_good_order: impl Fn(usize) -> bool,
) -> Result<(), Finding> {
    match trespasses.iter().find(|(_, of)| in_good_order(*of)) {
        Some((by, of)) => {
            Err(("teardown", format!("n{by} accesses the segment of n{of}, which it has released")))
        }
        None => Ok(()),
    }
}
