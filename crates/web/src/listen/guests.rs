//! The connections of the server. If all places are taken, the server closes the connection that has been
//! silent for longest, so that silent connections do not keep people out.

use intendant_core::lock;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;
use tokio::time::Instant;

/// All connections.
#[derive(Debug)]
pub(super) struct Guests {
    /// The most at the same time.
    most: usize,
    here: Mutex<Vec<Arc<Guest>>>,
    left: Arc<Notify>,
}

/// A connection.
#[derive(Debug)]
pub struct Guest {
    address: IpAddr,
    /// When bytes were read or written last.
    heard: Mutex<Instant>,
    /// Requests that are being answered.
    answering: AtomicUsize,
    /// Whether a part of an answer waits for the peer.
    sending: AtomicBool,
    leaves: Notify,
    /// Notified when this connection may make way.
    left: Arc<Notify>,
}

/// While this value lives, the connection waits for the server, and not the other way round.
#[derive(Debug)]
pub struct Answering(Arc<Guest>);

impl Drop for Answering {
    fn drop(&mut self) {
        // Relaxed: a number that nothing else depends on.
        self.0.answering.fetch_sub(1, Ordering::Relaxed);
        self.0.left.notify_one();
    }
}

impl Guest {
    pub(super) fn new(address: IpAddr, left: &Arc<Notify>) -> Arc<Self> {
        let (heard, answering) = (Mutex::new(Instant::now()), AtomicUsize::new(0));
        let (sending, left) = (AtomicBool::new(false), Arc::clone(left));
        Arc::new(Self { address, heard, answering, sending, leaves: Notify::new(), left })
    }

    /// Records whether a part of an answer waits for the peer from now on.
    pub(super) fn sends(&self, sending: bool) {
        if self.sending.swap(sending, Ordering::Relaxed) && !sending {
            self.left.notify_one();
        }
    }

    /// Records that bytes were read or written.
    pub(super) fn hear(&self) {
        *lock(&self.heard) = Instant::now();
    }

    /// Records that a request is being answered, until the result is dropped.
    pub fn answering(self: &Arc<Self>) -> Answering {
        self.answering.fetch_add(1, Ordering::Relaxed);
        Answering(Arc::clone(self))
    }

    /// Waits until its place is needed.
    pub(super) async fn leaves(&self) {
        self.leaves.notified().await;
    }

    fn is_silent(&self) -> bool {
        self.answering.load(Ordering::Relaxed) == 0 && !self.sending.load(Ordering::Relaxed)
    }
}

impl Guests {
    /// No connections yet, and places for `most`.
    pub(super) fn new(most: usize) -> Self {
        Self { most, here: Mutex::default(), left: Arc::default() }
    }

    /// Returns a place for a connection from this address. If all places are taken, one of the connections
    /// that do not wait for an answer leaves: of those from the address with the most connections, the one
    /// that has been silent for longest. If no connection can leave, waits until one can or has ended.
    pub(super) async fn enter(&self, address: IpAddr) -> Arc<Guest> {
        loop {
            if let Some(guest) = self.try_enter(address) {
                return guest;
            }
            self.left.notified().await;
        }
    }

    fn try_enter(&self, address: IpAddr) -> Option<Arc<Guest>> {
        let mut here = lock(&self.here);
        if here.len() >= self.most {
            let mut of: BTreeMap<IpAddr, usize> = BTreeMap::new();
            here.iter().for_each(|guest| *of.entry(guest.address).or_default() += 1);
            let silent = here.iter().enumerate().filter(|(_, guest)| guest.is_silent());
            let (place, _) =
                silent.min_by_key(|(_, guest)| (Reverse(of.get(&guest.address)), *lock(&guest.heard)))?;
            here.swap_remove(place).leaves.notify_one();
        }
        let guest = Guest::new(address, &self.left);
        here.push(Arc::clone(&guest));
        Some(guest)
    }

    /// Frees the place of a connection that has ended.
    pub(super) fn leave(&self, guest: &Arc<Guest>) {
        lock(&self.here).retain(|other| !Arc::ptr_eq(other, guest));
        self.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    const CONNECTIONS_MAX: usize = 64;

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    async fn has_left(guest: &Guest) -> bool {
        tokio::time::timeout(Duration::from_millis(1), guest.leaves()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_was_silent_for_longest_leaves() {
        let guests = Guests::new(CONNECTIONS_MAX);
        let mut all = Vec::new();
        for at in 0..CONNECTIONS_MAX {
            tokio::time::advance(Duration::from_secs(1)).await;
            all.push(guests.enter(address(u8::from(at >= 3))).await);
        }
        // The first three connections are from another address. The next one waits for an answer; the one
        // after it has just sent bytes.
        let answering = all[3].answering();
        all[4].hear();
        let new = guests.enter(address(2)).await;
        assert!(has_left(&all[5]).await);
        for other in all[..5].iter().chain(&all[6..]).chain([&new]) {
            assert!(!has_left(other).await);
        }
        drop(answering);
        guests.enter(address(2)).await;
        assert!(has_left(&all[3]).await);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_that_waits_for_an_answer_leaves() {
        let guests = Guests::new(CONNECTIONS_MAX);
        let mut all = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            let guest = guests.enter(address(1)).await;
            all.push((guest.answering(), guest));
        }
        let enter = guests.enter(address(2));
        tokio::pin!(enter);
        assert!(tokio::time::timeout(Duration::from_secs(60), &mut enter).await.is_err());
        guests.leave(&all[7].1);
        assert!(tokio::time::timeout(Duration::from_secs(60), enter).await.is_ok());
        // The connection that has just come is silent, and makes way.
        guests.enter(address(2)).await.sends(true);
        let enter = guests.enter(address(2));
        tokio::pin!(enter);
        assert!(tokio::time::timeout(Duration::from_secs(60), &mut enter).await.is_err());
        drop(all.remove(9).0);
        assert!(tokio::time::timeout(Duration::from_secs(60), enter).await.is_ok());
    }
}
