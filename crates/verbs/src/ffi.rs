//! The library `libibverbs`, as types that own what they hold. All `unsafe` code of the crate is here.
//!
//! Three rules make the calls sound:
//! - Each object holds the objects that it was made of (`Arc`), so the library frees an object after all
//!   objects that depend on it. A pointer in such a type is valid from the making of the value to its `drop`.
//! - Cards access memory of this process only through registrations ([`Memory`]), which own the segment.
//!   Words of a segment are atomic; there is no reference to plain memory that a card could write to.
//!   Accesses by cards lie outside of Rust's memory model, as accesses by other processes do (see
//!   `intendant_segment`).
//! - Any thread may call the library [`ibv_post_send(3)` and others: verbs are thread-safe], so the types are
//!   `Send` and `Sync`.

#![allow(unsafe_code)]

use crate::{DeviceError, Pair, Path};
use ibverbs_sys as sys;
use intendant_segment::Segment;
use rustix::event::{PollFd, PollFlags};
use std::ffi::{CStr, c_int};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

const WORD_BYTES: usize = 8;
/// The most completions that one call takes from a queue.
const COMPLETIONS: usize = 64;
/// The first partition of a fabric, to which every port belongs.
const PARTITION: u16 = 0;
/// The most routers between two nodes.
const HOPS: u8 = 64;
/// How long a node that has no room for a hint asks the sender to wait: 0.64 ms. Senders count the room, so
/// that this does not happen.
const NO_ROOM_TIMER: u8 = 12;
/// How long the card waits for an answer before it sends a packet again: 4.096 µs · 2^14 = 67 ms.
const TIMEOUT: u8 = 14;
/// How often the card sends a packet again before the node counts as ended: after about half a second, on
/// most cards. Soft-RoCE takes 7 to mean "without limit".
const RETRIES: u8 = 6;
/// How often the card sends a hint again to a node that has no room for it: without limit [ibv_modify_qp(3)].
const NO_ROOM_RETRIES: u8 = 7;

/// The result of a call that returns an error number.
fn done(code: c_int) -> io::Result<()> {
    match code {
        0 => Ok(()),
        1.. => Err(io::Error::from_raw_os_error(code)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The result of a call that returns an object, or returns null and sets an error number.
fn made<T>(object: *mut T) -> io::Result<NonNull<T>> {
    NonNull::new(object).ok_or_else(io::Error::last_os_error)
}

/// An open device.
#[derive(Debug)]
pub(crate) struct Device {
    context: NonNull<sys::ibv_context>,
    pub(crate) name: String,
}

// SAFETY: see the third rule of this module.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: made by `ibv_open_device`, and freed only here; whatever was made of it holds this value.
        unsafe { sys::ibv_close_device(self.context.as_ptr()) };
    }
}

/// All devices: the name of each, and the open device or the reason why it cannot be opened.
pub(crate) fn devices() -> io::Result<Vec<(String, io::Result<Device>)>> {
    let mut count = 0;
    // SAFETY: `count` may be written. The list is freed below.
    let list = made(unsafe { sys::ibv_get_device_list(&raw mut count) })?;
    let mut devices = Vec::new();
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the list has `count` entries.
        let device = unsafe { *list.as_ptr().add(at) };
        // SAFETY: a device of the list has a name that ends with a zero byte, and lives as long as the list.
        let name = unsafe { CStr::from_ptr(sys::ibv_get_device_name(device)) }.to_string_lossy().into_owned();
        // SAFETY: a device of the list; a context remains valid when the list is freed
        // [ibv_get_device_list(3)].
        let context = made(unsafe { sys::ibv_open_device(device) });
        devices.push((name.clone(), context.map(|context| Device { context, name })));
    }
    // SAFETY: the list was made above and is not used any more.
    unsafe { sys::ibv_free_device_list(list.as_ptr()) };
    Ok(devices)
}

