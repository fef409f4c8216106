//! Action timing: on how many intents the channel acts too late, if clocks are as assumed, and if they are
//! not.
//!
//! Time is counted in rounds. A worker has announced one intent per clock, far ahead. An action takes effect
//! at the end of its round: an intent is late if the worker has reached its start by the next round.

use intendant_intent::{Estimate, Timing, TimingConfig};
use rand::SeedableRng;
use rand_distr::{Distribution, Poisson};
use rand_pcg::Pcg64;

/// A worker, and a channel's estimate of it.
struct Worker {
    timing: Timing,
    estimate: Estimate,
    clock: u32,
    /// Intents before this have been acted on.
    until: u32,
    late: u64,
    all: u64,
}

impl Worker {
    fn new(config: TimingConfig) -> Self {
        let timing = Timing::new(config).unwrap();
        Self { timing, estimate: timing.estimate(), clock: 0, until: 0, late: 0, all: 0 }
    }

    /// A round begins, in which the clock advances by `clocks`. Returns how many intents are late.
    fn round(&mut self, clocks: u32) -> u64 {
        let until = self.estimate.round(self.clock, 2.0, &self.timing).max(self.until);
        self.clock += clocks;
        let late = u64::from((self.clock + 1).min(until).saturating_sub(self.until));
        self.late += late;
        self.all += u64::from(until - self.until);
        self.until = until;
        late
    }

    fn rounds(&mut self, count: usize, mut clocks: impl FnMut() -> u32) {
        for _ in 0..count {
            self.round(clocks());
        }
    }

    fn share(&self) -> f64 {
        self.late as f64 / self.all as f64
    }

    fn forget(&mut self) {
        (self.late, self.all) = (0, 0);
    }
}

fn poisson(rate: f64, seed: u64) -> impl FnMut() -> u32 {
    let (poisson, mut random) = (Poisson::new(rate).unwrap(), Pcg64::seed_from_u64(seed));
    move || poisson.sample(&mut random) as u32
}

/// Rounds until the first estimate no longer matters.
const SETTLED: usize = 300;

#[test]
fn on_poisson_clocks_no_more_are_late_than_the_quantile_lets() {
    for quantile in [0.9, 0.99, 0.9999] {
        for rate in [0.05, 0.3, 1.0, 3.0, 10.0, 100.0, 3_000.0] {
            let mut worker = Worker::new(TimingConfig { quantile, ..TimingConfig::default() });
            let mut clocks = poisson(rate, 7);
            worker.rounds(SETTLED, &mut clocks);
            worker.forget();
            worker.rounds(400_000, &mut clocks);
            // The intents of one round are late together: as many intents as a round has clocks count as one
            // trial.
            let (most, trials) = (1.0 - quantile, worker.all as f64 / rate.max(1.0));
            let bound = most + 4.0 * (most * quantile / trials).sqrt();
            assert!(
                worker.all > 10_000 && worker.share() <= bound,
                "rate {rate}, p {quantile}: {} > {bound}",
                worker.share()
            );
        }
    }
}

#[test]
fn what_is_in_time_is_not_much_too_early() {
    for rate in [1.0, 10.0, 100.0, 3_000.0] {
        let (mut worker, mut clocks) = (Worker::new(TimingConfig::default()), poisson(rate, 3));
        let (mut ahead, rounds) = (0.0, 20_000);
        worker.rounds(SETTLED, &mut clocks);
        for _ in 0..rounds {
            let before = worker.clock;
            worker.round(clocks());
            ahead += f64::from(worker.until - before) / f64::from(rounds);
        }
        // Two rounds, the quantile's margin, and the noise of the estimate.
        let most = 2.0 * rate + 7.0 * (2.0 * rate).sqrt() + 6.0;
        assert!(ahead <= most, "rate {rate}: {ahead:.1} clocks ahead, more than {most:.1}");
    }
}

#[test]
fn pauses_change_nothing() {
    for resumed in [false, true] {
        let (mut worker, mut clocks) = (Worker::new(TimingConfig::default()), poisson(30.0, 5));
        worker.rounds(SETTLED, &mut clocks);
        worker.forget();
        for _ in 0..300 {
            worker.rounds(50, &mut clocks);
            if resumed {
                worker.estimate.resume(worker.clock);
            } else {
                worker.rounds(1_000, || 0);
            }
        }
        let bound = 1e-4 + 4.0 * (1e-4f64 / (300.0 * 50.0)).sqrt();
        assert!(worker.share() <= bound, "{} > {bound}", worker.share());
    }
}

