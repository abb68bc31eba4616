//! Faults on purpose: `mortise-proof planted` shows with them that histories find faults.
//!
//! Only builds with the feature `planted-faults` have them, where `MORTISE_PLANTED_FAULT` names the fault. No build has
//! the feature by default, and a release build with it does not compile.

#[cfg(all(feature = "planted-faults", not(debug_assertions)))]
compile_error!("the feature planted-faults is for tests; build without it");

/// A fault of a server over etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A transaction whose answer was lost counts as not stored, and is proposed again.
    GuessedOutcome,
    /// The copy leaves out a revision.
    FollowerSkips,
    /// A consistent read does not wait for the copy.
    BarrierSkipped,
    /// Writes of a controller do not depend on its lease.
    NoFencing,
}

/// Whether the fault happens now.
#[cfg(not(feature = "planted-faults"))]
pub(crate) const fn happens(_: Fault) -> bool {
    false
}

/// Whether the chosen fault is this one, and its turn has come.
#[cfg(feature = "planted-faults")]
pub(crate) fn happens(fault: Fault) -> bool {
    use std::sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    };
    static CHOSEN: LazyLock<String> = LazyLock::new(|| std::env::var("MORTISE_PLANTED_FAULT").unwrap_or_default());
    static OCCASIONS: AtomicU64 = AtomicU64::new(1);
    let every = match fault {
        Fault::FollowerSkips => 97,
        Fault::GuessedOutcome | Fault::BarrierSkipped | Fault::NoFencing => 1,
    };
    *CHOSEN == format!("{fault:?}") && OCCASIONS.fetch_add(1, Ordering::Relaxed) % every == 0
}
