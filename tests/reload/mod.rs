//! Replacement of plugins while the server runs.

mod broken;
mod compiler;
mod files;
mod load;
