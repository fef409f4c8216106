//! What is true of a flag beside its value. Each flag says it where it is declared.
//!
//! An attribute is a group of `clap`'s arguments, of which any number may be given together. `Attributes`
//! reads from a command which flags have which of them, so that no other place lists flags by name.

use super::technique::{self, Technique};
use crate::error::TrainError;
use clap::{ArgGroup, Command};
use intendant::{Policy, Replicas, StaticReplicas};
use std::collections::{BTreeMap, BTreeSet};

/// Most people need it: `-h` shows it. The other common flags are in `--help` only.
pub(super) const BASIC: &str = "attribute: basic";

/// It says where output goes or how it looks. The effective configuration leaves it out, so that starting a
/// run from it overwrites nothing.
pub const OUTPUT: &str = "attribute: output";

/// It is one of a machine, not of a run. The effective configuration leaves it out as well.
pub(super) const MACHINE: &str = "attribute: machine";

/// It works on the command line only: it names the layers themselves, or is about this process.
pub(super) const COMMAND_LINE: &str = "attribute: command line";

/// Each node may choose it for itself, or it is compared in another way.
pub const OWN: &str = "attribute: own";

/// It decides what is trained, and how: a run that is resumed must have the same. Those of applications do so
/// unless they say [`CLUSTER`].
pub(super) const DECIDES: &str = "attribute: decides";

/// It says how nodes and threads work together: a run that is resumed may have another value. Common flags
/// are so unless they say otherwise.
pub const CLUSTER: &str = "attribute: cluster";

/// It is about simulated clusters.
pub(super) const SIMULATED: &str = "attribute: simulated";

/// It shortens messages.
pub(super) const MESSAGES: &str = "attribute: messages";

/// It is about nodes.
pub(super) const NODES: &str = "attribute: nodes";

/// It is for techniques that act on intents.
pub(super) const INTENTS: &str = "attribute: intents";

/// It is for techniques whose reads have a bound of staleness.
pub(super) const CLOCKS: &str = "attribute: clocks";

/// It is for techniques that synchronise replicas in the background.
pub(super) const BACKGROUND: &str = "attribute: background";

/// It is for techniques with static replicas.
pub(super) const STATIC: &str = "attribute: static replicas";

/// It is for techniques whose static replicas are chosen by flags.
pub(super) const ASSIGNED: &str = "attribute: assigned replicas";

/// It is for the technique with a static replica of every parameter.
pub(super) const ALL: &str = "attribute: replicas of all";

const ATTRIBUTES: [&str; 16] = [
    BASIC,
    OUTPUT,
    MACHINE,
    COMMAND_LINE,
    OWN,
    DECIDES,
    CLUSTER,
    SIMULATED,
    MESSAGES,
    NODES,
    INTENTS,
    CLOCKS,
    BACKGROUND,
    STATIC,
    ASSIGNED,
    ALL,
];

/// What a flag needs to have an effect.
struct Need {
    attribute: &'static str,
    /// Whether a technique has it.
    is_met: fn(&Policy) -> bool,
    /// What these techniques have in common, if they are too many to be listed.
    property: Option<&'static str>,
}

impl Need {
    /// For which techniques the flag is.
    fn techniques(&self) -> String {
        self.property.map_or_else(|| technique::named(self.is_met, "and"), str::to_owned)
    }
}

fn has_static(policy: &Policy) -> bool {
    policy.static_replicas.is_some()
}

fn acts_on_intents(policy: &Policy) -> bool {
    policy.intents.is_some()
}

/// What flags need of the technique.
const NEEDS: [Need; 6] = [
    Need { attribute: INTENTS, is_met: acts_on_intents, property: Some("techniques that act on intents") },
    Need {
        attribute: CLOCKS,
        is_met: |policy| policy.replicas.is_some_and(Replicas::is_clocked),
        property: None,
    },
    Need {
        attribute: BACKGROUND,
        is_met: |policy| has_static(policy) || acts_on_intents(policy),
        property: Some("techniques that synchronise replicas in the background"),
    },
    Need { attribute: STATIC, is_met: has_static, property: None },
    Need {
        attribute: ASSIGNED,
        is_met: |policy| policy.static_replicas == Some(StaticReplicas::Assigned),
        property: None,
    },
    Need {
        attribute: ALL,
        is_met: |policy| policy.static_replicas == Some(StaticReplicas::All),
        property: None,
    },
];

