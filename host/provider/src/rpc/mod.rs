//! The provider's calls. Faults are diagnostics, not gRPC statuses: core forgets created resources when it gets a
//! status.
//!
//! | file | work |
//! |---|---|
//! | `service`, `wire`, `diagnostic` | decodes each call and answers it; values on the wire; faults in core's terms |
//! | `session` | the connection: its server, types and functions |
//! | `validate`, `plan`, `apply`, `read` | the life of a resource |
//! | `import`, `moving`, `pending` | states of resources that the server does not have yet |
//! | `functions` | functions of plugins |

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
