//! Panics where a test wants one, in builds for tests only.

/// The variable that names the place.
#[cfg(debug_assertions)]
const FAILPOINT: &str = "FAILPOINT_PANIC_AT";

/// Panics if this is the place.
#[cfg_attr(debug_assertions, allow(clippy::panic, reason = "a build for tests does what it is told"))]
pub(crate) fn reached(place: &str) {
    #[cfg(debug_assertions)]
    if std::env::var_os(FAILPOINT).is_some_and(|told| told == place) {
        panic!("it was told to");
    }
    #[cfg(not(debug_assertions))]
    let _ = place;
}
