//! Watches by the content of resources: of one resource, of a page, and of all matches.
//!
//! # Contract
//! A watch of a page (STATEFUL) shows, after each message marked as current, the result of a search with the same
//! arguments as of one commit. A watch of all matches (STATELESS) sends the matches as of one commit, and then every
//! change of them, each once, in commit order. Its resume tokens are positions in the history of the store, and outlive
//! the server. The states before and after a change decide whether it concerns a watch, so a resource that leaves a
//! filter is sent as removed, also to a client that was away. Only if the history lacks the state before, a resource
//! may be sent as removed to a client that never had it.
//!
//! A slow client is brought up to date from the history. Where the history does not reach back, the client is asked to
//! forget everything (a hard reset) and gets a new snapshot. No change is lost unnoticed.
//!
//! # Limits
//! Those of every watch ([`open_watch`](crate::lists::open_watch)). Snapshots and replays wait for one of the places of
//! `service.concurrent_watch_snapshots`, pages for bytes of `service.list_bytes`, which they hold until the client has
//! taken them. The pages of all watches hold at most [`TOTAL_VIEW_BYTES`](super::queries::TOTAL_VIEW_BYTES) of keys and
//! ids.
//!
//! # Cost
//! A watch that requires names, one tenancy, or values of labels or of fields is woken only by changes of resources
//! that have these before or after the change ([`terms`]); any other watch evaluates each change of its type. The
//! caller pays for the time: beyond a share of a processor its watches get changes later
//! ([`WatchPace`](crate::lists::WatchPace)). A page that loses a row while more follow is read again, for at most half
//! of the time.

mod page_view;
pub(crate) mod resources;
mod session;
pub(crate) mod single;
mod stateful;
mod stateless;
mod terms;
