//! The address at which a user wants an endpoint.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// A port, or a host and a port. A port alone is a port of 127.0.0.1.
///
/// ```
/// use intendant_metrics::Address;
///
/// let address: Address = "9100".parse()?;
/// assert_eq!(address.to_string(), "127.0.0.1:9100");
/// assert_eq!("[::1]:0".parse::<Address>()?.port(), 0);
/// assert!("localhost".parse::<Address>().is_err());
/// # Ok::<(), intendant_metrics::AddressError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Without brackets.
    host: String,
    port: u16,
}

/// The error for a text that is not an [`Address`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "write PORT or HOST:PORT, with a port from 0 (any free one) to 65535, as in 9100, localhost:9100 or [::1]:9100"
)]
pub struct AddressError;

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (host, port) = match text.rsplit_once(':') {
            None => ("127.0.0.1", text),
            Some((host, port)) => (host, port),
        };
        // Rust would parse `+9100` as a number.
        let port = Some(port).filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
        let port = port.and_then(|port| port.parse().ok()).ok_or(AddressError)?;
        let host = match host.strip_prefix('[').map(|host| host.strip_suffix(']')) {
            Some(Some(host)) if host.parse::<std::net::Ipv6Addr>().is_ok() => host,
            Some(_) => return Err(AddressError),
            // In an IPv6 address without brackets, it is not known where the port begins.
            None if host.contains([':', ']', '/', ' ', '@']) || host.is_empty() => return Err(AddressError),
            None => host,
        };
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl Address {
    /// The port; 0 means any free port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The address of the k-th process of a machine: with the port plus k, or with any free port if the port
    /// is 0. `None` if there is no such port.
    #[must_use]
    pub fn nth(&self, k: usize) -> Option<Self> {
        let port = match self.port {
            0 => 0,
            port => port.checked_add(u16::try_from(k).ok()?)?,
        };
        Some(Self { host: self.host.clone(), port })
    }

    /// Looks up the name of the host.
    ///
    /// # Errors
    /// If the host has no address.
    pub fn resolve(&self) -> io::Result<SocketAddr> {
        // Names of loopback addresses need no look-up, which may be slow or wrong.
        if self.host.eq_ignore_ascii_case("localhost") {
            return Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), self.port));
        }
        if let Ok(address) = self.host.parse::<IpAddr>() {
            return Ok(SocketAddr::new(address, self.port));
        }
        let mut addresses = (self.host.as_str(), self.port).to_socket_addrs()?;
        addresses.next().ok_or_else(|| io::Error::other("the host has no address"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_the_loopback_address() {
        let parsed = |text: &str| text.parse::<Address>().map(|address| address.to_string());
        assert_eq!(parsed("9100").as_deref(), Ok("127.0.0.1:9100"));
        assert_eq!(parsed("0").as_deref(), Ok("127.0.0.1:0"));
        assert_eq!(parsed("node01:80").as_deref(), Ok("node01:80"));
        assert_eq!(parsed("[::]:80").as_deref(), Ok("[::]:80"));
        for text in
            ["", ":", ":80", "x", "127.0.0.1", "-1", "+1", "65536", "::1:80", "[::1]", "[x]:1", "http://x:1"]
        {
            assert_eq!(parsed(text), Err(AddressError), "{text}");
        }
    }

    #[test]
    fn each_process_of_a_machine_has_a_port_of_its_own() {
        let address: Address = "65534".parse().expect("an address");
        assert_eq!(address.nth(1).map(|next| next.port()), Some(65_535));
        assert_eq!(address.nth(2), None);
        assert_eq!(address.nth(70_000), None);
        let any: Address = "0".parse().expect("an address");
        assert_eq!(any.nth(3).map(|next| next.port()), Some(0));
    }

    #[test]
    fn names_of_this_machine_are_loopback_addresses() {
        for (text, expected) in [("LocalHost:1", "127.0.0.1:1"), ("[::1]:2", "[::1]:2"), ("3", "127.0.0.1:3")]
        {
            let address: Address = text.parse().expect("an address");
            let resolved = address.resolve().expect("known");
            assert_eq!(resolved.to_string(), expected);
            assert!(resolved.ip().is_loopback());
        }
    }
}
