//! The hyperparameters and their limits.

use crate::model::{Defaults, ModelKind, Moduli, Penalties, Scorer};
use clap::ValueEnum;
use intendant_train::SettingError;

/// What is minimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Loss {
    /// Cross-entropy over candidates that a batch shares: its entities and the sampled negatives.
    Softmax,
    /// Logistic loss, with negatives of its own for each triple and side (the parameter server papers'
    /// setting; they use --batch 1).
    Logistic,
}

impl Loss {
    /// The hyperparameters of `model` with this loss, unless the user gives others.
    #[must_use]
    pub const fn defaults(self, model: ModelKind) -> Defaults {
        let of_softmax = model.facts().defaults;
        match self {
            Self::Softmax => of_softmax,
            Self::Logistic => Defaults {
                dim: of_softmax.dim,
                batch: 1,
                negatives: 50,
                penalties: Penalties { n3: 0.0, l2: 0.001 },
            },
        }
    }
}

/// Which worker trains which triples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cluster {
    /// All workers share all triples: batches are dealt out one by one.
    None,
    /// Each node trains the triples of relations of its own, whose parameters it holds (the Lapse paper's
    /// setting).
    Relations,
}

/// Hyperparameters; [`crate::Kge::new`] checks them.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What is trained.
    pub model: ModelKind,
    /// Real numbers of an entity's embedding: twice the number of complex ones, if there are any.
    pub dim: usize,
    /// Triples per batch.
    pub batch: usize,
    /// What is minimised.
    pub loss: Loss,
    /// Samples: per batch or per query, depending on the [`Loss`].
    pub negatives: usize,
    /// Whether every relation has a reciprocal, with which subjects are predicted.
    pub reciprocal: bool,
    /// Penalties, per use of an embedding in a query.
    pub penalties: Penalties,
    /// Learning rate of AdaGrad.
    pub learning_rate: f64,
    /// Standard deviation of the initial embeddings.
    pub init_scale: f64,
    /// Which worker trains which triples.
    pub cluster: Cluster,
    /// Whether each score of a triple is a step of its own, with a pull and a push of three keys: the
    /// triple's, then those of its negatives. Only with the logistic loss, batches of one triple, and without
    /// reciprocals.
    pub separate: bool,
    /// Seed of initial values, order and samples.
    pub seed: u64,
}

impl Config {
    /// The model and its size.
    #[must_use]
    pub const fn scorer(&self) -> Scorer {
        Scorer { model: self.model, dim: self.dim }
    }

    /// Steps that train a batch.
    pub(crate) const fn steps(&self) -> u64 {
        if self.separate { 1 + 2 * self.negatives as u64 } else { 1 }
    }

    /// Whether batches are trained in place: all batches except those whose softmax is computed by matrix
    /// products.
    pub(crate) const fn trains_in_place(&self) -> bool {
        match self.loss {
            Loss::Softmax => self.batch == 1,
            Loss::Logistic => true,
        }
    }

    /// Checks whether a model with these hyperparameters can be trained, as far as that is possible without
    /// the data.
    ///
    /// # Errors
    /// Names the first hyperparameter that is out of its limits.
    pub fn check(&self) -> Result<(), SettingError> {
        let (dim, facts) = (self.dim, self.model.facts());
        if dim == 0 || !dim.is_multiple_of(facts.dim_step) || dim > facts.dim_max {
            let kind = match facts.dim_step {
                1 => "a number".to_owned(),
                2 => "an even number".to_owned(),
                step => format!("a multiple of {step}"),
            };
            let reason = facts.dim_reason.map_or_else(String::new, |reason| format!(": {reason}"));
            let allowed = format!("{kind} from {} to {}{reason}", facts.dim_step, facts.dim_max);
            return wrong("dim", dim.to_string(), &allowed);
        }
        for (name, count) in [("batch", self.batch), ("negatives", self.negatives)] {
            if count == 0 || count > COUNT_MAX {
                return wrong(name, count.to_string(), &format!("a number from 1 to {COUNT_MAX}"));
            }
        }
        self.check_size(1)?;
        if !(self.learning_rate > 0.0 && self.learning_rate.is_finite()) {
            return wrong("lr", self.learning_rate.to_string(), "a number above 0");
        }
        if !(self.init_scale > 0.0 && self.init_scale <= INIT_SCALE_MAX) {
            let allowed = format!("a number above 0 and at most {INIT_SCALE_MAX}");
            return wrong("init-scale", self.init_scale.to_string(), &allowed);
        }
        for (name, number) in [("n3", self.penalties.n3), ("l2", self.penalties.l2)] {
            if !(number >= 0.0 && number.is_finite()) {
                return wrong(name, number.to_string(), "a number of at least 0");
            }
        }
        if self.separate && (self.loss != Loss::Logistic || self.batch != 1 || self.reciprocal) {
            let allowed = "false, unless with logistic loss, batch 1 and without reciprocals";
            return wrong("separate", "true".to_owned(), allowed);
        }
        if facts.moduli == Moduli::None && self.penalties.n3 > 0.0 {
            let (n3, title) = (self.penalties.n3.to_string(), facts.title);
            let allowed = format!("0 with {title}, which has no such penalty; l2 is its own");
            return wrong("n3", n3, &allowed);
        }
        Ok(())
    }

