//! Types of missing plugins: those that are removed, disabled, or broken since the last start.
//!
//! Stored resources of such a type can still be read, listed, watched and deleted, with `operator:read` and
//! `operator:write`, since there is no authorize hook. Writes are refused, because there is no validate hook.

use std::fmt;

use mortise_plugin_host::Manifest;

/// A plugin that is not loaded and whose types are known.
#[derive(Debug)]
pub struct MissingPlugin {
    /// Name of the plugin.
    pub name: String,
    /// The manifest that it had when it was loaded last.
    pub manifest: Manifest,
    /// The reason for which it is missing.
    pub why: MissingReason,
}

/// The reason for which a plugin, or one of its types, is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingReason {
    /// The plugin's file is gone.
    Removed,
    /// The plugin is disabled.
    Disabled,
    /// No version of the plugin can be loaded.
    Broken,
    /// The plugin is loaded, in a version that no longer provides the type.
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