/// The limits of a device.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most completions of a queue.
    pub completions: usize,
    /// The most operations of a queue pair.
    pub operations: usize,
    /// Queue pairs.
    pub pairs: usize,
    /// The most reads that a queue pair answers at the same time.
    pub reads_answered: u8,
    /// The most reads that a queue pair begins at the same time.
    pub reads_asked: u8,
    /// Ports, from 1.
    pub ports: u8,
}

/// A port of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortState {
    pub(crate) active: bool,
    pub(crate) ethernet: bool,
    pub(crate) lid: u16,
    pub(crate) mtu: u8,
    pub(crate) gids: u32,
    pub(crate) message_bytes_max: usize,
}

/// An address of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gid {
    pub(crate) index: u8,
    pub(crate) kind: GidKind,
    pub(crate) bytes: [u8; 16],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GidKind {
    InfiniBand,
    RoceV1,
    RoceV2,
}

fn count(number: c_int) -> usize {
    usize::try_from(number).unwrap_or(0)
}

impl Device {
    pub(crate) fn limits(&self) -> io::Result<Limits> {
        let mut attributes = sys::ibv_device_attr::default();
        // SAFETY: the context is open, and the attributes may be written.
        done(unsafe { sys::ibv_query_device(self.context.as_ptr(), &raw mut attributes) })?;
        let reads = |number: c_int| number.clamp(0, 16) as u8;
        Ok(Limits {
            completions: count(attributes.max_cqe),
            operations: count(attributes.max_qp_wr),
            pairs: count(attributes.max_qp),
            reads_answered: reads(attributes.max_qp_rd_atom),
            reads_asked: reads(attributes.max_qp_init_rd_atom),
            ports: attributes.phys_port_cnt,
        })
    }

    /// The state of a port, from 1.
    pub(crate) fn port(&self, port: u8) -> io::Result<PortState> {
        let mut attributes = sys::ibv_port_attr::default();
        // SAFETY: the context is open. The library writes the fields of an older version of the structure,
        // which are the first ones of this one; the others remain zero. The macro of the C header does the
        // same.
        done(unsafe { sys::ibv_query_port(self.context.as_ptr(), port, (&raw mut attributes).cast()) })?;
        Ok(PortState {
            active: attributes.state == sys::ibv_port_state::IBV_PORT_ACTIVE,
            ethernet: u32::from(attributes.link_layer) == sys::IBV_LINK_LAYER_ETHERNET,
            lid: attributes.lid,
            mtu: attributes.active_mtu.clamp(1, 5) as u8,
            gids: count(attributes.gid_tbl_len) as u32,
            message_bytes_max: attributes.max_msg_sz as usize,
        })
    }

    /// An address of a port; `None` if its place in the table is empty.
    pub(crate) fn gid(&self, port: u8, index: u8) -> Option<Gid> {
        let mut entry = sys::ibv_gid_entry::default();
        // SAFETY: the context is open, and the entry, whose size the library is told, may be written.
        let code = unsafe {
            sys::_ibv_query_gid_ex(
                self.context.as_ptr(),
                u32::from(port),
                u32::from(index),
                &raw mut entry,
                0,
                size_of::<sys::ibv_gid_entry>(),
            )
        };
        let kind = match entry.gid_type {
            sys::IBV_GID_TYPE_IB => GidKind::InfiniBand,
            sys::IBV_GID_TYPE_ROCE_V1 => GidKind::RoceV1,
            sys::IBV_GID_TYPE_ROCE_V2 => GidKind::RoceV2,
            _ => return None,
        };
        // SAFETY: all fields of the union are 16 plain bytes.
        let bytes = unsafe { entry.gid.raw };
        (code == 0 && bytes != [0; 16]).then_some(Gid { index, kind, bytes })
    }
}

/// A protection domain. A queue pair can use a registration only if both belong to the same domain.
#[derive(Debug)]
pub struct Domain {
    domain: NonNull<sys::ibv_pd>,
    device: Arc<Device>,
    /// The port that the connections go through, and the index of its address in the table.
    port: u8,
    gid_index: u8,
}

// SAFETY: see the third rule of this module.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

