//! The quantile against a library's distribution function: never off by more than one, exact for small rates.

use intendant_intent::PoissonQuantile;
use proptest::prelude::*;
use statrs::distribution::{DiscreteCDF, Poisson};

fn exact(rate: f64, probability: f64) -> u32 {
    let poisson = Poisson::new(rate).unwrap();
    let (mut low, mut high) = (0u64, (rate + 20.0 * rate.sqrt() + 50.0) as u64);
    while low < high {
        let middle = low + (high - low) / 2;
        if poisson.cdf(middle) >= probability { high = middle } else { low = middle + 1 }
    }
    low as u32
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn small_rates_are_exact(rate in 1e-6f64..50.0, probability in 0.01f64..0.99999) {
        let ours = PoissonQuantile::new(probability).unwrap().of(rate);
        // If the distribution function is within rounding of the probability, either result is right.
        let poisson = Poisson::new(rate).unwrap();
        let near = |k: u32| (poisson.cdf(u64::from(k)) - probability).abs() < 1e-9;
        let theirs = exact(rate, probability);
        prop_assert!(ours == theirs || near(ours.min(theirs)), "{ours} instead of {theirs}");
    }

    #[test]
    fn large_rates_are_off_by_one_at_most(exponent in 1.7f64..7.0, probability in 0.01f64..0.99999) {
        let rate = 10f64.powf(exponent);
        let ours = PoissonQuantile::new(probability).unwrap().of(rate);
        let theirs = exact(rate, probability);
        prop_assert!(ours.abs_diff(theirs) <= 1, "rate {rate}, p {probability}: {ours} instead of {theirs}");
    }
}

/// Each term of the expansion makes more quantiles exact.
#[test]
fn large_rates_are_mostly_exact() {
    let (mut all, mut wrong) = (0, 0);
    for probability in [1e-6, 1e-4, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.9999, 0.999_999] {
        let quantile = PoissonQuantile::new(probability).unwrap();
        for rate in (0..200).map(|step| 51.0 * 1.03f64.powi(step)) {
            all += 1;
            wrong += usize::from(quantile.of(rate) != exact(rate, probability));
        }
    }
    assert!(wrong * 100 < all, "{wrong} of {all}");
}

/// Rounding may keep the sum below a probability next to 1 for ever.
#[test]
fn sums_end_that_do_not_reach_the_probability() {
    let quantile = PoissonQuantile::new(1.0 - f64::EPSILON / 2.0).unwrap();
    let longest = (1..=500).map(|tenth| quantile.of(f64::from(tenth) / 10.0)).max().unwrap();
    assert!((200..2_000).contains(&longest), "{longest}: one of them goes on until nothing is left to add");
}

#[test]
fn the_default_quantile_is_right_at_round_rates() {
    let quantile = PoissonQuantile::new(0.9999).unwrap();
    for rate in [0.1, 1.0, 2.0, 10.0, 49.9, 50.1, 100.0, 1e3, 1e4, 1e5, 1e6] {
        assert!(quantile.of(rate).abs_diff(exact(rate, 0.9999)) <= 1, "{rate}");
    }
    assert_eq!(quantile.of(0.0), 0);
    assert_eq!(quantile.of(-1.0), 0);
    assert_eq!(quantile.of(f64::NAN), 0);
    assert_eq!(quantile.of(f64::INFINITY), u32::MAX);
    assert_eq!(PoissonQuantile::new(1.0), None);
    assert_eq!(PoissonQuantile::new(0.0), None);
}
