//! Rules: how a key's owner applies pushes.
//!
//! Without a rule, a push adds its elements to the value of the key, and the value is all that is stored of a
//! key. A key range with a [`Rule`] has *rows* of three parts:
//!
//! | part | elements | what it is |
//! | --- | --- | --- |
//! | visible | as many as the range says | what a pull returns and a set overwrites |
//! | state | [`Rule::state_len`] | what the rule remembers, for example the moments of Adam |
//! | pending | [`Rule::operand_len`] | the sum of pushes that are not in the visible part of all copies yet |
//!
//! A push carries an *operand*, for example a gradient, and the rule changes the visible part and the state.
//! Rows move between nodes and are stored in checkpoints as a whole. Operands that meet before they reach the
//! owner are added, so a rule must accept a sum of operands as one operand [OSDI'14, §3.4, user-defined
//! functions on the server].

use crate::{Element, ElementType};
use bytemuck::{cast_slice, cast_slice_mut as cast_mut};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// When the owner applies operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Timing {
    /// At each push.
    #[default]
    Push,
    /// When all workers have passed a clock. The owner applies the sum of the operands that have arrived
    /// since the previous clock: those of this clock, and those of workers that are ahead of it. Until then
    /// no worker sees them, not even the worker that pushed them. A sum of zero is not applied. When all
    /// workers wait for the cluster to come to rest, the owner applies their pushes as at a clock. This
    /// timing needs a technique with clocks.
    Clock,
}

/// How the owner of a key applies operands. All nodes of a cluster must use the same rules: the layout's
/// digest contains [`Rule::id`].
pub trait Rule: fmt::Debug + Send + Sync + 'static {
    /// Names the rule and all of its parameters, for example `adam(rate=0.001,beta1=0.9,beta2=0.999)`.
    fn id(&self) -> String;

    /// Elements of state of a row with `visible` visible elements. They are zero at first, and after a set.
    fn state_len(&self, visible: usize) -> usize;

    /// Elements of an operand, at least 1.
    fn operand_len(&self, visible: usize) -> usize {
        visible
    }

    /// When operands are applied.
    fn timing(&self) -> Timing {
        Timing::Push
    }

    /// Applies an operand. The result depends on the arguments only: all copies of a row apply the same
    /// operands and must stay equal to the bit.
    fn apply<E: Element>(&self, visible: &mut [E], state: &mut [E], operand: &[E]);
}

/// The methods of [`Rule`] that a [`SharedRule`] calls without knowing the type of the rule.
trait AnyRule: fmt::Debug + Send + Sync {
    fn apply_f32(&self, visible: &mut [f32], state: &mut [f32], operand: &[f32]);
    fn apply_f64(&self, visible: &mut [f64], state: &mut [f64], operand: &[f64]);
}

impl<R: Rule> AnyRule for R {
    fn apply_f32(&self, visible: &mut [f32], state: &mut [f32], operand: &[f32]) {
        self.apply(visible, state, operand);
    }

    fn apply_f64(&self, visible: &mut [f64], state: &mut [f64], operand: &[f64]) {
        self.apply(visible, state, operand);
    }
}

/// A rule for rows of certain lengths, shared by all users of a layout. Two rules are equal if their ids and
/// their lengths are equal.
#[derive(Clone, Debug)]
pub struct SharedRule {
    rule: Arc<dyn AnyRule>,
    id: Arc<str>,
    timing: Timing,
    visible: usize,
    state: usize,
    operand: usize,
}

impl PartialEq for SharedRule {
    fn eq(&self, other: &Self) -> bool {
        (&self.id, self.visible) == (&other.id, other.visible)
    }
}

impl Eq for SharedRule {}

impl SharedRule {
    /// The rule for rows with `visible` visible elements.
    pub fn new(rule: impl Rule, visible: usize) -> Self {
        let (state, operand) = (rule.state_len(visible), rule.operand_len(visible));
        Self { id: rule.id().into(), timing: rule.timing(), rule: Arc::new(rule), visible, state, operand }
    }

    /// [`Rule::id`].
    pub fn id(&self) -> &str {
        &self.id
    }

    /// [`Rule::timing`].
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// Elements of a pull and of a set.
    #[inline]
    pub fn visible(&self) -> usize {
        self.visible
    }

    /// Elements of a push.
    #[inline]
    pub fn operand(&self) -> usize {
        self.operand
    }

    /// Elements of a row: visible part, state and pending operands.
    pub fn row(&self) -> usize {
        self.visible.saturating_add(self.state).saturating_add(self.operand)
    }

    /// The elements of a row that are pending operands: its last ones.
    #[inline]
    pub fn pending(&self) -> Range<usize> {
        self.visible + self.state..self.visible + self.state + self.operand
    }

