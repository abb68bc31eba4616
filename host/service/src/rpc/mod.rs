//! TODO

pub(crate) mod batch_get;
pub(crate) mod can;
pub(crate) mod delete;
pub(crate) mod functions;
pub(crate) mod list;
pub(crate) mod list_by_owner;
pub(crate) mod mutate_and_validate;
pub(crate) mod ownership;
pub(crate) mod read;
pub(crate) mod update;
pub(crate) mod watch_list;
pub(crate) mod write;
pub(crate) mod write_status;
