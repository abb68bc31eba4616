//! Lists and watches of many resources: their limits, their checks, and how they are read and sent.

mod checked_list;
mod events;
mod open_watch;
mod pools;
mod request;
mod type_watch;

pub use checked_list::EncodedList;
pub(crate) use checked_list::{CheckedList, Selection};
pub use events::Events;
pub(crate) use open_watch::{OpenWatch, WatchPermission, WatchScope};
pub(crate) use pools::Lists;
pub(crate) use request::check_request;
pub use type_watch::TypeWatch;
