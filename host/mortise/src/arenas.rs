//! Memory arenas of the C library: one alone where address space is scarce.
//!
//! The allocator of glibc reserves 64 MiB of address space for each of a dozen threads. Under a limit (`ulimit -v`) of
//! 512 MiB nothing would be left for anything else.

use std::env;

/// Address space in bytes below which arenas are limited.
const SCARCE_BYTES: u64 = 4 << 30;

/// Variable that glibc reads at the start of a program. A user who sets it has decided.
const VARIABLE: &str = "MALLOC_ARENA_MAX";

/// Limits the arenas, unless there is enough space or [`VARIABLE`] is set. Must run before the first thread, since the
/// arena of a thread is never taken back.
pub(crate) fn limit() {
    let scarce = mortise_plugin_host::address_space().is_some_and(|free| free < SCARCE_BYTES);
    if scarce && env::var_os(VARIABLE).is_none() {
        use_one_arena();
    }
}

#[cfg(target_env = "gnu")]
#[allow(unsafe_code)]
fn use_one_arena() {
    // SAFETY: mallopt has no requirement but that its arguments are numbers: it stores the second, under the
    // allocator's own lock, and touches nothing that was allocated. An old glibc that does not know the parameter
    // answers 0, and the program goes on with the arenas it has.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

/// Other C libraries have no arenas.
#[cfg(not(target_env = "gnu"))]
fn use_one_arena() {}
