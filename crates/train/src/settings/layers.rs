//! Layers of settings: defaults < file < environment < flags.
//!
//! The layers know no particular flag. A value from a file or from the environment becomes the *default* of
//! its flag. So the command line wins over it, and the flag's own parser checks it as if it were typed.
//! `clap` then parses the command line as usual; the flags of applications need no code for the other layers.
//!
//! This module knows the meaning of no flag.

use super::flag::{self, Attributes};
use super::values::TestSource;
use crate::error::{PathDisplay, TrainError};
use crate::files::{CONFIG_HEADER, Input};
use clap::builder::{BoolishValueParser, ValueRange};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// The key of a configuration that names the program it is for. It is not a flag.
pub(crate) const PROGRAM: &str = "program";

/// What names of environment variables for settings begin with.
const PREFIX: &str = "INTENDANT_";

/// The effective configuration of a run: every setting with the value that it has after all layers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    values: toml::Table,
    /// Names of what the application set: mostly defaults that follow from other settings.
    derived: BTreeSet<String>,
    /// Of the program's flags.
    attributes: Attributes,
}

impl Config {
    /// Records the application's value of a setting, e.g. of one whose default depends on others.
    pub fn set(&mut self, name: &str, value: impl Into<toml::Value>) {
        self.set_value(name, value.into());
    }

    fn set_value(&mut self, name: &str, value: toml::Value) {
        self.values.insert(name.to_owned(), value);
        self.derived.insert(name.to_owned());
    }

    /// Drops settings that have no effect: those that are no flags of this program, and those about simulated
    /// clusters unless there is one.
    pub(super) fn drop_without_effect(&mut self, is_simulated: bool) {
        let attributes = &self.attributes;
        let stays = |name: &str| {
            let is_flag = attributes.is_flag(name) || name == PROGRAM;
            is_flag && (is_simulated || !attributes.has(name, flag::SIMULATED))
        };
        self.values.retain(|name, _| stays(name));
        self.derived.retain(|name| stays(name));
    }

    /// Whether each node may choose a setting for itself.
    pub(crate) fn is_own(&self, name: &str) -> bool {
        self.attributes.has(name, flag::OWN)
    }

    /// Whether a setting decides what is trained, and how.
    pub(crate) fn decides(&self, name: &str) -> bool {
        self.attributes.decides(name)
    }

    /// Whether it is the name of a flag.
    pub(crate) fn is_flag(&self, name: &str) -> bool {
        self.attributes.is_flag(name)
    }

    /// The value of a setting.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&toml::Value> {
        self.values.get(name)
    }

    /// All settings: causes before what the application derived from them.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&str, &toml::Value)> {
        let derived = |name: &String| self.derived.contains(name);
        let causes = self.values.iter().filter(move |(name, _)| !derived(name));
        let consequences = self.values.iter().filter(move |(name, _)| derived(name));
        causes.chain(consequences).map(|(name, value)| (name.as_str(), value))
    }

    /// The text of a file that `--config` accepts.
    #[must_use]
    pub fn to_toml(&self) -> String {
        format!("{CONFIG_HEADER}\n{}", self.values)
    }

    /// The same as a JSON object.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(&self.values).unwrap_or(serde_json::Value::Null)
    }
}

/// Why settings could not be read.
#[derive(Debug)]
pub(crate) enum SettingsError {
    /// The command line; also a request for help.
    CommandLine(Box<clap::Error>),
    /// A file or the environment.
    Train(TrainError),
}

impl From<clap::Error> for SettingsError {
    fn from(error: clap::Error) -> Self {
        Self::CommandLine(Box::new(error))
    }
}

impl From<TrainError> for SettingsError {
    fn from(error: TrainError) -> Self {
        Self::Train(error)
    }
}

/// Settings after all layers.
#[derive(Debug)]
pub(crate) struct Settings {
    /// What `clap` parsed; an application's arguments are made of it.
    pub(crate) matches: ArgMatches,
    /// The same values as a configuration.
    pub(crate) config: Config,
    /// Files and folders that the settings name for reading.
    pub(crate) inputs: Vec<Input>,
    /// Names of the settings that the user chose, in any layer.
    chosen: Vec<String>,
}

impl Settings {
    /// Whether the user chose the setting, in any layer.
    pub(crate) fn chosen(&self, name: &str) -> bool {
        self.chosen.iter().any(|n| n == name)
    }

