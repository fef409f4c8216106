//! Progress for a person at a terminal: a bar, and a line per epoch. On standard error, at rank 0 only.

use super::numbers::{in_reading_order, means, number, share};
use super::sums::EpochSum;
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};

/// More would cost the first worker time without a visible effect.
const DRAWS_PER_EPOCH: u64 = 200;

/// Progress of a worker, which writes it; the first worker reads and draws it. Relaxed throughout: the
/// numbers are for display.
#[derive(Default)]
struct Share {
    batches: AtomicU64,
    batches_total: AtomicU64,
    examples: AtomicU64,
    loss_bits: AtomicU64,
}

/// The progress of a node.
pub(crate) struct Progress {
    shares: Vec<Share>,
    epochs: u32,
    lines: bool,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// `show` is false on all nodes but one, and with `-q`. The bar is for terminals only.
    pub(crate) fn new(workers: usize, epochs: u32, show: bool) -> Self {
        let bar = (show && epochs > 0 && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
            // The template is a constant; if it were wrong, the default style would do.
            if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:30} {percent:>3} % {msg}") {
                bar.set_style(style);
            }
            bar
        });
        let shares = (0..workers).map(|_| Share::default()).collect();
        Self { shares, epochs, lines: show, bar }
    }

    /// A worker has computed another batch.
    pub(crate) fn update(&self, worker: usize, progress: &intendant_task::Progress) {
        let Some(bar) = &self.bar else { return };
        let share = &self.shares[worker];
        share.batches.store(progress.batches, Ordering::Relaxed);
        share.batches_total.store(progress.batches_total, Ordering::Relaxed);
        share.examples.store(progress.examples, Ordering::Relaxed);
        share.loss_bits.store(progress.loss.to_bits(), Ordering::Relaxed);
        let every = (progress.batches_total / DRAWS_PER_EPOCH).max(1);
        if worker == 0 && progress.batches.is_multiple_of(every) {
            self.draw(bar, progress.epoch);
        }
    }

    fn draw(&self, bar: &ProgressBar, epoch: u32) {
        let sum = |of: fn(&Share) -> &AtomicU64| {
            self.shares.iter().map(|s| of(s).load(Ordering::Relaxed)).sum::<u64>()
        };
        let (batches, total) = (sum(|s| &s.batches), sum(|s| &s.batches_total));
        let examples = sum(|s| &s.examples).max(1);
        let loss: f64 = self.shares.iter().map(|s| f64::from_bits(s.loss_bits.load(Ordering::Relaxed))).sum();
        bar.set_prefix(format!("epoch {}/{}", epoch + 1, self.epochs));
        bar.set_length(total.max(1));
        bar.set_position(batches);
        bar.set_message(format!("loss {}", number(loss / examples as f64)));
    }

    /// An epoch has ended, and its evaluation if there was one.
    pub(crate) fn epoch_ended(&self, worker: usize, epoch: usize, sum: &EpochSum) {
        if worker != 0 || !self.lines {
            return;
        }
        self.say(&line(epoch, self.epochs, sum));
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

fn line(epoch: usize, epochs: u32, sum: &EpochSum) -> String {
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
        for (name, value) in in_reading_order(&quality) {
            let _ = write!(line, " {name} {}", number(value));
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
        assert_eq!(
            line(3, 20, &EpochSum { tally, seconds: 0.5, untrained: None, exchanged: None }),
            "epoch  3/20  loss 0.2500  0.50 s  4,000 examples/s  remote 25.0 %  held-out mrr 0.3000"
        );
    }
}
