//! The provider's calls. Faults are diagnostics, not gRPC statuses: core forgets created resources when it gets a
//! status.
//!
//! | file | work |
//! |---|---|
//! | `service`, `answer`, `wire`, `diagnostic` | decodes each call and answers it; values on the wire; faults in core's terms |
//! | `describe` | names and schemas of everything |
//! | `session` | the connection: its server, types and functions |
//! | `validate`, `companions`, `plan`, `apply`, `apply_result`, `read` | the life of a resource |
//! | `fill`, `changed_path`, `recent_plans` | attributes of plans that the server sets; the comparison of two plans; plans of a moment ago |
//! | `core_form` | plans and applies with values that are only written |
//! | `placeholders`, `partial`, `ignored` | plans with unknown values; applies of attributes under `ignore_changes` |
//! | `wait`, `deletion`, `taken` | waits after writes; deletions and their plans; names that are taken |
//! | `inputs`, `identity` | stored states and the provider's configuration; identities of resources |
//! | `ephemeral`, `token` | resources that are read and kept in no file; tokens for a run |
//! | `search`, `listing` | queries and their pages; the resources that they find, for `terraform query` |
//! | `import`, `moving`, `pending` | states of resources that the server does not have yet |
//! | `functions` | functions of plugins |
//! | `action` | changes of the server that leave no state |

mod action;
mod answer;
mod apply;
mod apply_result;
mod changed_path;
mod companions;
mod core_form;
mod deletion;
mod describe;
mod diagnostic;
mod ephemeral;
mod fill;
mod functions;
mod identity;
mod ignored;
mod import;
mod inputs;
mod listing;
mod meta_change;
mod moving;
mod partial;
mod pending;
mod placeholders;
mod plan;
mod read;
mod recent_plans;
mod search;
mod service;
mod session;
mod taken;
mod token;
mod validate;
mod wait;
mod wire;

pub use service::ProviderService;
pub use session::Session;
