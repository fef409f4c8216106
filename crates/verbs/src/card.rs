//! The network card: the choice of device, port and address.

use crate::ffi::{self, Device, Domain, Gid, GidKind, Limits, PortState};
use crate::{DeviceError, Path};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// A port of an RDMA device, of the kinds RoCE version 2 (Ethernet) or InfiniBand.
#[derive(Debug)]
pub struct Card {
    device: Arc<Device>,
    limits: Limits,
    /// The number of the port.
    port: u8,
    state: PortState,
    gid: Option<Gid>,
}

impl Card {
    /// Finds the first active port that fits: a port of the device `device`, if a name is given, and with the
    /// IP address `address`, if one is given.
    ///
    /// If a port has several addresses, it takes an IPv4 address before an IPv6 address, and that before a
    /// link-local address, so that all nodes choose alike. Only the type of an address counts; the order in
    /// the device's table means nothing.
    ///
    /// # Errors
    /// If there is no device, no port fits, or the operating system refuses access to the devices.
    pub fn find(device: Option<&str>, address: Option<IpAddr>) -> Result<Self, DeviceError> {
        let devices = ffi::devices().map_err(|error| DeviceError::NoDevice { what: no_devices(&error) })?;
        if devices.is_empty() {
            return Err(DeviceError::NoDevice {
                what: "there is none, or the container hides it".to_owned(),
            });
        }
        let mut found = Vec::new();
        for (name, opened) in devices {
            if device.is_some_and(|wanted| wanted != name) {
                found.push(format!("{name}: another device"));
                continue;
            }
            match opened.and_then(|opened| Ok((opened.limits()?, Arc::new(opened)))) {
                Err(error) => found.push(format!("{name}: {error}")),
                Ok((limits, opened)) => {
                    for port in 1..=limits.ports {
                        match Self::of_port(&opened, limits, port, address) {
                            Ok(card) => return Ok(card),
                            Err(why) => found.push(format!("{name} port {port}: {why}")),
                        }
                    }
                }
            }
        }
        let wanted = match (device, address) {
            (None, None) => "an active port with an address of RoCE version 2, or of InfiniBand".to_owned(),
            (Some(name), None) => format!("an active port of {name}"),
            (None, Some(address)) => format!("an active port of RoCE version 2 with the address {address}"),
            (Some(name), Some(address)) => format!("an active port of {name} with the address {address}"),
        };
        Err(DeviceError::NoPort { wanted, found: found.join("; ") })
    }

    fn of_port(
        device: &Arc<Device>,
        limits: Limits,
        number: u8,
        wanted: Option<IpAddr>,
    ) -> Result<Self, String> {
        let state = device.port(number).map_err(|error| error.to_string())?;
        if !state.active {
            return Err("not active".to_owned());
        }
        let indices = 0..=u8::try_from(state.gids.saturating_sub(1)).unwrap_or(u8::MAX);
        let gids = indices.filter_map(|index| device.gid(number, index));
        let gid = if state.ethernet {
            let mut gids: Vec<Gid> = gids.filter(|gid| gid.kind == GidKind::RoceV2).collect();
            gids.retain(|gid| wanted.is_none_or(|wanted| ip(gid) == wanted));
            gids.sort_by_key(|gid| match ip(gid) {
                IpAddr::V4(_) => 0,
                IpAddr::V6(address) => 1 + u8::from(address.is_unicast_link_local()),
            });
            let Some(gid) = gids.first() else {
                return Err(match wanted {
                    None => {
                        "it has no address of RoCE version 2 (has its interface an IP address?)".to_owned()
                    }
                    Some(address) => format!("{address} is none of its addresses of RoCE version 2"),
                });
            };
            Some(*gid)
        } else if wanted.is_some() {
            return Err("InfiniBand, which is not chosen by IP address".to_owned());
        } else {
            None
        };
        Ok(Self { device: Arc::clone(device), limits, port: number, state, gid })
    }

    /// The name of the device, such as `mlx5_0` or `rxe0`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.device.name
    }

    /// The IP address by which other nodes reach the port; `None` for InfiniBand.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.gid.as_ref().map(ip)
    }

    /// The path to this port.
    #[must_use]
    pub fn path(&self) -> Path {
        Path {
            gid: self.gid.map_or([0; 16], |gid| gid.bytes),
            lid: self.state.lid,
            ethernet: self.state.ethernet,
            mtu: self.state.mtu,
            reads: self.limits.reads_answered.max(1),
        }
    }

    /// The limits of the device.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The most bytes of an operation.
    #[must_use]
    pub fn message_bytes_max(&self) -> usize {
        self.state.message_bytes_max
    }

    /// Makes a protection domain for memory and connections of this port.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn domain(&self) -> Result<Arc<Domain>, DeviceError> {
        let action = "making a protection domain (ibv_alloc_pd)";
        let gid_index = self.gid.map_or(0, |gid| gid.index);
        Domain::new(Arc::clone(&self.device), self.port, gid_index).map_err(|source| DeviceError::System {
            device: self.name().to_owned(),
            action,
            source,
        })
    }
}

/// The IP address in a GID of RoCE version 2: an IPv6 address, or an IPv4 address that is mapped into one.
fn ip(gid: &Gid) -> IpAddr {
    Ipv6Addr::from(gid.bytes).to_canonical()
}

fn no_devices(error: &io::Error) -> String {
    if error.raw_os_error() == Some(rustix::io::Errno::NOSYS.raw_os_error()) {
        "this kernel has no ib_uverbs, or it is not loaded".to_owned()
    } else {
        error.to_string()
    }
}
