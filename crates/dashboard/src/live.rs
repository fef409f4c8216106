//! A running cluster: this module asks every node for its numbers once per second, and keeps the answers.
//!
//! The page never asks nodes itself: it may speak to this server only.

mod history;
mod node;

pub use node::{LiveAddress, LiveAddressError};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use history::{History, NODES_MAX};
use intendant_transport::Token;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};

/// The time between two questions to a node.
const EVERY: Duration = Duration::from_secs(1);

/// The view of a running cluster.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    address: LiveAddress,
    token: Option<Token>,
    history: Arc<Mutex<History>>,
}

/// What the page shows.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    address: String,
    #[serde(flatten)]
    history: history::Shown,
}

impl Live {
    pub(crate) fn new(address: LiveAddress, token: Option<Token>) -> Self {
        Self { address, token, history: Arc::default() }
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// The answers that arrived after sample `since`.
    pub(crate) fn answer(&self, since: u64) -> Answer {
        Answer { address: self.address(), history: self.lock().shown(since) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, History> {
        // A history is whole in every state, also after a panic.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks all nodes, again and again.
    pub(crate) async fn watch(self) {
        let token = self.token.as_ref();
        self.watch_by(|address| async move {
            let answer = address.ask(token).await;
            (address, answer)
        })
        .await;
    }

    async fn watch_by<A>(&self, ask: impl Fn(LiveAddress) -> A)
    where
        A: Future<Output = (LiveAddress, Result<node::Said, String>)>,
    {
        let start = Instant::now();
        let mut timer = tokio::time::interval(EVERY);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // A node that answers late, or not at all, does not keep the others waiting.
        let (mut answers, mut waiting) = (FuturesUnordered::new(), BTreeSet::new());
        loop {
            tokio::select! {
                _ = timer.tick() => {
                    for (node, address) in self.peers() {
                        if waiting.insert(node) {
                            let answer = ask(address);
                            answers.push(async move { (node, answer.await) });
                        }
                    }
                }
                Some((node, (address, answer))) = answers.next() => {
                    waiting.remove(&node);
                    self.lock().add(start.elapsed(), node, address, answer);
                }
            }
        }
    }

    /// The nodes that are asked. Until a node has sent the addresses of all nodes, only one address is known.
    fn peers(&self) -> Vec<(usize, LiveAddress)> {
        let peers: Vec<(usize, LiveAddress)> = self.lock().peers().into_iter().take(NODES_MAX).collect();
        if peers.is_empty() { vec![(0, self.address.clone())] } else { peers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    #[tokio::test(start_paused = true)]
    async fn a_node_that_does_not_answer_keeps_no_other_waiting() {
        let addresses = ["127.0.0.1:1", "127.0.0.1:2"];
        let live = Live::new(addresses[0].parse().unwrap(), None);
        let asked: RefCell<BTreeMap<String, u32>> = RefCell::default();
        let watch = live.watch_by(|address| {
            *asked.borrow_mut().entry(address.to_string()).or_default() += 1;
            async move {
                if address.to_string() == addresses[1] {
                    tokio::time::sleep(Duration::from_secs(3)).await;
                    return (address, Err("it does not answer".to_owned()));
                }
                let peers = addresses.map(|address| Some(address.to_owned())).to_vec();
                (address, Ok(node::Said { nodes: 2, peers, ..node::Said::default() }))
            }
        });
        // 20 seconds of virtual time.
        assert!(tokio::time::timeout(Duration::from_millis(19_500), watch).await.is_err());
        let asked = asked.take();
        assert_eq!((asked[addresses[0]], asked[addresses[1]] < 8), (20, true), "{asked:?}");
    }
}
