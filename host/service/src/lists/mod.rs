//! Lists and watches of many resources: their limits, their checks, their reading and their encoding.
//!
//! # Contract
//! A list shows the store as of one commit. A watch shows a snapshot, its end, and then every change, in commit order.
//! For a client, the authorize hook decides about each resource.
//!
//! # Limits
//! Bytes of lists, open watches, snapshots at once, and waiting lists: see [`encoded_list`] and [`events`]. Later pages
//! are read on threads of low priority.

mod checked_list;
mod encoded_list;
mod events;
mod open_watch;
mod pools;
mod recent_decisions;
mod request;
mod type_watch;
mod watch_pace;
mod watch_places;
mod watched_types;

pub(crate) use checked_list::{CheckedList, Selection};
pub use encoded_list::EncodedList;
pub use events::Events;
pub(crate) use open_watch::{OpenWatch, WatchPermission, WatchScope};
pub(crate) use pools::{FOREGROUND_PAGES, Lists, YIELD_INTERVAL_CHANGES};
pub(crate) use recent_decisions::RecentDecisions;
pub(crate) use request::check_request;
pub use type_watch::TypeWatch;
pub(crate) use watch_pace::{WatchPace, WatchTurn};
