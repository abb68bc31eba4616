//! The provider's calls. Faults are diagnostics, not statuses: after a status core forgets what was made.

mod apply;
mod diagnostic;
mod functions;
mod import;
mod moving;
mod pending;
mod plan;
mod read;
mod service;
mod session;
mod validate;
mod wire;

pub use service::ProviderService;
pub use session::Session;
