//! The options of `cargo xtask figure`.

use super::config::{Figure, Scale};
use super::constant::ScaledConstant;
use crate::process;
use std::num::NonZeroU64;
use std::path::PathBuf;

/// Reproduce a figure or table of the sources.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of a file in bench-configs, without its ending, or all
    pub(super) name: String,
    /// Amount of work: ci (seconds), small (minutes) or full (up to hours)
    #[arg(long, default_value = "small")]
    pub(super) scale: Scale,
    /// Number of seeds of each run [default: what the figure's file says, or 3 at scale small and 1
    /// otherwise]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=99))]
    seeds: Option<u64>,
    /// Number of runs at the same time [default: the number of cores; 1 at scale full]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: Option<u16>,
    /// Only these runs; claims that need other runs are skipped
    #[arg(long, value_name = "RUN")]
    pub(super) only: Vec<String>,
    /// Also write the pages to docs/figures, which has those of scale small
    #[arg(long)]
    pub(super) write: bool,
    /// Do not build the programs
    #[arg(long)]
    pub(super) no_build: bool,
    /// Use programs of the dev profile, which build faster and run slower
    #[arg(long)]
    pub(super) dev: bool,
    /// Multiply a constant of the machines or the network, as in key_ns=1.5
    #[arg(long, value_name = "FIELD=FACTOR")]
    pub(super) scale_constant: Option<ScaledConstant>,
    /// Print the commands without running them
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Print no tables and no claims
    #[arg(skip)]
    pub(super) quiet: bool,
}

impl Args {
    /// A figure at scale ci, with a constant changed; prints only what it executes.
    pub(crate) fn changed(name: &str, scale_constant: Option<ScaledConstant>) -> Self {
        Self { name: name.to_owned(), scale_constant, dev: false, no_build: true, quiet: true, ..Self::ci() }
    }

    /// All figures at scale ci, with programs of the dev profile.
    pub(crate) fn ci() -> Self {
        Self {
            name: "all".to_owned(),
            scale: Scale::Ci,
            seeds: None,
            jobs: None,
            only: Vec::new(),
            write: false,
            no_build: false,
            dev: true,
            scale_constant: None,
            dry_run: false,
            quiet: false,
        }
    }

    pub(super) fn seeds(&self, figure: &Figure) -> u64 {
        let usual = match self.scale {
            Scale::Ci => figure.ci_seeds.map_or(1, NonZeroU64::get),
            Scale::Small => figure.seeds.map_or(3, NonZeroU64::get),
            Scale::Full => 1,
        };
        self.seeds.unwrap_or(usual)
    }

    pub(super) fn jobs(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(|| if self.scale == Scale::Full { 1 } else { cores() }, usize::from)
    }

    /// The command that gives the same page.
    pub(super) fn command(&self, name: &str, figure: &Figure) -> String {
        let scale = self.scale.name();
        let constant = self.scale_constant.as_ref();
        let constant = constant.map_or(String::new(), |scaled| format!(" --scale-constant {scaled}"));
        format!("cargo xtask figure {name} --scale {scale} --seeds {}{constant}", self.seeds(figure))
    }

    /// The folder of the pages.
    pub(super) fn place(&self) -> PathBuf {
        let changed =
            self.scale_constant.as_ref().map_or(String::new(), |scaled| format!("-{}", scaled.name()));
        process::target().join("figures").join(format!("{}{changed}", self.scale.name()))
    }
}
