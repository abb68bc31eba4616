//! The errors of adding a plugin to the table.

use mortise_resource::types::Gvk;
use prost_reflect::DescriptorError;

/// A rule of the table that a plugin breaks.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The host's own descriptors cannot be read.
    #[error("the host's own descriptors: {0}")]
    Descriptors(#[source] DescriptorError),
    /// The host's own descriptors lack a message.
    #[error("the host's own descriptors lack {0}")]
    MessageMissing(&'static str),
    /// Another loaded plugin has the name.
    #[error("a plugin named {name:?} is loaded already (version {version}); remove one of the two")]
    NameTaken {
        /// The name.
        name: String,
        /// Version of the loaded plugin.
        version: String,
    },
    /// The type is in a group of the host.
    #[error("type {0}: group {group:?} belongs to the host; choose another", group = .0.group)]
    ReservedGroup(Gvk),
    /// The names of two types differ in case only.
    #[error(
        "type {declared}: {known} exists, and HTTP paths, which are in lower case, cannot distinguish the two; rename \
         the type"
    )]
    CaseClash {
        /// The type of the plugin.
        declared: Box<Gvk>,
        /// The registered type.
        known: Box<Gvk>,
    },
    /// Another provider has the type, or another version of its kind.
    #[error("type {declared}: plugin {provider:?} provides {known} already; remove one of the two, or rename the type")]
    TypeTaken {
        /// The type of the plugin.
        declared: Box<Gvk>,
        /// The registered type.
        known: Box<Gvk>,
        /// Name of its provider.
        provider: String,
    },
    /// Another version of the kind has another scope.
    #[error(
        "type {declared}: {known} has another scope, but versions of a kind share their resources; give both one scope"
    )]
    ScopesDiffer {
        /// The type of the plugin.
        declared: Box<Gvk>,
        /// The registered type.
        known: Box<Gvk>,
    },
}
