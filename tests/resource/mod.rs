//! The RPCs of ResourceService, by name, and what a stored resource keeps.

mod delete;
mod identical_bytes;
mod list;
mod list_by_owner;
mod meta;
mod mutate_and_validate;
mod read;
mod watch_list;
mod watch_list_live;
mod write;
mod write_data;
mod write_marked;
mod write_status;
mod write_stored;
