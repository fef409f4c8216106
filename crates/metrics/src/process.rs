//! What the operating system reports about this process.

use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of memory that are resident; `None` where the operating system has no `/proc`.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// CPU time of all threads so far, nanoseconds.
#[must_use]
pub fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// When the process started, seconds since 1970; `None` where the operating system has no `/proc`.
#[must_use]
pub fn start_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in parentheses, which may contain any characters.
    let (_, fields) = stat.rsplit_once(')')?;
    // Field 22 of the line; the field after the name is field 3.
    let ticks: f64 = fields.split_whitespace().nth(19)?.parse().ok()?;
    let machine = std::fs::read_to_string("/proc/stat").ok()?;
    let booted: f64 = machine.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(booted + ticks / rustix::param::clock_ticks_per_second() as f64)
}

/// Milliseconds since 1970.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "what is shown to people has times of the calendar")]
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The name of this machine.
#[must_use]
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_has_memory_and_has_started_a_while_ago() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 100 << 10));
        let now = unix_ms() as f64 / 1e3;
        // The boot time is in whole seconds, and the wall clock may be set.
        assert!(start_seconds().is_some_and(|start| start < now + 60.0 && start > now - 86_400.0));
        assert!(!host_name().is_empty());
    }
}
