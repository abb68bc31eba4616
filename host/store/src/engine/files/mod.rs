//! Files of a store beside sled's: the write-ahead log, the format, the last commit.

pub(crate) mod closed_at;
pub(crate) mod format;
pub(crate) mod layout;
pub(crate) mod number_file;
pub(crate) mod recovery;
pub(crate) mod reserve;
pub(crate) mod wal;
