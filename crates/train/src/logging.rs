//! Logs: one line per event on standard error, each with the rank of the node that writes it. Its rank may
//! change ([`rank_is`]).

use std::fmt;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU32, Ordering};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{Compact, Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;

/// Installs the process's logger. `RUST_LOG`, if set, wins over `verbose`.
pub(crate) fn start(rank: Option<u16>, verbose: u8) {
    RANK.store(rank.map_or(NO_RANK, u32::from), Ordering::Relaxed);
    let wanted = std::env::var("RUST_LOG").ok().filter(|wanted| !wanted.is_empty());
    let targets = wanted.map_or_else(|| Ok(by_level(verbose)), |wanted| parse(&wanted));
    let targets = targets.unwrap_or_else(|problem| {
        say(&problem);
        by_level(verbose)
    });
    let stderr = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .event_format(Ranked { format: Format::default().compact() });
    let subscriber = tracing_subscriber::registry().with(targets).with(stderr);
    // A program that has installed a logger of its own keeps it.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// What is logged if `-v` is given `verbose` times.
fn by_level(verbose: u8) -> Targets {
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => return Targets::new().with_default(LevelFilter::TRACE),
    };
    // These libraries log sockets and frames; their details are of interest only at the highest level.
    let libraries = ["h2", "hyper", "tower", "tonic"].map(|library| (library, LevelFilter::WARN));
    Targets::new().with_default(level).with_targets(libraries)
}

/// What `RUST_LOG` asks for, or what is wrong with it.
fn parse(wanted: &str) -> Result<Targets, String> {
    wanted.parse().map_err(|error| {
        format!(
            "RUST_LOG is '{wanted}': {error}; it is ignored. Write a level such as debug, or TARGET=LEVEL, separated by commas"
        )
    })
}

/// The result of writing to standard output. A reader that has closed it has seen what it wanted, as `head`
/// does.
pub(crate) fn unless_closed(written: std::io::Result<()>) -> std::io::Result<()> {
    written.or_else(|error| if error.kind() == std::io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

/// Writes a line to standard error, in one piece: the nodes of a cluster share it.
pub(crate) fn say(line: &str) {
    // Without standard error, the exit code still says how a run ended.
    let _ = std::io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

/// The rank of this process's node. Logs of a process are of one node.
static RANK: AtomicU32 = AtomicU32::new(NO_RANK);

/// Of a process that asks to join a run.
const NO_RANK: u32 = u32::MAX;

/// The rank of this process's node, if it has one.
pub(crate) fn rank() -> Option<u16> {
    u16::try_from(RANK.load(Ordering::Relaxed)).ok()
}

/// From now on, this process is the node of this rank.
pub(crate) fn rank_is(rank: u16) {
    RANK.store(rank.into(), Ordering::Relaxed);
}

struct Ranked {
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
        match rank() {
            Some(rank) => write!(writer, "[rank {rank}] ")?,
            None => write!(writer, "[joining] ")?,
        }
        self.format.format_event(ctx, writer, event)
    }
}

/// A number of things, in words.
pub(crate) fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{} {what}s", indicatif::HumanCount(count)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn libraries_are_quiet_until_everything_is_asked_for() {
        assert!(by_level(2).would_enable("intendant::channel", &Level::DEBUG));
        assert!(!by_level(2).would_enable("h2::codec", &Level::INFO));
        assert!(by_level(3).would_enable("h2::codec", &Level::TRACE));
    }

    #[test]
    fn rust_log_names_targets_or_is_ignored_with_a_reason() {
        let targets = parse("warn,intendant=debug").unwrap();
        assert!(targets.would_enable("intendant::channel", &Level::DEBUG));
        assert!(!targets.would_enable("h2", &Level::INFO));
        let problem = parse("intendant=loud").unwrap_err();
        assert!(problem.starts_with("RUST_LOG is 'intendant=loud': "), "{problem}");
    }
}
