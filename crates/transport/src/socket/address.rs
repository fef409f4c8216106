//! Where a node accepts connections, and which kinds of connections nodes use.

use intendant_core::{UnknownName, by_name};
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// The kinds of connections that a node uses. Nodes of one cluster may differ in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// The fastest kind that both nodes have: the same as [`Self::Shm`].
    #[default]
    Auto,
    /// TCP to all nodes.
    Tcp,
    /// Unix domain sockets to nodes of the same host, TCP to all others. A Unix socket avoids the TCP stack,
    /// which is most of the cost of a small message over loopback.
    Unix,
    /// Rings in shared memory to nodes of the same host that use rings as well and to which the memory could
    /// be sent; otherwise as [`Self::Unix`]. Rings avoid the kernel, and mostly avoid waking threads.
    Shm,
    /// RDMA to nodes that use it as well; otherwise as [`Self::Tcp`]. It needs the feature `verbs`.
    Verbs,
}

impl Transport {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Auto, Self::Tcp, Self::Unix, Self::Shm, Self::Verbs];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Tcp => "tcp",
            Self::Unix => "unix",
            Self::Shm => "shm",
            Self::Verbs => "verbs",
        }
    }

    /// Whether nodes of the same host are reached without TCP.
    pub(crate) const fn is_local(self) -> bool {
        match self {
            Self::Auto | Self::Unix | Self::Shm => true,
            Self::Tcp | Self::Verbs => false,
        }
    }

    /// Whether this node asks for rings.
    pub(crate) const fn has_rings(self) -> bool {
        match self {
            Self::Auto | Self::Shm => true,
            Self::Unix | Self::Tcp | Self::Verbs => false,
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Transport {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        by_name("a transport", name, Self::ALL)
    }
}

/// The name of a node's Unix socket: a random number, so that no other host has a socket of this name.
///
/// The socket is in Linux's abstract namespace, which belongs to the network namespace. So if a node can dial
/// the name, both nodes are on the same host and in the same network namespace, even in containers that share
/// no folder. There is no file that a killed process could leave behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnixName(u128);

impl UnixName {
    /// The name with this number.
    pub const fn new(number: u128) -> Self {
        Self(number)
    }

    /// The name in the abstract namespace, without the zero byte in front.
    #[cfg(target_os = "linux")]
    pub(crate) fn in_namespace(self) -> String {
        format!("intendant-{self}")
    }
}

impl fmt::Display for UnixName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The text is not a [`UnixName`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not the name of a node's Unix socket, which has 32 hexadecimal digits")]
pub struct InvalidUnixName(pub String);

impl FromStr for UnixName {
    type Err = InvalidUnixName;

    fn from_str(text: &str) -> Result<Self, InvalidUnixName> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| digits);
        number.map(Self).ok_or_else(|| InvalidUnixName(text.to_owned()))
    }
}

/// Where a node accepts connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// For nodes of all hosts.
    pub tcp: SocketAddr,
    /// For nodes of the same host; `None` if it does not listen on a Unix socket.
    pub unix: Option<UnixName>,
}

impl From<SocketAddr> for Address {
    fn from(tcp: SocketAddr) -> Self {
        Self { tcp, unix: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_refused() {
        for number in [0, 7, u128::MAX, 0xfeed << 64] {
            let name = UnixName::new(number);
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        let long = "0".repeat(33);
        for text in ["", "7", "../../../../../../../etc/passwd.", "+0000000000000000000000000000007", &long] {
            assert!(text.parse::<UnixName>().is_err(), "{text}");
        }
    }

    #[test]
    fn transports_are_named() {
        for transport in Transport::ALL {
            assert_eq!(transport.to_string().parse(), Ok(transport));
        }
        let error = "rings".parse::<Transport>().expect_err("no name").to_string();
        assert!(error.contains("'rings'") && error.contains("auto, tcp, unix, shm or verbs"), "{error}");
    }
}
