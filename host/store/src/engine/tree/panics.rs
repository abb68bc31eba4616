//! Panics as errors: sled panics where it meets a state that it holds impossible.

use std::{any::Any, panic::AssertUnwindSafe, path::Path};

use crate::StoreError;

/// Runs work whose panic must not leave its callers waiting for ever. `thread` names the thread in the error.
pub(crate) fn contained<T>(thread: &str, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        Err(StoreError::Poisoned(format!("the {thread} thread failed: {}", panic_text(panic.as_ref()))))
    })
}

/// Runs work on sled's file `file`, which sled may find in a state that it holds impossible.
pub(crate) fn contained_read<T>(file: &Path, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let what = format!("sled cannot read it: {}", panic_text(panic.as_ref()));
        Err(StoreError::Corrupt { path: file.to_owned(), what })
    })
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}
