use super::*;
use intendant_core::{Rule, SharedRule};
use proptest::prelude::*;

/// The value after these operands, from zero.
fn after(rule: impl Rule, visible: usize, operands: &[&[f64]]) -> Vec<f64> {
    let rule = SharedRule::new(rule, visible);
    let mut row = vec![0.0; rule.row()];
    operands.iter().for_each(|operand| rule.push(&mut row, operand, false));
    if rule.timing() == intendant_core::Timing::Clock {
        rule.apply_pending(&mut row);
    }
    row[..visible].to_vec()
}

fn close(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-9 * (1.0 + a.abs()))
}

/// Adam as the paper writes it, with powers of the decay rates.
fn adam_by_the_paper(gradients: &[f64]) -> f64 {
    let (mut value, mut mean, mut square) = (0.0, 0.0, 0.0);
    for (t, gradient) in gradients.iter().enumerate() {
        mean = 0.9 * mean + (1.0 - 0.9) * gradient;
        square = 0.999 * square + (1.0 - 0.999) * gradient * gradient;
        let [mean, square] =
            [(mean, 0.9f64), (square, 0.999)].map(|(sum, beta)| sum / (1.0 - beta.powi(t as i32 + 1)));
        value -= 0.1 * mean / (f64::sqrt(square) + 1e-8);
    }
    value
}

proptest! {
    #[test]
    fn adam_is_that_of_the_paper(gradients in prop::collection::vec(-3.0..3.0f64, 1..30)) {
        let operands: Vec<_> = gradients.iter().map(|gradient| [*gradient, 2.0 * *gradient]).collect();
        let operands: Vec<&[f64]> = operands.iter().map(|operand| &operand[..]).collect();
        let found = after(Adam::new(0.1, 0.9, 0.999, 1e-8).unwrap(), 2, &operands);
        let doubled: Vec<_> = gradients.iter().map(|gradient| 2.0 * gradient).collect();
        let expected = [adam_by_the_paper(&gradients), adam_by_the_paper(&doubled)];
        prop_assert!(close(&found, &expected), "{found:?} in place of {expected:?}");
    }

    /// FTRL's parameter minimises what the paper's equation (1) sums up: all gradients, the distances from
    /// all earlier parameters, and the penalties.
    #[test]
    fn ftrl_minimises_the_sum_of_all_rounds(
        gradients in prop::collection::vec(-3.0..3.0f64, 1..12),
        l1 in 0.0..2.0f64,
    ) {
        let (alpha, beta, l2) = (0.5, 1.0, 0.25);
        let (mut values, mut weights, mut squares) = (vec![0.0], Vec::new(), 0.0f64);
        for count in 1..=gradients.len() {
            let gradient = gradients[count - 1];
            let before = squares.sqrt();
            squares += gradient * gradient;
            weights.push((squares.sqrt() - before) / alpha);
            let operands: Vec<_> = gradients[..count].iter().map(|gradient| [*gradient]).collect();
            let operands: Vec<&[f64]> = operands.iter().map(|operand| &operand[..]).collect();
            values.push(after(Ftrl::new(alpha, beta, l1, l2).unwrap(), 1, &operands)[0]);
        }
        let cost = |value: f64| {
            let linear: f64 = gradients.iter().map(|gradient| gradient * value).sum();
            let rounds = weights.iter().zip(&values);
            let near: f64 = rounds.map(|(weight, at)| weight * (value - at).powi(2) / 2.0).sum();
            linear + near + l1 * value.abs() + (l2 + beta / alpha) * value * value / 2.0
        };
        let best = *values.last().unwrap();
        for other in [-1e-4, 1e-4, -0.5, 0.5].map(|by| best + by) {
            prop_assert!(cost(best) <= cost(other) + 1e-12, "{best} costs more than {other}");
        }
        prop_assert!(cost(best) <= cost(0.0) + 1e-12);
    }

    /// A full step on a quadratic with this curvature leads to its minimum, however the quadratic was divided
    /// into operands.
    #[test]
    fn a_proximal_step_minimises_a_quadratic(
        parts in prop::collection::vec((-3.0..3.0f64, 0.1..2.0f64), 1..6),
        l1 in 0.0..2.0f64,
    ) {
        // Sum of curvature · (value − centre)² / 2, at 0: gradients are −curvature · centre.
        let operand = |(centre, curvature): &(f64, f64)| [-curvature * centre, *curvature];
        let operands: Vec<_> = parts.iter().map(operand).collect();
        let operands: Vec<&[f64]> = operands.iter().map(|operand| &operand[..]).collect();
        let best = after(Proximal::new(1.0, l1).unwrap(), 1, &operands)[0];
        let cost = |value: f64| {
            let far = |(centre, curvature): &(f64, f64)| curvature * (value - centre).powi(2) / 2.0;
            parts.iter().map(far).sum::<f64>() + l1 * value.abs()
        };
        for other in [-1e-4, 1e-4, -0.5, 0.5].map(|by| best + by) {
            prop_assert!(cost(best) <= cost(other) + 1e-12, "{best} costs more than {other}");
        }
    }
}

