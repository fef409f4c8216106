//! Settings of a chain.

use crate::error::BpmfError;

/// Maximum number of factors per row. The statistics of the hyperparameters have K²/2 numbers.
pub const RANK_MAX: usize = 256;

/// Settings of a chain. [`Config::default`] has the priors of the sources.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// K: factors of each row and column, from 1 to [`RANK_MAX`].
    pub rank: usize,
    /// α: precision of an entry around the product of its factors, in 1/value²; above 0.
    pub alpha: f64,
    /// β₀: how many rows the prior of the mean of all rows counts as; above 0.
    pub beta: f64,
    /// ν₀: degrees of freedom of the prior of the precision of all rows, above `rank` − 1; `None` is `rank`.
    pub nu: Option<f64>,
    /// Iterations of the chain.
    pub iterations: u32,
    /// Iterations before predictions are averaged: at most `iterations` − 1, unless `iterations` is 0.
    pub burn_in: u32,
    /// By how many iterations the rows of other blocks may be outdated.
    pub slack: u32,
    /// The same for statistics and hyperparameters: must be 0.
    pub hyper_slack: u32,
    /// Probability of predictive intervals; above 0 and below 1.
    pub interval: f64,
    /// Seed of the chain.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            rank: 16,
            alpha: 2.0,
            beta: 2.0,
            nu: None,
            iterations: 120,
            burn_in: 40,
            slack: 0,
            hyper_slack: 0,
            interval: 0.95,
            seed: 1,
        }
    }
}

impl Config {
    /// Checks the settings.
    ///
    /// # Errors
    /// [`BpmfError::Setting`] names the first one that is not allowed.
    pub fn check(&self) -> Result<(), BpmfError> {
        let refuse = |name, value: String, allowed: &str| {
            Err(BpmfError::Setting { name, value, allowed: allowed.to_owned() })
        };
        let positive = |value: f64| (1e-9..=1e9).contains(&value);
        if !(1..=RANK_MAX).contains(&self.rank) {
            return refuse("rank", self.rank.to_string(), &format!("a number from 1 to {RANK_MAX}"));
        }
        for (name, value) in [("alpha", self.alpha), ("beta", self.beta)] {
            if !positive(value) {
                return refuse(name, value.to_string(), "a number from 1e-9 to 1e9");
            }
        }
        if let Some(nu) = self.nu {
            let least = self.rank as f64 - 1.0;
            if !(nu > least && nu <= 1e9) {
                let allowed = format!("a number above {least}, the rank minus 1, and at most 1e9");
                return refuse("nu", nu.to_string(), &allowed);
            }
        }
        if self.burn_in >= self.iterations.max(1) {
            let allowed =
                format!("below {}, the number of iterations, so that some are averaged", self.iterations);
            return refuse("burn-in", self.burn_in.to_string(), &allowed);
        }
        if self.hyper_slack > 0 {
            return refuse(
                "hyper-slack",
                self.hyper_slack.to_string(),
                "0: blocks that draw rows under hyperparameters of different iterations sample no common distribution, and the \
                 values diverge; give slack to the rows only (--slack)",
            );
        }
        if !(self.interval > 0.0 && self.interval < 1.0) {
            return refuse("interval", self.interval.to_string(), "a probability above 0 and below 1");
        }
        Ok(())
    }

    /// ν₀.
    pub(crate) fn degrees(&self) -> f64 {
        self.nu.unwrap_or(self.rank as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_allowed_is_named() {
        let refused = |change: &dyn Fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config.check().expect_err("refused").to_string()
        };
        Config::default().check().expect("defaults");
        Config { iterations: 0, burn_in: 0, ..Config::default() }.check().expect("no iterations");
        for (said, change) in [
            (
                "rank is 0; it must be a number from 1 to 256",
                (&|c: &mut Config| c.rank = 0) as &dyn Fn(&mut _),
            ),
            ("rank is 257", &|c: &mut Config| c.rank = 257),
            ("alpha is NaN", &|c: &mut Config| c.alpha = f64::NAN),
            ("beta is 0", &|c: &mut Config| c.beta = 0.0),
            ("nu is 15; it must be a number above 15", &|c: &mut Config| c.nu = Some(15.0)),
            ("burn-in is 120; it must be below 120", &|c: &mut Config| c.burn_in = 120),
            ("hyper-slack is 1; it must be 0: blocks that", &|c: &mut Config| c.hyper_slack = 1),
            ("interval is 1;", &|c: &mut Config| c.interval = 1.0),
        ] {
            let error = refused(change);
            assert!(error.starts_with(said), "{error}");
        }
    }
}
