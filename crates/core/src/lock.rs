//! A lock for data that a panic of another thread cannot leave inconsistent.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex whose data stays valid if a holder panics, because each change to it is a single step.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
