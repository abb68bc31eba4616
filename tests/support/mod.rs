//! Helpers of the black-box tests. Common ones are reexported here; the others are named by their file.

pub mod controllers;
mod engine;
pub mod http;
pub mod nginx;
pub mod plugins;
mod refusals;
mod resources;
mod server;
pub mod terminal;
#[allow(dead_code, reason = "its own crate uses the rest")]
#[path = "../../host/registry/tests/test_registry/mod.rs"]
pub mod test_registry;
pub mod tokens;
pub mod transcript;
mod waiting;
mod watch;

pub use engine::is_left_out_over_etcd;
pub use refusals::*;
pub use resources::*;
pub use server::*;
pub use waiting::*;
pub use watch::*;

/// Reports that a test could not run, on the real stderr: output of passing tests is hidden, and CI's summary shows
/// these lines.
pub fn skipped(why: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "\nSKIPPED: {why}");
}

/// The binary, started with a mask of modes.
pub fn masked(mask: &str) -> tokio::process::Command {
    let mut command = tokio::process::Command::new("sh");
    command.args(["-c", &format!("umask {mask}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_mortise")]);
    command
}
