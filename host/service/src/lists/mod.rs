//! Lists and watches of many resources: their limits, their checks, and how they are read and sent.

pub(crate) mod checked_list;
pub(crate) mod events;
pub(crate) mod open_watch;
pub(crate) mod pools;
pub(crate) mod request;
pub(crate) mod type_watch;
