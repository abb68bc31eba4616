//! Files of a store beside sled's: the write-ahead log, the format, the id, the last commit; and the names of open
//! files.

pub(crate) mod closed_at;
pub(crate) mod format;
pub(crate) mod layout;
pub(crate) mod number_file;
pub(crate) mod open_files;
pub(crate) mod recovery;
pub(crate) mod reserve;
pub(crate) mod store_id;
pub(crate) mod wal;
