//! The provider's calls. Faults are diagnostics, not gRPC statuses: core forgets created resources when it gets a
//! status.

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
