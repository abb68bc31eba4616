//! Types of missing plugins, which were removed, disabled, or broken since the last start.
//!
//! Stored resources of such a type can still be read, listed, watched and deleted, with `operator:read` and
//! `operator:write` in place of the missing authorize hook. Writes are refused, since the validate hook is missing.

use std::fmt;

use mortise_plugin_host::Manifest;

/// A plugin with known types that is not loaded.
#[derive(Debug)]
pub struct MissingPlugin {
    /// Name of the plugin.
    pub name: String,
    /// Manifest of its last loaded version.
    pub manifest: Manifest,
    /// Reason why the plugin is missing.
    pub why: MissingReason,
}

/// The reason why a plugin, or one of its types, is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingReason {
    /// The plugin's file is gone.
    Removed,
    /// The plugin is disabled.
    Disabled,
    /// All versions of the plugin fail to load.
    Broken,
    /// The loaded version of the plugin no longer provides the type.
    Dropped,
}

impl fmt::Display for MissingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Removed => "is removed; put its file back or install it, or delete what is stored",
            Self::Disabled => "is disabled; enable it",
            Self::Broken => "cannot be loaded; its mortise.v1.Plugin resource says why",
            Self::Dropped => "has dropped the type; load a version that provides it, or delete what is stored",
        })
    }
}
