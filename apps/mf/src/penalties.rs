//! What the training entries tell about a model of them: L2 penalties, and how much is noise.
//!
//! A penalty is that of a model with normally distributed errors, factors and biases: the variance of the
//! errors, divided by that of the penalised numbers. The variances of biases are those of [`Biases`], and
//! those of factors and of noise follow from [`Noise`].

use crate::config::Config;
use crate::data::{Biases, Dataset, Noise};
use crate::model::Scope;

/// Weights of the penalties of the rows, or of the columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Of half the sum of the squares of all factors.
    pub factors: f64,
    /// Of half the sum of the squares of all biases.
    pub bias: f64,
}

/// The penalties of a training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Penalties {
    /// Those of rows.
    pub rows: Weights,
    /// Those of columns.
    pub columns: Weights,
}

/// A model with the most probable factors ignores that these are uncertain, and adapts to noise that a model
/// of all probable factors averages out. A larger penalty makes up for it. (This number is near the best one
/// on ratings, on measurements of molecules, and on generated matrices.)
const CAUTION: f64 = 8.0;

/// What the data tell about a model of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Derived {
    pub(crate) penalties: Penalties,
    /// The part of the residuals, from 0 to 1, that is noise. The rest is what factors explain.
    pub(crate) noise: f64,
}

impl Derived {
    /// What `data` tell; penalties that `config` names are as it says. `biases` are those of the data, if the
    /// model has biases.
    pub(crate) fn of(data: &Dataset, biases: Option<&Biases>, config: &Config) -> Self {
        // Of a model without biases and with a penalty, nothing has to be estimated.
        let is_needed = biases.is_some() || config.l2.is_none();
        let noise = is_needed.then(|| Noise::of(data, biases, config.seed));
        let factors = noise.filter(|noise| noise.product > 0.0);
        let factors = factors.map_or(0.0, |noise| CAUTION * noise.variance() / noise.product.sqrt());
        // A penalty that is applied at each entry is applied as often as a row or column has entries.
        let times = |used: &[u32]| match config.l2_scope {
            Scope::Key => 1.0,
            Scope::Use => data.train().len() as f64 / used.iter().filter(|uses| **uses > 0).count() as f64,
        };
        let weights = |variance: fn(&Biases) -> f64, used: &[u32]| {
            let bias = biases.map_or(0.0, |biases| biases.error() / variance(biases).max(f64::MIN_POSITIVE));
            let share = |given: Option<f64>, weight: f64| given.unwrap_or_else(|| weight / times(used));
            Weights { factors: share(config.l2, factors), bias: share(config.l2_bias, bias.min(PENALTY_MAX)) }
        };
        let penalties = Penalties {
            rows: weights(Biases::row_variance, data.row_uses()),
            columns: weights(Biases::column_variance, data.column_uses()),
        };
        Self { penalties, noise: noise.map_or(1.0, |noise| noise.share()) }
    }
}

/// A penalty that leaves nothing of what it is about.
const PENALTY_MAX: f64 = 1e6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Entry, Ids};
    use crate::{Algorithm, Optimizer};
    use rand::{RngExt, SeedableRng};
    use rand_distr::StandardNormal;
    use rand_pcg::Pcg64Mcg;

    /// A matrix of products of `factors` factors with variance `strength` each, and noise of variance 1.
    fn matrix(factors: usize, strength: f64, scale: f64) -> Dataset {
        let (rows, columns) = (400u32, 150u32);
        let mut random = Pcg64Mcg::seed_from_u64(5);
        let mut normal = |count: usize| -> Vec<f64> {
            (0..count).map(|_| random.sample::<f64, _>(StandardNormal)).collect()
        };
        let (p, q) = (normal(rows as usize * factors), normal(columns as usize * factors));
        let noise = normal((rows * columns) as usize);
        let value = |row: u32, column: u32| {
            let of = |all: &[f64], at: u32| all[at as usize * factors..][..factors].to_vec();
            let product: f64 = of(&p, row).iter().zip(of(&q, column)).map(|(p, q)| p * q).sum();
            scale * (strength.sqrt() * product + noise[(row * columns + column) as usize])
        };
        let cells = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        let some = cells.filter(|(row, column)| (row * 31 + column * 17) % 3 == 0);
        let entries = some.map(|(row, column)| Entry { row, column, value: value(row, column) }).collect();
        let ids = |count| Ids::Numbers { first: 0, count };
        Dataset::new(ids(rows), ids(columns), entries, Vec::new())
    }

    fn config() -> Config {
        Config {
            rank: 8,
            bias: true,
            algorithm: Algorithm::Columns,
            optimizer: Optimizer::RowAdaGrad,
            batch: 64,
            learning_rate: 0.05,
            bold_driver: false,
            l2: None,
            l2_bias: None,
            l2_scope: Scope::Key,
            init_scale: 0.1,
            seed: 1,
        }
    }

    #[test]
    fn weak_factors_get_larger_penalties_and_units_do_not_matter() {
        let of = |strength: f64, scale: f64| {
            let data = matrix(4, strength, scale);
            let biases = Biases::of(&data);
            Derived::of(&data, Some(&biases), &config()).penalties
        };
        let (strong, weak, none) = (of(0.25, 1.0), of(0.01, 1.0), of(0.0, 1.0));
        assert!(strong.rows.factors < weak.rows.factors && weak.rows.factors < none.rows.factors);
        assert!((12.0..24.0).contains(&strong.rows.factors), "{strong:?}");
        // Values that are ten times as large have factors that are √10 times as large.
        let large = of(0.25, 10.0);
        assert!((large.rows.factors / strong.rows.factors / 10.0 - 1.0).abs() < 1e-6, "{large:?}");
        assert!((large.rows.bias / strong.rows.bias - 1.0).abs() < 1e-6, "{large:?}");
        // There are no biases in these matrices.
        assert!(strong.rows.bias > 5.0 && strong.columns.bias > 5.0, "{strong:?}");
        let noise = |strength| Derived::of(&matrix(4, strength, 1.0), None, &config()).noise;
        assert!((0.35..0.65).contains(&noise(0.25)) && noise(0.0) > 0.9, "{} {}", noise(0.25), noise(0.0));
    }

    #[test]
    fn penalties_that_are_named_are_taken() {
        let data = matrix(1, 1.0, 1.0);
        let config = Config { l2: Some(3.0), l2_bias: Some(0.5), ..config() };
        let weights = Weights { factors: 3.0, bias: 0.5 };
        let penalties = Derived::of(&data, None, &config).penalties;
        assert_eq!(penalties, Penalties { rows: weights, columns: weights });
    }

    #[test]
    fn equal_values_leave_nothing_to_estimate() {
        let ids = |count| Ids::Numbers { first: 0, count };
        let entries = (0..20).map(|at| Entry { row: at % 5, column: at / 5, value: 3.0 }).collect();
        let data = Dataset::new(ids(5), ids(4), entries, Vec::new());
        let found = Derived::of(&data, Some(&Biases::of(&data)), &config());
        let Weights { factors, bias } = found.penalties.rows;
        assert!(factors.is_finite() && bias.is_finite() && found.noise == 1.0, "{found:?}");
        let one = Dataset::new(ids(1), ids(1), vec![Entry { row: 0, column: 0, value: 3.0 }], Vec::new());
        assert!(Derived::of(&one, None, &config()).penalties.rows.factors.is_finite());
    }
}
