//! The loop of a plugin's author: `mortise plugin new`, `build`, `test`, `dev`.

mod cases;
mod conformance;
mod errors;
mod server_config;
mod workflow;
