//! Backups: a running server as one file, and a data directory restored from it. docs/backup-format.md describes the
//! file.
//!
//! - [`stream`]: writes the state of a serving server as of one commit, as a stream of bytes.
//! - [`Archive`]: reads a backup's file. The file is sealed: a file that is cut off, continued or changed anywhere is
//!   rejected before its content is used.
//! - [`restore`]: makes a data directory and a plugin folder from a backup, in one step, after the whole archive was
//!   read and checked.
//! - [`salvage`]: makes a data directory from the readable part of a damaged backup or store.
//!
//! The server streams a backup to `mortise backup`, which checks the seal. `mortise restore`, with `--salvage` or
//! without, works on files, while no server uses them.
//!
//! # Cost
//! Backup and restore hold a few MiB in memory at any size. Both go at the speed of compression, some 100 MB of
//! resources a second on one core.

mod archive;
mod entry;
mod error;
mod folder;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod manifest;
mod output;
mod place;
mod restore;
mod salvage;
mod schedule;
mod seal;
mod sources;

pub use archive::{Archive, ContentReceiver};
pub use error::BackupError;
pub use folder::{BackupFile, Retention, list_backups, remove_old_backups, write_backup};
pub use manifest::{FORMAT_VERSION, Manifest};
pub use output::{Head, Piece, stream};
pub use place::finish_interrupted;
pub use restore::{Progress, Restored, Target, restore};
pub use salvage::{Salvaged, salvage};
pub use schedule::{Schedule, ScheduleError, Timetable};
pub use seal::{SEAL_BYTES, SealChecker};
pub use sources::{Source, Sources};

#[cfg(test)]
mod tests;
