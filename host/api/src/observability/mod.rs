//! The server's visible state: metrics, counts of requests, and its status in numbers.

pub(crate) mod members;
pub mod metrics;
pub(crate) mod metrics_page;
pub(crate) mod process;
pub(crate) mod requests;
pub(crate) mod server_status;
