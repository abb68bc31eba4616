//! The configuration's file: whether it has changed and settled.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::files::folder::Stamp;

/// What the configuration's file looked like.
pub(crate) struct ConfigWatch {
    path: Option<PathBuf>,
    acted: Option<Stamp>,
    pending: Option<(Option<Stamp>, Instant)>,
    /// Plugins whose settings could not be brought in.
    pub(crate) unsettled: BTreeSet<String>,
}

impl ConfigWatch {
    pub(crate) fn new(path: Option<&Path>) -> Self {
        let acted = path.and_then(Stamp::at);
        Self { path: path.map(Path::to_owned), acted, pending: None, unsettled: BTreeSet::new() }
    }

    /// Whether the file has changed and settled; else when to look again.
    pub(crate) fn changed(&mut self, settle: Duration) -> Result<(), Option<Duration>> {
        let Some(path) = &self.path else { return Err(None) };
        let now = Stamp::at(path);
        // A file that is away for a moment is being replaced; one that stays away changes nothing.
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
