//! Backups: a running server as one file, and a data directory made of it. docs/backup-format.md draws the file.
//!
//! - [`stream`]: everything of a server as of one commit, as a stream of bytes, while it serves.
//! - [`Archive`]: a backup's file. It is sealed: one that ends early, goes on too long or was changed anywhere is
//!   refused before anything in it is believed.
//! - [`restore`]: a data directory and a plugin folder made of a backup, in one step, with nothing touched before the
//!   whole archive was read and found good.
//!
//! - [`salvage`]: a data directory made of what can be read of a damaged backup, or of a damaged store.
//!
//! # Cost
//! Both ways hold a few MiB in memory, whatever the size. Reading and writing go at the speed of compression, some 100
//! MB of resources a second on one core.

mod archive;
mod entry;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod manifest;
mod output;
mod place;
mod restore;
mod salvage;
mod seal;
mod sources;

pub use archive::{Archive, Contents};
pub use error::BackupError;
pub use manifest::{FORMAT_VERSION, Manifest};
pub use output::{Head, Piece, stream};
pub use place::finish_interrupted;
pub use restore::{Progress, Restored, Target, restore};
pub use salvage::{Salvaged, salvage};
pub use seal::{SEAL_BYTES, SealChecker};
pub use sources::{Source, Sources};

#[cfg(test)]
mod tests;