/// A worker that does nothing for most rounds and a lot in others: rounds in which nothing happened do not
/// count, so that bursts are expected to be as long as they are on average.
#[test]
fn bursts_of_one_kind_are_expected() {
    let (mut worker, mut clocks) = (Worker::new(TimingConfig::default()), poisson(50.0, 11));
    let mut round = 0;
    let mut burst = || {
        round += 1;
        if round % 10 == 0 { clocks() } else { 0 }
    };
    worker.rounds(10 * SETTLED, &mut burst);
    worker.forget();
    worker.rounds(100_000, &mut burst);
    assert_eq!(worker.late, 0, "two bursts in a row are expected, and never come");
}

/// One burst in ten is ten times as long as the others, one in a hundred a hundred times: no estimate of a
/// mean foresees that.
#[test]
fn of_unequal_bursts_a_stated_share_is_late() {
    let (mut worker, mut dice) = (Worker::new(TimingConfig::default()), Pcg64::seed_from_u64(13));
    let face = rand_distr::Uniform::new(0, 1_000).unwrap();
    let mut burst = || match face.sample(&mut dice) {
        0..10 => 500,
        10..100 => 50,
        _ => 5,
    };
    worker.rounds(SETTLED, &mut burst);
    worker.forget();
    worker.rounds(100_000, &mut burst);
    let share = worker.share();
    assert!((0.01..BURSTY_LATE_MAX).contains(&share), "{share}");
}

/// Measured: 0.14. More than half of the clocks are in the two kinds of bursts that come without notice.
const BURSTY_LATE_MAX: f64 = 0.2;

/// Rounds after a rise until all intents are in time again.
const RISE_ROUNDS_MAX: usize = 60;

#[test]
fn a_hundredfold_rise_is_over_after_some_rounds() {
    for rate in [0.5, 1.0, 10.0] {
        let (mut late, mut all, mut first) = (0, 0, 0);
        for seed in 0..500 {
            let (mut slow, mut fast) = (poisson(rate, seed), poisson(100.0 * rate, seed + 1_000));
            let mut worker = Worker::new(TimingConfig::default());
            worker.rounds(SETTLED, &mut slow);
            worker.forget();
            first += worker.round(fast());
            worker.rounds(RISE_ROUNDS_MAX - 1, &mut fast);
            worker.forget();
            worker.rounds(50, &mut fast);
            (late, all) = (late + worker.late, all + worker.all);
        }
        assert!(first > 0, "a rise like that is noticed");
        let share = late as f64 / all as f64;
        assert!(share < 1e-4, "rate {rate}: {share} are late {RISE_ROUNDS_MAX} rounds after the rise");
    }
}

/// By quantile, the rounds after which a worker that was slow because all actions came too late becomes as
/// fast as it can be, and stays so. (Measured: 9, and 53.)
const ESCAPE_ROUNDS_MAX: [(f64, usize); 2] = [(0.9999, 12), (0.9, 60)];

/// An access to a key that is not there takes a round; any other access takes a hundredth of a round. The
/// worker does not stay slow, however wrong the first estimate is.
#[test]
fn a_slow_regime_is_left() {
    for initial in [1e-6, 0.1, 1.0, 10.0] {
        for (quantile, rounds_max) in ESCAPE_ROUNDS_MAX {
            let timing = Timing::new(TimingConfig { initial, quantile, ..TimingConfig::default() }).unwrap();
            let (mut estimate, mut clock) = (timing.estimate(), 0u32);
            // The keys of actions of the previous round are there; those of this round are not.
            let (mut there, mut slow) = (0, 0);
            for round in 0..300 {
                let coming = estimate.round(clock, 2.0, &timing).max(there);
                let (mut left, before) = (1.0, clock);
                while left > 0.0 {
                    left -= if clock < there { 0.01 } else { 1.0 };
                    clock += 1;
                }
                there = coming;
                if clock - before < 100 {
                    slow = round;
                }
            }
            assert!(slow < rounds_max, "first {initial}, p {quantile}: still slow in round {slow}");
        }
    }
}
