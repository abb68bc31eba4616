//! One plugin: which state it is in, and its transitions.
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
//! types there, without hooks, for as long as something of them is stored.

use mortise_resource::{data, pb::condition::State};

use crate::plugin_resources::{PluginRecord, condition};

/// The reason of the condition `Loaded` of a plugin whose source is gone.
pub(crate) const REMOVED: &str = "Removed";

/// What became of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PluginState {
    /// Nothing of it ever served: the record is about a file.
    #[default]
    FileOnly,
    /// It is in the registry.
    Serving,
    /// Its source is there and nothing of it could be loaded at the start.
    Broken,
    /// An operator switched it off.
    Disabled {
        /// The source is gone as well.
        source_gone: bool,
    },
    /// Its source is gone, and what was offered since then, if anything, was refused.
    Removed,
}

/// A plugin, or a file that does not become one.
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
    /// The plugin that a stored record is about. Until the start has loaded it, one that is to serve is `Broken`.
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

    /// Whether this is a plugin that came from that source, which was there when it was looked at last.
    pub(crate) fn had_source(&self, source: &str) -> bool {
        !self.is_file_only() && !self.is_removed() && self.record.data.source == source
    }

    /// It is in the registry from now on.
    pub(crate) fn serve(&mut self) {
        self.enter(PluginState::Serving);
    }

    /// An operator switches it off, or its source is back while it is off.
    pub(crate) fn disable(&mut self) {
        self.enter(PluginState::Disabled { source_gone: false });
    }

    /// Its source is gone. What it was rolled back from does not matter any more.
    pub(crate) fn source_gone(&mut self) {
        self.follow_source();
        self.enter(match self.state {
            PluginState::Disabled { .. } => PluginState::Disabled { source_gone: true },
            _ => PluginState::Removed,
        });
    }

    /// An operator removes it: it is not switched off any more, and that it served does not bring it back.
    pub(crate) fn remove(&mut self) {
        self.record.data.withdrawn = true;
        self.enter(PluginState::Removed);
    }

    /// What the source holds is wanted again: no rollback is in force.
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
