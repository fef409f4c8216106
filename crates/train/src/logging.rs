//! Logs: one line per event on standard error, each with the rank of the node that writes it.

use std::fmt;
use std::io::{IsTerminal, Write};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{Compact, Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Installs the process's logger. `RUST_LOG`, if set, wins over `verbose`.
pub(crate) fn start(rank: u16, verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let filter = match std::env::var("RUST_LOG") {
        Ok(wanted) if !wanted.is_empty() => EnvFilter::new(wanted),
        // The libraries below speak of sockets and frames; their details are of interest only at the highest level.
        _ if verbose < 3 => EnvFilter::new(format!("{level},h2=warn,hyper=warn,tower=warn,tonic=warn")),
        _ => EnvFilter::new(level),
    };
    let format = Ranked { rank, format: Format::default().compact() };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .event_format(format)
        .finish();
    // A program that has installed a logger of its own keeps it.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// Writes a line to standard error, in one piece: the nodes of a cluster share it.
pub(crate) fn say(line: &str) {
    // Nobody is told if standard error is gone; the exit code still says how a run ended.
    let _ = std::io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

struct Ranked {
    rank: u16,
    format: Format<Compact>,
}

impl<S, N> FormatEvent<S, N> for Ranked
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "[rank {}] ", self.rank)?;
        self.format.format_event(ctx, writer, event)
    }
}

/// A number of things, in words.
pub(crate) fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{} {what}s", indicatif::HumanCount(count)) }
}
