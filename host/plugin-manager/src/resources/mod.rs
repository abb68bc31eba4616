//! The resources of type `mortise.v1.Plugin`, and what they say.

pub(crate) mod plugin_resources;
pub(crate) mod records;
