//! A plugin: its state and transitions.
//!
//! ```text
//!                 refused                        loaded
//!   (unknown) ─────────────▶ FileOnly ──────────────────────────────┐
//!                              │ ▲                                  ▼
//!                    file gone │ └─ first Checking  ┌─ disable ── Serving ◀── loaded ── Broken
//!                              ▼                    ▼               │ ▲                   ▲
//!                          (unknown)            Disabled ─ enable ──┼─┤                   │ nothing that it had
//!                              ▲                  │ ▲               │ │ loaded            │ loads at a start
//!                              │      source gone │ │ source back   │ │                   │
//!                              │                  ▼ │               ▼ │                 (start)
//!                              └─ nothing ── Disabled,  ◀─ gone ─ Removed
//!                                 stored     source gone
//! ```
//!
//! `FileOnly` has a record and no types. `Serving` is the only state with a plugin in the registry; the others keep its
//! types there, without hooks, while resources of them are stored.

use mortise_resource::{data, pb::condition::State};

use crate::plugin_resources::{PluginRecord, condition};

/// The reason of the condition `Loaded` of a plugin whose source is gone.
pub(crate) const REMOVED: &str = "Removed";

/// State of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PluginState {
    /// The plugin never served: the record is about a file.
    #[default]
    FileOnly,
    /// It is in the registry.
    Serving,
    /// Its source exists, but neither it nor the kept copy could be loaded at the start.
    Broken,
    /// An operator disabled it.
    Disabled {
        /// The source is gone as well.
        source_gone: bool,
    },
    /// Its source is gone, and every component since then was rejected.
    Removed,
}

/// A plugin, or a file that could not be loaded as one.
#[derive(Debug)]
pub(crate) struct ManagedPlugin {
    state: PluginState,
    pub(crate) record: PluginRecord,
    pub(crate) last_failure: Option<data::inspect_response::Failure>,
    /// Replaced versions in which calls have not ended.
    pub(crate) draining: u32,
}

impl Default for ManagedPlugin {
    fn default() -> Self {
        let record = PluginRecord {
            data: data::Plugin::default(),
            loaded: condition("Loaded", State::Unknown, "Compiling", ""),
            healthy: condition("Healthy", State::Unknown, "NotLoaded", ""),
        };
        Self { state: PluginState::FileOnly, record, last_failure: None, draining: 0 }
    }
}

impl ManagedPlugin {
    /// Restores a plugin from its stored record. A plugin that should serve is `Broken` until the start has loaded it.
    pub(crate) fn restore(record: PluginRecord) -> Self {
        let removed = record.loaded.reason == REMOVED;
        let state = match (record.data.version.is_empty(), record.data.disabled) {
            (true, _) => PluginState::FileOnly,
            (false, true) => PluginState::Disabled { source_gone: removed },
            (false, false) if removed => PluginState::Removed,
            (false, false) => PluginState::Broken,
        };
        Self { state, record, last_failure: None, draining: 0 }
    }

    pub(crate) fn is_file_only(&self) -> bool {
        self.state == PluginState::FileOnly
    }

    pub(crate) fn is_disabled(&self) -> bool {
        matches!(self.state, PluginState::Disabled { .. })
    }

    /// Whether its source is gone.
    pub(crate) fn is_removed(&self) -> bool {
        matches!(self.state, PluginState::Removed | PluginState::Disabled { source_gone: true })
    }

    /// Whether the plugin came from that source, and the source existed at the last look.
    pub(crate) fn had_source(&self, source: &str) -> bool {
        !self.is_file_only() && !self.is_removed() && self.record.data.source == source
    }

    /// Records that the plugin is in the registry.
    pub(crate) fn serve(&mut self) {
        self.enter(PluginState::Serving);
    }

    /// Records that an operator disabled the plugin, or that the source of a disabled plugin is back.
    pub(crate) fn disable(&mut self) {
        self.enter(PluginState::Disabled { source_gone: false });
    }

    /// Records that the source is gone. This ends a rollback.
    pub(crate) fn source_gone(&mut self) {
        self.follow_source();
        self.enter(match self.state {
            PluginState::Disabled { .. } => PluginState::Disabled { source_gone: true },
            _ => PluginState::Removed,
        });
    }

    /// Records that an operator removed the plugin: it is no longer disabled, and having served no longer makes it
    /// trusted.
    pub(crate) fn remove(&mut self) {
        self.record.data.withdrawn = true;
        self.enter(PluginState::Removed);
    }

    /// Ends a rollback: the source's content is wanted again.
    pub(crate) fn follow_source(&mut self) {
        self.record.data.rolled_back = false;
        self.record.data.held_digest.clear();
    }

    fn enter(&mut self, state: PluginState) {
        self.state = state;
        self.record.data.disabled = self.is_disabled();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_that_is_off_stays_off_while_its_source_goes_and_comes() {
        let mut plugin = ManagedPlugin::default();
        assert!(plugin.is_file_only() && !plugin.record.data.disabled);
        plugin.serve();
        plugin.disable();
        plugin.source_gone();
        assert!(plugin.is_disabled() && plugin.is_removed() && plugin.record.data.disabled);
        plugin.disable();
        assert!(plugin.is_disabled() && !plugin.is_removed());
        plugin.remove();
        assert!(!plugin.is_disabled() && plugin.is_removed() && !plugin.record.data.disabled);
        assert!(plugin.record.data.withdrawn);
        plugin.serve();
        assert!(!plugin.is_removed() && !plugin.is_file_only());
    }

    #[test]
    fn the_state_is_restored_from_what_is_stored() {
        let record = |version: &str, disabled, reason| PluginRecord {
            data: data::Plugin { version: version.into(), disabled, ..data::Plugin::default() },
            loaded: condition("Loaded", State::False, reason, ""),
            healthy: condition("Healthy", State::Unknown, "NotLoaded", ""),
        };
        let state = |version, disabled, reason| ManagedPlugin::restore(record(version, disabled, reason)).state;
        assert_eq!(state("", false, "BadManifest"), PluginState::FileOnly);
        assert_eq!(state("1", false, "Serving"), PluginState::Broken);
        assert_eq!(state("1", false, REMOVED), PluginState::Removed);
        assert_eq!(state("1", true, "Disabled"), PluginState::Disabled { source_gone: false });
        assert_eq!(state("1", true, REMOVED), PluginState::Disabled { source_gone: true });
    }
}
