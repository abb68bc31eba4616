//! Content of the table: keys, records, and the maps in memory in front of sled's tree.

pub(crate) mod change;
pub(crate) mod check;
pub(crate) mod checkpoint;
pub(crate) mod checkpoint_position;
pub(crate) mod keys;
pub(crate) mod memtable;
pub(crate) mod merge;
pub(crate) mod panics;
pub(crate) mod record;
pub(crate) mod sled_file;
pub(crate) mod sled_messages;
pub(crate) mod sums;
pub(crate) mod table;
pub(crate) mod totals;
pub(crate) mod usage;
pub(crate) mod write_batch;
