//! Why a network card cannot be used.

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::io;

/// Why a network card cannot be used, or refuses an operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The machine has no RDMA device, or this process does not see it.
    #[error(
        "no RDMA device: looked in /sys/class/infiniband_verbs and for /dev/infiniband/uverbs* ({what}). \
         Load the driver of the card and ib_uverbs, or make a device of an Ethernet interface: rdma link add \
         rxe0 type rxe netdev eth0"
    )]
    NoDevice {
        /// What was found instead.
        what: String,
    },
    /// There are devices, but none of their ports fits.
    #[error("no port of an RDMA device fits. Looked for {wanted}. Found {found}")]
    NoPort {
        /// What was looked for.
        wanted: String,
        /// The ports, and why each does not fit.
        found: String,
    },
    /// The operating system does not let this process lock as much memory.
    #[error(
        "registering {bytes} bytes of memory with {device}: this process may lock {limit}. Raise the limit \
         (ulimit -l unlimited, or LimitMEMLOCK= of a service)"
    )]
    LockedMemory {
        /// Name of the device.
        device: String,
        /// Bytes of the segment.
        bytes: usize,
        /// The limit, as text.
        limit: String,
    },
    /// The operating system or the driver refused.
    #[error("{device}: {action}: {source}")]
    System {
        /// Name of the device, or the library.
        device: String,
        /// What was asked for.
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
}

impl DeviceError {
    /// Why memory was not registered.
    pub(crate) fn registering(device: &str, bytes: usize, error: io::Error) -> Self {
        let device = device.to_owned();
        let limit = getrlimit(Resource::Memlock).current;
        // Drivers lock a little more than the segment, and count what the process has locked before.
        if error.raw_os_error() == Some(Errno::NOMEM.raw_os_error())
            && let Some(limit) = limit
        {
            return Self::LockedMemory { device, bytes, limit: format!("{limit} bytes") };
        }
        Self::System { device, action: "registering memory (ibv_reg_mr)", source: error }
    }
}
