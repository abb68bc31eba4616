//! Access, audit, TLS, redaction, and pages in browsers.

mod audit;
mod browsers;
mod files;
mod redaction;
pub mod tls;
mod tokens;
