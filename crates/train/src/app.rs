//! The `main` of an application: command line, launching, logs, signals, results, exit code.

use crate::error::{TrainError, exit};
use crate::run::Outcome;
use crate::settings::flag::Attributes;
use crate::settings::layers::{self, Environment, SettingsError};
use crate::settings::{CommonArgs, Given, Plan, ServerArgs, Technique};
use crate::uses::Use;
use crate::{launching, logging, preparing, signals};
use clap::builder::Resettable;
use clap::{Args, Command, FromArgMatches};
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
    /// Whether it has the flags about the management of parameters.
    has_server: bool,
    /// Commands beside the training.
    uses: Vec<Use>,
}

impl App {
    /// An application; `command` has its name, version and description, but no flags.
    #[must_use]
    pub fn new(command: Command) -> Self {
        Self { command, defaults: Vec::new(), described: Vec::new(), has_server: true, uses: Vec::new() }
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

    /// Adds a command beside the training, which a command line begins with: `intendant-kge neighbors …`.
    #[must_use]
    pub fn with(mut self, command: Use) -> Self {
        self.uses.push(command);
        self
    }

    /// An application that runs a [`Program`](crate::Program): it takes only those common flags that mean the
    /// same without a parameter server, which are about data, epochs, nodes, TLS, simulation, checkpoints and
    /// outputs. It says by [`Plan::technique`] how its nodes share what they compute, and by
    /// [`Plan::workers`] how many threads each of them has.
    #[must_use]
    pub fn without_server(mut self) -> Self {
        self.has_server = false;
        self
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
        if self.has_server {
            command = ServerArgs::augment_args(command.next_help_heading(None::<&'static str>));
        }
        for (name, value_name, help) in &self.described {
            command = command.mut_arg(name, |arg| arg.value_name(*value_name).help(*help));
        }
        let attributes = Attributes::of(&command, own);
        command = attributes.describe(command);
        let uses: String =
            self.uses.iter().map(|Use { name, about, .. }| format!("  {name:11} {about}\n")).collect();
        let uses = match uses.is_empty() {
            true => uses,
            false => format!(
                "Commands, first on the command line, that use a trained model (each has --help):\n{uses}\n"
            ),
        };
        let command = command.about(about).long_about(long_about).after_help(format!(
            "{uses}Each flag can also be given as an environment variable (--valid-every as INTENDANT_VALID_EVERY) or in the \
             --config file. Flags win over the environment, the environment over the file.\n\
             Exit codes: 0 success, 2 wrong usage, configuration or data, 3 training diverged, 4 another node was lost, \
             5 no checkpoint can be used, 101 the program panicked (a bug), 128 + n ended by signal n, 1 any other failure.",
        ));
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
        let server = match self.has_server {
            true => ServerArgs::from_arg_matches(&settings.matches)?,
            false => ServerArgs::none(),
        };
        let technique = server.cluster.technique;
        let rendezvous = match rendezvous() {
            // A single process needs no rendezvous, so that half of one is no error.
            Err(_) if technique == Technique::Single => None,
            found => found.map_err(TrainError::usage)?,
        };
        let is_simulated = common.simulation.simulate;
        let asks = |flag: &str| settings.asks(flag);
        attributes.refuse_without_effect(asks, technique, is_simulated)?;
        let given = Given {
            program: self.command.get_name().to_owned(),
            version: self.command.get_version().unwrap_or_default().to_owned(),
            nodes_chosen: settings.chosen("nodes"),
            inputs: settings.inputs,
            config: settings.config,
        };
        Ok((flags, Plan::new((common, server), given, rendezvous)?))
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
        if let Some(used) = self.uses.iter().find(|used| argv.get(1).is_some_and(|word| word == used.name)) {
            return used.main(&name, &argv[1..]);
        }
        // Names that are not valid Unicode are none of our variables.
        let environment =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let program = name.clone();
        let tell = move |rank: Option<u16>, error: &TrainError| {
            let rank = rank.map_or(String::new(), |rank| format!("[rank {rank}] "));
            logging::say(&format!("{program}: error: {rank}{error}"));
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
        let last_words = {
            let tell = tell.clone();
            move |error: &TrainError| {
                let _code = tell(logging::rank().filter(|_| is_node), error);
            }
        };
        let trained = signals::listen(last_words).and_then(|interrupt| {
            plan.interrupt = interrupt;
            if plan.progress && plan.rank() == 0 {
                preparing::tell(plan.interrupt.clone());
            }
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
