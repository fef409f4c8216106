//! Progress for a person: a bar at a terminal, else a line from time to time; and a line per epoch. On
//! standard error, at rank 0 only.

use super::numbers::{in_reading_order, means, number, reported, share};
use super::sums::EpochSum;
use crate::clock::now;
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use intendant_core::lock;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// More would cost the first worker time without a visible effect.
const DRAWS_PER_EPOCH: u64 = 200;

/// Without a terminal, an epoch that takes longer than this gets a line each time it has passed.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The longest line of an epoch, unless its first metric alone makes it longer.
const COLUMNS_MAX: usize = 120;

/// Progress of a worker, which writes it; the first worker reads and draws it. Relaxed throughout: the
/// numbers are for display.
#[derive(Default)]
struct Share {
    batches: AtomicU64,
    batches_total: AtomicU64,
    examples: AtomicU64,
    loss_bits: AtomicU64,
}

/// When the epoch began that the first worker trains, and when a line was said.
#[derive(Clone, Copy)]
struct Pace {
    epoch: u32,
    began: Instant,
    said: Instant,
}

/// The progress of a node.
pub(crate) struct Progress {
    shares: Vec<Share>,
    epochs: u32,
    lines: bool,
    bar: Option<ProgressBar>,
    /// Only the first worker touches it.
    pace: Mutex<Option<Pace>>,
    /// The metric that a line names first.
    headline: Option<&'static str>,
}

impl Progress {
    /// `show` is false on all nodes but one, and with `-q`. The bar is for terminals only.
    /// `headline` is the metric by which the task compares models.
    pub(crate) fn new(workers: usize, epochs: u32, show: bool, headline: Option<&'static str>) -> Self {
        let bar = (show && epochs > 0 && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
            // The template is a constant; if it were wrong, the default style would do.
            if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:30} {percent:>3} % {msg}") {
                bar.set_style(style);
            }
            bar
        });
        let shares = (0..workers).map(|_| Share::default()).collect();
        Self { shares, epochs, lines: show, bar, pace: Mutex::new(None), headline }
    }

    /// A worker has computed another batch.
    pub(crate) fn update(&self, worker: usize, progress: &intendant_task::Progress) {
        if !self.lines {
            return;
        }
        let share = &self.shares[worker];
        share.batches.store(progress.batches, Ordering::Relaxed);
        share.batches_total.store(progress.batches_total, Ordering::Relaxed);
        share.examples.store(progress.examples, Ordering::Relaxed);
        share.loss_bits.store(progress.loss.to_bits(), Ordering::Relaxed);
        let every = (progress.batches_total / DRAWS_PER_EPOCH).max(1);
        if worker == 0 && progress.batches.is_multiple_of(every) {
            self.draw(progress.epoch);
        }
    }

    fn draw(&self, epoch: u32) {
        let sum = |of: fn(&Share) -> &AtomicU64| {
            self.shares.iter().map(|s| of(s).load(Ordering::Relaxed)).sum::<u64>()
        };
        let (batches, total) = (sum(|s| &s.batches), sum(|s| &s.batches_total));
        let examples = sum(|s| &s.examples).max(1);
        let loss: f64 = self.shares.iter().map(|s| f64::from_bits(s.loss_bits.load(Ordering::Relaxed))).sum();
        let loss = number(loss / examples as f64);
        let now = now();
        let mut pace = lock(&self.pace);
        let known = pace.filter(|pace| pace.epoch == epoch);
        let Pace { began, said, .. } = *pace.insert(known.unwrap_or(Pace { epoch, began: now, said: now }));
        let left = left(now.saturating_duration_since(began), (batches, total), self.epochs - epoch - 1);
        let epoch = format!("epoch {}/{}", epoch + 1, self.epochs);
        if let Some(bar) = &self.bar {
            bar.set_prefix(epoch);
            bar.set_length(total.max(1));
            bar.set_position(batches);
            bar.set_message(format!("loss {loss}  {left}"));
        } else if now.saturating_duration_since(said) >= LINE_EVERY {
            if let Some(pace) = &mut *pace {
                pace.said = now;
            }
            let percent = 100 * batches / total.max(1);
            crate::logging::say(&format!("{epoch}  {percent} %  loss {loss}  {left}"));
        }
    }

    /// An epoch has ended, and its evaluation if there was one.
    pub(crate) fn epoch_ended(&self, worker: usize, epoch: usize, sum: &EpochSum) {
        if worker != 0 || !self.lines {
            return;
        }
        self.say(&line(epoch, self.epochs, sum, self.headline));
    }
}

