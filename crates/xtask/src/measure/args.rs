//! The options of `cargo xtask measure`.

use std::path::PathBuf;

/// Measure speed, and print it beside targets and rivals.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of measurements of each row
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub(super) runs: u16,
    /// Only measure rows whose names contain this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(super) only: String,
    /// Write the table to docs/performance.md
    #[arg(long)]
    pub(super) write: bool,
    /// Do not build the programs
    #[arg(long)]
    pub(super) no_build: bool,
    /// Measure the tasks of pinned.toml instead: clusters with one core per node, and threads on one core
    #[arg(long)]
    pub(super) pinned: bool,
    /// Folder with the data of tasks that are not built in; without it, they are skipped
    #[arg(long, value_name = "DIR", requires = "pinned")]
    pub(super) data_dir: Option<PathBuf>,
}
