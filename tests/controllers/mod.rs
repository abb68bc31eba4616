//! Controllers in plugins: reconciling, mapping, host calls, reloads, crashes, hostile ones.

mod crash;
mod grants;
mod hostile;
mod http;
mod mapping;
mod query;
mod reconcile;
mod reload;
mod tcp;