    /// Applies `operand` to the visible part and the state of `row`. Pending operands stay as they are.
    ///
    /// # Panics
    /// If a length is wrong.
    pub fn apply<E: Element>(&self, row: &mut [E], operand: &[E]) {
        assert_eq!((row.len(), operand.len()), (self.row(), self.operand), "lengths of a row and an operand");
        let (visible, rest) = row.split_at_mut(self.visible);
        let state = &mut rest[..self.state];
        match E::TYPE {
            ElementType::F32 => self.rule.apply_f32(cast_mut(visible), cast_mut(state), cast_slice(operand)),
            ElementType::F64 => self.rule.apply_f64(cast_mut(visible), cast_mut(state), cast_slice(operand)),
        }
    }

    /// Applies a worker's push to a row. If `pends`, the operand also becomes pending: the row is a copy, and
    /// the main copy must receive its updates. With [`Timing::Clock`] the operand only becomes pending.
    ///
    /// # Panics
    /// If a length is wrong.
    pub fn push<E: Element>(&self, row: &mut [E], operand: &[E], pends: bool) {
        assert_eq!((row.len(), operand.len()), (self.row(), self.operand), "lengths of a row and an operand");
        if self.timing == Timing::Push {
            self.apply(row, operand);
        }
        if pends || self.timing == Timing::Clock {
            row[self.pending()].iter_mut().zip(operand).for_each(|(sum, operand)| *sum += *operand);
        }
    }

    /// Applies the pending operands of a row, which are zero afterwards. Returns false, and does nothing, if
    /// they are zero.
    ///
    /// # Panics
    /// If a length is wrong.
    pub fn apply_pending<E: Element>(&self, row: &mut [E]) -> bool {
        let operand = row[self.pending()].to_vec();
        if operand.iter().all(|element| *element == E::ZERO) {
            return false;
        }
        self.apply(row, &operand);
        row[self.pending()].fill(E::ZERO);
        true
    }

    /// A row without its pending operands.
    ///
    /// # Panics
    /// If a length is wrong.
    pub fn without_pending<E: Element>(&self, row: &[E]) -> Vec<E> {
        let mut known = row.to_vec();
        known[self.pending()].fill(E::ZERO);
        known
    }

    /// Overwrites the visible part of a row. State and pending operands are zero afterwards.
    ///
    /// # Panics
    /// If a length is wrong.
    pub fn set<E: Element>(&self, row: &mut [E], visible: &[E]) {
        assert_eq!(row.len(), self.row(), "length of a row");
        let (first, rest) = row.split_at_mut(self.visible);
        first.copy_from_slice(visible);
        rest.fill(E::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule that keeps the sum of the operands, their number, and a number that depends on their order.
    #[derive(Debug)]
    struct Journal(f64);

    impl Rule for Journal {
        fn id(&self) -> String {
            format!("journal(base={})", self.0)
        }

        fn state_len(&self, _visible: usize) -> usize {
            2
        }

        fn apply<E: Element>(&self, visible: &mut [E], state: &mut [E], operand: &[E]) {
            visible.iter_mut().zip(operand).for_each(|(value, operand)| *value += *operand);
            state[0] += E::ONE;
            state[1] = state[1] * E::from_f64(self.0) + operand[0];
        }
    }

    fn journal() -> SharedRule {
        SharedRule::new(Journal(10.0), 3)
    }

    #[test]
    fn a_row_has_a_visible_part_state_and_pending_operands() {
        let rule = journal();
        assert_eq!((rule.visible(), rule.operand(), rule.row(), rule.pending()), (3, 3, 8, 5..8));
        assert_eq!(rule.id(), "journal(base=10)");
        let mut row = [0.0f32; 8];
        rule.push(&mut row, &[1.0, 2.0, 3.0], false);
        assert_eq!(row, [1.0, 2.0, 3.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
        rule.push(&mut row, &[4.0, 0.0, 0.0], true);
        assert_eq!(row, [5.0, 2.0, 3.0, 2.0, 14.0, 4.0, 0.0, 0.0]);
        rule.set(&mut row, &[7.0, 8.0, 9.0]);
        assert_eq!(row, [7.0, 8.0, 9.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn both_types_of_elements_do_the_same() {
        let rule = journal();
        let (mut single, mut double) = ([0.0f32; 8], [0.0f64; 8]);
        for operand in [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]] {
            rule.push(&mut single, &operand.map(|element| element as f32), true);
            rule.push(&mut double, &operand, true);
        }
        assert_eq!(single.map(f64::from), double);
    }

    #[test]
    fn rules_are_equal_by_their_ids_and_lengths() {
        assert_eq!(journal(), journal());
        assert_ne!(journal(), SharedRule::new(Journal(3.0), 3));
        assert_ne!(journal(), SharedRule::new(Journal(10.0), 4));
    }

    #[test]
    #[should_panic(expected = "lengths of a row and an operand")]
    fn operands_are_as_long_as_their_rule_says() {
        journal().push(&mut [0.0f32; 8], &[1.0, 2.0], false);
    }
}
