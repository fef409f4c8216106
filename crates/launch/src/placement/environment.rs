//! The variables that a launcher or a user has given to a process.

use crate::error::RendezvousError;
use crate::variable;

/// The machine of node 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// A name or address.
    Named(String),
    /// A name in Slurm's configuration, which need not be one that the network knows.
    SlurmNode(String),
}

impl Host {
    pub(super) fn here() -> Self {
        Self::Named("127.0.0.1".to_owned())
    }
}

/// The variables of a process, and the process's number.
pub(crate) struct Environment<'a> {
    pub(crate) lookup: &'a dyn Fn(&'static str) -> Option<String>,
    pub(crate) process: u32,
}

impl Environment<'_> {
    pub(crate) fn text(&self, name: &'static str) -> Option<String> {
        (self.lookup)(name).map(|value| value.trim().to_owned())
    }

    pub(super) fn has(&self, name: &'static str) -> bool {
        (self.lookup)(name).is_some()
    }

    pub(super) fn need(&self, name: &'static str, present: &'static str) -> Result<String, RendezvousError> {
        self.text(name).ok_or(RendezvousError::Incomplete { missing: name, present })
    }

    /// A number within bounds.
    pub(crate) fn number(&self, name: &'static str, min: u64, max: u64) -> Result<u64, RendezvousError> {
        let value = self.text(name).unwrap_or_default();
        value.parse().ok().filter(|number| (min..=max).contains(number)).ok_or_else(|| {
            let allowed = format!("a number from {min} to {max}");
            RendezvousError::Invalid { name, value, allowed }
        })
    }

    /// The port that the variables name, if any.
    pub(super) fn port(&self) -> Result<Option<u16>, RendezvousError> {
        let name = [variable::OWN_PORT, variable::PORT].into_iter().find(|name| self.has(name));
        name.map(|name| Ok(self.number(name, 1, u16::MAX.into())? as u16)).transpose()
    }

    /// The machine of node 0 that the variables name, if any.
    pub(super) fn host(&self) -> Result<Option<Host>, RendezvousError> {
        let Some(value) = self.text(variable::ADDRESS) else { return Ok(None) };
        // An IPv6 address may have brackets, as in front of a port.
        let bare = value.strip_prefix('[').and_then(|value| value.strip_suffix(']')).unwrap_or(&value);
        if bare.is_empty() {
            let allowed = "a host name or address".to_owned();
            return Err(RendezvousError::Invalid { name: variable::ADDRESS, value, allowed });
        }
        Ok(Some(Host::Named(bare.to_owned())))
    }
}
