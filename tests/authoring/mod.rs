//! The loop of a plugin's author: `mortise plugin new`, `build`, `test`, `dev`.

mod errors;
mod workflow;
