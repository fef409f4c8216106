//! The signals that end a server.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and Ctrl-C, which are caught from the moment this value exists: none is lost before the server
/// serves.
#[derive(Debug)]
pub struct Ended {
    terminate: Signal,
    interrupt: Signal,
}

impl Ended {
    /// Catches the signals, within a runtime.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn listen() -> io::Result<Self> {
        let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        Ok(Self { terminate: signal(terminate)?, interrupt: signal(interrupt)? })
    }

    /// Waits for one of them.
    pub async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