#[test]
fn a_row_of_adagrad_has_one_rate() {
    // Mean squares: 2, then 2 + 8.
    let found = after(RowAdaGrad::new(1.0, 1e-12).unwrap(), 2, &[&[2.0, 0.0], &[0.0, 4.0]]);
    assert!(close(&found, &[-2.0 / 2f64.sqrt(), -4.0 / 10f64.sqrt()]), "{found:?}");
}

#[test]
fn values_decay_before_they_grow() {
    assert_eq!(after(Decay::new(0.5).unwrap(), 1, &[&[4.0], &[1.0], &[0.0]]), [1.5]);
}

#[test]
fn coordinates_without_data_do_not_move() {
    assert_eq!(after(Proximal::new(1.0, 0.0).unwrap(), 2, &[&[5.0, 1.0, 0.0, 2.0]]), [0.0, -0.5]);
}

#[test]
fn useless_parameters_are_exactly_zero() {
    assert_eq!(after(Ftrl::new(1.0, 1.0, 2.0, 0.0).unwrap(), 2, &[&[1.5, 3.0]]), [0.0, -0.25]);
}

#[test]
fn impossible_parameters_are_refused_by_name() {
    let text = |error: RuleError| error.to_string();
    assert_eq!(
        text(Adam::new(0.0, 0.9, 0.9, 1e-8).unwrap_err()),
        "the rate of rule adam is 0; it must be above 0"
    );
    assert_eq!(
        text(Adam::new(0.1, 0.9, 1.0, 1e-8).unwrap_err()),
        "beta2 of rule adam is 1; it must be at least 0 and below 1"
    );
    assert!(Adam::new(f64::NAN, 0.9, 0.9, 1e-8).is_err() && Adam::new(0.1, 0.9, 0.9, 0.0).is_err());
    assert_eq!(
        text(RowAdaGrad::new(0.1, f64::INFINITY).unwrap_err()),
        "epsilon of rule row-adagrad is inf; it must be above 0"
    );
    assert_eq!(
        text(Ftrl::new(1.0, 0.0, 0.0, 0.0).unwrap_err()),
        "beta of rule ftrl is 0; it must be above 0 if l2 is 0"
    );
    assert!(Ftrl::new(1.0, 0.0, 0.0, 1.0).is_ok() && Ftrl::new(1.0, 1.0, -1.0, 0.0).is_err());
    // In single precision, these parameters would be zero, one or infinite.
    assert!(Adam::new(0.1, 0.9, 0.9, 1e-50).is_err() && Adam::new(0.1, 1.0 - 1e-9, 0.9, 1e-8).is_err());
    assert!(RowAdaGrad::new(0.1, 1e-50).is_err() && RowAdaGrad::new(1e50, 1.0).is_err());
    assert!(Ftrl::new(1e-50, 1.0, 0.0, 0.0).is_err() && Ftrl::new(1e30, 1e-30, 0.0, 0.0).is_err());
    assert!(Decay::new(1.0).is_ok() && Decay::new(1.1).is_err());
    assert!(Proximal::new(1.5, 0.0).is_err() && Proximal::new(1.0, -1.0).is_err());
}

#[test]
fn ids_name_all_parameters() {
    assert_eq!(
        Adam::new(0.1, 0.9, 0.99, 1e-8).unwrap().id(),
        "adam(rate=0.1,beta1=0.9,beta2=0.99,epsilon=0.00000001)"
    );
    assert_eq!(Ftrl::new(0.1, 1.0, 2.0, 3.0).unwrap().id(), "ftrl(alpha=0.1,beta=1,l1=2,l2=3)");
    assert_eq!(RowAdaGrad::new(0.1, 0.5).unwrap().id(), "row-adagrad(rate=0.1,epsilon=0.5)");
    assert_eq!(Decay::new(0.25).unwrap().id(), "decay(share=0.25)");
    assert_eq!(Proximal::new(1.0, 2.0).unwrap().id(), "proximal(rate=1,l1=2)");
}
