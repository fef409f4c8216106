//! Tells a person that the run is alive before it trains: data are read, nodes meet.

use crate::clock::now;
use crate::logging;
use crate::signals::Interrupt;
use crossbeam_channel::bounded;
use std::thread;
use std::time::Duration;

/// The first words come after this time, and the next ones after so much more.
const PATIENCE: Duration = Duration::from_secs(5);

/// Says from time to time that the run prepares itself, until it trains.
pub(crate) fn tell(interrupt: Interrupt) {
    let start = now();
    let told = move || {
        let (_keep, never) = bounded::<()>(0);
        loop {
            let _ = never.recv_timeout(PATIENCE);
            if interrupt.has_run() {
                return;
            }
            let seconds = now().saturating_duration_since(start).as_secs();
            logging::say(&format!("preparing: the data are read, {seconds} s so far"));
        }
    };
    // The words are a courtesy: without a thread, there are none. The process does not wait for it.
    drop(thread::Builder::new().name("preparing".to_owned()).spawn(told));
}