/// The flags of a program, by their attributes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Attributes {
    flags: BTreeMap<&'static str, BTreeSet<String>>,
    /// Flags of the application itself.
    applications: BTreeSet<String>,
    all: BTreeSet<String>,
}

impl Attributes {
    /// The command, with groups for the attributes that its flags name.
    pub(crate) fn declare(command: Command) -> Command {
        command.groups(ATTRIBUTES.map(|attribute| ArgGroup::new(attribute).multiple(true)))
    }

    /// Those of a command. `applications` has the flags that are the application's own.
    pub(crate) fn of(command: &Command, applications: BTreeSet<String>) -> Self {
        let mut built = command.clone();
        built.build();
        let long = |id: &clap::Id| {
            let arg = built.get_arguments().find(|arg| arg.get_id() == id)?;
            arg.get_long().map(str::to_owned)
        };
        let of = |attribute: &'static str| {
            let group = built.get_groups().find(|group| group.get_id() == attribute);
            (attribute, group.into_iter().flat_map(ArgGroup::get_args).filter_map(long).collect())
        };
        let all = built.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect();
        Self { flags: ATTRIBUTES.map(of).into(), applications, all }
    }

    /// The command, with help of each flag that says for which techniques the flag is; short help has the
    /// flags that most people need, and those of the application.
    pub(crate) fn describe(&self, command: Command) -> Command {
        command.mut_args(|arg| {
            let long = arg.get_long().unwrap_or_default().to_owned();
            let long = long.as_str();
            let is_short = self.has(long, BASIC) || self.applications.contains(long);
            let arg = arg.hide_short_help(!is_short);
            let Some(need) = NEEDS.iter().find(|need| self.has(long, need.attribute)) else { return arg };
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            arg.help(format!("{help} [for {}]", need.techniques()))
        })
    }

    /// Whether a flag has an attribute.
    pub(crate) fn has(&self, flag: &str, attribute: &'static str) -> bool {
        self.flags.get(attribute).is_some_and(|flags| flags.contains(flag))
    }

    /// The flags with an attribute.
    fn flags(&self, attribute: &'static str) -> impl Iterator<Item = &str> {
        self.flags.get(attribute).into_iter().flatten().map(String::as_str)
    }

    /// The flags that not all techniques have.
    #[cfg(test)]
    pub(super) fn of_some_techniques(&self) -> impl Iterator<Item = &str> {
        NEEDS.iter().flat_map(|need| self.flags(need.attribute))
    }

    /// Whether it is a flag.
    pub(super) fn is_flag(&self, name: &str) -> bool {
        self.all.contains(name)
    }

    /// Whether a setting decides what is trained. One that this program does not have may have done so.
    pub(super) fn decides(&self, name: &str) -> bool {
        let is_own = self.applications.contains(name) && !self.has(name, CLUSTER);
        !self.is_flag(name) || is_own || self.has(name, DECIDES)
    }

    /// Refuses flags that would have no effect; `asks` says whether the user asks for something by a flag.
    ///
    /// # Errors
    /// [`TrainError::Usage`] about the first of them.
    pub(crate) fn refuse_without_effect(
        &self,
        asks: impl Fn(&str) -> bool,
        technique: Technique,
        is_simulated: bool,
    ) -> Result<(), TrainError> {
        let refused = |attribute, is_met: bool, why: &dyn Fn(&str) -> String| match self
            .flags(attribute)
            .find(|flag| !is_met && asks(flag))
        {
            Some(flag) => Err(TrainError::usage(format!("--{flag} {}", why(flag)))),
            None => Ok(()),
        };
        refused(SIMULATED, is_simulated, &|_| "is about simulated clusters; add --simulate".to_owned())?;
        let is_server = technique != Technique::Single;
        refused(MESSAGES, is_server, &|_| {
            "shortens messages, and technique single has none: leave it out".to_owned()
        })?;
        refused(NODES, is_server, &|_| {
            "is about nodes, and technique single has none: leave it out".to_owned()
        })?;
        NEEDS.iter().try_for_each(|need| {
            let is_met = technique.policy().is_some_and(|policy| (need.is_met)(&policy));
            refused(need.attribute, is_met, &|_| {
                format!(
                    "is for {}; it has no effect with technique {}: leave it out",
                    need.techniques(),
                    technique.name()
                )
            })
        })
    }
}
