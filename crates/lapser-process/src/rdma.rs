//! Windows over RDMA; without the feature `verbs`, the reason why there are none.

use crate::error::Error;
use crate::way::AnyWindow;
use intendant_core::NodeId;
#[cfg(feature = "verbs")]
use intendant_onesided::verbs::{Address, Card, Endpoint, VerbsError};
#[cfg(feature = "verbs")]
use intendant_segment::Segment;

/// A node that has registered its memory, and is not connected yet.
#[cfg(feature = "verbs")]
pub(crate) type Prepared = Endpoint;

#[cfg(not(feature = "verbs"))]
pub(crate) enum Prepared {}

/// Registers memory of `words` words. Returns the node's end and its address, or the reason why this node
/// cannot use RDMA.
#[cfg(feature = "verbs")]
pub(crate) fn prepare(
    words: usize,
    (rank, nodes): (NodeId, usize),
    run: u64,
) -> Result<(Prepared, Vec<u8>), String> {
    let prepare = || {
        let card = Card::find(None, None).map_err(VerbsError::from)?;
        let at = card.address().map_or_else(|| "InfiniBand".to_owned(), |address| address.to_string());
        tracing::info!("memory of the nodes over RDMA, by {} ({at})", card.name());
        let segment = Segment::new(words).map_err(Error::from)?;
        Ok::<_, Error>(Endpoint::new(card, segment, rank.index(), nodes, run)?)
    };
    let endpoint = prepare().map_err(|error| error.to_string())?;
    let address = endpoint.address().to_bytes();
    Ok((endpoint, address))
}

#[cfg(not(feature = "verbs"))]
pub(crate) fn prepare(_: usize, _: (NodeId, usize), _: u64) -> Result<(Prepared, Vec<u8>), String> {
    Err("its program was built without the feature verbs; build it with --features verbs".to_owned())
}

/// Connects to the nodes with these addresses, by rank.
#[cfg(feature = "verbs")]
pub(crate) fn connect(prepared: Prepared, addresses: &[&[u8]]) -> Result<AnyWindow, Error> {
    let addresses = addresses.iter().map(|bytes| Address::from_bytes(bytes));
    let addresses = addresses.collect::<Result<Vec<_>, VerbsError>>()?;
    Ok(Box::new(prepared.connect(&addresses)?))
}

#[cfg(not(feature = "verbs"))]
pub(crate) fn connect(prepared: Prepared, _: &[&[u8]]) -> Result<AnyWindow, Error> {
    match prepared {}
}
