//! Commands of a program that use what was trained: `intendant kge neighbors …`.

use crate::error::{TrainError, exit};
use crate::logging;
use clap::{Args, Command};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

// What commands that find the best rows of a model share. (Not a documentation comment: it would become the
// description of the command.)
#[derive(Args, Clone, Debug)]
#[allow(missing_docs)]
pub struct TopArgs {
    /// Folder that --export wrote
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// Number of answers
    #[arg(short = 'k', long, value_name = "K", default_value_t = 10)]
    pub top: usize,

    /// Print a JSON object per question instead of a table
    #[arg(long)]
    pub json: bool,

    /// Threads [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

impl TopArgs {
    /// How many threads search: at least one.
    #[must_use]
    pub fn threads(&self) -> usize {
        threads(self.threads)
    }
}

/// How many threads a command uses: as many as it is told to, or one per core; at least one.
#[must_use]
pub fn threads(told: Option<usize>) -> usize {
    told.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)).max(1)
}

/// Parses a command line and runs it. The outer error is one of the command line.
type Run = dyn Fn(Command, &[OsString]) -> Result<Result<(), TrainError>, clap::Error> + Send + Sync;

/// A command beside the training. Its first word is its name, the others are its own.
#[derive(Clone)]
pub struct Use {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    run: Arc<Run>,
}

impl fmt::Debug for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Use").field("name", &self.name).field("about", &self.about).finish_non_exhaustive()
    }
}

impl Use {
    /// A command with the flags of `A`; `about` describes it in a line.
    #[must_use]
    pub fn new<A: Args + 'static>(
        name: &'static str,
        about: &'static str,
        run: fn(A) -> Result<(), TrainError>,
    ) -> Self {
        let run = move |command: Command, words: &[OsString]| {
            let matches = A::augment_args(command).about(about).try_get_matches_from(words)?;
            Ok(run(A::from_arg_matches(&matches)?))
        };
        Self { name, about, run: Arc::new(run) }
    }

    /// Runs the command line `words`, whose first one stands for program and command.
    pub(crate) fn main(&self, program: &str, words: &[OsString]) -> ExitCode {
        logging::start(None, 0);
        let name = format!("{program} {}", self.name);
        let used = (self.run)(Command::new(self.name).bin_name(name.clone()), words);
        let tell = |error: TrainError| {
            logging::say(&format!("{name}: error: {error}"));
            ExitCode::from(error.exit_code())
        };
        match used {
            Ok(Ok(())) => ExitCode::SUCCESS,
            Ok(Err(error)) => tell(error),
            Err(error) => {
                let code = if error.use_stderr() { exit::USAGE } else { 0 };
                match logging::unless_closed(error.print()) {
                    Err(source) if code == 0 => tell(TrainError::standard_output(source)),
                    Ok(()) | Err(_) => ExitCode::from(code),
                }
            }
        }
    }
}
