//! The destination API for Linkerd's proxies, with an old and a new client (`proxy`).

mod churn;
mod crowd;
mod get;
mod mesh;
mod profile;
pub mod proxy;
