//! The rule by which the owner of a feature's key applies steps.

use intendant_core::{Element, Rule};

/// What a pull returns: the weight, the gradient of the loss of all rows before its last step, and the number
/// of training rows that have the feature.
pub(crate) const VISIBLE: usize = 3;

/// The content of a push: the gradient, the bound of the curvature, and the number of rows that both cover.
pub(crate) const OPERAND: usize = 3;

/// A coordinate of a sum of losses with L1 and L2 penalties. The value collects gradients and curvatures
/// until they cover as many rows as have the feature. Then it takes the step that minimises
///
/// ```text
/// gradient · (w − weight)  +  curvature / (2 · rate) · (w − weight)²  +  part · (l1 · |w|  +  l2 / 2 · w²)
/// ```
///
/// `part` is the number of collected rows divided by the number of all. It is 1, unless workers are so far
/// apart that one pushes for the next epoch before another one has pushed for this one. The step is then that
/// of an average gradient.
#[derive(Clone, Debug)]
pub(crate) struct Coordinate {
    pub(crate) rate: f64,
    pub(crate) l1: f64,
    pub(crate) l2: f64,
}

impl Rule for Coordinate {
    fn id(&self) -> String {
        let Self { rate, l1, l2 } = self;
        format!("coordinate(rate={rate},l1={l1},l2={l2})")
    }

    fn state_len(&self, _visible: usize) -> usize {
        OPERAND
    }

    fn operand_len(&self, _visible: usize) -> usize {
        OPERAND
    }

    fn apply<E: Element>(&self, visible: &mut [E], state: &mut [E], operand: &[E]) {
        state.iter_mut().zip(operand).for_each(|(sum, more)| *sum += *more);
        let ([weight, seen, rows], &[gradient, curvature, count]) = (visible, &*state) else {
            panic!("a row of another length")
        };
        if count < *rows || count == E::ZERO {
            return;
        }
        let [before, gradient, curvature] = [*weight, gradient, curvature].map(E::to_f64);
        let part = count.to_f64() / rows.to_f64().max(1.0);
        if curvature > 0.0 {
            let towards = curvature / self.rate * before - gradient;
            let past = (towards.abs() - part * self.l1).max(0.0).copysign(towards);
            *weight =
                E::from_f64(if past == 0.0 { 0.0 } else { past / (curvature / self.rate + part * self.l2) });
        }
        *seen = E::from_f64(gradient / part);
        state.fill(E::ZERO);
    }
}

/// The weight in a value.
pub(crate) fn weight<E: Element>(value: &[E]) -> f64 {
    value[0].to_f64()
}

/// Whether a weight is zero and its gradient is below `least`.
pub(crate) fn is_inactive<E: Element>(value: &[E], least: f64) -> bool {
    value[0] == E::ZERO && value[1].to_f64().abs() < least
}

#[cfg(test)]
mod tests {
    use super::*;
    use intendant_core::SharedRule;
    use proptest::prelude::*;

    fn rule() -> Coordinate {
        Coordinate { rate: 0.9, l1: 0.7, l2: 0.3 }
    }

    proptest! {
        /// Whether the gradient comes in one push or in several, a step minimises the function of the
        /// documentation.
        #[test]
        fn a_step_minimises(
            weight in prop_oneof![Just(0.0), -3.0f64..3.0],
            pushes in proptest::collection::vec((-4.0f64..4.0, 0.01f64..5.0, 1u32..9), 1..5),
        ) {
            let rows: u32 = pushes.iter().map(|push| push.2).sum();
            let shared = SharedRule::new(rule(), VISIBLE);
            let mut row = vec![0.0f64; shared.row()];
            (row[0], row[2]) = (weight, rows.into());
            for (at, (gradient, curvature, count)) in pushes.iter().enumerate() {
                prop_assert_eq!(row[0], weight, "before push {}", at);
                shared.push(&mut row, &[*gradient, *curvature, f64::from(*count)], false);
            }
            let gradient: f64 = pushes.iter().map(|push| push.0).sum();
            let curvature: f64 = pushes.iter().map(|push| push.1).sum();
            let Coordinate { rate, l1, l2 } = rule();
            let objective = |w: f64| {
                gradient * (w - weight)
                    + curvature / (2.0 * rate) * (w - weight).powi(2)
                    + l1 * w.abs()
                    + l2 / 2.0 * w * w
            };
            for step in [1e-3, 1e-2, 0.1, 1.0] {
                prop_assert!(objective(row[0]) <= objective(row[0] + step) + 1e-9);
                prop_assert!(objective(row[0]) <= objective(row[0] - step) + 1e-9);
            }
            prop_assert!((row[1] - gradient).abs() < 1e-9);
            prop_assert_eq!(&row[VISIBLE..], &[0.0; 6][..]);
        }
    }

    /// Two pushes for the same rows are averaged.
    #[test]
    fn two_pushes_for_all_rows_are_one_step_of_their_average() {
        let shared = SharedRule::new(rule(), VISIBLE);
        let (mut once, mut twice) = ([0.5, 0.0, 10.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0f64; 9]);
        twice.copy_from_slice(&once);
        shared.push(&mut once, &[3.0, 2.0, 10.0], false);
        shared.push(&mut twice, &[6.0, 4.0, 20.0], false);
        assert!((once[0] - twice[0]).abs() < 1e-12 && (once[1] - twice[1]).abs() < 1e-12);
        assert_ne!(once[0], 0.5);
    }

    #[test]
    fn an_operand_of_zero_changes_nothing() {
        let shared = SharedRule::new(rule(), VISIBLE);
        for rows in [0.0, 4.0] {
            let mut row = [0.5, 0.1, rows, 1.0, 2.0, rows / 2.0, 0.0, 0.0, 0.0];
            let before = row;
            shared.push(&mut row, &[0.0; 3], false);
            assert_eq!(row, before);
        }
    }
}
