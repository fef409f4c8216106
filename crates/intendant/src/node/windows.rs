//! Windows between the nodes of a host: each node learns where the others listen, and they exchange memory.
//!
//! Windows only spare messages. If a node cannot have them, it says why and does without.

use crate::config::NodeConfig;
use crate::error::Error;
use crate::meeting::OWN;
use intendant_control::Control;
use intendant_core::{Element, Layout, NodeId};
use intendant_engine::{WindowConfig, Windows};
use intendant_onesided::{ConnectError, Host, Name, Secret};
use intendant_segment::Segment;
use intendant_transport::{TOKEN_BYTES, Transport};
use std::sync::Arc;
use std::time::Duration;

/// How long mapping the windows of the host may take, once all nodes listen.
const DEADLINE: Duration = Duration::from_secs(20);

/// Opens the window of this node, and maps those of the other nodes of its host. Without a `secret` of the
/// cluster, the nodes draw one: such a cluster is open to all processes of the host anyway.
///
/// # Errors
/// If the cluster has ended.
pub(super) fn open<E: Element>(
    config: &NodeConfig<E>,
    layout: &Arc<Layout>,
    rank: NodeId,
    control: &Control,
    secret: Option<[u8; TOKEN_BYTES]>,
) -> Result<Option<Windows>, Error> {
    if layout.nodes() == 1 || !Windows::are_used(&config.policy()) {
        return Ok(None);
    }
    let wanted = config.windows && config.transport != Transport::Tcp && std::env::var_os("PROTO_NO_WINDOWS").is_none();
    let own = if wanted { listen::<E>(layout) } else { None };
    // The drawn secret, and the name of a node that has one.
    let mut told = vec![0; TOKEN_BYTES];
    let drawn = getrandom::fill(&mut told);
    let own = own.filter(|_| drawn.is_ok());
    if let Some((host, _)) = &own {
        told.extend_from_slice(host.name().to_string().as_bytes());
    }
    let told = control.gather(&format!("{OWN}windows"), told)?;
    let Some((host, segment)) = own else { return Ok(None) };
    let names: Vec<_> = told.iter().map(|told| name(told.get(TOKEN_BYTES..).unwrap_or_default())).collect();
    let drawn = told.first().and_then(|first| first.first_chunk().copied());
    let secret = Secret::new(secret.or(drawn).unwrap_or_default());
    match host.share(&segment, rank.index(), &names, secret, DEADLINE) {
        Ok(others) => {
            let mapped = others.iter().flatten().count();
            if mapped == 0 {
                return Ok(None);
            }
            match Windows::new::<E>(layout, WindowConfig::default(), rank, segment, others) {
                Ok(windows) => {
                    tracing::info!("windows of {mapped} other nodes of this host are mapped");
                    Ok(Some(windows))
                }
                Err(error) => Ok(without(&error)),
            }
        }
        Err(error) => Ok(without(&error)),
    }
}

/// The name in what a node has told.
fn name(text: &[u8]) -> Option<Name> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Makes the window of this node, and listens for the others.
fn listen<E: Element>(layout: &Arc<Layout>) -> Option<(Host, Segment)> {
    let segment = Segment::published(Windows::words::<E>(layout, WindowConfig::default())).map_or_else(|error| without(&error), Some)?;
    let host = Host::listen().map_or_else(|error: ConnectError| without(&error), Some)?;
    Some((host, segment))
}

fn without<T>(error: &dyn std::error::Error) -> Option<T> {
    tracing::warn!("reads of keys of other nodes of this host are messages, because there are no windows: {error}");
    None
}
