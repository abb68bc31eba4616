//! Plugins that are replaced while the server runs.

mod broken;
mod files;
mod load;
