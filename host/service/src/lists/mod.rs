//! TODO

pub(crate) mod checked_list;
pub(crate) mod open_watch;
pub(crate) mod type_watch;
