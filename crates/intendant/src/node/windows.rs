//! Windows between the nodes of a host: each node learns where the others listen, and they map each other's
//! memory.
//!
//! Windows only save messages. A node that cannot have them logs the reason and runs without them.

use crate::error::Error;
use intendant_core::{Element, Layout};
use intendant_engine::{Shared, WindowConfig, Windows};
use intendant_membership::Health;
use intendant_membership::Membership;
use intendant_membership::OWN;
use intendant_onesided::{Host, Name};
use intendant_segment::Segment;
use intendant_transport::TOKEN_BYTES;
use std::sync::Arc;
use std::time::Duration;

/// How long mapping the windows of the host may take, once all nodes listen.
const DEADLINE: Duration = Duration::from_secs(20);

const CONFIG: WindowConfig = WindowConfig::DEFAULT;

/// A secret that only processes of the cluster know, if the cluster has one. Otherwise node 0 draws one: such
/// a cluster is open to all processes of the host anyway.
pub(super) struct Secret(pub(super) Option<[u8; TOKEN_BYTES]>);

/// Opens the window of this node, and maps those of the other nodes of its host. All nodes must call this. A
/// node that does not want windows only takes part in the gather.
///
/// # Errors
/// If the cluster has ended.
pub(super) fn open<E: Element>(
    shared: &Shared<E>,
    wants: bool,
    membership: &Membership,
    health: &Health,
    secret: Secret,
) -> Result<Option<Windows>, Error> {
    let (layout, rank) = (shared.layout(), shared.node());
    if layout.nodes() == 1 || !Windows::are_used(shared.policy(), layout) {
        return Ok(None);
    }
    // The drawn secret, followed by the name at which this node listens, if it does.
    let mut told = vec![0; TOKEN_BYTES];
    let drawn = getrandom::fill(&mut told).is_ok();
    if !drawn {
        told.clear();
    }
    let own = if wants && drawn { listen::<E>(layout) } else { None };
    if let Some((host, _)) = &own {
        told.extend_from_slice(host.name().to_string().as_bytes());
    }
    let told = membership.gather(&format!("{OWN}windows"), "windows", told)?;
    let Some((host, segment)) = own else { return Ok(None) };
    let names: Vec<_> = told.iter().map(|told| name(told.get(TOKEN_BYTES..).unwrap_or_default())).collect();
    let drawn = told.first().and_then(|first| first.first_chunk().copied());
    let Some(secret) = secret.0.or(drawn).map(intendant_onesided::Secret::new) else {
        return Ok(without(&"node 0 could draw no secret for them"));
    };
    let goes_on = || health.check().is_ok();
    let others = match host.share(&segment, rank.index(), &names, secret, DEADLINE, &goes_on) {
        Ok(others) => others,
        Err(error) => return Ok(without(&error)),
    };
    let mapped = others.iter().flatten().count();
    if mapped == 0 {
        return Ok(None);
    }
    let windows = Windows::new::<E>(layout, CONFIG, rank, segment, others);
    windows
        .as_ref()
        .ok()
        .inspect(|_| tracing::info!("windows of {mapped} other nodes of this host are mapped"));
    Ok(windows.map_or_else(|error| without(&error), Some))
}

/// The name in a node's message.
fn name(text: &[u8]) -> Option<Name> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Makes the window of this node, and listens for the others.
fn listen<E: Element>(layout: &Arc<Layout>) -> Option<(Host, Segment)> {
    // Values may be too long for windows.
    let words = Some(Windows::words::<E>(layout, CONFIG)).filter(|words| *words > 0)?;
    let segment = Segment::published(words);
    let segment = segment.map_or_else(|error| without(&error), Some)?;
    let host = Host::listen().map_or_else(|error| without(&error), Some)?;
    Some((host, segment))
}

fn without<T>(error: &dyn std::fmt::Display) -> Option<T> {
    tracing::warn!("values of other nodes of this host are asked for, and not read in windows: {error}");
    None
}
