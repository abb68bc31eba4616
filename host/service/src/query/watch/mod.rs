//! Watches by the content of resources: of one resource, of a page, and of everything that matches.
//!
//! # Contract
//! A watch of a page (STATEFUL) shows after each message that is current what a search with the same arguments shows as
//! of one commit. A watch of everything (STATELESS) sends what matches as of one commit, and then every change of it,
//! each once, in commit order; its resume tokens are positions in the history of the store, and outlive the server.
//! Whether a change concerns a watch is judged by what the resource was and is, so what leaves a filter is told
//! as removed, also to who was away. Only where the history does not have what a resource was, it may be told as
//! removed to who never had it.
//!
//! Who reads slowly is brought up to date from the history, or, where that does not reach back, is told to
//! forget everything (a hard reset) and gets a new snapshot. Nothing is left out unnoticed.
//!
//! # Limits
//! Those of every watch ([`open_watch`](crate::lists::open_watch)). Snapshots and replays wait for one of the places among
//! `service.concurrent_watch_snapshots`, pages for room among `service.list_bytes`, which they hold until the client has taken them. The
//! pages of all watches hold [`VIEWS`](super::queries::VIEWS) of keys and ids together.
//!
//! # Cost
//! A watch that requires names, one tenancy, or values of labels or of fields hears of changes of resources only that have
//! these, before or after ([`terms`]); any other evaluates each change of its type. A page that loses a row while more follow it is read again, as often as leaves half of the time
//! to others.

mod page_view;
pub(crate) mod resources;
mod session;
pub(crate) mod single;
mod stateful;
mod stateless;
mod terms;
