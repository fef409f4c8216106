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

    /// How keys come to the nodes that use them, if batches are localized so far ahead.
    pub(super) fn movement(self, nodes: usize, localize_ahead: u32) -> Movement {
        match self.policy().map(|policy| policy.movement(nodes)) {
            None => Movement::Intended,
            Some(Movement::Requested) if localize_ahead == 0 => Movement::Never,
            Some(movement) => movement,
        }
    }
}

/// The names of all techniques.
fn techniques() -> String {
    let names: Vec<_> = intendant::Technique::ALL.iter().map(|technique| technique.policy().name).collect();
    format!("single, {}", names.join(", "))
}

pub(crate) fn technique(text: &str) -> Result<Technique, String> {
    match text {
        "single" => Ok(Technique::Single),
        name => name
            .parse()
            .map(Technique::Server)
            .map_err(|_| format!("no such technique; use one of {}", techniques())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn techniques_are_known_by_name() {
        for built in intendant::Technique::ALL {
            assert_eq!(technique(built.policy().name), Ok(Technique::Server(built)));
        }
        let error = technique("clasic").expect_err("a typing error");
        assert!(error.contains("no such technique") && error.contains("adaptive"), "{error}");
    }
}
