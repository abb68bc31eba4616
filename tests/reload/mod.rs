//! Replacement of plugins while the server runs.

mod broken;
mod files;
mod load;
