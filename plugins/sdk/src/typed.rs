//! A resource with its data decoded.

use std::{collections::BTreeMap, error::Error};

use mortise_resource::{goten::Meta, pb};
use prost::{Message, Name};
use prost_types::Any;

use crate::{Diagnostics, Failure, dispatch::DispatchError, envelope::Envelope, kind::Data, wire};

/// A resource whose data is an `M`. Fields that a mutate hook may change are public; the rest can only be read, except
/// for the owner of a resource that a reconciler makes.
#[derive(Debug, Clone, PartialEq)]
pub struct Typed<M> {
    /// Data. The default value if the resource has none and its type allows that.
    pub data: M,
    /// Metadata: free key/value pairs.
    pub metadata: BTreeMap<String, String>,
    id: pb::Id,
    /// The encoded meta with a changed protection from deletion; `None` if the hook changes none. Encoded by the
    /// change, so that only plugins with such a hook contain the code.
    changed_meta: Option<Vec<u8>>,
    /// The resource without id and metadata. Its data stays as it was sent, for fields that `M` does not know.
    rest: Envelope,
}

impl<M: Message + Name + Default> Typed<M> {
    /// Makes a resource to create, or to replace any resource of the same name.
    pub fn new(id: pb::Id, data: M) -> Self {
        let any = Any { type_url: type_url(M::full_name), value: data.encode_to_vec() };
        let rest = Envelope { data: Some(any), ..Envelope::default() };
        Self { data, metadata: BTreeMap::new(), id, changed_meta: None, rest }
    }

    /// Decodes the data. Without data: the default message if `optional`, else an error.
    pub(crate) fn decode(mut resource: Envelope, optional: bool) -> Result<Self, Diagnostics> {
        let data = match &resource.data {
            Some(any) => {
                M::decode(any.value.as_slice()).map_err(|fault| unparsable(M::full_name, &fault.to_string()))?
            }
            None if optional => M::default(),
            None => return Err(unparsable(M::full_name, "invalid nil source message")),
        };
        let metadata = std::mem::take(&mut resource.metadata);
        let id = resource.id.take().unwrap_or_default();
        Ok(Self { data, metadata, id, changed_meta: None, rest: resource })
    }

    /// Decodes a resource from the host, for a reconciler. Without data: the default message.
    pub(crate) fn stored(bytes: &[u8]) -> Result<Self, Failure> {
        Self::of_envelope(Envelope::read(bytes).map_err(|fault| unreadable(&fault))?)
    }

    /// Decodes a resource like [`Self::stored`]. Checks the message's name, since data of another message would decode
    /// to nonsense.
    pub(crate) fn of_envelope(resource: Envelope) -> Result<Self, Failure> {
        let url = resource.data.as_ref().map(|any| any.type_url.as_str());
        if let Some(found) = url.and_then(|url| url.rsplit('/').next()).filter(|found| *found != M::full_name()) {
            let text = format!("the resource {:?} holds a {found}, not a {}", resource.name(), M::full_name());
            return Err(Failure::new(Failure::INTERNAL, text));
        }
        Self::decode(resource, true).map_err(|said| Failure::new(Failure::INTERNAL, said.summaries()))
    }

