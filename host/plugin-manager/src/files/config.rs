//! The configuration's file: whether it has changed and settled.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::files::folder::Stamp;

/// Last seen state of the configuration's file.
pub(crate) struct ConfigWatch {
    path: Option<PathBuf>,
    acted: Option<Stamp>,
    pending: Option<(Option<Stamp>, Instant)>,
    /// Plugins that rejected their new settings.
    pub(crate) unsettled: BTreeSet<String>,
    /// Number of the last reload for changed settings, by plugin.
    reloads: BTreeMap<String, u64>,
}

impl ConfigWatch {
    pub(crate) fn new(path: Option<&Path>) -> Self {
        let acted = path.and_then(Stamp::at);
        Self {
            path: path.map(Path::to_owned),
            acted,
            pending: None,
            unsettled: BTreeSet::new(),
            reloads: BTreeMap::new(),
        }
    }

    /// Notes that the file is read now.
    pub(crate) fn note_read(&mut self) {
        self.acted = self.path.as_deref().and_then(Stamp::at);
        self.pending = None;
    }

    /// Begins a reload of a plugin. Returns its number.
    pub(crate) fn next_reload(&mut self, plugin: &str) -> u64 {
        let number = self.reloads.entry(plugin.to_owned()).or_default();
        *number += 1;
        *number
    }

    /// Returns whether a later reload of the plugin has begun.
    pub(crate) fn has_later_reload(&self, plugin: &str, number: u64) -> bool {
        self.reloads.get(plugin).is_some_and(|last| *last > number)
    }

    /// Whether the file has changed and settled; the error is the time until the next look.
    pub(crate) fn changed(&mut self, settle: Duration) -> Result<(), Option<Duration>> {
        let Some(path) = &self.path else { return Err(None) };
        let now = Stamp::at(path);
        // A file that is missing for a moment is being replaced; one that stays missing changes nothing.
        if now == self.acted || now.is_none() {
            self.pending = None;
            return Err(None);
        }
        let since = match self.pending {
            Some((pending, since)) if pending == now => since,
            _ => Instant::now(),
        };
        self.pending = Some((now, since));
        match settle.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) {
            Some(left) => Err(Some(left)),
            None => {
                (self.acted, self.pending) = (now, None);
                Ok(())
            }
        }
    }
}