    /// Whether the user asks for something by it: a switch that is off asks for nothing.
    pub(crate) fn asks(&self, name: &str) -> bool {
        self.chosen(name) && self.config.get(name).is_none_or(|value| value.as_bool() != Some(false))
    }
}

/// Reads all layers. `command` has all flags, with these attributes; `argv` starts with the program's name.
pub(crate) fn read(
    (command, attributes): (Command, &Attributes),
    defaults: &[(&'static str, String)],
    argv: &[OsString],
    environment: &Environment,
) -> Result<Settings, SettingsError> {
    let mut command = command.mut_args(switch_with_value).mut_args(negative_numbers);
    let shipped = defaults.iter().map(|(name, value)| ((*name).to_owned(), vec![value.clone()])).collect();
    command = with_defaults(command, &shipped);
    let from_environment = environment_layer((&command, attributes), environment)?;
    // The first pass over the command line finds the file, and all errors that do not depend on one.
    let relaxed = command.clone().mut_args(|arg| arg.required(false));
    let file = match relaxed.try_get_matches_from(argv)?.get_one::<PathBuf>("config") {
        Some(file) => Some(file.clone()),
        None => environment.get(&variable("config")).map(PathBuf::from),
    };
    let (mut chosen, mut inputs) = (BTreeMap::new(), Vec::new());
    if let Some(file) = file {
        chosen = file_layer((&command, attributes), &file)?;
        inputs.push(Input::new("--config", file));
    }
    chosen.extend(from_environment);
    let command = with_defaults(command, &chosen);
    let matches = command.clone().try_get_matches_from(argv)?;
    let config = effective((&command, attributes), &matches);
    inputs.extend(paths((&command, attributes), &matches));
    let mut chosen: Vec<String> = chosen.into_keys().collect();
    let typed = |arg: &&Arg| {
        matches.value_source(arg.get_id().as_str()) == Some(clap::parser::ValueSource::CommandLine)
    };
    chosen.extend(command.get_arguments().filter(typed).filter_map(|a| a.get_long().map(str::to_owned)));
    Ok(Settings { matches, config, inputs, chosen })
}

/// The process's environment.
pub(crate) type Environment = BTreeMap<String, OsString>;

/// The environment variable of a setting.
pub(crate) fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.to_uppercase().replace('-', "_"))
}

/// The setting of an environment variable.
fn setting(variable: &str) -> Option<String> {
    variable.strip_prefix(PREFIX).map(|name| name.to_lowercase().replace('_', "-"))
}

/// Lets flags with values take negative numbers: the flag's own check then says what is wrong with `--lr -1`.
fn negative_numbers(arg: Arg) -> Arg {
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let kind = arg.get_value_parser().type_id();
    if takes_value && [TypeId::of::<f32>(), TypeId::of::<f64>()].iter().any(|float| kind == *float) {
        // clap takes `-1e-3` for flags, not for a negative number.
        return arg.allow_hyphen_values(true);
    }
    arg.allow_negative_numbers(takes_value)
}

/// Lets `--flag` be given as `--flag=true` and revoked by `--flag=false`: a later layer must be able to
/// override an earlier one in both directions.
fn switch_with_value(arg: Arg) -> Arg {
    if !matches!(arg.get_action(), ArgAction::SetTrue) {
        return arg;
    }
    let default = match arg.get_default_values() {
        [value] => value.to_os_string(),
        _ => "false".into(),
    };
    arg.action(ArgAction::Set)
        .num_args(0..=1)
        .require_equals(true)
        .default_value(default)
        .default_missing_value("true")
        .value_parser(BoolishValueParser::new())
        .hide_possible_values(true)
        .hide_default_value(true)
        .value_name("BOOL")
}

type Layer = BTreeMap<String, Vec<String>>;

fn with_defaults(command: Command, layer: &Layer) -> Command {
    command.mut_args(|arg| match arg.get_long().and_then(|name| layer.get(name)) {
        Some(values) => arg.default_values(values.clone()).required(false),
        None => arg,
    })
}

/// The flags of a program, and their attributes.
type Flags<'a> = (&'a Command, &'a Attributes);

fn settings<'a>((command, attributes): Flags<'a>) -> impl Iterator<Item = (&'a str, &'a Arg)> {
    let named = command.get_arguments().filter_map(|arg| arg.get_long().map(|name| (name, arg)));
    named.filter(|(name, _)| !attributes.has(name, flag::COMMAND_LINE))
}