    /// Encodes the resource for a write by a reconciler. Unchanged data stays as it was sent, byte by byte. The status
    /// is left out: it is written separately, and a write with a status must have the stored one.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, Failure> {
        let now = self.data.encode_to_vec();
        let data = match &self.rest.data {
            None if now.is_empty() => None,
            None => Some(Any { type_url: type_url(M::full_name), value: now }),
            Some(any) => {
                let broken = |fault: &dyn Error| Failure::new(Failure::INTERNAL, fault.to_string());
                let before = M::decode(any.value.as_slice()).map_err(|fault| broken(&fault))?.encode_to_vec();
                let value = if before == now {
                    any.value.clone()
                } else {
                    wire::keep_unknown_fields(&any.value, &before, now).map_err(|fault| broken(&fault))?
                };
                Some(Any { type_url: any.type_url.clone(), value })
            }
        };
        let resource = Envelope {
            id: Some(self.id.clone()),
            owner: self.rest.owner.clone(),
            version: self.rest.version.clone(),
            metadata: self.metadata.clone(),
            data,
            ..Envelope::default()
        };
        Ok(resource.encode_to_vec())
    }

    /// Applies `change`; answers the changed resource, or `None` if nothing changed. `input` is the encoding of this
    /// resource: everything but data, metadata and the protection from deletion is copied from it, byte by byte.
    pub(crate) fn changed(
        &mut self,
        input: &[u8],
        change: fn(&mut Self) -> Result<(), Diagnostics>,
    ) -> Result<Option<Vec<u8>>, Diagnostics> {
        let (id, rest, metadata) = (self.id.clone(), self.rest.clone(), self.metadata.clone());
        change(self)?;
        // The hook may have replaced the whole resource; only data, metadata and the protection count.
        (self.id, self.rest) = (id, rest);
        self.difference(&metadata, input)
    }

    /// Encodes another resource with this one's data and metadata; `None` if it has them already. `input` is the
    /// encoding of the other: everything else is copied from it, byte by byte.
    pub(crate) fn spliced_into(mut self, other: &Self, input: &[u8]) -> Result<Option<Vec<u8>>, Diagnostics> {
        (self.id, self.rest) = (other.id.clone(), other.rest.clone());
        self.difference(&other.metadata, input)
    }

    /// The changed encoding of `input`, whose metadata is given; `None` if nothing changed.
    fn difference(&self, metadata: &BTreeMap<String, String>, input: &[u8]) -> Result<Option<Vec<u8>>, Diagnostics> {
        let data = self.data_after()?;
        let new_metadata = (self.metadata != *metadata).then(|| self.metadata.clone());
        splice(input, data, new_metadata, self.changed_meta.clone(), M::full_name)
    }

    /// The new data, if it differs from the data that was sent.
    fn data_after(&self) -> Result<Option<NewData>, Diagnostics> {
        let after = self.data.encode_to_vec();
        let came = self.rest.data.as_ref();
        // Most resources are sent in the same form as they are encoded here. Others are decoded and compared.
        if came.map_or(&[][..], |any| any.value.as_slice()) == after {
            return Ok(None);
        }
        let before = match came {
            Some(any) => M::decode(any.value.as_slice()).map_err(|e| unparsable(M::full_name, &e.to_string()))?,
            None => M::default(),
        };
        let before = before.encode_to_vec();
        Ok((before != after).then(|| (self.rest.data.clone(), before, after)))
    }
}

/// The data as it was sent, its re-encoding by `M`, and its replacement.
type NewData = (Option<Any>, Vec<u8>, Vec<u8>);

/// Replaces changed fields in an encoded resource. Not generic, so that it is compiled once.
fn splice(
    input: &[u8],
    data: Option<NewData>,
    metadata: Option<BTreeMap<String, String>>,
    meta: Option<Vec<u8>>,
    name: fn() -> String,
) -> Result<Option<Vec<u8>>, Diagnostics> {
    let mut replaced = Vec::new();
    let mut added = ChangedFields::default();
    if let Some((any, before, after)) = data {
        let any = any.unwrap_or_else(|| Any { type_url: type_url(name), value: Vec::new() });
        let value = wire::keep_unknown_fields(&any.value, &before, after)
            .map_err(|fault| unparsable(name, &fault.to_string()))?;
        replaced.push(ChangedFields::DATA);
        added.data = Some(Any { value, ..any });
    }
    if let Some(metadata) = metadata {
        replaced.push(ChangedFields::METADATA);
        added.metadata = metadata;
    }
    if meta.is_some() {
        replaced.push(ChangedFields::META);
        added.meta = meta;
    }
    if replaced.is_empty() {
        return Ok(None);
    }
    let spliced = wire::replace(input, &replaced, &added.encode_to_vec());
    Ok(Some(spliced.map_err(DispatchError::Encoding)?))
}

