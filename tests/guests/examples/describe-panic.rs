//! Panics instead of giving its manifest.

use mortise_plugin::raw::Guest;

/// Has no table, which would be unused.
struct Nervous;

impl Guest for Nervous {
    #[allow(clippy::panic, reason = "what this guest is for")]
    fn describe() -> Vec<u8> {
        panic!("the guest does not know who it is");
    }
}
mortise_plugin::export_raw!(Nervous);
