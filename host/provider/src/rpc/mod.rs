//! The provider's calls. Faults are diagnostics, not statuses: after a status core forgets what was made.

mod apply;
mod diagnostic;
mod import;
mod plan;
mod read;
mod service;
mod session;
mod validate;
mod wire;

pub use service::ProviderService;
pub use session::Session;
