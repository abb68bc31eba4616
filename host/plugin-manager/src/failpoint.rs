//! Panics and failures at places that a test names, in builds with debug assertions; a release build ignores the names.
//!
//! A place is a stage and a source, such as `Compiling NAME.wasm`, or a step, such as `a command`.

/// Environment variable with the place of a panic.
#[cfg(debug_assertions)]
const PANIC_VARIABLE: &str = "FAILPOINT_PANIC_AT";

/// Environment variable with the place of a failure.
const FAILURE_VARIABLE: &str = "FAILPOINT_FAIL_AT";

/// Panics if this is the place.
#[cfg_attr(debug_assertions, allow(clippy::panic, reason = "only builds for tests panic here"))]
pub(crate) fn reached(place: &str) {
    #[cfg(debug_assertions)]
    if std::env::var_os(PANIC_VARIABLE).is_some_and(|chosen| chosen == place) {
        panic!("a test asked for this panic");
    }
    #[cfg(not(debug_assertions))]
    let _ = place;
}

/// Whether the step at this place has to fail.
pub(crate) fn fails(place: &str) -> bool {
    cfg!(debug_assertions) && std::env::var_os(FAILURE_VARIABLE).is_some_and(|chosen| chosen == place)
}
