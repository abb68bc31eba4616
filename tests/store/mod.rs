//! The store from outside: backup, restore, and a full disk.

mod backup;
mod full_disk;
