//! The connections: *strangers*, which have not yet brought a request that is answered, and *readers*, which
//! have.
//!
//! Both have places of their own, so that no number of strangers keeps a reader out. When there are too many
//! strangers, the server closes the oldest one from the address with the most strangers. So one machine
//! cannot push out the connections of another.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// All connections.
#[derive(Debug)]
pub(crate) struct Visitors {
    strangers: Mutex<Strangers>,
    strangers_max: usize,
    readers: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Strangers {
    next: u64,
    /// In the order in which they came.
    present: BTreeMap<u64, Stranger>,
}

#[derive(Debug)]
struct Stranger {
    from: IpAddr,
    leave: Arc<Notify>,
}

/// A connection. Dropping it frees its place.
#[derive(Debug)]
pub(crate) struct Visitor {
    number: u64,
    leave: Arc<Notify>,
    /// The place among the readers, once the connection is a reader.
    place: OnceLock<OwnedSemaphorePermit>,
    visitors: Arc<Visitors>,
}

impl Visitors {
    pub(crate) fn new(strangers_max: usize, readers_max: usize) -> Self {
        let readers = Arc::new(Semaphore::new(readers_max));
        Self { strangers: Mutex::default(), strangers_max, readers }
    }

    fn strangers(&self) -> MutexGuard<'_, Strangers> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a stranger that connects from an address.
    pub(crate) fn enter(self: &Arc<Self>, from: IpAddr) -> Visitor {
        let leave = Arc::new(Notify::new());
        let mut strangers = self.strangers();
        let number = strangers.next;
        strangers.next += 1;
        let stranger = Stranger { from: from.to_canonical(), leave: Arc::clone(&leave) };
        strangers.present.insert(number, stranger);
        if strangers.present.len() > self.strangers_max {
            strangers.send_away();
        }
        drop(strangers);
        Visitor { number, leave, place: OnceLock::new(), visitors: Arc::clone(self) }
    }
}

impl Strangers {
    /// Sends one stranger away.
    fn send_away(&mut self) {
        let mut by_address: BTreeMap<IpAddr, (usize, u64)> = BTreeMap::new();
        for (number, stranger) in self.present.iter().rev() {
            let (count, first) = by_address.entry(stranger.from).or_default();
            (*count, *first) = (*count + 1, *number);
        }
        // If several addresses have the most strangers, the stranger that came first.
        let most = by_address.into_values().max_by_key(|(count, first)| (*count, u64::MAX - first));
        if let Some(stranger) = most.and_then(|(_, first)| self.present.remove(&first)) {
            stranger.leave.notify_one();
        }
    }
}

impl Visitor {
    /// Makes the stranger a reader, because it has brought a request to be answered. Returns whether there is
    /// room for it.
    pub(crate) fn is_welcome(&self) -> bool {
        if self.place.get().is_some() {
            return true;
        }
        let Ok(place) = Arc::clone(&self.visitors.readers).try_acquire_owned() else { return false };
        self.visitors.strangers().present.remove(&self.number);
        self.place.set(place).is_ok()
    }

    pub(crate) fn is_reader(&self) -> bool {
        self.place.get().is_some()
    }

    /// Waits until the stranger must leave.
    pub(crate) async fn sent_away(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.visitors.strangers().present.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn visitors() -> Arc<Visitors> {
        Arc::new(Visitors::new(3, 2))
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    /// Whether a visitor has been told to leave; it is told once.
    fn must_leave(visitor: &Visitor) -> bool {
        pin!(visitor.sent_away()).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn of_too_many_strangers_the_first_of_the_busiest_address_leaves() {
        let visitors = visitors();
        let alone = visitors.enter(address(1));
        let many: Vec<Visitor> = (0..3).map(|_| visitors.enter(address(2))).collect();
        assert!(!must_leave(&alone));
        let told: Vec<bool> = many.iter().map(must_leave).collect();
        assert_eq!(told, [true, false, false]);
        // The same address, as a socket for both versions of IP reports it.
        let mapped = visitors.enter("::ffff:192.0.2.2".parse().expect("an address"));
        assert!(must_leave(&many[1]) && !must_leave(&alone) && !must_leave(&mapped));
        drop((many, mapped));
        let others: Vec<Visitor> = (3..6).map(|last| visitors.enter(address(last))).collect();
        assert!(must_leave(&alone), "of as many, the one that came first");
        assert!(!others.iter().any(must_leave));
    }

    #[test]
    fn strangers_that_become_readers_take_no_place_of_strangers() {
        let visitors = visitors();
        let readers: Vec<Visitor> = (0..2).map(|_| visitors.enter(address(1))).collect();
        assert!(readers.iter().all(|reader| !reader.is_reader() && reader.is_welcome()));
        assert!(readers.iter().all(|reader| reader.is_reader() && reader.is_welcome()), "still");
        let third = visitors.enter(address(1));
        assert!(!third.is_welcome() && !third.is_reader(), "there is no room");
        let strangers: Vec<Visitor> = (0..9).map(|_| visitors.enter(address(1))).collect();
        assert!(must_leave(&third) && !readers.iter().any(must_leave));
        drop(readers);
        assert!(strangers[8].is_welcome());
        drop(strangers);
        assert!(visitors.strangers().present.is_empty());
    }
}
