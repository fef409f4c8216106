//! Who manages the parameters (`--technique`).

use intendant::Policy;
use intendant_core::Movement;

/// Who manages the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Technique {
    /// Plain memory that the workers of one process share; no parameter server.
    Single,
    /// A parameter server.
    Server(intendant::Technique),
    /// No parameter server: a [`Program`](crate::Program) shares what it computes in a way of its own, which
    /// has this name.
    Own(&'static str),
}

impl Technique {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Server(technique) => technique.policy().name,
            Self::Own(name) => name,
        }
    }

    /// The policy of a parameter server.
    #[must_use]
    pub const fn policy(self) -> Option<Policy> {
        match self {
            Self::Single | Self::Own(_) => None,
            Self::Server(technique) => Some(technique.policy()),
        }
    }

    /// How a parameter is managed, as the rest of a sentence about the parameter.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Single => "in the shared memory of one process, without a server",
            Self::Server(technique) => technique.declaration().meaning,
            Self::Own(_) => "at the node that computes it, and copied to those that use it",
        }
    }

    /// All techniques of applications that have a parameter server.
    fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::Single).chain(intendant::Technique::ALL.into_iter().map(Self::Server))
    }

    /// How keys come to the nodes that use them, if batches are localized so far ahead.
    pub(super) fn movement(self, nodes: usize, localize_ahead: u32) -> Movement {
        match self.policy().map(|policy| policy.movement(nodes)) {
            None => Movement::Intended,
            Some(Movement::Requested) if localize_ahead == 0 => Movement::Never,
            Some(movement) => movement,
        }
    }
}

/// Help of `--technique`.
pub(super) fn help() -> String {
    let described = |technique: Technique| format!("{} ({})", technique.name(), technique.meaning());
    let all = Technique::all().map(described).collect::<Vec<_>>().join(", ");
    format!("Parameter management technique, by what happens to a parameter: {}", all.replace('`', ""))
}

/// The techniques with these policies, with a conjunction before the last one.
pub(super) fn named(has: impl Fn(&Policy) -> bool, conjunction: &str) -> String {
    let mut names = intendant::Technique::names(has);
    let last = names.pop().unwrap_or("no technique");
    if names.is_empty() { last.to_owned() } else { format!("{} {conjunction} {last}", names.join(", ")) }
}

/// The technique that manages parameters as `technique` does if none of them has a static replica.
pub(crate) fn without_replicas(technique: Technique) -> Option<&'static str> {
    let policy = Policy { static_replicas: None, ..technique.policy()? };
    let equal = |other: &Policy| Policy { name: policy.name, ..*other } == policy;
    intendant::Technique::names(equal).first().copied()
}

pub(super) fn parse(text: &str) -> Result<Technique, String> {
    Technique::all().find(|technique| technique.name() == text).ok_or_else(|| {
        let names = Technique::all().map(Technique::name).collect::<Vec<_>>().join(", ");
        format!("no such technique; use one of {names}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn techniques_are_known_by_name() {
        for built in intendant::Technique::ALL {
            assert_eq!(parse(built.policy().name), Ok(Technique::Server(built)));
        }
        assert_eq!(without_replicas(Technique::Server(intendant::Technique::Nups)), Some("lapse"));
        assert_eq!(
            named(|policy| policy.relocation.is_none() && policy.replicas.is_some(), "or")
                .matches(" or ")
                .count(),
            1
        );
        let error = parse("clasic").expect_err("a typing error");
        assert!(error.contains("no such technique") && error.contains("adaptive"), "{error}");
    }
}
