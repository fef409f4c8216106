//! Clocks and medians.

use std::time::{Duration, Instant};

/// Wall and CPU time of one thread's work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) wall_ns: f64,
    pub(crate) cpu_ns: f64,
}

#[expect(clippy::disallowed_methods, reason = "this program measures time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// A duration in microseconds.
pub(crate) fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// CPU time of this thread so far.
pub(crate) fn thread_cpu_ns() -> f64 {
    clock_ns(rustix::time::ClockId::ThreadCPUTime)
}

/// CPU time of this process so far, all threads together.
pub(crate) fn process_cpu_ns() -> f64 {
    clock_ns(rustix::time::ClockId::ProcessCPUTime)
}

fn clock_ns(clock: rustix::time::ClockId) -> f64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Calls `work` with 0, 1, … until `time` is over, looking at the clock every `stride` calls. Returns the
/// cost of one call.
pub(crate) fn per_call(time: Duration, stride: usize, mut work: impl FnMut(usize)) -> Spent {
    let (wall, cpu) = (now(), thread_cpu_ns());
    let mut calls = 0;
    loop {
        for _ in 0..stride {
            work(calls);
            calls += 1;
        }
        let elapsed = wall.elapsed();
        if elapsed >= time {
            let calls = calls as f64;
            return Spent {
                wall_ns: elapsed.as_nanos() as f64 / calls,
                cpu_ns: (thread_cpu_ns() - cpu) / calls,
            };
        }
    }
}

/// Minimum, median and maximum.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// The spread of at least one value.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
        Self { min: at(0.0), median: at(0.5), max: at(1.0) }
    }
}

/// The value below which the part `share` of the sorted values lies.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted.get(((sorted.len().max(1) - 1) as f64 * share).round() as usize).copied().unwrap_or(f64::NAN)
}
