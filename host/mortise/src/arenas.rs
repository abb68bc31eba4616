//! Starts the program once more, with fewer arenas of the C library, where address space is scarce.
//!
//! The allocator of glibc reserves 64 MiB of address space for each of a dozen threads. Under a limit (`ulimit -v`) of
//! 512 MiB nothing would be left for anything else. How many arenas there may be is read from the environment, once,
//! before the program begins; so it has to begin anew. The process stays the same one, its id included.

use std::{env, os::unix::process::CommandExt as _, process::Command};

/// Under this much address space, bytes, arenas are counted.
const SCARCE: u64 = 4 << 30;

/// What glibc reads; whoever sets it has decided.
const VARIABLE: &str = "MALLOC_ARENA_MAX";

/// Returns when there is space enough, when the number of arenas is set, or when starting anew fails; then the program
/// goes on with what it has.
pub(crate) fn spare() {
    let scarce = mortise_plugin_host::address_space().is_some_and(|free| free < SCARCE);
    if !scarce || env::var_os(VARIABLE).is_some() {
        return;
    }
    if let Ok(program) = env::current_exe() {
        let mut arguments = env::args_os();
        let mut command = Command::new(program);
        if let Some(name) = arguments.next() {
            command.arg0(name);
        }
        // Only comes back when it failed.
        let _ = command.args(arguments).env(VARIABLE, "1").exec();
    }
}
