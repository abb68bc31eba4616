//! The store from outside: backup, restore, a full disk, files that are taken away, compaction.

mod backup;
mod compact;
mod full_disk;
mod scheduled;
mod taken_away;
