//! The destination API for Linkerd's proxies, with an old and a new client (`proxy`).

mod churn;
mod crowd;
mod get;
mod mesh;
mod outbound;
mod profile;
pub mod proxy;
