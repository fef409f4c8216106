//! Numbers as people read them: means of sums, their names and order, their digits.

use indicatif::HumanCount;
use intendant::AccessStats;
use intendant_task::Reduction;
use std::collections::BTreeMap;

/// The share of accesses that were remote.
pub(crate) fn share(accesses: AccessStats) -> f64 {
    match accesses.local + accesses.remote {
        0 => 0.0,
        all => accesses.remote as f64 / all as f64,
    }
}

/// How a metric is reported whose sum is `quality.METRIC`: its name, and what is made of the mean.
pub(super) fn reported(metric: &str) -> (&str, fn(f64) -> f64) {
    match (metric.strip_suffix("^2"), metric.strip_prefix("ln ")) {
        (Some(name), _) => (name, f64::sqrt),
        (None, Some(name)) => (name, f64::exp),
        (None, None) => (metric, |mean| mean),
    }
}

/// The means of a [`Reduction`]: sums called `quality.NAME`, divided by `quality.count`. A sum called
/// `quality.NAME^2` is one of squares, and the root of its mean is reported as `NAME`; one called `quality.ln
/// NAME` is one of logarithms, and the exponential of its mean is reported.
pub(crate) fn means(reduction: &Reduction) -> BTreeMap<String, f64> {
    let count = reduction.get("quality.count");
    let names = reduction.sums.iter().filter_map(|(name, sum)| Some((name.strip_prefix("quality.")?, sum)));
    names
        .filter(|(name, _)| *name != "count" && count > 0.0)
        .map(|(metric, sum)| {
            let (name, of_mean) = reported(metric);
            (name.to_owned(), of_mean(sum / count))
        })
        .collect()
}

/// Metrics in the order in which people read them: `hits_at_3` before `hits_at_10`.
pub(crate) fn in_reading_order(means: &BTreeMap<String, f64>) -> Vec<(&str, f64)> {
    let mut metrics: Vec<_> = means.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    metrics.sort_by_key(|(name, _)| {
        let words = name.trim_end_matches(|c: char| c.is_ascii_digit());
        (words, name[words.len()..].parse::<u64>().unwrap_or(0))
    });
    metrics
}

/// A loss or a metric with four digits; small values in scientific notation.
pub(crate) fn number(value: f64) -> String {
    if value.fract() == 0.0 && (1.0..1e15).contains(&value) {
        return HumanCount(value as u64).to_string();
    }
    if value != 0.0 && value.abs() < 0.001 { format!("{value:.3e}") } else { format!("{value:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_in_reading_order() {
        let names = ["mrr", "hits_at_10", "hits_at_1", "hits_at_3"];
        let means = BTreeMap::from(names.map(|name| (name.to_owned(), 0.5)));
        let names: Vec<&str> = in_reading_order(&means).into_iter().map(|metric| metric.0).collect();
        assert_eq!(names, ["hits_at_1", "hits_at_3", "hits_at_10", "mrr"]);
    }

    #[test]
    fn means_need_a_count() {
        let mut reduction = Reduction::default();
        reduction.add("quality.mrr", 3.0);
        reduction.add("loss", 3.0);
        assert!(means(&reduction).is_empty());
        reduction.add("quality.count", 12.0);
        assert_eq!(means(&reduction), BTreeMap::from([("mrr".to_owned(), 0.25)]));
        reduction.add("quality.rmse^2", 48.0);
        let both = [("mrr".to_owned(), 0.25), ("rmse".to_owned(), 2.0)];
        assert_eq!(means(&reduction), BTreeMap::from(both));
        let mut reduction = Reduction::default();
        reduction.add("quality.ln perplexity", 12.0);
        reduction.add("quality.count", 4.0);
        assert_eq!(means(&reduction), BTreeMap::from([("perplexity".to_owned(), 3.0f64.exp())]));
    }
}
