//! TEMPORARY stand-in for the facade crate.
#![allow(missing_docs, dead_code, unreachable_pub)]
use intendant_core::*; use intendant_sampling::*; use std::ops::Range; use std::marker::PhantomData;
pub struct Node<E>(PhantomData<E>);
pub struct NodeConfig<E> { pub layout: Layout, pub init: Initialiser<E>, pub sampler: Sampler, pub technique: Technique, pub workers: usize, pub storage: Storage, pub order: Option<Order>, pub outstanding_bytes: usize }
pub enum Technique {Classic} pub enum Storage {Dense,Sparse} pub enum Order {Fifo,Chain}
#[derive(Debug, thiserror::Error)] pub enum Error { #[error("{by} {reason}")] Aborted { by: NodeId, reason: String }, #[error("no facade yet")] None }
impl Error { pub fn exit_code(&self) -> u8 { 1 } }
pub struct Stats { pub messages: u64, pub bytes: u64 }
#[derive(Clone,Debug)] pub struct Rendezvous; 
#[derive(Debug, thiserror::Error)] #[error("x")] pub struct RendezvousError;
impl Rendezvous { pub fn from_env() -> Result<Option<Self>, RendezvousError> { Ok(None) } pub fn nodes(&self) -> usize { 1 } pub fn rank(&self) -> NodeId { NodeId(0) } }
impl<E: Element> NodeConfig<E> { pub fn new(layout: Layout, init: Initialiser<E>) -> Self { Self { layout, init, sampler: Sampler::default(), technique: Technique::Classic, workers: 1, storage: Storage::Dense, order: None, outstanding_bytes: 0 } } }
impl<E: Element> Node<E> { pub fn start_alone(_: NodeConfig<E>) -> Result<Self, Error> { Err(Error::None) } pub fn join(_: NodeConfig<E>, _: Rendezvous) -> Result<Self, Error> { Err(Error::None) }
 pub fn rank(&self) -> NodeId { NodeId(0) } pub fn workers(&mut self) -> Vec<Worker<E>> { vec![] } pub fn network(&self) -> Stats { Stats { messages: 0, bytes: 0 } } pub fn abort(&self, _: &str) {} pub fn shutdown(self) -> Result<(), Error> { Ok(()) } pub fn preparer(&self) -> Sampler { Sampler::default() } }
pub struct Worker<E>(PhantomData<E>);
pub struct Ticket;
#[derive(Default)] pub struct AccessStats { pub pull_keys: u64, pub push_keys: u64, pub local: u64, pub remote: u64, pub sampled: u64 }
impl<E: Element> Worker<E> { pub fn pull(&mut self, _: &[Key], _: &mut [E]) -> Result<(), Error> { Ok(()) } pub fn push_async(&mut self, _: &[Key], _: &[E]) -> Result<Ticket, Error> { Ok(Ticket) } pub fn flush(&mut self) -> Result<(), Error> { Ok(()) }
 pub fn gather(&mut self, _: &str, _: Vec<u8>) -> Result<Vec<Vec<u8>>, Error> { Ok(vec![]) } pub fn quiesce(&mut self) -> Result<(), Error> { Ok(()) } pub fn snapshot(&mut self, _: Range<u64>, _: &mut dyn FnMut(&[Key], &[E])) -> Result<(), Error> { Ok(()) } pub fn advance_clock(&mut self) {} pub fn draw(&self, _: &mut Handle, _: usize, _: &mut Vec<Key>) -> Result<(), SampleError> { Ok(()) } pub fn count_sampled(&mut self, _: usize) {} pub fn access(&self) -> AccessStats { AccessStats::default() } }
pub fn launch(_: usize, _: std::path::PathBuf, _: Vec<std::ffi::OsString>) -> Result<u8, Error> { Ok(1) }
