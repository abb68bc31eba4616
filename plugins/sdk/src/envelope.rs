//! A resource, decoded as far as hooks need it.

use std::collections::BTreeMap;

use mortise_resource::{goten::Meta, pb};
use prost::{DecodeError, Message};
use prost_types::Any;

/// A [`pb::Resource`] with owner, status and meta left as bytes, the same on the wire: every hook decodes one, few use
/// those fields, and a fresh instance pays for every branch of a message that it decodes.
#[derive(Clone, PartialEq, Message)]
pub struct Envelope {
    #[prost(message, optional, tag = "1")]
    pub(crate) id: Option<pb::Id>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(crate) owner: Option<Vec<u8>>,
    #[prost(string, tag = "3")]
    pub(crate) version: String,
    #[prost(string, tag = "4")]
    pub(crate) generation: String,
    #[prost(btree_map = "string, string", tag = "5")]
    pub(crate) metadata: BTreeMap<String, String>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub(crate) status: Vec<Vec<u8>>,
    #[prost(message, optional, tag = "7")]
    pub(crate) data: Option<Any>,
    #[prost(bytes = "vec", optional, tag = "1001")]
    pub(crate) meta: Option<Vec<u8>>,
}

/// An entry of the map `status`, which is a message on the wire.
#[derive(Clone, PartialEq, Message)]
struct StatusEntry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<pb::Status>,
}

impl Envelope {
    /// Decodes the bytes of a [`pb::Resource`].
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode(bytes)
    }

    /// Type in the id.
    pub(crate) fn of(&self) -> Option<&pb::Type> {
        self.id.as_ref()?.r#type.as_ref()
    }

    /// Name in the id.
    pub(crate) fn name(&self) -> &str {
        self.id.as_ref().map_or("", |id| id.name.as_str())
    }

    /// Owner; `None` if there isn't one or it does not decode.
    pub(crate) fn read_owner(&self) -> Option<pb::Id> {
        self.owner.as_ref().and_then(|bytes| pb::Id::decode(bytes.as_slice()).ok())
    }

    /// Meta; `None` if it is absent or does not decode.
    pub(crate) fn read_meta(&self) -> Option<Meta> {
        self.meta.as_ref().and_then(|bytes| Meta::decode(bytes.as_slice()).ok())
    }

    /// Statuses by key, without entries that do not decode.
    pub(crate) fn read_status(&self) -> BTreeMap<String, pb::Status> {
        let entries = self.status.iter().filter_map(|bytes| StatusEntry::decode(bytes.as_slice()).ok());
        entries.map(|entry| (entry.key, entry.value.unwrap_or_default())).collect()
    }

    /// Status under one key.
    pub(crate) fn read_status_under(&self, key: &str) -> Option<pb::Status> {
        let mut entries = self.status.iter().filter_map(|bytes| StatusEntry::decode(bytes.as_slice()).ok());
        entries.find(|entry| entry.key == key).map(|entry| entry.value.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_a_resource_writes() {
        let condition = pb::Condition { r#type: "Accepted".into(), ..pb::Condition::default() };
        let status = pb::Status { conditions: vec![condition], ..pb::Status::default() };
        let resource = pb::Resource {
            id: Some(pb::Id { name: "korn".into(), ..pb::Id::default() }),
            owner: Some(pb::Id { name: "label".into(), ..pb::Id::default() }),
            version: "7".into(),
            generation: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(),
            metadata: BTreeMap::from([("a".into(), "b".into())]),
            status: BTreeMap::from([("one".into(), status), ("two".into(), pb::Status::default())]),
            data: Some(Any { type_url: "t".into(), value: vec![1] }),
            schema_version: 2,
            references: Vec::new(),
            meta: Some(Box::new(Meta { generation: 3, ..Meta::default() })),
        };
        let envelope = Envelope::read(&resource.encode_to_vec()).unwrap();
        assert_eq!((&envelope.id, envelope.read_owner()), (&resource.id, resource.owner.clone()));
        assert_eq!(envelope.read_meta(), resource.meta.as_deref().cloned());
        assert_eq!(envelope.read_status(), resource.status);
        assert_eq!(envelope.read_status_under("one").as_ref(), resource.status.get("one"));
        assert_eq!((envelope.read_status_under("three"), envelope.name()), (None, "korn"));
        assert_eq!((&envelope.metadata, &envelope.data), (&resource.metadata, &resource.data));
        assert_eq!((&envelope.version, &envelope.generation), (&resource.version, &resource.generation));
    }
}
