//! Whether the cluster still runs, as all threads of a node see it.

use intendant_control::Failure;
use intendant_core::lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

type Alarm = Box<dyn Fn(&Failure) + Send + Sync>;

/// The first failure, and the callbacks that it triggers.
#[derive(Default)]
pub struct Health {
    /// Every call reads this flag, and reads the rest only once it is set.
    failed: AtomicBool,
    failure: OnceLock<Failure>,
    alarms: Mutex<Vec<Alarm>>,
}

impl Health {
    /// Whether the cluster still runs.
    ///
    /// # Errors
    /// The failure, if there was one.
    #[inline]
    pub fn check(&self) -> Result<(), Failure> {
        // Acquire: pairs with the Release in `fail`; the failure itself is visible.
        if self.failed.load(Ordering::Acquire) {
            return Err(self.failure());
        }
        Ok(())
    }

    #[cold]
    fn failure(&self) -> Failure {
        self.failure.get().cloned().expect("set before the flag")
    }

    /// Notes a failure and wakes all threads that asked for it. Only the first failure counts.
    pub fn fail(&self, failure: Failure) {
        if self.failure.set(failure.clone()).is_err() {
            return;
        }
        // Release: pairs with the Acquire in `check`.
        self.failed.store(true, Ordering::Release);
        for alarm in lock(&self.alarms).iter() {
            alarm(&failure);
        }
    }

    /// Calls `alarm` at the first failure, or now if it has happened. Alarms must not block.
    pub fn on_failure(&self, alarm: impl Fn(&Failure) + Send + Sync + 'static) {
        let mut alarms = lock(&self.alarms);
        match self.check() {
            Err(failure) => alarm(&failure),
            Ok(()) => alarms.push(Box::new(alarm)),
        }
    }
}