impl Domain {
    pub(crate) fn new(device: Arc<Device>, port: u8, gid_index: u8) -> io::Result<Arc<Self>> {
        // SAFETY: the context is open.
        let domain = made(unsafe { sys::ibv_alloc_pd(device.context.as_ptr()) })?;
        Ok(Arc::new(Self { domain, device, port, gid_index }))
    }

    /// The name of the device.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.device.name
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: made by `ibv_alloc_pd`, and freed only here, after all that belongs to it.
        unsafe { sys::ibv_dealloc_pd(self.domain.as_ptr()) };
    }
}

/// A segment that a card may access.
#[derive(Debug)]
pub struct Memory {
    registration: NonNull<sys::ibv_mr>,
    segment: Segment,
    _domain: Arc<Domain>,
}

// SAFETY: see the third rule of this module.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// The rights of other nodes to memory, or through a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing: only this node's card accesses it, for messages.
    Local,
    /// Read.
    Read,
    /// Read and write.
    ReadAndWrite,
}

impl Access {
    fn flags(self) -> sys::ibv_access_flags {
        use sys::ibv_access_flags as flags;
        match self {
            Self::Local => flags(0),
            Self::Read => flags::IBV_ACCESS_REMOTE_READ,
            Self::ReadAndWrite => flags::IBV_ACCESS_REMOTE_READ | flags::IBV_ACCESS_REMOTE_WRITE,
        }
    }
}

impl Memory {
    /// Registers a segment, and locks it: the system does not swap it out.
    ///
    /// # Errors
    /// If the process may not lock this much memory, or the driver refuses.
    pub fn new(domain: &Arc<Domain>, segment: Segment, access: Access) -> Result<Self, DeviceError> {
        let flags = sys::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE | access.flags();
        let bytes = segment.words() * WORD_BYTES;
        // SAFETY: the words of the segment are `bytes` bytes of valid memory that stays in place until the
        // last clone of it is dropped; this value has one, and drops it after the registration.
        let registration = made(unsafe {
            sys::ibv_reg_mr(
                domain.domain.as_ptr(),
                segment.address().as_ptr().cast(),
                bytes,
                flags.0 as c_int,
            )
        })
        .map_err(|error| DeviceError::registering(domain.device(), bytes, error))?;
        Ok(Self { registration, segment, _domain: Arc::clone(domain) })
    }

    /// The memory.
    #[must_use]
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// The place of its first word, for other nodes.
    #[must_use]
    pub fn place(&self) -> Place {
        // SAFETY: the registration is valid until this value is dropped.
        let key = unsafe { self.registration.as_ref() }.rkey;
        Place { address: self.segment.address().as_ptr().addr() as u64, key }
    }

    /// Describes `bytes` bytes from word `at` on to a card.
    ///
    /// # Panics
    /// If the segment does not have them.
    fn part(&self, at: usize, bytes: usize) -> sys::ibv_sge {
        let end = at.checked_add(bytes.div_ceil(WORD_BYTES)).expect("the place of an operation was checked");
        assert!(end <= self.segment.words(), "word {end} of a segment of {} words", self.segment.words());
        let length = u32::try_from(bytes).expect("operations are cut into parts");
        // SAFETY: the registration is valid until this value is dropped.
        let lkey = unsafe { self.registration.as_ref() }.lkey;
        let addr = (self.segment.address().as_ptr().addr() + at * WORD_BYTES) as u64;
        sys::ibv_sge { addr, length, lkey }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: made by `ibv_reg_mr`, and freed only here. The segment is still there; from now on the card
        // refuses accesses to it.
        let code = unsafe { sys::ibv_dereg_mr(self.registration.as_ptr()) };
        if code != 0 {
            // The card may still access the memory: it must not be given to others.
            std::mem::forget(self.segment.clone());
        }
    }
}

/// A completion queue: a card reports ended operations there, and wakes a thread that waits for them.
#[derive(Debug)]
pub struct Completions {
    queue: NonNull<sys::ibv_cq>,
    channel: Channel,
}

#[derive(Debug)]
struct Channel {
    channel: NonNull<sys::ibv_comp_channel>,
    _device: Arc<Device>,
}

