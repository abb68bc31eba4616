//! The failure of an attempt.

/// A failed attempt: reason and text.
pub(super) struct Fault(pub(super) &'static str, pub(super) String);
