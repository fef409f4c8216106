//! The `main` of an application: command line, launching, logs, signals, results, exit code.

use crate::error::{TrainError, exit};
use crate::run::Outcome;
use crate::settings::flag::{self, Attributes};
use crate::settings::layers::{self, Environment, Settings, SettingsError};
use crate::settings::{self, CommonArgs, Exchange, Given, Plan, Technique};
use crate::{launching, logging, signals};
use clap::builder::Resettable;
use clap::{Arg, Args, Command, FromArgMatches};
use intendant::{Rendezvous, RendezvousError};
use intendant_core::{Element, ElementType};
use std::ffi::OsString;
use std::process::ExitCode;

/// What an application adds to the common flags: flags of its own, their meaning, and a task.
pub trait Application {
    /// The application's own flags.
    type Flags: Args;
    /// The same, checked and complete.
    type Resolved;

    /// Checks the flags. Cheap: the process that only starts the nodes calls it too, so that a mistake is
    /// reported once.
    ///
    /// # Errors
    /// [`TrainError::Usage`].
    fn resolve(flags: Self::Flags, plan: &mut Plan) -> Result<Self::Resolved, TrainError>;

    /// Reads the data, builds the task and calls [`crate::run()`].
    ///
    /// # Errors
    /// See [`TrainError`].
    fn train<E: Element>(resolved: Self::Resolved, plan: &Plan) -> Result<Outcome, TrainError>;
}

