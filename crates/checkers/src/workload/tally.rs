//! The rule of simulated rows: it adds, so that values are what they are without a rule, and counts.
//!
//! The operand has one element more than the value, which is 1. So the state says how many pushes the main
//! copy has seen, in as many operands as holders and owners have made of them, and how often the rule was
//! applied.

use intendant_core::{Element, Key, Rule, SharedRule, Timing};

/// Adds all elements of an operand but the last to the value. The state has the sum of the last ones, and how
/// often the rule was applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally(pub(crate) Timing);

/// Elements of the state.
const STATE: usize = 2;

impl Rule for Tally {
    fn id(&self) -> String {
        format!("tally({:?})", self.0)
    }

    fn timing(&self) -> Timing {
        self.0
    }

    fn state_len(&self, _visible: usize) -> usize {
        STATE
    }

    fn operand_len(&self, visible: usize) -> usize {
        visible + 1
    }

    fn apply<E: Element>(&self, visible: &mut [E], state: &mut [E], operand: &[E]) {
        let (count, update) = operand.split_last().expect("an operand has one element more than the value");
        visible.iter_mut().zip(update).for_each(|(value, update)| *value += *update);
        state[0] += *count;
        state[1] += E::ONE;
    }
}

/// A row whose rule was not applied once per push.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRow {
    /// The count is not the number of pushes.
    #[error("the row of key {key} has counted {counted} pushes of {pushes}")]
    Count {
        /// The key.
        key: Key,
        /// What the row has counted.
        counted: String,
        /// How many pushes there were.
        pushes: u32,
    },
    /// The rule was applied too often, or too seldom.
    #[error("the rule of key {key} was applied {applied} times for {pushes} pushes")]
    Applied {
        /// The key.
        key: Key,
        /// How often it was applied.
        applied: String,
        /// How many pushes there were.
        pushes: u32,
    },
    /// Operands that the main copy has not applied.
    #[error("the row of key {0} has pending operands at rest")]
    Pending(Key),
}

/// Completes an operand.
pub(super) fn count<E: Element>(values: &mut Vec<E>) {
    values.push(E::ONE);
}

/// The value in a row.
pub(super) fn visible_mut<E>(rules: bool, row: &mut [E]) -> &mut [E] {
    if !rules {
        return row;
    }
    // The value, the state, and an operand that has one element more than the value.
    let visible = (row.len() - STATE - 1) / 2;
    &mut row[..visible]
}

/// Checks the row of a main copy at rest, after `pushes` pushes, of which the rule was applied to at most
/// `applied_max` sums; to exactly as many if `exact`. Returns the value.
pub(super) fn check<'a, E: Element>(
    key: Key,
    rule: &SharedRule,
    row: &'a [E],
    pushes: u32,
    applied_max: u32,
    exact: bool,
) -> Result<&'a [E], BadRow> {
    let (visible, state) = row.split_at(rule.visible());
    let (counted, applied) = (state[0].to_f64(), state[1].to_f64());
    if counted != f64::from(pushes) {
        return Err(BadRow::Count { key, counted: counted.to_string(), pushes });
    }
    let most = f64::from(pushes.min(applied_max));
    if applied > most || (exact && applied < most) || (applied < 1.0) != (pushes == 0) {
        return Err(BadRow::Applied { key, applied: applied.to_string(), pushes });
    }
    if row[rule.pending()].iter().any(|pending| *pending != E::ZERO) {
        return Err(BadRow::Pending(key));
    }
    Ok(visible)
}