impl Progress {
    /// Says something without disturbing the bar.
    pub(crate) fn say(&self, line: &str) {
        if !self.lines {
            return;
        }
        let print = || crate::logging::say(line);
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// How long the run may still take, if the rest of the epoch and `epochs` more are as fast as its first
/// batches were. Evaluations are not counted.
fn left(taken: Duration, (batches, total): (u64, u64), epochs: u32) -> String {
    if batches == 0 {
        return String::new();
    }
    let whole = taken.as_secs_f64() * total as f64 / batches as f64;
    let seconds = (whole - taken.as_secs_f64()).max(0.0) + whole * f64::from(epochs);
    let shown = match seconds {
        ..100.0 => format!("{seconds:.0} s"),
        ..6000.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    };
    format!("about {shown} left")
}

/// The line of an epoch: the metric of the headline comes first, then others as long as they fit.
fn line(epoch: usize, epochs: u32, sum: &EpochSum, headline: Option<&str>) -> String {
    let tally = &sum.tally;
    let examples = tally.reduction.get("examples");
    let mut line = format!(
        "epoch {epoch:>width$}/{epochs}  loss {}  {:.2} s  {} examples/s",
        number(tally.reduction.get("loss") / examples.max(1.0)),
        sum.seconds,
        HumanCount((examples / sum.seconds.max(1e-9)) as u64),
        width = epochs.to_string().len(),
    );
    // Programs without parameters have no accesses.
    if tally.accesses.local + tally.accesses.remote > 0 {
        // Writing to a string does not fail.
        let _ = write!(line, "  remote {:.1} %", 100.0 * share(tally.accesses));
    }
    let quality = means(&tally.reduction);
    if !quality.is_empty() {
        line.push_str("  held-out");
        let headline = headline.map(|metric| reported(metric).0);
        let mut metrics = in_reading_order(&quality);
        metrics.sort_by_key(|(name, _)| Some(*name) != headline);
        for (at, (name, value)) in metrics.into_iter().enumerate() {
            let metric = format!(" {name} {}", number(value));
            if at == 0 || line.len() + metric.len() <= COLUMNS_MAX {
                line.push_str(&metric);
            }
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tally::Tally;
    use intendant::AccessStats;
    use intendant_task::Reduction;

    #[test]
    fn a_line_tells_loss_speed_remote_share_and_validation() {
        let mut reduction = Reduction::default();
        for (name, value) in
            [("loss", 500.0), ("examples", 2000.0), ("quality.mrr", 30.0), ("quality.count", 100.0)]
        {
            reduction.add(name, value);
        }
        let accesses = AccessStats { local: 3, remote: 1, ..AccessStats::default() };
        let tally = Tally { reduction, accesses, ..Tally::default() };
        let sum = EpochSum { tally, seconds: 0.5, untrained: None, exchanged: None };
        assert_eq!(
            line(3, 20, &sum, None),
            "epoch  3/20  loss 0.2500  0.50 s  4,000 examples/s  remote 25.0 %  held-out mrr 0.3000"
        );
    }

    #[test]
    fn the_headline_comes_first_and_what_does_not_fit_is_left_out() {
        let mut reduction = Reduction::default();
        reduction.add("quality.count", 1.0);
        for at in 0..20 {
            reduction.add(&format!("quality.metric_{at}"), 0.5);
        }
        reduction.add("quality.rmse^2", 4.0);
        let tally = Tally { reduction, ..Tally::default() };
        let sum = EpochSum { tally, seconds: 0.5, untrained: None, exchanged: None };
        let line = line(1, 1, &sum, Some("rmse^2"));
        assert!(line.contains("held-out rmse 2 metric_0 0.5000 metric_1 ") && line.len() <= 120, "{line}");
    }

    #[test]
    fn the_time_that_is_left_follows_from_the_batches_so_far() {
        let of = |seconds, batches, epochs| left(Duration::from_secs(seconds), (batches, 100), epochs);
        assert_eq!(of(10, 50, 0), "about 10 s left");
        assert_eq!(of(10, 50, 2), "about 50 s left");
        assert_eq!(of(60, 25, 3), "about 15 min left");
        assert_eq!(of(3600, 50, 1), "about 3.0 h left");
        assert_eq!(of(10, 0, 1), "");
    }
}
