//! Panics as errors: sled panics in states that it considers impossible.

use std::{any::Any, panic::AssertUnwindSafe, path::Path};

use crate::StoreError;

/// Runs work and turns a panic into an error, so that callers do not wait for ever. `thread` names the thread in the
/// error.
pub(crate) fn catch_panic<T>(thread: &str, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        Err(StoreError::Poisoned(format!("the {thread} thread failed: {}", panic_text(panic.as_ref()))))
    })
}

/// Runs work on sled's file `file`, and turns a panic of sled into an error.
pub(crate) fn catch_sled_panic<T>(file: &Path, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let what = format!("sled cannot read it: {}", panic_text(panic.as_ref()));
        Err(StoreError::Corrupt { path: file.to_owned(), what })
    })
}

/// Returns the message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}
