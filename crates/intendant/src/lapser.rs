//! Lapser between processes: items that one node sets and others get, by one-sided communication.
//!
//! There is no parameter server in it. Nodes meet as those of parameter servers do, through the control plane
//! ([`Lobby`]). Each declares what it produces and consumes, all make the same layout of it, and each maps
//! the memory of the others. From then on, a [`Process`] sets and gets with blocking calls. The protocol is
//! `intendant-lapser`'s, the memory `intendant-onesided`'s.
//!
//! ```
//! use intendant::lapser::{Declaration, Get, Item, Lobby, Variant, Want};
//!
//! // Two nodes, here threads of one process; `Lobby::enter` is for one per process. Each produces an item of
//! // one word, and gets the other one's.
//! let node = |lobby: Lobby| -> Result<u64, intendant::Error> {
//!     let (own, other) = (u64::from(lobby.rank().0), u64::from(1 - lobby.rank().0));
//!     let item = |key| Item::new(key, 1);
//!     let declared = Declaration {
//!         produce: vec![item(own)],
//!         consume: vec![Want { item: item(other), slack: 0 }],
//!         ..Declaration::default()
//!     };
//!     let mut process = lobby.start(Variant::Push, declared)?;
//!     let mut last = 0;
//!     for clock in 1..=10 {
//!         process.set(own, clock, &[100 * own + clock])?;
//!         process.get_all(&[Get { key: other, clock, slack: 0 }], |_, newest, value| {
//!             // The other node may be one clock ahead.
//!             assert!(newest >= clock && value[0] == 100 * other + newest);
//!             last = value[0];
//!         })?;
//!     }
//!     process.finish()?;
//!     Ok(last)
//! };
//! let lobbies = Lobby::local(2)?;
//! let values: Vec<u64> = std::thread::scope(|scope| {
//!     let nodes: Vec<_> = lobbies.into_iter().map(|lobby| scope.spawn(move || node(lobby))).collect();
//!     nodes.into_iter().map(|node| node.join().expect("no panic")).collect::<Result<_, _>>()
//! })?;
//! assert_eq!(values, [110, 10]);
//! # Ok::<(), intendant::Error>(())
//! ```

mod error;
mod lobby;
mod members;
mod process;
mod rdma;
mod way;

pub use error::LapserError;
pub use intendant_lapser::{Declaration, Directory, Item, Pace, Stats, Variant, WORDS_MAX, Want};
pub use intendant_onesided::{MappedWindow, Window, in_process};
pub use lobby::Lobby;
pub use process::{Get, Process, Traffic};
pub use way::{AnyWindow, Way};
