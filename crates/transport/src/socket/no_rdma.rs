//! Programs that are built without the feature `verbs` have no connections over RDMA: these types have no
//! values.

use crate::TransportError;
use bytes::BytesMut;
use intendant_core::{ChannelId, NodeId};
use std::io::{self, IoSlice};
use std::net::{self, IpAddr};
use std::task::{Context, Poll};

/// Bytes of an offer on the wire.
pub(crate) const OFFER_BYTES: usize = 36;

#[derive(Debug)]
pub(crate) enum Port {}

#[derive(Debug)]
pub(crate) enum Plane {}

#[derive(Debug)]
pub(crate) enum Half {}

#[derive(Debug)]
pub(crate) enum Connection {}

#[derive(Debug)]
pub(crate) enum Rdma {}

impl Port {
    pub(crate) fn find(_: IpAddr) -> Result<Self, TransportError> {
        let reason = "this program was built without the feature verbs; build it with --features verbs";
        Err(TransportError::Rdma(reason.to_owned()))
    }
}

impl Plane {
    pub(crate) fn new(port: Port, _: NodeId, _: usize, _: u16) -> Result<Self, TransportError> {
        match port {}
    }

    pub(crate) fn begin(&self, _: NodeId, _: ChannelId) -> io::Result<Half> {
        match *self {}
    }
}

impl Half {
    pub(crate) fn offer(&self) -> [u8; OFFER_BYTES] {
        match *self {}
    }

    pub(crate) fn connect(self, _: &[u8; OFFER_BYTES]) -> Result<Box<Connection>, String> {
        match self {}
    }
}

impl Rdma {
    #[expect(clippy::boxed_local, reason = "as with the feature")]
    pub(crate) fn new(_: net::TcpStream, connection: Box<Connection>) -> io::Result<Self> {
        match *connection {}
    }

    pub(crate) fn poll_read_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }

    pub(crate) fn poll_read(&mut self, _: &mut Context<'_>, _: &mut BytesMut) -> Poll<io::Result<usize>> {
        match *self {}
    }

    pub(crate) fn try_write(&mut self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn poll_write(&mut self, _: &mut Context<'_>, _: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match *self {}
    }

    pub(crate) fn unsent(&self) -> usize {
        match *self {}
    }

    pub(crate) fn poll_flush(&mut self, _: Option<&mut Context<'_>>) -> Poll<io::Result<()>> {
        match *self {}
    }

    pub(crate) fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }

    pub(crate) fn say_farewell(&mut self) {
        match *self {}
    }
}
