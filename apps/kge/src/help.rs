//! Help of the flags whose defaults and meanings depend on the model: it follows from the table of models.

use kge::{Defaults, Facts, Loss, ModelKind, Moduli};
use std::fmt::Display;

fn all() -> impl Iterator<Item = &'static Facts> {
    ModelKind::ALL.iter().map(|model| model.facts())
}

/// The titles of all models.
pub(crate) fn titles() -> String {
    all().map(|facts| facts.title).collect::<Vec<_>>().join(", ")
}

/// The default of a hyperparameter with the first model and the softmax, then the models and losses whose
/// default is another one.
fn defaults<T: Display + PartialEq>(of: impl Fn(&Defaults) -> T) -> String {
    let first = of(&ModelKind::DEFAULT.facts().defaults);
    let logistic = of(&Loss::Logistic.defaults(ModelKind::DEFAULT));
    let named = all().map(|facts| (facts.name, of(&facts.defaults))).chain([("logistic", logistic)]);
    let mut others: Vec<(Vec<&str>, T)> = Vec::new();
    for (name, value) in named.filter(|(_, value)| *value != first) {
        match others.iter_mut().find(|(_, found)| *found == value) {
            Some((names, _)) => names.push(name),
            None => others.push((vec![name], value)),
        }
    }
    let others = others.iter().map(|(names, value)| format!("; {}: {value}", names.join(", ")));
    format!("[default: {first}{}]", others.collect::<String>())
}

/// Help of `--dim`.
pub(crate) fn dim() -> String {
    let meanings = all().filter_map(|facts| Some(format!("with {}, {}", facts.name, facts.dim_meaning?)));
    let meanings = meanings.collect::<Vec<_>>().join("; ");
    format!("Real numbers per entity: {meanings} {}", defaults(|defaults| defaults.dim))
}

/// Help of `--batch`.
pub(crate) fn batch() -> String {
    format!("Triples per batch {}", defaults(|defaults| defaults.batch))
}

/// Help of `--negatives`.
pub(crate) fn negatives() -> String {
    let meaning =
        "Sampled entities: shared by a batch (softmax), or for each subject and each object (logistic)";
    format!("{meaning} {}", defaults(|defaults| defaults.negatives))
}

/// Help of `--n3`.
pub(crate) fn n3() -> String {
    let meaning =
        "Weight of the N3 penalty, the sum of cubed moduli, on the three embeddings of every prediction";
    let has_none = |facts: &&Facts| facts.moduli == Moduli::None;
    let without: Vec<&str> = all().filter(has_none).map(|facts| facts.name).collect();
    format!("{meaning} (not with {}) {}", without.join(", "), defaults(|defaults| defaults.penalties.n3))
}

/// Help of `--l2`.
pub(crate) fn l2() -> String {
    let meaning = "Weight of the L2 penalty, the sum of squares, on the three embeddings of every prediction";
    format!("{meaning} {}", defaults(|defaults| defaults.penalties.l2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_name_the_models_and_losses_that_have_others() {
        assert_eq!(defaults(|defaults| defaults.batch), "[default: 256; rescal: 512; logistic: 1]");
        assert_eq!(defaults(|defaults| defaults.penalties.n3), "[default: 0.007; rescal, logistic: 0]");
        assert!(dim().ends_with("also for relations [default: 256; rescal: 128]"), "{}", dim());
    }
}
