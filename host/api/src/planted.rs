//! Faults on purpose: `mortise-proof planted` shows with them that histories find faults.
//!
//! Only builds with the feature `planted-faults` have them, where `MORTISE_PLANTED_FAULT` names the fault. No build has
//! the feature by default, and a release build with it does not compile.

#[cfg(all(feature = "planted-faults", not(debug_assertions)))]
compile_error!("the feature planted-faults is for tests; build without it");

/// A fault of watches over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A client that comes back gets no reset.
    ResetMissing,
    /// A watch ends without its last event.
    ClosedMissing,
    /// The position at which a watch of a query is to resume is ignored.
    PositionIgnored,
}

/// Whether the fault happens now.
#[cfg(not(feature = "planted-faults"))]
pub(crate) const fn happens(_: Fault) -> bool {
    false
}

/// Whether the chosen fault is this one.
#[cfg(feature = "planted-faults")]
pub(crate) fn happens(fault: Fault) -> bool {
    use std::sync::LazyLock;
    static CHOSEN: LazyLock<String> = LazyLock::new(|| std::env::var("MORTISE_PLANTED_FAULT").unwrap_or_default());
    *CHOSEN == format!("{fault:?}")
}
