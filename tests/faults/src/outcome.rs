//! Results of steps, and the last panic.

use std::{
    error::Error,
    sync::{Mutex, PoisonError},
};

/// The result of a step. An error is one of the tool or of the machine, not of a store, and ends the run.
pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Text of the last panic.
pub(crate) static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

pub(crate) fn last_panic() -> String {
    LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