impl<M> Typed<M> {
    /// Id of the resource. The uid is empty until it is stored.
    pub fn id(&self) -> &pb::Id {
        &self.id
    }

    /// Name within its type and tenancy.
    pub fn name(&self) -> &str {
        &self.id.name
    }

    /// The resource that this one belongs to. Decoded by each call.
    pub fn owner(&self) -> Option<pb::Id> {
        self.rest.read_owner()
    }

    /// Meta: labels, tags and the like, and the server's own notes. Decoded by each call.
    pub fn meta(&self) -> Meta {
        self.rest.read_meta().unwrap_or_default()
    }

    /// Makes the resource belong to another one, and be deleted with it. The id must have a uid, like that of a
    /// resource that was read. Only a resource that does not exist yet can get an owner.
    #[must_use]
    pub fn owned_by(mut self, owner: &pb::Id) -> Self {
        self.rest.owner = Some(owner.encode_to_vec());
        self
    }

    /// Drops the version that was read: a write then replaces any stored version.
    #[must_use]
    pub fn without_version(mut self) -> Self {
        self.rest.version.clear();
        self
    }

    /// Protects the resource from deletion, or ends the protection (`meta.lifecycle.block_deletion`). For `mutate`
    /// alone; a reconciler has [`Context::block_deletion`](crate::Context::block_deletion).
    pub fn block_deletion(&mut self, block: bool) {
        let mut meta = self.meta();
        let before = std::mem::replace(&mut meta.lifecycle.get_or_insert_default().block_deletion, block);
        self.changed_meta = (before != block).then(|| meta.encode_to_vec());
    }

    /// Whether the resource is marked for deletion, and waits for finalizers.
    pub fn is_marked(&self) -> bool {
        crate::meta::is_marked(&self.metadata)
    }

    /// Version that the writer expects to replace, or the stored one.
    pub fn version(&self) -> &str {
        &self.rest.version
    }

    /// Generation, which changes with every write of the content; empty until it is stored.
    pub fn generation(&self) -> &str {
        &self.rest.generation
    }

    /// Statuses by key, written by controllers. Decoded by each call.
    pub fn status(&self) -> BTreeMap<String, pb::Status> {
        self.rest.read_status()
    }

    /// Status under one key, written by one controller. Decoded by each call.
    pub fn status_under(&self, key: &str) -> Option<pb::Status> {
        self.rest.read_status_under(key)
    }

    /// Whether the resource has data at all.
    pub fn has_data(&self) -> bool {
        self.rest.data.is_some()
    }
}

/// The fields of a resource that `mutate` may change, with their numbers.
#[derive(Clone, PartialEq, Message)]
struct ChangedFields {
    #[prost(btree_map = "string, string", tag = "5")]
    metadata: BTreeMap<String, String>,
    #[prost(message, optional, tag = "7")]
    data: Option<Any>,
    #[prost(bytes = "vec", optional, tag = "1001")]
    meta: Option<Vec<u8>>,
}

impl ChangedFields {
    const METADATA: u32 = 5;
    const DATA: u32 = 7;
    const META: u32 = 1001;
}

pub(crate) fn type_url(name: fn() -> String) -> String {
    format!("type.googleapis.com/{}", name())
}

/// Refusal with Consul's text, which clients know.
fn unparsable(name: fn() -> String, fault: &str) -> Diagnostics {
    Diagnostics::refusal(format!("error parsing resource data as type \"{}\": {fault}", name()))
}

/// Decodes resources.
pub(crate) fn typed<M: Data>(resources: &[Vec<u8>]) -> Result<Vec<Typed<M>>, Failure> {
    resources.iter().map(|bytes| Typed::stored(bytes)).collect()
}

/// Failure for a malformed resource from the host.
pub(crate) fn unreadable(fault: &prost::DecodeError) -> Failure {
    Failure::new(Failure::INTERNAL, format!("the host sent a malformed resource: {fault}"))
}
