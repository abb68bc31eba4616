//! What the black-box tests share. What most of them use is used from here by name; the other files are named where they are used.

pub mod controllers;
pub mod http;
pub mod nginx;
pub mod plugins;
mod refusals;
mod resources;
mod server;
pub mod tokens;
pub mod transcript;
mod waiting;

pub use refusals::*;
pub use resources::*;
pub use server::*;
pub use waiting::*;

/// Says that a test could not run, on the real stderr: what a test that passes prints is swallowed, and CI's summary
/// has these lines.
pub fn skipped(why: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "\nSKIPPED: {why}");
}
