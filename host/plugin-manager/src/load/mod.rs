//! The road of a component from its source to the registry, and that of the version it replaces out of it.

pub(crate) mod canary;
pub(crate) mod drain;
pub(crate) mod migration;
pub(crate) mod request;
pub(crate) mod stage;
mod start;