// SAFETY: see the third rule of this module.
unsafe impl Send for Completions {}
// SAFETY: as above.
unsafe impl Sync for Completions {}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: made by `ibv_create_comp_channel`, and freed only here, after its queue.
        unsafe { sys::ibv_destroy_comp_channel(self.channel.as_ptr()) };
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        // SAFETY: made by `ibv_create_cq`, and freed only here, after the queue pairs that report to it. All
        // of its events were acknowledged (`sleep`).
        unsafe { sys::ibv_destroy_cq(self.queue.as_ptr()) };
    }
}

/// The end of an operation.
#[derive(Clone, Debug)]
pub struct Completion {
    /// The id that the caller gave to the operation.
    pub id: u64,
    /// The number that an operation of the other node has brought, if it has one; or why the operation
    /// failed.
    pub result: Result<Option<u32>, String>,
    /// Bytes of the message that has arrived.
    pub bytes: usize,
}

impl Completions {
    /// A queue for `size` completions.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn new(domain: &Arc<Domain>, size: usize) -> io::Result<Arc<Self>> {
        let device = &domain.device;
        // SAFETY: the context is open.
        let channel = made(unsafe { sys::ibv_create_comp_channel(device.context.as_ptr()) })?;
        let channel = Channel { channel, _device: Arc::clone(device) };
        let size = c_int::try_from(size).map_err(io::Error::other)?;
        // SAFETY: the context and the channel are valid, and are held by the result; no context of the caller
        // is given, and vector 0 exists on every device.
        let queue = made(unsafe {
            sys::ibv_create_cq(
                device.context.as_ptr(),
                size,
                std::ptr::null_mut(),
                channel.channel.as_ptr(),
                0,
            )
        })?;
        let completions = Self { queue, channel };
        // The descriptor is nonblocking, so that a thread does not wait for an event that another thread has
        // taken.
        let flags = rustix::fs::fcntl_getfl(completions.as_fd())?;
        rustix::fs::fcntl_setfl(completions.as_fd(), flags | rustix::fs::OFlags::NONBLOCK)?;
        Ok(Arc::new(completions))
    }

    /// Takes some completions. Returns whether there may be more.
    ///
    /// # Errors
    /// If the queue is broken.
    pub fn take(&self, out: &mut Vec<Completion>) -> io::Result<bool> {
        let mut taken = [sys::ibv_wc::default(); COMPLETIONS];
        // SAFETY: the queue and its context are valid; `ibv_poll_cq` of the C header is this call.
        let found = unsafe {
            let poll = (*self.queue.as_ref().context).ops.poll_cq.ok_or_else(unsupported)?;
            poll(self.queue.as_ptr(), COMPLETIONS as c_int, taken.as_mut_ptr())
        };
        let found =
            usize::try_from(found).map_err(|_| io::Error::other("the queue of completions is broken"))?;
        out.extend(taken.iter().take(found).map(|completion| Completion {
            id: completion.wr_id(),
            result: match completion.error() {
                None => Ok(completion.imm_data().map(u32::from_be)),
                Some((status, _)) => Err(status_text(status)),
            },
            bytes: if completion.error().is_none() { completion.len() } else { 0 },
        }));
        Ok(found == COMPLETIONS)
    }

    /// Asks for a wake-up at the next completion. A completion that came before this call may cause none.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn arm(&self) -> io::Result<()> {
        // SAFETY: as for `take`; `ibv_req_notify_cq` of the C header is this call.
        done(unsafe {
            let arm = (*self.queue.as_ref().context).ops.req_notify_cq.ok_or_else(unsupported)?;
            arm(self.queue.as_ptr(), 0)
        })
    }

    /// Waits until a completion has come since [`Self::arm`], at most for `timeout`.
    ///
    /// # Errors
    /// If the operating system refuses to wait.
    pub fn sleep(&self, timeout: Duration) -> io::Result<()> {
        let fd = self.as_fd();
        let mut watched = [PollFd::new(&fd, PollFlags::IN)];
        match rustix::event::poll(&mut watched, timeout.try_into().ok().as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(()),
            Ok(_) => self.take_event().map(drop),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes one wake-up from the descriptor. Returns whether there was one.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn take_event(&self) -> io::Result<bool> {
        let (mut queue, mut context) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the channel is valid, and both pointers may be written.
        let code =
            unsafe { sys::ibv_get_cq_event(self.channel.channel.as_ptr(), &raw mut queue, &raw mut context) };
        if code != 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(false) } else { Err(error) };
        }
        // SAFETY: the event was of this queue, the only one of the channel; each event is acknowledged once.
        unsafe { sys::ibv_ack_cq_events(self.queue.as_ptr(), 1) };
        Ok(true)
    }
}

