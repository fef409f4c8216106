//! The address of a server.

use std::io;
use std::net::SocketAddr;
use tokio::net::{TcpListener, lookup_host};

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; choose another address with --listen HOST:PORT")]
    Listen {
        /// The address.
        address: String,
        /// The cause.
        source: io::Error,
    },
    /// The address can be reached from other machines, and no token was given.
    #[error(
        "{address} can be reached from other machines, so the server needs a token: write 32 or more random \
         hexadecimal digits to a file (openssl rand -hex 32), and name it with --token-file FILE"
    )]
    Open {
        /// The address.
        address: String,
    },
}

/// Listens on `HOST:PORT`; with port 0, the operating system chooses one. An address that other machines can
/// reach needs a token.
///
/// # Errors
/// See [`BindError`].
pub async fn bind(listen: &str, has_token: bool) -> Result<(TcpListener, SocketAddr), BindError> {
    let failed = |source| BindError::Listen { address: listen.to_owned(), source };
    let addresses: Vec<SocketAddr> = lookup_host(listen).await.map_err(failed)?.collect();
    let is_open = addresses.iter().any(|address| !address.ip().is_loopback());
    if is_open && !has_token {
        return Err(BindError::Open { address: listen.to_owned() });
    }
    let listener = TcpListener::bind(addresses.as_slice()).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}
