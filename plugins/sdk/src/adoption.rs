//! Resources of other origin: moved from another type, or imported from outside.

use std::collections::BTreeMap;

use mortise_resource::pb;
use prost::Message;
use prost_types::Any;

use crate::{Data, envelope::Envelope, raw, typed::type_url};

/// A resource in its new type: the answer of a hook of [`crate::ResourceType::moves_from`]. Name, tenancy and owner are
/// the source's.
#[derive(Debug, Clone, PartialEq)]
pub struct Move<M> {
    data: M,
    metadata: Option<BTreeMap<String, String>>,
    kept: Option<Vec<u8>>,
}

/// A resource that represents an external object: the answer of a hook of [`crate::ResourceType::import`].
#[derive(Debug, Clone, PartialEq)]
pub struct Import<M> {
    name: String,
    data: M,
    metadata: BTreeMap<String, String>,
    kept: Option<Vec<u8>>,
}

impl<M> Move<M> {
    /// Makes a move with this data, the source's metadata, and no private bytes.
    pub const fn new(data: M) -> Self {
        Self { data, metadata: None, kept: None }
    }

    /// Sets the metadata, in place of the source's.
    #[must_use]
    pub fn metadata(mut self, metadata: BTreeMap<String, String>) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Sets the private bytes, at most 64 KiB, which controllers get by [`crate::Context::private_bytes`].
    #[must_use]
    pub fn private_bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.kept = Some(bytes.into());
        self
    }
}

impl<M> Import<M> {
    /// Makes an import with this name and data, no metadata, and no private bytes.
    pub fn new(name: impl Into<String>, data: M) -> Self {
        Self { name: name.into(), data, metadata: BTreeMap::new(), kept: None }
    }

    /// Sets the metadata.
    #[must_use]
    pub fn metadata(mut self, metadata: BTreeMap<String, String>) -> Self {
        self.metadata = metadata;
        self
    }

    /// Sets the private bytes, at most 64 KiB, which controllers get by [`crate::Context::private_bytes`].
    #[must_use]
    pub fn private_bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.kept = Some(bytes.into());
        self
    }
}

impl<M: Data> Move<M> {
    pub(crate) fn into_raw(self, source: pb::Resource, to: pb::Type) -> raw::NewResource {
        let pb::Id { name, tenancy, .. } = source.id.unwrap_or_default();
        let resource = Envelope {
            id: Some(pb::Id { name, tenancy, r#type: Some(to), uid: String::new() }),
            owner: source.owner.as_ref().map(Message::encode_to_vec),
            metadata: self.metadata.unwrap_or(source.metadata),
            data: Some(any(&self.data)),
            ..Envelope::default()
        };
        raw::NewResource { resource: resource.encode_to_vec(), kept: self.kept }
    }
}

impl<M: Data> Import<M> {
    pub(crate) fn into_raw(self, of: pb::Type, within: pb::Tenancy) -> raw::NewResource {
        let resource = Envelope {
            id: Some(pb::Id { name: self.name, tenancy: Some(within), r#type: Some(of), uid: String::new() }),
            metadata: self.metadata,
            data: Some(any(&self.data)),
            ..Envelope::default()
        };
        raw::NewResource { resource: resource.encode_to_vec(), kept: self.kept }
    }
}

fn any<M: Data>(data: &M) -> Any {
    Any { type_url: type_url(M::full_name), value: data.encode_to_vec() }
}