/// The descriptor is readable once a completion has come since [`Completions::arm`].
impl AsFd for Completions {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is valid, and so is its descriptor, as long as `self` lives.
        unsafe { BorrowedFd::borrow_raw(self.channel.channel.as_ref().fd) }
    }
}

fn unsupported() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "the driver does not have this call")
}

fn status_text(status: sys::ibv_wc_status::Type) -> String {
    // SAFETY: for every number, the library returns a text that ends with a zero byte and is never freed.
    unsafe { CStr::from_ptr(sys::ibv_wc_status_str(status)) }.to_string_lossy().into_owned()
}

/// A reliable connection to a node.
#[derive(Debug)]
pub struct QueuePair {
    pair: NonNull<sys::ibv_qp>,
    domain: Arc<Domain>,
    completions: Arc<Completions>,
    /// The memory that its operations access.
    memory: Vec<Segment>,
}

// SAFETY: see the third rule of this module.
unsafe impl Send for QueuePair {}
// SAFETY: as above.
unsafe impl Sync for QueuePair {}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: made by `ibv_create_qp`, and freed only here; what it belongs to is still there.
        let code = unsafe { sys::ibv_destroy_qp(self.pair.as_ptr()) };
        if code != 0 {
            // The card may still execute operations: their memory must not be given to others, and what the
            // pair belongs to must not be freed.
            std::mem::forget(self.memory.clone());
            std::mem::forget((Arc::clone(&self.domain), Arc::clone(&self.completions)));
        }
    }
}

/// The room of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Operations of this node in flight.
    pub operations: usize,
    /// Messages and hints of the other node that this node has not taken yet.
    pub receptions: usize,
}