/// The command line of an application. The crate's first page has an example.
#[derive(Clone, Debug)]
pub struct App {
    command: Command,
    defaults: Vec<(&'static str, String)>,
    /// Common flags, with the value name and the help that this application gives them.
    described: Vec<(&'static str, &'static str, &'static str)>,
    /// Whether it is a [`Program`](crate::Program).
    exchanges: bool,
    /// Common flags that it refuses, with the reason.
    refused: Vec<(&'static str, &'static str)>,
}

impl App {
    /// An application; `command` has its name, version and description, but no flags.
    #[must_use]
    pub fn new(command: Command) -> Self {
        let (defaults, described, refused) = (Vec::new(), Vec::new(), Vec::new());
        Self { command, defaults, described, exchanges: false, refused }
    }

    /// Gives a common flag a default that suits this application.
    #[must_use]
    pub fn default(mut self, name: &'static str, value: impl ToString) -> Self {
        self.defaults.push((name, value.to_string()));
        self
    }

    /// Describes a common flag as this application takes it.
    #[must_use]
    pub fn describe(mut self, name: &'static str, value_name: &'static str, help: &'static str) -> Self {
        self.described.push((name, value_name, help));
        self
    }

    /// An application without a parameter server, which runs a [`Program`](crate::Program). Its nodes
    /// exchange what they compute; the techniques are those of [`Exchange`], and the default is the first of
    /// them. Flags about parameter management are hidden from its help, and refused.
    #[must_use]
    pub fn exchanging(mut self) -> Self {
        self.exchanges = true;
        self.default("technique", Exchange::LapserPush.name())
    }

    /// Says why an application without a parameter server refuses a common flag.
    #[must_use]
    pub fn refusing(mut self, name: &'static str, reason: &'static str) -> Self {
        self.refused.push((name, reason));
        self
    }

    /// Refuses settings that would have no effect.
    fn check_without_server(&self, settings: &Settings, attributes: &Attributes) -> Result<(), TrainError> {
        let name = self.command.get_name();
        if let Some(flag) = attributes.flags(flag::SERVER).find(|flag| settings.asks(flag)) {
            if let Some((_, reason)) = self.refused.iter().find(|(refused, _)| *refused == flag) {
                return Err(TrainError::usage(format!("--{flag}: {reason}; leave it out")));
            }
            return Err(TrainError::usage(format!("--{flag} has no effect with {name}: leave it out")));
        }
        Ok(())
    }

    /// The command with the application's flags and the common ones.
    fn command<A: Args>(&self) -> (Command, Attributes) {
        // Flags bring the description of their struct along; the application's description must stay.
        let about = Resettable::from(self.command.get_about().cloned());
        let long_about = Resettable::from(self.command.get_long_about().cloned());
        let command = A::augment_args(self.command.clone().next_help_heading("Task"));
        let own = command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect();
        let command = Attributes::declare(command);
        let mut command = CommonArgs::augment_args(command.next_help_heading(None::<&'static str>));
        for (name, value_name, help) in &self.described {
            command = command.mut_arg(name, |arg| arg.value_name(*value_name).help(*help));
        }
        let attributes = Attributes::of(&command, own);
        command = attributes.describe(command);
        if self.exchanges {
            command = command.mut_arg("technique", |arg| arg.value_parser(settings::exchange));
            let is_hidden = |arg: &Arg| arg.get_long().is_some_and(|name| attributes.has(name, flag::SERVER));
            command = command.mut_args(|arg| if is_hidden(&arg) { arg.hide(true) } else { arg });
        }
        let command = command.about(about).long_about(long_about).after_help(
            "Each flag can also be given as an environment variable (--valid-every as INTENDANT_VALID_EVERY) or in the \
             --config file. Flags win over the environment, the environment over the file.\n\
             Exit codes: 0 success, 2 wrong usage, configuration or data, 3 training diverged, 4 another node was lost, \
             5 no checkpoint can be used, 101 the program panicked (a bug), 128 + n ended by signal n, 1 any other failure.",
        );
        (command, attributes)
    }

    /// Reads all layers of settings and checks the common flags.
    pub(crate) fn plan<A: Args>(
        &self,
        argv: &[OsString],
        environment: &Environment,
        rendezvous: impl FnOnce() -> Result<Option<Rendezvous>, RendezvousError>,
    ) -> Result<(A, Plan), SettingsError> {
        let (command, attributes) = self.command::<A>();
        let settings = layers::read((command, &attributes), &self.defaults, argv, environment)?;
        let flags = A::from_arg_matches(&settings.matches)?;
        let common = CommonArgs::from_arg_matches(&settings.matches)?;
        let rendezvous = match rendezvous() {
            // A single process needs no rendezvous, so that half of one is no error.
            Err(_) if common.cluster.technique == Technique::Single => None,
            found => found.map_err(TrainError::usage)?,
        };
        if self.exchanges {
            self.check_without_server(&settings, &attributes)?;
        }
        let is_simulated = common.simulation.simulate;
        let asks = |flag: &str| settings.asks(flag);
        attributes.refuse_without_effect(asks, common.cluster.technique, is_simulated)?;
        let given = Given {
            program: self.command.get_name().to_owned(),
            version: self.command.get_version().unwrap_or_default().to_owned(),
            nodes_chosen: settings.chosen("nodes"),
            inputs: settings.inputs,
            config: settings.config,
        };
        let mut plan = Plan::new(common, given, rendezvous)?;
        if self.exchanges {
            plan.config.drop_all(flag::SERVER);
        }
        Ok((flags, plan))
    }

    /// The plan for `argv` (without the program's name), as [`App::main`] would make it in an empty
    /// environment.
    ///
    /// # Errors
    /// [`TrainError::Usage`] or [`TrainError::Config`].
    pub fn parse<A: Args>(
        &self,
        argv: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Result<(A, Plan), TrainError> {
        let name = OsString::from(self.command.get_name());
        let argv: Vec<OsString> = std::iter::once(name).chain(argv.into_iter().map(Into::into)).collect();
        self.plan(&argv, &Environment::new(), || Ok(None)).map_err(|error| match error {
            SettingsError::CommandLine(error) => TrainError::usage(error.to_string()),
            SettingsError::Train(error) => error,
        })
    }

    /// Runs the application as the process's command line and environment say.
    pub fn main<A: Application>(self) -> ExitCode {
        let name = self.command.get_name().to_owned();
        let argv: Vec<OsString> = std::env::args_os().collect();
        // Names that are not valid Unicode are none of our variables.
        let environment =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let tell = |rank: Option<u16>, error: &TrainError| {
            let rank = rank.map_or(String::new(), |rank| format!("[rank {rank}] "));
            logging::say(&format!("{name}: error: {rank}{error}"));
            ExitCode::from(error.exit_code())
        };
        let (flags, mut plan) =
            match self.plan::<A::Flags>(&argv, &environment.collect(), Rendezvous::from_env) {
                Ok(planned) => planned,
                Err(SettingsError::CommandLine(error)) => {
                    let printed = error.print();
                    let code = if error.use_stderr() { exit::USAGE } else { 0 };
                    return match logging::unless_closed(printed) {
                        Err(source) if code == 0 => tell(None, &TrainError::standard_output(source)),
                        Ok(()) | Err(_) => ExitCode::from(code),
                    };
                }
                Err(SettingsError::Train(error)) => return tell(None, &error),
            };
        let resolved = match A::resolve(flags, &mut plan) {
            Ok(resolved) => resolved,
            Err(error) => return tell(None, &error),
        };
        if plan.must_launch() {
            return launching::launch(&plan).unwrap_or_else(|error| tell(None, &error));
        }
        plan.prints = true;
        let is_node = plan.rendezvous.is_some() || plan.join.is_some();
        logging::start(plan.join.is_none().then(|| plan.rank()), plan.verbose);
        let trained = signals::listen().and_then(|interrupt| {
            plan.interrupt = interrupt;
            match plan.float {
                ElementType::F32 => A::train::<f32>(resolved, &plan),
                ElementType::F64 => A::train::<f64>(resolved, &plan),
            }
        });
        match trained {
            Ok(_) => ExitCode::SUCCESS,
            Err(error @ TrainError::Left) => {
                logging::say(&format!("{name}: {error}"));
                ExitCode::SUCCESS
            }
            Err(error) => tell(logging::rank().filter(|_| is_node), &error),
        }
    }
}
