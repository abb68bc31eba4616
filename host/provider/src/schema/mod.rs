//! Schemas for core: of the provider, and of each type as a resource and as a data source.

mod actions;
mod attribute;
mod cache;
mod description;
mod envelope;
mod functions;
mod resource;
mod set;

pub use actions::{Action, PluginChange};
pub use attribute::{Attribute, Content, type_of};
pub use cache::SchemaCache;
pub use description::{Snapshot, TypeDescription};
pub use functions::{Function, FunctionSet};
pub use resource::{ResourceSchema, TypeError};
pub(crate) use set::TOKEN_DESCRIPTION;
pub use set::{ProviderSchema, list_name, list_type, provider_to_proto, provider_type, token_to_proto, token_type};

/// The attributes of the provider's configuration.
pub(crate) fn provider_attributes() -> Vec<Attribute> {
    envelope::provider()
}

/// The attributes of the data source that lists resources.
pub(crate) fn list_attributes() -> Vec<Attribute> {
    envelope::list(false)
}

/// The attributes of a short-lived token.
pub(crate) fn token_attributes() -> Vec<Attribute> {
    envelope::token()
}