/// Whether it is a flag, and no setting. `clap` adds two to those that are declared.
fn is_no_setting((_, attributes): Flags<'_>, name: &str) -> bool {
    attributes.has(name, flag::COMMAND_LINE) || matches!(name, "help" | "version")
}

/// Reads the environment. Variables that no setting has are refused, as unknown keys of a file are, apart
/// from those of [`intendant::launch::VARIABLES`].
fn environment_layer(flags: Flags<'_>, environment: &Environment) -> Result<Layer, TrainError> {
    let mut layer = Layer::new();
    for (variable, value) in environment {
        let Some(name) = setting(variable) else { continue };
        if name == "config" {
            continue;
        }
        let refused =
            |reason: String| TrainError::usage(format!("environment variable {variable}: {reason}"));
        let Some((_, arg)) = settings(flags).find(|(known, _)| *known == name) else {
            if intendant::launch::VARIABLES.contains(&variable.as_str()) {
                continue;
            }
            return Err(refused(match nearest(flags, &name) {
                Some(known) => format!("there is no flag --{name}; did you mean {}?", self::variable(known)),
                None if is_no_setting(flags, &name) => {
                    format!("'{name}' works on the command line only")
                }
                None => format!("there is no flag --{name}; unset the variable, or see --help"),
            }));
        };
        let text = value.to_str().ok_or_else(|| refused("its value is not valid UTF-8".to_owned()))?;
        let values = vec![text.to_owned()];
        check(&name, arg, &values).map_err(refused)?;
        layer.insert(name, values);
    }
    Ok(layer)
}

fn file_layer(flags: Flags<'_>, path: &Path) -> Result<Layer, TrainError> {
    let error = |line, reason| TrainError::Config { file: PathDisplay::from(path), line, reason };
    let text = std::fs::read_to_string(path).map_err(|e| error(None, format!("cannot be read: {e}")))?;
    let line = |offset: usize| Some(1 + text.as_bytes().iter().take(offset).filter(|b| **b == b'\n').count());
    let table = DeTable::parse(&text)
        .map_err(|e| error(e.span().and_then(|s| line(s.start)), e.message().trim_end().to_owned()))?;
    let mut layer = Layer::new();
    for (key, value) in table.get_ref() {
        let (name, at) = (key.get_ref().as_ref(), line(key.span().start));
        if name == PROGRAM {
            let here = flags.0.get_name();
            match texts(value.get_ref()).as_deref() {
                Ok([program]) if program == here => continue,
                Ok(_) | Err(_) => {
                    let program = value.get_ref().as_str().unwrap_or("another program");
                    return Err(error(
                        at,
                        format!("this is a configuration of {program}; this program is {here}"),
                    ));
                }
            }
        }
        let Some((_, arg)) = settings(flags).find(|(known, _)| *known == name) else {
            return Err(error(at, unknown(flags, name)));
        };
        let values = texts(value.get_ref()).map_err(|reason| error(at, format!("{name}: {reason}")))?;
        check(name, arg, &values).map_err(|reason| error(at, reason))?;
        layer.insert(name.to_owned(), values);
    }
    Ok(layer)
}

fn unknown(flags: Flags<'_>, name: &str) -> String {
    match nearest(flags, name) {
        Some(known) => format!("unknown key '{name}'; did you mean '{known}'?"),
        None if is_no_setting(flags, name) => format!("'{name}' works on the command line only"),
        None => format!("unknown key '{name}'; keys are the names of flags, see --help"),
    }
}

/// The setting whose name is most like `name`, if one is like it.
fn nearest<'a>(flags: Flags<'a>, name: &str) -> Option<&'a str> {
    /// Below this likeness a suggestion would confuse more than it helps.
    const LIKENESS_MIN: f64 = 0.8;
    let likenesses = settings(flags).map(|(known, _)| (strsim::jaro(known, name), known));
    let likely = likenesses.filter(|(likeness, _)| *likeness >= LIKENESS_MIN);
    likely.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}

/// A value of the file as it would be typed.
fn texts(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let one = |value: &DeValue<'_>| match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().to_owned()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map(|n| n.to_string())
            .map_err(|_| format!("{number} does not fit into 64 bits")),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        DeValue::Boolean(truth) => Ok(truth.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
            Err(format!("expected a string, a number or true/false, found {}", value.type_str()))
        }
    };
    match value {
        DeValue::Array(items) => items.iter().map(|item| one(item.get_ref())).collect(),
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Table(_) => one(value).map(|text| vec![text]),
    }
}

