//! Things whose bits are flipped.

use clap::ValueEnum;

pub(super) const WRITERS: usize = 4;
pub(super) const NAMES: usize = 40;

/// Victim of a flip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// A store that was closed.
    Closed,
    /// A store whose process was killed.
    Killed,
    /// A backup.
    Backup,
    /// Code that a server compiled and kept, its secret, and the plugin that it was compiled from.
    Code,
}

impl Target {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Killed => "killed",
            Self::Backup => "backup",
            Self::Code => "code",
        }
    }
}
