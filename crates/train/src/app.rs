//! The `main` of an application: command line, launching, logs, signals, the result, the exit code.

use crate::args::{CommonArgs, Technique};
use crate::error::{TrainError, exit};
use crate::plan::Plan;
use crate::run::Outcome;
use crate::settings::{self, SettingsError};
use crate::{launching, logging, signals, table};
use clap::builder::Resettable;
use clap::{Args, Command, FromArgMatches};
use intendant::{Rendezvous, RendezvousError};
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// An application: its name and its flags, around one task or several.
///
/// ```no_run
/// use intendant_train::{App, Outcome, Plan, TrainError};
///
/// /// The application's own flags.
/// #[derive(clap::Args)]
/// struct Flags {
///     /// Learning rate
///     #[arg(long, default_value_t = 0.1)]
///     lr: f64,
/// }
///
/// fn train(flags: Flags, plan: &Plan) -> Result<Outcome, TrainError> {
///     // Read the data, build the task, then `intendant_train::run(&task, plan, None)`.
/// #   let _ = (flags, plan);
/// #   unimplemented!()
/// }
///
/// fn main() -> std::process::ExitCode {
///     let check = |flags: Flags, _plan: &mut Plan| match flags.lr {
///         lr if lr > 0.0 => Ok(flags),
///         lr => Err(TrainError::usage(format!("--lr is {lr}; it must be greater than 0"))),
///     };
///     App::new(clap::Command::new("regression").version("1.0")).default("epochs", 20).main(check, train)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct App {
    command: Command,
    defaults: Vec<(&'static str, String)>,
}

impl App {
    /// An application; `command` has its name, version and description, but no flags.
    #[must_use]
    pub fn new(command: Command) -> Self {
        Self { command, defaults: Vec::new() }
    }

    /// Gives a common flag the default that suits this application.
    #[must_use]
    pub fn default(mut self, name: &'static str, value: impl ToString) -> Self {
        self.defaults.push((name, value.to_string()));
        self
    }

    /// The command with the application's flags and the common ones.
    fn command<A: Args>(&self) -> Command {
        // Flags bring the description of their struct along; the application's is the one to show.
        let about = Resettable::from(self.command.get_about().cloned());
        let long_about = Resettable::from(self.command.get_long_about().cloned());
        let command = A::augment_args(self.command.clone().next_help_heading("Task"));
        let command = CommonArgs::augment_args(command.next_help_heading(None::<&'static str>));
        command.about(about).long_about(long_about).after_help(
            "Each flag can also be given as an environment variable (--valid-every as INTENDANT_VALID_EVERY) or in the \
             --config file. Flags win over the environment, the environment over the file.\n\
             Exit codes: 0 ok, 2 wrong usage, configuration or data, 3 training diverged, 4 another node was lost, \
             1 anything else.",
        )
    }

    /// Reads all layers of settings and checks the common flags.
    pub(crate) fn plan<A: Args>(
        &self,
        argv: &[OsString],
        environment: &dyn Fn(&str) -> Option<OsString>,
        rendezvous: impl FnOnce() -> Result<Option<Rendezvous>, RendezvousError>,
    ) -> Result<(A, Plan), SettingsError> {
        let settings = settings::read(self.command::<A>(), &self.defaults, argv, environment)?;
        let flags = A::from_arg_matches(&settings.matches)?;
        let common = CommonArgs::from_arg_matches(&settings.matches)?;
        let rendezvous = match rendezvous() {
            // Half a rendezvous is none of the business of a run that meets nobody.
            Err(_) if common.technique == Technique::Single => None,
            found => found.map_err(TrainError::usage)?,
        };
        let plan = Plan::new(common, settings.chosen("nodes"), settings.config, rendezvous)?;
        Ok((flags, plan))
    }

    /// What `argv` (without the program's name) asks for, as [`App::main`] would understand it but for the environment.
    ///
    /// # Errors
    /// [`TrainError::Usage`] or [`TrainError::Config`].
    pub fn parse<A: Args>(
        &self,
        argv: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Result<(A, Plan), TrainError> {
        let name = OsString::from(self.command.get_name());
        let argv: Vec<OsString> = std::iter::once(name).chain(argv.into_iter().map(Into::into)).collect();
        self.plan(&argv, &|_| None, || Ok(None)).map_err(|error| match error {
            SettingsError::CommandLine(error) => TrainError::usage(error.to_string()),
            SettingsError::Train(error) => error,
        })
    }

    /// Runs the application as the process's command line and environment say.
    ///
    /// `check` turns the application's flags into what `train` needs. It is cheap: it also runs in the process that only
    /// starts the nodes, so that a mistake is told once. `train` reads the data and calls [`crate::run()`].
    pub fn main<A: Args, X>(
        self,
        check: impl FnOnce(A, &mut Plan) -> Result<X, TrainError>,
        train: impl FnOnce(X, &Plan) -> Result<Outcome, TrainError>,
    ) -> ExitCode {
        let name = self.command.get_name().to_owned();
        let argv: Vec<OsString> = std::env::args_os().collect();
        let environment = |name: &str| std::env::var_os(name);
        let tell = |rank: Option<u16>, error: &TrainError| {
            let rank = rank.map_or(String::new(), |rank| format!("[rank {rank}] "));
            crate::logging::say(&format!("{name}: error: {rank}{error}"));
            ExitCode::from(error.exit_code())
        };
        let (flags, mut plan) = match self.plan::<A>(&argv, &environment, Rendezvous::from_env) {
            Ok(planned) => planned,
            Err(SettingsError::CommandLine(error)) => {
                let _ = error.print();
                return ExitCode::from(if error.use_stderr() { exit::USAGE } else { 0 });
            }
            Err(SettingsError::Train(error)) => return tell(None, &error),
        };
        let checked = match check(flags, &mut plan) {
            Ok(checked) => checked,
            Err(error) => return tell(None, &error),
        };
        if plan.must_launch() {
            return launching::launch(plan.nodes).unwrap_or_else(|error| tell(None, &error));
        }
        let rank = plan.rendezvous.is_some().then(|| plan.rank());
        logging::start(plan.rank(), plan.verbose);
        let trained = signals::listen().and_then(|interrupt| {
            plan.interrupt = interrupt;
            train(checked, &plan)
        });
        match trained {
            Ok(outcome) => {
                if outcome.rank == 0 {
                    // A closed standard output is no reason to fail: the report, if wanted, is written.
                    let _ = io::stdout().lock().write_all(table::render(&outcome.report, &plan).as_bytes());
                }
                ExitCode::SUCCESS
            }
            Err(error) => tell(rank, &error),
        }
    }
}