/// Whether the flag accepts these values.
fn check(name: &str, arg: &Arg, values: &[String]) -> Result<(), String> {
    // Not the argument itself: it may refer to other arguments (conflicts, groups), which this command does
    // not have.
    let mut alone = Arg::new(name.to_owned())
        .long(name.to_owned())
        .action(arg.get_action().clone())
        .value_parser(arg.get_value_parser().clone());
    if let Some(count) = arg.get_num_args() {
        alone = alone.num_args(count);
    }
    if let Some(delimiter) = arg.get_value_delimiter() {
        alone = alone.value_delimiter(delimiter);
    }
    if !takes_several(arg) && values.len() != 1 {
        return Err(format!("'{name}' takes one value, found {}", values.len()));
    }
    let typed = values.iter().map(|value| format!("--{name}={value}"));
    let alone = Command::new("check").no_binary_name(true).disable_help_flag(true).arg(alone);
    match alone.try_get_matches_from(typed) {
        Ok(_) => Ok(()),
        Err(error) => {
            let text = error.to_string();
            let first = text.split("\n\n").next().unwrap_or(&text);
            Err(first.trim_start_matches("error: ").trim_end().replace('\n', " "))
        }
    }
}

fn takes_several(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
        || arg.get_num_args().is_some_and(|n: ValueRange| n.max_values() > 1)
}

fn effective(flags: Flags<'_>, matches: &ArgMatches) -> Config {
    let (command, attributes) = flags;
    let mut table = toml::Table::new();
    table.insert(PROGRAM.to_owned(), command.get_name().into());
    for (name, arg) in settings(flags) {
        if attributes.has(name, flag::OUTPUT) || attributes.has(name, flag::MACHINE) {
            continue;
        }
        let Ok(Some(raw)) = matches.try_get_raw(arg.get_id().as_str()) else { continue };
        let mut values = raw.map(|value| typed(arg, &value.to_string_lossy())).collect::<Vec<_>>();
        let value = match (takes_several(arg), values.pop()) {
            (false, Some(value)) => value,
            (_, last) => {
                values.extend(last);
                toml::Value::Array(values)
            }
        };
        table.insert(name.to_owned(), value);
    }
    Config { values: table, derived: BTreeSet::new(), attributes: attributes.clone() }
}

/// The files that settings name for reading.
fn paths(flags: Flags<'_>, matches: &ArgMatches) -> Vec<Input> {
    let mut inputs = Vec::new();
    for (name, arg) in settings(flags).filter(|(name, _)| !flags.1.has(name, flag::OUTPUT)) {
        let (id, kind) = (arg.get_id().as_str(), arg.get_value_parser().type_id());
        let mut add = |path: &PathBuf| inputs.push(Input::new(&format!("--{name}"), path));
        if kind == TypeId::of::<PathBuf>()
            && let Ok(Some(paths)) = matches.try_get_many::<PathBuf>(id)
        {
            paths.for_each(add);
        } else if kind == TypeId::of::<TestSource>()
            && let Ok(Some(TestSource::File(path))) = matches.try_get_one::<TestSource>(id)
        {
            add(path);
        }
    }
    inputs
}

/// The text of a value with the type that its flag gives it.
fn typed(arg: &Arg, text: &str) -> toml::Value {
    let kind = arg.get_value_parser().type_id();
    let is = |types: &[TypeId]| types.iter().any(|t| kind == *t);
    let integers = [
        TypeId::of::<u8>(),
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
        TypeId::of::<i32>(),
        TypeId::of::<i64>(),
        TypeId::of::<NonZeroU32>(),
        TypeId::of::<NonZeroUsize>(),
    ];
    // A value that does not fit (TOML has no unsigned 64-bit integers) stays a text, which the flag's parser
    // reads as well.
    let value = if is(&integers) {
        text.parse().ok().map(toml::Value::Integer)
    } else if is(&[TypeId::of::<f32>(), TypeId::of::<f64>()]) {
        text.parse().ok().map(toml::Value::Float)
    } else if is(&[TypeId::of::<bool>()]) {
        Some(toml::Value::Boolean(matches!(
            text.to_lowercase().as_str(),
            "true" | "yes" | "y" | "on" | "1" | "t"
        )))
    } else {
        None
    };
    value.unwrap_or_else(|| toml::Value::String(text.to_owned()))
}

#[cfg(test)]
#[path = "layers_tests.rs"]
mod tests;