    /// Checks whether batches fit into memory. `relations` is the number of relations and reciprocals of the
    /// data.
    pub(crate) fn check_size(&self, relations: u64) -> Result<(), SettingError> {
        let elements = self.elements(relations);
        if elements <= ELEMENTS_MAX {
            return Ok(());
        }
        let value = format!("{} with {} negatives and dim {}", self.batch, self.negatives, self.dim);
        let allowed = format!(
            "so small that the values and the scores of a batch are at most {ELEMENTS_MAX} numbers each; here they may \
             be {elements}"
        );
        wrong("batch", value, &allowed)
    }

    /// Number of elements of the larger of a batch's two large arrays, in the worst case: the values that it
    /// pulls, or its scores. No factor exceeds its own maximum, so that nothing overflows.
    fn elements(&self, relations: u64) -> u64 {
        let (batch, negatives, dim) = (self.batch as u64, self.negatives as u64, self.dim as u64);
        let (entities, queries) = (2 * batch, 2 * batch);
        let (samples, scores) = match self.loss {
            Loss::Softmax => (negatives, queries * (entities + negatives)),
            Loss::Logistic => (queries * negatives, queries * negatives),
        };
        // At most one relation and its reciprocal for every triple.
        let relations = relations.min(2 * batch) * self.scorer().relation_len() as u64;
        scores.max(2 * ((entities + samples) * dim + relations))
    }
}

fn wrong(name: &'static str, value: String, allowed: &str) -> Result<(), SettingError> {
    Err(SettingError::new(name, value, allowed))
}

/// The scores of a model with larger initial values are not finite in single precision.
const INIT_SCALE_MAX: f64 = 1000.0;

/// Maximum number of triples or samples of a batch.
const COUNT_MAX: usize = 1 << 20;

/// Maximum number of elements of a batch's values or scores: they must fit into memory several times, for
/// each worker.
const ELEMENTS_MAX: u64 = 1 << 28;

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config {
            model: ModelKind::Complex,
            dim: 6,
            batch: 5,
            loss: Loss::Softmax,
            negatives: 9,
            reciprocal: true,
            penalties: Penalties { n3: 0.03, l2: 0.02 },
            learning_rate: 0.1,
            init_scale: 0.7,
            cluster: Cluster::None,
            separate: false,
            seed: 3,
        }
    }

    fn refused(change: fn(&mut Config)) -> String {
        let mut config = config();
        change(&mut config);
        config.check().unwrap_err().to_string()
    }

    #[test]
    fn hyperparameters_without_sense_are_refused() {
        assert_eq!(refused(|c| c.dim = 7), "dim is 7; it must be an even number from 2 to 262144");
        assert!(refused(|c| c.batch = 0).starts_with("batch is 0; "));
        assert!(refused(|c| c.negatives = usize::MAX).starts_with("negatives is "));
        let at_once = "batch is 16384 with 9 negatives and dim 6; it must be so small that the values and the scores of a \
                       batch are at most 268435456 numbers each; here they may be 1074036736";
        assert_eq!(refused(|c| c.batch = 1 << 14), at_once);
        assert!(
            refused(|c| (c.batch, c.negatives, c.dim) = (1 << 20, 1 << 20, 1 << 18))
                .starts_with("batch is 1048576 ")
        );
        assert!(
            refused(|c| (c.negatives, c.dim) = (1 << 20, 256))
                .contains(" with 1048576 negatives and dim 256;")
        );
        assert!(
            refused(|c| (c.loss, c.batch, c.negatives) = (Loss::Logistic, 1 << 14, 1 << 14))
                .starts_with("batch is ")
        );
        for scale in [0.0, 1e300, f64::NAN] {
            let said = Config { init_scale: scale, ..config() }.check().unwrap_err().to_string();
            assert!(said.ends_with("; it must be a number above 0 and at most 1000"), "{said}");
        }
        assert_eq!(refused(|c| c.learning_rate = 0.0), "lr is 0; it must be a number above 0");
        assert!(refused(|c| c.penalties.n3 = f64::NAN).starts_with("n3 is NaN; "));
        assert!(refused(|c| c.separate = true).starts_with("separate is true; "));
    }

    #[test]
    fn matrices_are_bounded_and_have_no_n3() {
        let rescal = |change: fn(&mut Config)| {
            let mut config = Config {
                model: ModelKind::Rescal,
                dim: 512,
                penalties: Penalties { n3: 0.0, l2: 0.02 },
                ..config()
            };
            change(&mut config);
            config
        };
        rescal(|_| ()).check().unwrap();
        // The largest value, in double precision.
        assert_eq!(2 * rescal(|_| ()).scorer().relation_len() * 8, intendant_core::limits::VALUE_BYTES_MAX);
        rescal(|c| c.dim = 1).check().unwrap();
        let refused = |change| rescal(change).check().unwrap_err().to_string();
        let from_to = "it must be a number from 1 to 512: relations are matrices of dim · dim numbers";
        assert_eq!(refused(|c| c.dim = 513), format!("dim is 513; {from_to}"));
        assert_eq!(refused(|c| c.dim = 0), format!("dim is 0; {from_to}"));
        let n3 = refused(|c| c.penalties.n3 = 0.007);
        assert_eq!(n3, "n3 is 0.007; it must be 0 with RESCAL, which has no such penalty; l2 is its own");

        // A batch may have as many matrices as the graph has relations.
        let large = rescal(|c| c.batch = 1024);
        large.check_size(100).unwrap();
        let error = large.check_size(600).unwrap_err().to_string();
        assert!(error.starts_with("batch is 1024 with 9 negatives and dim 512; "), "{error}");
        rescal(|c| c.batch = 100).check_size(600).unwrap();
    }
}
