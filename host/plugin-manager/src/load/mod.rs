//! The way of a component from its source into the registry, and of the replaced version out of it.

pub(crate) mod canary;
pub(crate) mod content;
mod drain;
pub(crate) mod dry_run;
mod kept;
pub(crate) mod migration;
mod record;
pub(crate) mod request;
mod source;
pub(crate) mod stage;
mod start;
mod transition;
pub(crate) mod types;
mod verify;
