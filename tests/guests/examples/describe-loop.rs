//! Never returns its manifest.

use mortise_plugin::raw::Guest;

/// Has no table, which would be unused.
struct Silent;

impl Guest for Silent {
    fn describe() -> Vec<u8> {
        let mut turns = 0_u64;
        loop {
            turns = std::hint::black_box(turns.wrapping_add(1));
        }
    }
}
mortise_plugin::export_raw!(Silent);
