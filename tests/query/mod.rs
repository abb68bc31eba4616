//! QueryService and WatchService: searches, indexes, hostile filters, watches by a query.

mod hostile;
mod index;
mod past;
mod search;
mod versions;
mod watch;