impl QueuePair {
    /// Makes a queue pair that answers no other node yet. `access` gives the rights of the other node through
    /// it. Operations access `memory`. Other connections may use the same completion queue, if it has room.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn new(
        domain: &Arc<Domain>,
        completions: &Arc<Completions>,
        room: Room,
        access: Access,
        memory: Vec<Segment>,
    ) -> io::Result<Self> {
        let queue = completions.queue.as_ptr();
        let mut attributes = sys::ibv_qp_init_attr {
            send_cq: queue,
            recv_cq: queue,
            cap: sys::ibv_qp_cap {
                max_send_wr: room.operations as u32,
                max_recv_wr: room.receptions as u32,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 0,
            },
            qp_type: sys::ibv_qp_type::IBV_QPT_RC,
            sq_sig_all: 1,
            ..Default::default()
        };
        // SAFETY: domain and queue are valid, and the result holds them; the attributes may be written.
        let pair = made(unsafe { sys::ibv_create_qp(domain.domain.as_ptr(), &raw mut attributes) })?;
        let (domain, completions) = (Arc::clone(domain), Arc::clone(completions));
        let pair = Self { pair, domain, completions, memory };
        let mut attributes = sys::ibv_qp_attr {
            qp_state: sys::ibv_qp_state::IBV_QPS_INIT,
            pkey_index: PARTITION,
            port_num: pair.domain.port,
            qp_access_flags: access.flags().0,
            ..Default::default()
        };
        use sys::ibv_qp_attr_mask as mask;
        pair.modify(
            &mut attributes,
            mask::IBV_QP_STATE | mask::IBV_QP_PKEY_INDEX | mask::IBV_QP_PORT | mask::IBV_QP_ACCESS_FLAGS,
        )?;
        Ok(pair)
    }

    /// The number that the other node connects to.
    #[must_use]
    pub fn number(&self) -> u32 {
        // SAFETY: the pair is valid until this value is dropped.
        unsafe { self.pair.as_ref() }.qp_num
    }

    fn modify(&self, attributes: &mut sys::ibv_qp_attr, mask: sys::ibv_qp_attr_mask) -> io::Result<()> {
        // SAFETY: the pair is valid, and the mask names fields of the attributes that are set.
        done(unsafe { sys::ibv_modify_qp(self.pair.as_ptr(), attributes, mask.0 as c_int) })
    }

    /// Connects to the queue pair of another node: from then on it answers that node's operations, and may
    /// begin its own. `first_packet` is the number of this node's first packet, and `reads_asked` is the
    /// number of reads that it begins at the same time.
    ///
    /// # Errors
    /// If there is no path to the other port, or the driver refuses.
    pub fn connect(
        &self,
        own: &Path,
        first_packet: u32,
        peer: &Path,
        pair: Pair,
        reads_asked: u8,
    ) -> io::Result<()> {
        use sys::ibv_qp_attr_mask as mask;
        let mut way = sys::ibv_ah_attr { port_num: self.domain.port, dlid: peer.lid, ..Default::default() };
        if own.ethernet {
            way.is_global = 1;
            way.grh.dgid = sys::ibv_gid { raw: peer.gid };
            way.grh.sgid_index = self.domain.gid_index;
            way.grh.hop_limit = HOPS;
        }
        let mut attributes = sys::ibv_qp_attr {
            qp_state: sys::ibv_qp_state::IBV_QPS_RTR,
            path_mtu: sys::ibv_mtu::from(own.mtu.min(peer.mtu)),
            dest_qp_num: pair.number,
            rq_psn: pair.first_packet,
            max_dest_rd_atomic: own.reads,
            min_rnr_timer: NO_ROOM_TIMER,
            ah_attr: way,
            ..Default::default()
        };
        self.modify(
            &mut attributes,
            mask::IBV_QP_STATE
                | mask::IBV_QP_AV
                | mask::IBV_QP_PATH_MTU
                | mask::IBV_QP_DEST_QPN
                | mask::IBV_QP_RQ_PSN
                | mask::IBV_QP_MAX_DEST_RD_ATOMIC
                | mask::IBV_QP_MIN_RNR_TIMER,
        )?;
        let mut attributes = sys::ibv_qp_attr {
            qp_state: sys::ibv_qp_state::IBV_QPS_RTS,
            sq_psn: first_packet,
            timeout: TIMEOUT,
            retry_cnt: RETRIES,
            rnr_retry: NO_ROOM_RETRIES,
            max_rd_atomic: reads_asked.min(peer.reads),
            ..Default::default()
        };
        self.modify(
            &mut attributes,
            mask::IBV_QP_STATE
                | mask::IBV_QP_SQ_PSN
                | mask::IBV_QP_TIMEOUT
                | mask::IBV_QP_RETRY_CNT
                | mask::IBV_QP_RNR_RETRY
                | mask::IBV_QP_MAX_QP_RD_ATOMIC,
        )
    }

    /// Ends the connection: all operations in flight fail.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn fail(&self) -> io::Result<()> {
        let mut attributes =
            sys::ibv_qp_attr { qp_state: sys::ibv_qp_state::IBV_QPS_ERR, ..Default::default() };
        self.modify(&mut attributes, sys::ibv_qp_attr_mask::IBV_QP_STATE)
    }

    /// Makes room for one more hint.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn receive(&self, id: u64) -> io::Result<()> {
        self.post_receive(id, None)
    }

    /// Makes room for one more message: `bytes` bytes from word `at` of `memory`.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Panics
    /// If the memory does not have these bytes.
    pub fn receive_into(&self, id: u64, memory: &Memory, at: usize, bytes: usize) -> io::Result<()> {
        self.post_receive(id, Some(memory.part(at, bytes)))
    }

    fn post_receive(&self, id: u64, mut part: Option<sys::ibv_sge>) -> io::Result<()> {
        let mut request = sys::ibv_recv_wr { wr_id: id, ..Default::default() };
        if let Some(part) = &mut part {
            request.sg_list = part;
            request.num_sge = 1;
        }
        let mut bad = std::ptr::null_mut();
        // SAFETY: the pair and its context are valid; the request is the last of its list. It and its part
        // live until the call returns, and the library keeps neither. The part is of memory that is
        // registered, with its own key; should the registration end before a message comes, the card refuses
        // the access. `ibv_post_recv` of the C header is this call.
        done(unsafe {
            let post = (*self.pair.as_ref().context).ops.post_recv.ok_or_else(unsupported)?;
            post(self.pair.as_ptr(), &raw mut request, &raw mut bad)
        })
    }

    /// Begins to send `bytes` bytes from word `at` of `memory` as a message, together with a number.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Panics
    /// If the memory does not have these bytes.
    pub fn send(&self, id: u64, memory: &Memory, at: usize, bytes: usize, number: u32) -> io::Result<()> {
        let part = (bytes > 0).then(|| memory.part(at, bytes));
        self.post(id, part, sys::ibv_wr_opcode::IBV_WR_SEND_WITH_IMM, Place::NONE, Some(number))
    }

    /// Begins to read `words` words from place `from` of the other node to word `into` of `memory`.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Panics
    /// If the memory does not have these words.
    pub fn read(&self, id: u64, memory: &Memory, into: usize, words: usize, from: Place) -> io::Result<()> {
        let part = Some(memory.part(into, words * WORD_BYTES));
        self.post(id, part, sys::ibv_wr_opcode::IBV_WR_RDMA_READ, from, None)
    }

    /// Begins to write `words` words from word `at` of `memory` to the other node, and then to send a hint.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Panics
    /// If the memory does not have these words.
    pub fn write(
        &self,
        id: u64,
        memory: &Memory,
        at: usize,
        words: usize,
        to: Place,
        hint: Option<u32>,
    ) -> io::Result<()> {
        let part = (words > 0).then(|| memory.part(at, words * WORD_BYTES));
        let opcode = match hint {
            Some(_) => sys::ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM,
            None => sys::ibv_wr_opcode::IBV_WR_RDMA_WRITE,
        };
        self.post(id, part, opcode, to, hint)
    }

    fn post(
        &self,
        id: u64,
        mut part: Option<sys::ibv_sge>,
        opcode: sys::ibv_wr_opcode::Type,
        place: Place,
        number: Option<u32>,
    ) -> io::Result<()> {
        let mut request = sys::ibv_send_wr { wr_id: id, opcode, ..Default::default() };
        if let Some(part) = &mut part {
            request.sg_list = part;
            request.num_sge = 1;
        }
        request.__bindgen_anon_1.imm_data = number.unwrap_or(0).to_be();
        request.wr.rdma.remote_addr = place.address;
        request.wr.rdma.rkey = place.key;
        let mut bad = std::ptr::null_mut();
        // SAFETY: the pair and its context are valid. The request and its part live until the call returns,
        // and the library keeps neither. The part is of memory that is registered, with its own key; should
        // the registration end before the operation, the card refuses the access. On the other node, the card
        // of that node decides what may be accessed. `ibv_post_send` of the C header is this call.
        done(unsafe {
            let post = (*self.pair.as_ref().context).ops.post_send.ok_or_else(unsupported)?;
            post(self.pair.as_ptr(), &raw mut request, &raw mut bad)
        })
    }
}

/// Memory of another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Address in the other process.
    pub address: u64,
    /// The key of its registration.
    pub key: u32,
}

impl Place {
    /// No memory: the other node chooses the place of a message when it makes room.
    const NONE: Self = Self { address: 0, key: 0 };

    /// The place `words` words further on.
    #[must_use]
    pub fn word(self, words: usize) -> Self {
        Self { address: self.address.wrapping_add((words * WORD_BYTES) as u64), ..self }
    }
}
