//! The coordinator's listening socket: inherited from the launcher, given by the caller, or bound here.

use crate::failure::JoinError;
use intendant_core::lock;
use intendant_launch::{Endpoint, Listener, Rendezvous};
use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::net::sockopt::socket_acceptconn;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

/// The socket for the coordinator of `rendezvous`.
///
/// # Errors
/// If there is none, or if it would serve other machines without a token.
pub(super) fn open(rendezvous: &Rendezvous) -> Result<TcpListener, JoinError> {
    let coordinator = rendezvous.coordinator();
    let listener = match rendezvous.given_listener() {
        Some(Listener::Inherited(fd)) => {
            inherit(*fd).map_err(|detail| JoinError::Inherited { fd: *fd, detail })?
        }
        Some(Listener::Given(slot)) => match lock(slot).take() {
            Some(listener) => listener,
            None => bind(coordinator)?,
        },
        None => bind(coordinator)?,
    };
    let address = listener.local_addr().map_err(JoinError::Start)?;
    if !address.ip().is_loopback() && rendezvous.cluster_token().is_none() {
        return Err(JoinError::Open { address });
    }
    if let Some(warning) = unencrypted(address, rendezvous.cluster_tls().is_some()) {
        tracing::warn!("{warning}");
    }
    listener.set_nonblocking(true).map_err(JoinError::Start)?;
    Ok(listener)
}

/// A warning for the user, if the cluster's connections leave the machine without encryption.
fn unencrypted(address: SocketAddr, tls: bool) -> Option<String> {
    (!address.ip().is_loopback() && !tls).then(|| {
        format!(
            "node 0 serves on {address}, and the links between machines are not encrypted: the network \
             sees the values and the token; --tls-cert, --tls-key and --tls-ca on all \
             nodes encrypt them (`intendant certs DIR` makes certificates for a try)"
        )
    })
}

/// The address at which node 0 reaches its own coordinator.
pub(super) fn own_address(listener: &TcpListener) -> io::Result<SocketAddr> {
    let mut address = listener.local_addr()?;
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    Ok(address)
}

fn bind(at: &Endpoint) -> Result<TcpListener, JoinError> {
    let place = || at.to_string();
    let addresses = (at.host.as_str(), at.port)
        .to_socket_addrs()
        .map_err(|source| JoinError::Listen { address: place(), source })?;
    let mut error = None;
    for address in addresses {
        match TcpListener::bind(address) {
            Ok(listener) => return Ok(listener),
            Err(source) if source.kind() == io::ErrorKind::AddrInUse => {
                return Err(JoinError::PortInUse { address });
            }
            Err(source) => error = Some(source),
        }
    }
    let source = error.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    Err(JoinError::Listen { address: place(), source })
}

/// Takes the listening socket that the launcher left at `fd`. An inherited descriptor has its close-on-exec
/// flag clear; taking it sets the flag, so that the descriptor is not passed on, and cannot be taken twice.
fn inherit(fd: i32) -> Result<TcpListener, String> {
    // SAFETY: the borrow is used for two fcntl calls only, which report a descriptor that is not open as an
    // error.
    #[expect(unsafe_code, reason = "a descriptor that arrives as a number")]
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let flags = fcntl_getfd(borrowed).map_err(|errno| match errno {
        Errno::BADF => {
            "no such descriptor is open (a wrapper around the program may have closed it)".to_owned()
        }
        other => other.to_string(),
    })?;
    if flags.contains(FdFlags::CLOEXEC) {
        return Err("the descriptor is this process's own, not inherited".to_owned());
    }
    fcntl_setfd(borrowed, flags | FdFlags::CLOEXEC).map_err(|errno| errno.to_string())?;
    match socket_acceptconn(borrowed) {
        Ok(true) => {}
        Ok(false) | Err(Errno::NOTSOCK) => return Err("the descriptor is not a listening socket".to_owned()),
        Err(errno) => return Err(errno.to_string()),
    }
    // SAFETY: the descriptor is open, and came into this process through exec without an owner: every
    // descriptor that the standard library opens has close-on-exec set, this one had not. The flag keeps a
    // second call from getting here.
    #[expect(unsafe_code, reason = "a descriptor that arrives as a number")]
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    Ok(TcpListener::from(owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_that_leave_the_machine_without_tls_are_worth_a_warning() {
        let said = |address: &str, tls| unencrypted(address.parse().expect("an address"), tls);
        let warning = said("10.0.0.7:29500", false).expect("anyone on the way can read it");
        assert!(warning.contains("not encrypted") && warning.contains("--tls-cert"), "{warning}");
        assert_eq!(said("10.0.0.7:29500", true), None);
        assert_eq!(said("127.0.0.1:29500", false), None);
        assert_eq!(said("[::1]:29500", false), None);
        assert!(said("0.0.0.0:29500", false).is_some());
    }
}
